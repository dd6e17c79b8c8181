import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyRequest } from 'fastify'
import Negotiator from 'negotiator'

const HTML = 'text/html'
const TYPES = [HTML, 'application/problem+json', 'application/json']

/** Whether a browser shows the answer as a page, by the Fetch Metadata or else by what it accepts. */
export function isNavigation(method: string, headers: IncomingHttpHeaders): boolean {
  if (headers.upgrade !== undefined) return false
  const mode = headers['sec-fetch-mode']
  if (mode !== undefined) return mode === 'navigate'
  const isRead = method === 'GET' || method === 'HEAD'
  if (!isRead || headers['x-requested-with'] !== undefined) return false
  return acceptsHtml(headers.accept?.toLowerCase() ?? '')
}

/** Whether a problem is shown to a person: a browser opens the answer, and would rather have HTML than JSON. */
export function prefersPage({ method, headers }: Pick<FastifyRequest, 'method' | 'headers'>) {
  return isNavigation(method, headers) && new Negotiator({ headers }).mediaType(TYPES) === HTML
}

/** RFC 9110 section 12.5.1: a media range with the weight 0 is not acceptable. */
function acceptsHtml(accept: string): boolean {
  if (!accept.includes(HTML)) return false
  return accept.split(',').some((range) => {
    const [type, ...parameters] = range.split(';').map((part) => part.trim())
    return type === HTML && !parameters.some((one) => /^q=0(?:\.0*)?$/.test(one))
  })
}
