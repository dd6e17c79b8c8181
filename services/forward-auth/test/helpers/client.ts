import {
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  request as requestPlain,
} from 'node:http'
import { request as requestTls } from 'node:https'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'

/** What a client asks, exactly as it is to be sent. */
export interface Ask {
  readonly method?: string
  readonly host?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly body?: string
}

export interface Answered {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** The connection, if it was upgraded. */
  readonly socket?: Duplex
}

/** A client of a port of loopback, with a new connection each time. Without a CA it speaks plain HTTP. */
export function createClient(port: number, ca: string | undefined) {
  const request = ca === undefined ? requestPlain : requestTls
  return ({ method = 'GET', host = 'app.example.com', path = '/', headers = {}, body }: Ask) =>
    new Promise<Answered>((resolve, reject) => {
      const given = Object.entries(headers).filter(([, value]) => value !== undefined)
      const sent = request({
        host: '127.0.0.1',
        port,
        servername: host.replace(/:\d+$/, ''),
        ca,
        agent: false,
        method,
        path,
        setHost: false,
        timeout: 20_000,
        headers: { Host: host, ...(Object.fromEntries(given) as OutgoingHttpHeaders) },
      })
      sent.on('timeout', () => sent.destroy(new Error(`${method} ${path}: no answer`)))
      sent.on('error', reject)
      sent.on('response', (response) => {
        const { statusCode: status = 0, headers } = response
        text(response).then((body) => resolve({ status, headers, body }), reject)
      })
      sent.on('upgrade', ({ statusCode: status = 0, headers }, socket, head) => {
        // What came together with the answer.
        if (head.length > 0) socket.unshift(head)
        resolve({ status, headers, body: '', socket })
      })
      sent.end(body)
    })
}
