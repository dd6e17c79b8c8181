import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { text } from 'node:stream/consumers'
import { connect, type TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import type { Line } from './mcp-requests.ts'

/** A request, of which nothing is checked or corrected. */
export interface RawRequest {
  readonly method: string
  readonly target: string
  readonly headers: readonly Line[]
  /** Latin-1. */
  readonly body: string
  /** Sends the body in chunks, with these behind it. */
  readonly trailers?: readonly Line[] | undefined
  /** Whether nothing follows: an upgrade has no end of its own. */
  readonly isLast?: boolean
  /** Whether the answer is a stream without an end: its head is enough. */
  readonly isStream?: boolean
}

interface RawAnswer {
  /** 0 if there was none. */
  readonly status: number
  readonly body: string
}

const PATIENCE = 20_000
const NO_ANSWER: RawAnswer = { status: 0, body: '' }

/** Sends requests to a proxy byte by byte, all on one connection; gives the answers. */
export async function sendRaw(
  to: { readonly port: number; readonly ca: string },
  requests: readonly RawRequest[],
): Promise<readonly RawAnswer[]> {
  const { port, ca } = to
  const socket = connect({ host: '127.0.0.1', port, servername: 'app.example.com', ca })
  socket.setTimeout(PATIENCE, () => socket.destroy(new Error('no answer')))
  await once(socket, 'secureConnect')
  const answers: RawAnswer[] = []
  for (const request of requests) {
    socket.write(Buffer.from(bytesOf(request), 'latin1'))
    if (request.isLast) socket.end()
    answers.push(await readAnswer(socket, request.isStream))
  }
  socket.destroy()
  return answers
}

function bytesOf({ method, target, headers, body, trailers }: RawRequest): string {
  const linesOf = (lines: readonly Line[]) => lines.map((line) => `${line.join(': ')}\r\n`).join('')
  const head = `${method} ${target} HTTP/1.1\r\n${linesOf(headers)}`
  if (!trailers) return `${head}Content-Length: ${body.length}\r\n\r\n${body}`
  const chunk = `${body.length.toString(16)}\r\n${body}\r\n`
  return `${head}Transfer-Encoding: chunked\r\n\r\n${chunk}0\r\n${linesOf(trailers)}\r\n`
}

/** One answer, without waiting for the proxy to close. A connection that breaks off gives what has arrived. */
async function readAnswer(socket: TLSSocket, isStream = false): Promise<RawAnswer> {
  let received = ''
  try {
    while (!isWhole(received) && !(isStream && received.includes('\r\n\r\n'))) {
      const chunk = socket.read() ?? (await nextChunk(socket))
      if (chunk === undefined) break
      received += chunk.toString('latin1')
    }
  } catch (error) {
    if ((error as Error).message === 'no answer') throw error
  }
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(received)?.[1] ?? 0)
  return { status, body: received.split('\r\n\r\n').slice(1).join('\r\n\r\n') }
}

async function nextChunk(socket: TLSSocket): Promise<Buffer | undefined> {
  if (socket.destroyed || socket.readableEnded) return undefined
  const ended = new AbortController()
  const { signal } = ended
  try {
    await Promise.race(['readable', 'end', 'close'].map((event) => once(socket, event, { signal })))
  } finally {
    ended.abort()
  }
  return socket.read() ?? (socket.readableEnded || socket.destroyed ? undefined : Buffer.alloc(0))
}

function isWhole(received: string): boolean {
  const [head = '', body] = received.split(/\r\n\r\n(.*)/s)
  if (body === undefined) return false
  if (/^HTTP\/1\.1 (101|204|304)/.test(head)) return true
  if (/^transfer-encoding: *chunked/im.test(head)) return /(^|\r\n)0\r\n(.+\r\n)*\r\n$/.test(body)
  const length = /^content-length: *(\d+)/im.exec(head)?.[1]
  return length !== undefined && body.length >= Number(length)
}

/** Sends requests by HTTP/2. What Node or the proxy takes for none gives the status 0. */
export async function openHttp2(t: Test, { port, ca }: { port: number; ca: string }) {
  const session = connectHttp2(`https://app.example.com:${port}`, {
    ca,
    servername: 'app.example.com',
    lookup: (_host, _options, done) => done(null, [{ address: '127.0.0.1', family: 4 }]),
  })
  session.on('error', () => {})
  // Envoy closes a second later.
  session.on('goaway', () => session.destroy())
  t.teardown(() => session.close())
  await once(session, 'remoteSettings')
  return {
    isOpen: () => !session.closed && !session.destroyed,
    async send({
      method,
      target,
      headers,
      body,
      isStream = false,
    }: RawRequest): Promise<RawAnswer> {
      const sent: Record<string, string | string[]> = {
        ':method': method,
        ':path': target,
        ':authority': 'app.example.com',
      }
      for (const [name, value] of headers) {
        const key = name.toLowerCase()
        const known = sent[key]
        sent[key] = known === undefined ? value : [known, value].flat()
      }
      try {
        const stream = session.request(sent)
        stream.on('error', () => {})
        const answered = new Promise<number>((resolve) => {
          stream.on('response', (answer) => resolve(Number(answer[':status'])))
          stream.on('close', () => resolve(NO_ANSWER.status))
        })
        stream.end(Buffer.from(body, 'latin1'))
        const status = await answered
        if (isStream) stream.close()
        return { status, body: await text(stream).catch(() => '') }
      } catch {
        return NO_ANSWER
      }
    },
  }
}
