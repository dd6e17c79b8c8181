import { once } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import { connect as connectTcp } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect } from 'node:tls'
import type { Clock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { PROXIES, type ProxyName, readExample, type Surroundings } from '../proxies/index.ts'
import { issueCertificate } from './certificates.ts'
import { createClient } from './client.ts'
import { startEcho } from './echo.ts'
import { startGatehouse } from './gatehouse.ts'
import { freePort } from './process.ts'

/** The configuration of the examples, without the file of its secret. */
export const CONFIG = readExample('forward-auth.yaml', [
  ['clientSecretFile: /etc/gatehouse/forward-auth/client-secret', 'clientSecret: not-used-here'],
])

/** What a client sends for an answer with two cookies more. */
export const WITH_COOKIES = { 'accept-language': 'x-cookies' } as const
export const PLANTED: readonly string[] = [
  'one=1; Path=/; HttpOnly; Secure',
  'two=2; Path=/; Secure',
]

const HOSTS = ['app.example.com', 'admin.example.com', 'auth.example.com']

/** What a proxy makes of the target of a request, as its client sent it. */
interface Passage {
  readonly status: number
  /** Path and query that the check was asked about; undefined if there was none, or if it was refused. */
  readonly told: string | undefined
  /** The headers of the last check, if there was one. */
  readonly asked: IncomingHttpHeaders | undefined
  /** Path and query that the app received; undefined if it heard nothing. */
  readonly heard: string | undefined
}

export interface GateOptions {
  /** The configuration of Gatehouse, without `server`. Default: that of the examples. */
  readonly yaml?: string
  /** Members of `server`. Default: proxies on loopback are trusted. */
  readonly server?: object
  readonly changes?: Surroundings['changes']
  /** Hosts of apps besides those of the examples, for the certificate. */
  readonly hosts?: readonly string[]
  /** Where the app listens. Default: it is one that tells what reached it. */
  readonly appPort?: number
  /** Whether the proxy listens without TLS. */
  readonly isPlain?: boolean
  /** The clock of Gatehouse. Default: one that stands still. */
  readonly clock?: Clock
}

/** A proxy with its example between a client and an app, and Gatehouse that it asks. */
export async function startGate(
  t: Test,
  proxy: ProxyName,
  {
    yaml = CONFIG,
    server = {},
    changes,
    hosts = [],
    appPort,
    isPlain = false,
    ...deps
  }: GateOptions = {},
) {
  const folder = testFolder(t)
  const grpcPort = proxy === 'envoy-grpc' ? await freePort() : undefined
  const own = { ...server, ...(grpcPort !== undefined && { grpc: { port: grpcPort } }) }
  let told: string | undefined
  let asked: IncomingHttpHeaders | undefined
  const tell = (app: FastifyInstance) => {
    // Before the answer is sent, so that nobody has it earlier.
    app.addHook('onSend', async ({ check, headers }) => {
      if (!check) return
      told = check.forwarded.target
      asked = headers
    })
    // Also of checks that are refused before anything is decided.
    app.addHook('onRequest', async ({ headers, routeOptions: { url = '' } }, reply) => {
      if (!/^\/portals?\/:portal(\/authz\/.*)?\/?$/.test(url) || url.endsWith('/answer')) return
      asked = headers
      if (headers['accept-language'] === WITH_COOKIES['accept-language'])
        reply.header('set-cookie', PLANTED)
    })
  }
  const gatehouse = await startGatehouse(t, `${yaml}\nserver: ${JSON.stringify(own)}\n`, tell, deps)
  const echo = await startEcho(t)
  const certificate = await issueCertificate(folder, [...HOSTS, ...hosts])
  const port = await freePort()
  const ports = { port, gatehousePort: gatehouse.port, grpcPort, appPort: appPort ?? echo.port }
  await PROXIES[proxy].start(t, {
    folder,
    certificate,
    isPlain,
    ...(changes && { changes }),
    ...ports,
  })

  /** Sends a target as it is, which HTTP clients would refuse or rewrite. */
  async function pass(
    target: string,
    headers: Readonly<Record<string, string>> = {},
    /** What precedes TLS, from a balancer. */
    preface = '',
  ) {
    told = asked = undefined
    const before = echo.count()
    const host = 'app.example.com'
    const plain = connectTcp(port, '127.0.0.1')
    plain.write(preface)
    const socket = connect({ socket: plain, servername: host, ca: certificate.rootPem })
    await once(socket, 'secureConnect')
    const sent = Object.entries({ Host: host, Connection: 'close', ...headers })
    const lines = [`GET ${target} HTTP/1.1`, ...sent.map((header) => header.join(': '))]
    socket.write(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'))
    const answer = await readAnswer(socket)
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0)
    const heard = echo.count() > before ? echo.last()?.url : undefined
    return { status, told, asked, heard } satisfies Passage
  }
  const ask = createClient(port, isPlain ? undefined : certificate.rootPem)
  return { gatehouse, echo, port, certificate, ask, pass }
}

/** A whole answer, without waiting for the proxy to close: Envoy does that a second after it has refused. */
async function readAnswer(socket: Duplex): Promise<string> {
  let answer = ''
  for await (const chunk of socket.setEncoding('latin1')) {
    answer += chunk
    const [head, body] = answer.split(/\r\n\r\n(.*)/s)
    const length = /^content-length: (\d+)/im.exec(head ?? '')?.[1]
    if (length !== undefined && body?.length === Number(length)) break
  }
  return answer
}

export type Gate = Awaited<ReturnType<typeof startGate>>
