import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { BoundedFetch, FetchAnswer } from '@gatehouse/net'

/** Every status is accepted. */
const STATUSES = Array.from({ length: 400 }, (_, i) => 200 + i)
const MAX_BYTES = 64 * 1024

/** The headers that a proxy adds to a request, for a check or for an app. */
export function forwardedHeaders({ headers, socket }: IncomingMessage, port: number) {
  return {
    'x-forwarded-for': socket.remoteAddress ?? '',
    'x-forwarded-host': headers.host ?? '',
    'x-forwarded-port': String(port),
    'x-forwarded-proto': headers.upgrade?.toLowerCase() === 'websocket' ? 'wss' : 'https',
  }
}

/**
 * Asks a check whether a request may pass. Sends GET with the headers of the request and no body.
 *
 * @throws NetError if there is no complete response in time
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
