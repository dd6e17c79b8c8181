import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Clock, createFetch } from '@gatehouse/net'
import type { Test } from 'tap'
import type { DnsProviderDeps, DnsRecord } from '../../../src/index.ts'

export const NOW = Date.UTC(2030, 0, 1)
export const signal: AbortSignal = new AbortController().signal

/** Stands still, but whoever waits goes on at once. */
export const instantClock: Clock = {
  now: () => NOW,
  setTimer(fn) {
    const timer = setImmediate(fn)
    return { cancel: () => clearImmediate(timer) }
  },
}

export interface Received {
  readonly method: string
  readonly url: URL
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface Reply {
  readonly status?: number
  readonly body?: unknown
  readonly headers?: Record<string, string>
}

/** An API on loopback that answers as it is told, and remembers what it was asked. */
export async function standIn(t: Test, answer: (request: Received) => Reply) {
  const requests: Received[] = []
  const server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk)
    const { method = '', headers } = incoming
    const url = new URL(incoming.url ?? '', 'http://stand.in')
    const request = { method, url, headers, body: Buffer.concat(chunks).toString() }
    requests.push(request)
    const { status = 200, body = '', headers: own = {} } = answer(request)
    response.writeHead(status, own).end(typeof body === 'string' ? body : JSON.stringify(body))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const fetch = createFetch()
  t.teardown(async () => {
    await fetch.close()
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  const deps: DnsProviderDeps = { fetch, clock: instantClock }
  return { url: `http://127.0.0.1:${port}`, deps, requests }
}

export const recordAt = (name: string, value = 'our-value'): DnsRecord => ({
  name,
  value,
  domain: name.replace('_acme-challenge.', ''),
  token: 'the-token',
  keyAuthorization: 'the-token.thumbprint',
})

export const NAME = '_acme-challenge.app.example.test'
