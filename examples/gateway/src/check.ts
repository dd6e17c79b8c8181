import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { BoundedFetch, FetchAnswer } from '@gatehouse/net'

/** Each of them is an answer. */
const STATUSES = Array.from({ length: 400 }, (_, i) => 200 + i)
const MAX_BYTES = 64 * 1024

/** What a proxy tells of a request, be it to a check or to an app. */
export function forwardedHeaders({ headers, socket }: IncomingMessage, port: number) {
  return {
    'x-forwarded-for': socket.remoteAddress ?? '',
    'x-forwarded-host': headers.host ?? '',
    'x-forwarded-port': String(port),
    'x-forwarded-proto': headers.upgrade?.toLowerCase() === 'websocket' ? 'wss' : 'https',
  }
}

/**
 * Asks a check whether a request may pass: with GET, the headers of the request and no body.
 *
 * @throws NetError without a whole answer in time
 */
export function ask(
  fetch: BoundedFetch,
  check: string,
  { method = '', url = '' }: IncomingMessage,
  { host: _host, ...headers }: IncomingHttpHeaders,
): Promise<FetchAnswer> {
  return fetch(check, {
    headers: {
      ...(headers as Record<string, string>),
      'x-forwarded-method': method,
      'x-forwarded-uri': url,
    },
    status: STATUSES,
    maxBytes: MAX_BYTES,
  })
}
