/**
 * A process of its own: keeps as many requests in flight as there are connections, one on each, for
 * as long as it is told, and answers with how that went. Raw sockets, so that one core of it can
 * saturate one core of a server.
 */
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

export interface Load {
  readonly port: number
  /** PEM of the root to trust: speaks TLS. */
  readonly ca?: string
  readonly connections: number
  readonly ms: number
  /** Requests at most. */
  readonly most?: number | undefined
  /** Requests per second, sent when they are due; absent: as many as are answered. */
  readonly rate?: number | undefined
  readonly requests: RequestsId
  /** What every answer must have; default: one of 200 to 399. */
  readonly status?: number | undefined
  /** Driven at the same time. */
  readonly beside?: Load
}

/**
 * Complete HTTP/1.1 requests, which are sent once and answered with their id. A load sends them in
 * turn, beginning where the last one ended; `########` becomes a number that is never used twice.
 */
export type Requests = readonly string[]
export type RequestsId = number

export interface LoadResult {
  readonly answers: number
  readonly seconds: number
  /** Milliseconds from when a request was due to the last byte of its answer. */
  readonly p50: number
  readonly p99: number
  readonly beside?: LoadResult
}

const HEAD_END = '\r\n\r\n'
/** Of a body in chunks, whose length is not known before. */
const LAST_CHUNK = Buffer.from('0\r\n\r\n')
const MAX_SAMPLES = 1_000_000
const sources: (() => string | Buffer)[] = []
let running = 0

process.on('message', (message: Load | Requests) => {
  if (Array.isArray(message)) return process.send!(sources.push(requestSource(message)) - 1)
  run(message as Load).then(
    (result) => process.send!(result),
    (error) => {
      console.error(error)
      process.exit(1)
    },
  )
})
process.on('disconnect', () => process.exit())
process.send!('ready')

async function run({ beside, ...load }: Load): Promise<LoadResult> {
  if (!beside) return runOne(load)
  const [result, other] = await Promise.all([runOne(load), run(beside)])
  return { ...result, beside: other }
}

async function runOne(load: Load): Promise<LoadResult> {
  const latencies = new Float64Array(MAX_SAMPLES)
  const source = sources[load.requests]!
  let left = load.most ?? Number.POSITIVE_INFINITY
  const nextRequest = () => (left-- > 0 ? source() : undefined)
  const connections = await Promise.all(Array.from({ length: load.connections }, () => open(load)))
  const started = performance.now()
  const deadline = started + load.ms
  const interval = load.rate === undefined ? 0 : (connections.length * 1_000) / load.rate
  let answers = 0
  const onAnswer = (ms: number) => {
    latencies[answers++ % MAX_SAMPLES] = ms
  }
  stayAwake(deadline)
  await Promise.all(
    connections.map((socket, n) => {
      const due = started + (interval * n) / connections.length
      return drive(socket, nextRequest, { due, interval, deadline, status: load.status }, onAnswer)
    }),
  )

  const seconds = (performance.now() - started) / 1000
  const sorted = latencies.subarray(0, Math.min(answers, MAX_SAMPLES)).sort()
  const quantile = (q: number) => sorted[Math.floor(sorted.length * q)] ?? 0
  return { answers, seconds, p50: quantile(0.5), p99: quantile(0.99) }
}

/** A server pays for waking a client that sleeps: the more, the slower it is. So none ever sleeps. */
function stayAwake(deadline: number): void {
  if (performance.now() < deadline) setImmediate(stayAwake, deadline)
}

function open({ port, ca }: Load): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket =
      ca === undefined
        ? connectTcp({ port, host: '127.0.0.1', noDelay: true })
        : connectTls({ port, host: '127.0.0.1', ca })
    socket.once('error', reject)
    socket.once(ca === undefined ? 'connect' : 'secureConnect', () => resolve(socket))
  })
}

function requestSource(requests: Requests): () => string | Buffer {
  const each = requests.map((request) => {
    const [before = '', after] = request.split('########')
    const fixed = Buffer.from(request)
    return after === undefined
      ? () => fixed
      : () => `${before}${String(running++).padStart(8, '0')}${after}`
  })
  let turn = 0
  return () => each[turn++ % each.length]!()
}

/** When a connection sends, in ms: the first time, how long after that again, and until when. */
interface Pace extends Pick<Load, 'status'> {
  readonly due: number
  /** 0: as soon as it has its answer. */
  readonly interval: number
  readonly deadline: number
}

/** One request after the other over one connection, as long as there are some; one whose answer is late makes the next ones late. */
function drive(
  socket: Socket,
  nextRequest: () => string | Buffer | undefined,
  { due, interval, deadline, status }: Pace,
  onAnswer: (ms: number) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let missing = 0
    let head: Buffer | undefined
    let tail = Buffer.alloc(0)
    const receiveChunks = (bytes: Buffer) => {
      tail = Buffer.concat([tail, bytes]).subarray(-LAST_CHUNK.length)
      if (tail.equals(LAST_CHUNK)) missing = 0
    }
    const send = () => {
      const now = performance.now()
      // Timers are exact to a millisecond.
      if (due - now > 2) return void setTimeout(send, due - now - 1)
      if (now < due) return void setImmediate(send)
      if (interval === 0) due = now
      const request = nextRequest()
      if (request === undefined) return end()
      socket.write(request)
    }
    const end = () => {
      socket.destroy()
      resolve()
    }
    const onComplete = () => {
      const now = performance.now()
      onAnswer(now - due)
      due += interval
      if (Math.max(now, due) < deadline) return send()
      end()
    }
    socket.on('data', (chunk: Buffer) => {
      if (missing === Number.POSITIVE_INFINITY) receiveChunks(chunk)
      else if (missing > 0) missing -= chunk.length
      else {
        const bytes = head === undefined ? chunk : Buffer.concat([head, chunk])
        const end = bytes.indexOf(HEAD_END)
        head = end === -1 ? bytes : undefined
        if (end === -1) return
        missing =
          end +
          HEAD_END.length +
          bodyLength(bytes.toString('latin1', 0, end), status) -
          bytes.length
        if (missing === Number.POSITIVE_INFINITY) receiveChunks(bytes)
      }
      if (missing === 0) onComplete()
    })
    socket.on('error', reject)
    socket.on('close', () => reject(new Error('the server closed a connection')))
    send()
  })
}

function bodyLength(head: string, status: number | undefined): number {
  const found = Number(head.slice('HTTP/1.1 '.length).slice(0, 3))
  if (status === undefined ? found < 200 || found > 399 : found !== status)
    throw new Error(`unexpected answer: ${head}`)
  const [, length] = /content-length: (\d+)/i.exec(head) ?? []
  if (length !== undefined) return Number(length)
  return /transfer-encoding: chunked/i.test(head) ? Number.POSITIVE_INFINITY : 0
}
