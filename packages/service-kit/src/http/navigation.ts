import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyRequest } from 'fastify'
import Negotiator from 'negotiator'

const HTML = 'text/html'
/** The media type that every browser accepts for a page. A script would have to ask for it by name. */
const XHTML = 'application/xhtml+xml'
/** Characters of `Accept` that count: more than any browser sends. */
const MAX_ACCEPT = 1_000
const TYPES = [HTML, 'application/problem+json', 'application/json']

/** Whether a person waits for the answer as a page, by the Fetch Metadata or else by what is accepted. */
export function isNavigation(method: string, headers: IncomingHttpHeaders): boolean {
  if (headers.upgrade !== undefined) return false
  const mode = headers['sec-fetch-mode']
  if (mode === 'navigate') return true
  if (isPrefetch(headers) || isPassedOn(headers)) return accepts(headers, XHTML)
  // Old web views name their app in X-Requested-With.
  const isRead = method === 'GET' || method === 'HEAD'
  const isScript = headers['x-requested-with'] === 'XMLHttpRequest'
  return mode === undefined && isRead && !isScript && accepts(headers, HTML)
}

/** Whether a browser asks before the person has clicked: the answer may be a page, but nothing may begin. */
export function isPrefetch(headers: IncomingHttpHeaders): boolean {
  return headers['sec-purpose'] !== undefined
}

/**
 * Whether it may be a navigation that a service worker passes on: with the mode `same-origin`, or, if
 * it copies the headers alone, as a call with a header that a browser adds to navigations.
 */
function isPassedOn(headers: IncomingHttpHeaders): boolean {
  const { 'sec-fetch-mode': mode, 'sec-fetch-site': site, 'sec-fetch-dest': dest } = headers
  const isCopied = headers['upgrade-insecure-requests'] === '1' && site !== 'cross-site'
  // Not every proxy tells the check of the destination.
  const isOfWorker = dest === undefined || dest === 'empty'
  return isOfWorker && (mode === 'same-origin' || (mode === 'cors' && isCopied))
}

/** Whether `Accept` names a media type: not with the weight 0, nor by a wildcard. */
function accepts(headers: IncomingHttpHeaders, type: string): boolean {
  const accept = headers.accept?.slice(0, MAX_ACCEPT).toLowerCase() ?? ''
  return (
    accept.includes(type) && new Negotiator({ headers: { accept } }).mediaTypes().includes(type)
  )
}

/** Whether a problem is shown to a person: a browser opens the answer, and would rather have HTML than JSON. */
export function prefersPage({ method, headers }: Pick<FastifyRequest, 'method' | 'headers'>) {
  const negotiator = new Negotiator({ headers: { accept: headers.accept?.slice(0, MAX_ACCEPT) } })
  return isNavigation(method, headers) && negotiator.mediaType(TYPES) === HTML
}
