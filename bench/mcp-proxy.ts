import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { type Child, startChild } from './harness/child.ts'
import { compare, type Effort, type Round } from './harness/compare.ts'
import { startServers } from './harness/http.ts'
import type { LoadResult, RequestsId } from './harness/load-generator.ts'
import { atMost, compared, type Row, stated } from './harness/rows.ts'
import type { Memory, ServerReady } from './harness/serve.ts'
import { agentCall, agentRequest, checkRequest, visitorCookies } from './harness/visitors.ts'
import type { MessageSide } from './sides/message.ts'

const AGENTS = 1_000
/** What the proxy may take beside the server for a call: so many checks, and so many µs. */
const ALLOWED = { checks: 1.5, more: 50 }
/** Calls that wait for a person at once. */
const WAITING = 128
/** Checks a second beside them. */
const CHECKS = 500
const CALL = 'mcp-proxy: CPU time of forward-auth for the call of a tool'
const HOLD = `mcp-proxy: memory of each of ${WAITING} calls that wait for a person`
const DELAY = `mcp-proxy: p99 of checks while ${WAITING} calls begin to wait / without`

/** Calls of agents through the MCP proxy, those that wait for a person, and the bodies that it reads. */
export async function* mcpProxy(effort: Effort): AsyncGenerator<Row> {
  const server = await startChild<ServerReady>('../sides/mcp-server.ts', { core: 1 })
  const proxy = [String(AGENTS), `http://127.0.0.1:${server.ready.port}/mcp`]
  if (effort.wants(CALL)) yield* compareCalls(proxy, effort)
  if (effort.comparisons === 'all') yield* compareOthers(proxy, effort)
  await server.stop()
}

/** What has no floor. */
async function* compareOthers(proxy: readonly string[], effort: Effort): AsyncGenerator<Row> {
  if (effort.wants(HOLD)) yield stated(HOLD, await memoryOfWaiting(proxy), 'kB')
  if (effort.wants(DELAY)) yield await delayByWaiting(proxy, effort)
  yield* compareReading(effort)
}

async function* compareCalls(proxy: readonly string[], effort: Effort): AsyncGenerator<Row> {
  const { value, ratio } = await compare(
    () =>
      startServers({
        server: {
          server: 'mcp-server',
          requests: [agentCall('token', 'read_note', '/mcp')],
        },
        check: {
          server: 'forward-auth',
          args: ['with agents', String(AGENTS)],
          requests: (tokens) => tokens.map(agentRequest),
        },
        call: {
          server: 'forward-auth',
          args: ['with the MCP proxy', ...proxy],
          requests: (tokens) => tokens.map((token) => agentCall(token, 'read_note')),
        },
      }),
    effort,
  )
  type Side = Parameters<typeof value>[0]
  const microseconds = (side: Side) => 1e6 / value(side)
  const call = { value: microseconds('call'), unit: 'µs' }
  const row = (name: string, side: Side) =>
    compared({
      ...call,
      name: `${CALL} / ${name}`,
      baseline: microseconds(side),
      ratio: ratio(side, 'call'),
    })
  yield row('for the check of it', 'check')
  yield row('of the server itself', 'server')
  const allowedChecks = ALLOWED.checks + ALLOWED.more / microseconds('check')
  yield atMost({
    ...call,
    name: `${CALL} / allowed`,
    baseline: allowedChecks * microseconds('check'),
    ratio: ratio('check', 'call') / allowedChecks,
    target: 1,
    noise: effort.noise,
  })
}

/** What each of the calls keeps alive, in kB. */
async function memoryOfWaiting(proxy: readonly string[]): Promise<number> {
  const child = await startProxy(proxy)
  const memory = async () => (await child.call<Memory>('memory')).live
  // What the first ones load stays.
  await holdCalls(child.ready, AGENTS - WAITING).then(release)
  const before = await memory()
  const sockets = await holdCalls(child.ready, 0)
  const after = await memory()
  await release(sockets)
  await child.stop()
  return (after - before) / WAITING / 1_000
}

async function delayByWaiting(proxy: readonly string[], effort: Effort): Promise<Row> {
  const { value, ratio } = await compare(() => startWaiting(proxy), effort)
  return compared({
    name: DELAY,
    value: value('beside'),
    unit: 'ms',
    baseline: value('alone'),
    ratio: ratio('beside', 'alone'),
  })
}

async function startWaiting(proxy: readonly string[]): Promise<Round<'alone' | 'beside'>> {
  const child = await startProxy(proxy)
  const generator = await startChild('./load-generator.ts', { core: 1 })
  const { tokens = [], ...address } = child.ready
  const cookies = visitorCookies(AGENTS)
  const requests = await generator.call<RequestsId>(cookies.map((cookie) => checkRequest(cookie)))
  const load = { ...address, connections: 64, rate: CHECKS, requests }
  const alone = async (ms: number) => (await generator.call<LoadResult>({ ...load, ms })).p99
  let first = 0
  return {
    measure: {
      alone,
      async beside(ms) {
        const [p99, sockets] = await Promise.all([alone(ms), holdCalls(child.ready, first)])
        first = (first + WAITING) % (AGENTS - WAITING)
        await release(sockets)
        return p99
      },
    },
    async stop() {
      await Promise.all([child.stop(), generator.stop()])
    },
  }
}

function startProxy(proxy: readonly string[]): Promise<Child<ServerReady>> {
  const args = ['with the MCP proxy', ...proxy]
  return startChild<ServerReady>('../sides/forward-auth.ts', { core: 0, args })
}

/** Has as many agents call a tool that a person approves. Resolves when all of them wait. */
function holdCalls({ port, tokens = [] }: ServerReady, first: number): Promise<Socket[]> {
  const callers = tokens.slice(first, first + WAITING)
  return Promise.all(
    callers.map(async (token) => {
      const socket = connect({ port, host: '127.0.0.1' })
      socket.write(agentCall(token, 'delete_note'))
      const [head] = await once(socket, 'data')
      if (!/^HTTP\/1.1 200 [\s\S]*text\/event-stream/.test(String(head)))
        throw new Error(`the call does not wait: ${head}`)
      socket.resume()
      return socket
    }),
  )
}

async function release(sockets: readonly Socket[]): Promise<void> {
  for (const socket of sockets) socket.destroy()
  await setTimeout(100)
}

async function* compareReading(effort: Effort): AsyncGenerator<Row> {
  for (const size of ['20 kB', '1 MiB'] as const) {
    const name = `mcp-proxy: reading of ${size} of members / JSON.parse`
    if (!effort.wants(name)) continue
    const [reading, parsing] = [`reading ${size}`, `parsing ${size}`] as const
    const { value, ratio } = await compare(() => startReading([parsing, reading]), effort)
    yield compared({
      name,
      value: 1e3 / value(reading),
      unit: 'ms',
      baseline: 1e3 / value(parsing),
      ratio: ratio(parsing, reading),
    })
  }
}

async function startReading(sides: readonly MessageSide[]): Promise<Round<MessageSide>> {
  const child = await startChild('../sides/message.ts', { core: 0 })
  const measure = Object.fromEntries(
    sides.map((side) => [side, (ms: number) => child.call<number>({ side, ms })]),
  ) as Round<MessageSide>['measure']
  return { measure, stop: () => child.stop() }
}
