import * as http from 'node:http'
import * as https from 'node:https'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Exchange } from './journal.ts'
import type { Random } from './random.ts'

const TIMEOUT = 30_000
/** The longest wait that a client accepts before it tries again, whatever it was told. */
const LONGEST_WAIT = 5_000
const SHORTEST_WAIT = 200

/** Where a client sends its request. */
export interface Target {
  readonly name: string
  readonly address: string
  readonly port: number
  /** PEM of what to trust: it is asked over TLS. */
  readonly ca?: string
}

export interface Ask {
  readonly method?: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly headers?: http.OutgoingHttpHeaders
  readonly body?: string
}

export interface Answer extends Exchange {
  readonly headers: http.IncomingHttpHeaders
  readonly body: Buffer
}

const AGENTS = { keepAlive: true, maxSockets: 256 }
const agent = new http.Agent(AGENTS)
const tlsAgent = new https.Agent(AGENTS)

/** Sends one request. Never throws: without an answer, the status is 0. */
export async function send(target: Target, ask: Ask): Promise<Answer> {
  const sent = performance.now()
  const { name: replica, address: host, port, ca } = target
  const { method = 'GET', path, headers = {}, body } = ask
  try {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }
    const options = { host, port, method, path, headers: { ...headers, ...length } }
    const receive = (response: http.IncomingMessage) => {
      const { statusCode: status = 0, headers } = response
      buffer(response).then(
        (body) => resolve({ replica, sent, answered: performance.now(), status, headers, body }),
        reject,
      )
    }
    const asked =
      ca === undefined
        ? http.request({ ...options, agent }, receive)
        : https.request({ ...options, agent: tlsAgent, ca }, receive)
    const timer = setTimeout(() => asked.destroy(new Error('timeout')), TIMEOUT)
    asked.on('error', reject)
    asked.end(body)
    return await promise.finally(() => clearTimeout(timer))
  } catch {
    const nothing = { status: 0, headers: {}, body: Buffer.alloc(0) }
    return { replica, sent, answered: performance.now(), ...nothing }
  }
}

/** Whether the same request may be answered otherwise later. */
export const isPassing = (status: number): boolean =>
  status === 0 || status === 502 || status === 503 || status === 504

/** Waits as an answer asks to, within bounds, and not exactly as long as others. */
export async function waitAfter({ headers, status }: Answer, random: Random): Promise<void> {
  const told = Number(headers['retry-after'] ?? 0) * 1_000
  const wait = Math.min(Math.max(told, SHORTEST_WAIT), LONGEST_WAIT)
  // Another replica can be asked right away.
  await sleep(status === 0 ? SHORTEST_WAIT : wait * random.between(1, 1.25))
}

export function closeConnections(): void {
  agent.destroy()
  tlsAgent.destroy()
}
