import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyRequest } from 'fastify'
import Negotiator from 'negotiator'

const HTML = 'text/html'
/** Characters of `Accept` that count: more than any browser sends. */
const MAX_ACCEPT = 1_000
const TYPES = [HTML, 'application/problem+json', 'application/json']

/** Whether a browser shows the answer as a page, by the Fetch Metadata or else by what it accepts. */
export function isNavigation(method: string, headers: IncomingHttpHeaders): boolean {
  if (headers.upgrade !== undefined) return false
  const mode = headers['sec-fetch-mode']
  if (mode !== undefined) return mode === 'navigate'
  const isRead = method === 'GET' || method === 'HEAD'
  if (!isRead || headers['x-requested-with'] !== undefined) return false
  const accept = headers.accept?.slice(0, MAX_ACCEPT).toLowerCase() ?? ''
  // A media range with the weight 0 is not acceptable, and one with a wildcard says nothing about pages.
  return (
    accept.includes(HTML) && new Negotiator({ headers: { accept } }).mediaTypes().includes(HTML)
  )
}

/** Whether a problem is shown to a person: a browser opens the answer, and would rather have HTML than JSON. */
export function prefersPage({ method, headers }: Pick<FastifyRequest, 'method' | 'headers'>) {
  const negotiator = new Negotiator({ headers: { accept: headers.accept?.slice(0, MAX_ACCEPT) } })
  return isNavigation(method, headers) && negotiator.mediaType(TYPES) === HTML
}
