import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { performServerHandshake } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'

/** What reached the app. */
export interface Echo {
  readonly method: string
  readonly url: string
  /** Every header as CGI names it, so that `X-Forwarded-User` and `X_Forwarded_User` are one. */
  readonly cgi: Readonly<Record<string, readonly string[]>>
  readonly body: string
}

// RFC 6455 section 1.3
const WEBSOCKET = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

/**
 * An app that tells what reached it, and counts how often something did. It takes every upgrade that
 * it is asked for: to HTTP/2 as Hypercorn does, else it tells in `X-Echo` and sends the bytes back.
 */
export async function startEcho(t: Test) {
  let count = 0
  let last: Omit<Echo, 'body'> | undefined
  const server = createServer({ maxHeaderSize: 65_536 }, async (request, response) => {
    count += 1
    last = describe(request)
    const body = await text(request)
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ ...describe(request), body } satisfies Echo))
  })
  server.on('upgrade', (request, socket) => {
    count += 1
    last = describe(request)
    const { 'sec-websocket-key': key, upgrade = '' } = request.headers
    const toHttp2 = /h2c/i.test(upgrade)
    const accept = createHash('sha1').update(`${key}${WEBSOCKET}`).digest('base64')
    const lines = [
      'HTTP/1.1 101 Switching Protocols',
      'Connection: Upgrade',
      `Upgrade: ${toHttp2 ? 'h2c' : upgrade}`,
      `Sec-WebSocket-Accept: ${accept}`,
      `X-Echo: ${JSON.stringify(last)}`,
    ]
    socket.on('error', () => {})
    socket.write(`${lines.join('\r\n')}\r\n\r\n`)
    if (!toHttp2) return socket.pipe(socket)
    performServerHandshake(socket)
      .on('error', () => {})
      .on('stream', (stream, { ':method': method = '', ':path': url = '', ...headers }) => {
        count += 1
        const rawHeaders = Object.entries(headers).flatMap(([name, value]) => [name, String(value)])
        last = describe({ method, url, rawHeaders })
        stream.respond({ ':status': 200 })
        stream.end(JSON.stringify(last))
      })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { port: (server.address() as AddressInfo).port, count: () => count, last: () => last }
}

type Received = Pick<IncomingMessage, 'method' | 'url' | 'rawHeaders'>

function describe({ method = '', url = '', rawHeaders }: Received): Omit<Echo, 'body'> {
  const cgi: Record<string, string[]> = {}
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = `HTTP_${rawHeaders[i]?.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}`
    cgi[name] = [...(cgi[name] ?? []), rawHeaders[i + 1] ?? '']
  }
  return { method, url, cgi }
}
