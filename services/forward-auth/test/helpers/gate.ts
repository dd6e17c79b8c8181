import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { connect } from 'node:tls'
import type { Clock } from '@gatehouse/service-kit'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { issueCertificate } from './certificates.ts'
import { createClient } from './client.ts'
import { startEcho } from './echo.ts'
import { startGatehouse } from './gatehouse.ts'
import { freePort } from './process.ts'
import { PROXIES, type ProxyName, readExample, type Surroundings } from './proxies.ts'

/** The configuration of the examples, without the file of its secret. */
export const CONFIG = readExample('forward-auth.yaml', [
  ['clientSecretFile: /etc/gatehouse/forward-auth/client-secret', 'clientSecret: not-used-here'],
])

const HOSTS = ['app.example.com', 'admin.example.com', 'auth.example.com']

/** What a proxy makes of the target of a request, as its client sent it. */
interface Passage {
  readonly status: number
  /** Path and query that the check was asked about; undefined if there was none, or if it was refused. */
  readonly told: string | undefined
  /** The credentials that the check got. */
  readonly authorization: string | undefined
  /** Path and query that the app received; undefined if it heard nothing. */
  readonly heard: string | undefined
}

export interface GateOptions {
  /** The configuration of Gatehouse, without `server`. Default: that of the examples. */
  readonly yaml?: string
  readonly changes?: Surroundings['changes']
  /** Where the app listens. Default: it is one that tells what reached it. */
  readonly appPort?: number
  /** The clock of Gatehouse. Default: one that stands still. */
  readonly clock?: Clock
}

/** A proxy with its example between a client and an app, and Gatehouse that it asks. */
export async function startGate(
  t: Test,
  proxy: ProxyName,
  { yaml = CONFIG, changes, appPort, ...deps }: GateOptions = {},
) {
  const folder = testFolder(t)
  const grpcPort = proxy === 'envoy-grpc' ? await freePort() : undefined
  const server = grpcPort === undefined ? '' : `\nserver: { grpc: { port: ${grpcPort} } }\n`
  let told: string | undefined
  let authorization: string | undefined
  const tell = (app: FastifyInstance) => {
    // Before the answer is sent, so that nobody has it earlier.
    app.addHook('onSend', async ({ check, headers }) => {
      if (!check) return
      told = check.forwarded.target
      authorization = headers.authorization
    })
  }
  const gatehouse = await startGatehouse(t, yaml + server, tell, deps)
  const echo = await startEcho(t)
  const certificate = await issueCertificate(folder, HOSTS)
  const port = await freePort()
  const ports = { port, gatehousePort: gatehouse.port, grpcPort, appPort: appPort ?? echo.port }
  await PROXIES[proxy](t, { folder, certificate, ...(changes && { changes }), ...ports })

  /** Sends a target as it is, which HTTP clients would refuse or rewrite. */
  async function pass(target: string, headers: Readonly<Record<string, string>> = {}) {
    told = authorization = undefined
    const before = echo.count()
    const host = 'app.example.com'
    const socket = connect({ host: '127.0.0.1', port, servername: host, ca: certificate.rootPem })
    await once(socket, 'secureConnect')
    const sent = Object.entries({ Host: host, Connection: 'close', ...headers })
    const lines = [`GET ${target} HTTP/1.1`, ...sent.map((header) => header.join(': '))]
    socket.write(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'))
    const answer = await text(socket)
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0)
    const heard = echo.count() > before ? echo.last()?.url : undefined
    return { status, told, authorization, heard } satisfies Passage
  }
  return { gatehouse, echo, port, certificate, ask: createClient(port, certificate.rootPem), pass }
}

export type Gate = Awaited<ReturnType<typeof startGate>>
