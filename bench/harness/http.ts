import { type Child, type Core, startChild } from './child.ts'
import type { Round } from './compare.ts'
import type { Load, LoadResult, RequestsId } from './load-generator.ts'
import type { Cpu, ServerReady } from './serve.ts'
import { API_KEY } from './service-files.ts'

export interface Target {
  /** A module of bench/sides/. */
  readonly server: string
  readonly args?: readonly string[]
  /** Those of a server with agents are made of their tokens. */
  readonly requests: readonly string[] | ((tokens: readonly string[]) => readonly string[])
  /** What every answer must have; default: one of 200 to 399. */
  readonly status?: number
  /**
   * What is measured: answers per second of the server's CPU time, which a busy neighbour does not
   * change; or per second of the clock, where waiting for the disk is part of the price; or how long
   * the slowest hundredth takes (ms) at half of the highest rate; or how long half of the requests
   * take (ms) when they come one after the other.
   */
  readonly measured?: 'per cpu second' | 'per second' | 'p99 at half rate' | 'p50 alone'
  /** Is told how each slice went. */
  readonly onResult?: (result: LoadResult) => void
}

/** Starts every server on the given core, and one load generator for all of them on the other one. */
export async function startServers<Side extends string>(
  targets: Record<Side, Target>,
  core: Core = 0,
): Promise<Round<Side>> {
  const generator = await startChild('./load-generator.ts', { core: core === 0 ? 1 : 0 })
  const children: Child[] = [generator]
  const measure = {} as Record<Side, (ms: number) => Promise<number>>
  for (const [side, target] of Object.entries(targets) as [Side, Target][]) {
    const { server, args = [] } = target
    const child = await startChild<ServerReady>(`../sides/${server}.ts`, { core, args })
    children.push(child)
    const { tokens = [], ...address } = child.ready
    const requests = await generator.call<RequestsId>(
      typeof target.requests === 'function' ? target.requests(tokens) : target.requests,
    )
    measure[side] = (ms) =>
      figureOf(target, child, (rate) => {
        const connections = target.measured === 'p50 alone' ? 1 : 64
        const { status } = target
        const load: Load = { ...address, connections, ms, rate, requests, status }
        return generator.call<LoadResult>(load)
      })
  }
  return {
    measure,
    stop: async () => {
      await Promise.all(children.map((child) => child.stop()))
    },
  }
}

async function figureOf(
  { measured = 'per cpu second', onResult }: Target,
  server: Child<ServerReady>,
  drive: (rate?: number) => Promise<LoadResult>,
): Promise<number> {
  if (measured === 'p50 alone') return (await drive()).p50
  const before = await server.call<Cpu>('cpu')
  const result = await drive()
  const after = await server.call<Cpu>('cpu')
  onResult?.(result)
  const perSecond = result.answers / result.seconds
  if (measured === 'p99 at half rate') return (await drive(perSecond / 2)).p99
  return measured === 'per second' ? perSecond : result.answers / (after - before)
}

/** An HTTP/1.1 request with the headers that an ordinary client behind a proxy sends. */
export function httpRequest(
  method: string,
  path: string,
  { authorization, body }: { authorization?: string; body?: object } = {},
): string {
  const content = body === undefined ? '' : JSON.stringify(body)
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'host: certs.example.com:7401',
    'user-agent: curl/8.14.1',
    'accept: application/json',
    'accept-encoding: gzip, br',
    'x-forwarded-for: 198.51.100.7',
    'x-forwarded-proto: https',
    ...(authorization === undefined ? [] : [`authorization: ${authorization}`]),
    ...(body === undefined
      ? []
      : ['content-type: application/json', `content-length: ${Buffer.byteLength(content)}`]),
  ]
  return `${lines.join('\r\n')}\r\n\r\n${content}`
}

/**
 * What a caller of cert-service sends; `########` in the name becomes a name never used before. A `csr`
 * asks for no names of its own.
 */
export function certificateRequest(domain: string, csr?: string): string {
  return httpRequest('POST', '/api/certificate', {
    authorization: `APIKey ${API_KEY}`,
    body: { domain, ...(csr !== undefined && { csr }) },
  })
}
