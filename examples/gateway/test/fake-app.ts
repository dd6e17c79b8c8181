import { createHash } from 'node:crypto'
import type { IncomingMessage, RequestListener } from 'node:http'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'

/** What reached the app. */
export interface Heard {
  readonly method: string | undefined
  readonly url: string | undefined
  /** Every header as CGI names it, so that `X-Forwarded-User` and `X_Forwarded_User` are one. */
  readonly cgi: Readonly<Record<string, readonly string[]>>
  readonly body: string
}

// RFC 6455 section 1.3
const WEBSOCKET = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
/** A text frame of 5 bytes. */
const HELLO = Buffer.concat([Buffer.from([0x81, 5]), Buffer.from('hello')])

/** An app that notes what reaches it. It answers with the status that the path names, and 200. */
export function fakeApp() {
  const heard: Heard[] = []
  const listener: RequestListener = async (request, response) => {
    heard.push({ ...describe(request), body: await text(request) })
    const status = Number(/^\/([1-5]\d\d)$/.exec(request.url ?? '')?.[1] ?? 200)
    response.writeHead(status, { connection: 'close, x-hop', 'x-hop': '1', 'x-app': '1' }).end()
  }
  function upgrade(request: IncomingMessage, socket: Duplex): void {
    heard.push({ ...describe(request), body: '' })
    const key = `${request.headers['sec-websocket-key']}${WEBSOCKET}`
    const protocol = request.headers['sec-websocket-protocol']
    const lines = [
      'HTTP/1.1 101 Switching Protocols',
      'Connection: Upgrade',
      'Upgrade: websocket',
      `Sec-WebSocket-Accept: ${createHash('sha1').update(key).digest('base64')}`,
      ...(protocol === undefined ? [] : [`Sec-WebSocket-Protocol: ${protocol}`]),
    ]
    socket.write(`${lines.join('\r\n')}\r\n\r\n`)
    socket.write(HELLO)
    socket.on('error', () => {})
  }
  return { heard, listener, upgrade }
}

function describe({ method, url, rawHeaders }: IncomingMessage): Omit<Heard, 'body'> {
  const cgi: Record<string, string[]> = {}
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = `HTTP_${rawHeaders[i]?.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}`
    cgi[name] = [...(cgi[name] ?? []), rawHeaders[i + 1] ?? '']
  }
  return { method, url, cgi }
}
