import type { IncomingHttpHeaders } from 'node:http'

/** Somebody who opens a page, a CORS preflight without credentials, or a program. */
export type RequestKind = 'navigation' | 'preflight' | 'api'

/** What kind of request it is, by its method and the headers of its client. */
export function kindOf(method: string, headers: IncomingHttpHeaders): RequestKind {
  if (method === 'OPTIONS') return isBarePreflight(headers) ? 'preflight' : 'api'
  return isNavigation(method, headers) ? 'navigation' : 'api'
}

/** Whether a browser shows the answer as a page. */
export function isNavigation(method: string, headers: IncomingHttpHeaders): boolean {
  if (headers.upgrade !== undefined) return false
  const mode = headers['sec-fetch-mode']
  if (mode !== undefined) return mode === 'navigate'
  const isRead = method === 'GET' || method === 'HEAD'
  if (!isRead || headers['x-requested-with'] !== undefined) return false
  return takesHtml(headers.accept?.toLowerCase() ?? '')
}

/** RFC 9110 section 12.5.1: a type of weight 0 is one that is not wanted. */
function takesHtml(accept: string): boolean {
  if (!accept.includes('text/html')) return false
  return accept.split(',').some((range) => {
    const [type, ...parameters] = range.split(';').map((part) => part.trim())
    return type === 'text/html' && !parameters.some((one) => /^q=0(?:\.0*)?$/.test(one))
  })
}

/** With one of these, some apps take an OPTIONS for a DELETE. */
const OVERRIDES = ['x-http-method-override', 'x-http-method', 'x-method-override']

/** Fetch Standard: a preflight names the method to come and never carries credentials. */
function isBarePreflight({ origin, cookie, authorization, ...headers }: IncomingHttpHeaders) {
  const announces = headers['access-control-request-method'] !== undefined
  const isBare = cookie === undefined && authorization === undefined
  return origin !== undefined && announces && isBare && !OVERRIDES.some((name) => name in headers)
}
