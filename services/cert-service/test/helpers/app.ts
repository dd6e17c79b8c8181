import { generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { stringify } from 'yaml'
import { type LeapClock, leapClock } from '../../../../packages/issuance/test/leap-clock.ts'
import { quietLog } from '../../../../scripts/test/quiet.ts'
import type {} from '../../src/acme-server/caller-changes.ts'
import { type AppDeps, buildApp } from '../../src/app.ts'
import { loadCertConfig } from '../../src/config/load.ts'
import type { CertServiceConfig } from '../../src/config/schema.ts'
import type {} from '../../src/events/outbox.ts'
import type {} from '../../src/issuance/issuance.ts'
import { isDocumented } from './documented.ts'

export {
  type LeapClock,
  leapClock,
  rest,
  settle,
} from '../../../../packages/issuance/test/leap-clock.ts'

export const KEY = 'a-key-that-may-do-everything'
export const NOW = Date.UTC(2030, 0, 1)
export const DAY = 86_400_000

/** What tests use of an app. */
export interface Service
  extends Pick<
    FastifyInstance,
    | 'audit'
    | 'ca'
    | 'challenges'
    | 'clock'
    | 'holdings'
    | 'issuance'
    | 'issuers'
    | 'ledger'
    | 'policy'
    | 'store'
  > {
  /** Starts what an app starts once it listens. */
  start(): void
}

export function serviceOf(app: FastifyInstance): Service {
  const { store, audit, holdings, issuance, issuers, ca, challenges, ledger, clock, policy } = app
  return {
    store,
    audit,
    holdings,
    issuance,
    issuers,
    ca,
    challenges,
    ledger,
    clock,
    policy,
    start: () => app.loops.start(),
  }
}

export interface Running {
  readonly app: FastifyInstance
  readonly service: Service
  readonly clock: LeapClock
  readonly config: CertServiceConfig
  readonly folder: string
  /** Every line that was logged. */
  readonly logged: string[]
  close(): Promise<void>
  /** A request with the key of everything, unless `headers` say otherwise. */
  call(
    method: 'GET' | 'POST' | 'DELETE',
    url: string,
    body?: object,
    headers?: object,
  ): Promise<Answer>
}

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look at whatever came.
  readonly body: any
}

/** A service on a folder of its own, with a clock that stands still, over HTTP unless `tls` is set. */
export async function start(
  t: Test,
  changes: object = {},
  deps: Partial<AppDeps> & { folder?: string; clock?: LeapClock; tls?: boolean } = {},
): Promise<Running> {
  const folder = deps.folder ?? testFolder(t)
  const config = await configure(folder, changes)
  const clock = deps.clock ?? leapClock(NOW)
  const { log, logged } = quietLog(t, 'debug')
  const server = deps.tls ? config.server : { ...config.server, tls: 'off' as const }
  const app = await buildApp(
    { ...config, server },
    { random: () => 0, elapsed: clock.elapsed, ...deps, clock, log },
  )
  const service = serviceOf(app)
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= app.close()
    return closing
  }
  t.teardown(close)
  return {
    app,
    service,
    clock,
    config,
    folder,
    logged,
    close,
    async call(method, url, body, headers) {
      const response = await app.inject({
        method,
        url,
        headers: { authorization: `APIKey ${KEY}`, ...headers },
        ...(body && { payload: body }),
      })
      if (!(await isDocumented(method, url, response.statusCode)))
        t.fail(`${method} ${url} answers ${response.statusCode}, which the document does not name`)
      const isJson = String(response.headers['content-type']).includes('json')
      return {
        status: response.statusCode,
        headers: response.headers,
        text: response.payload,
        body: isJson ? response.json() : undefined,
      }
    },
  }
}

/** Takes up a changed configuration as SIGHUP does. */
export async function reload(running: Running, config: CertServiceConfig): Promise<void> {
  const commit = await running.app.prepareReload(config)
  commit()
  await running.app.callersFollowed()
}

/** A configuration as a file would give it. */
export async function configure(folder: string, changes: object = {}): Promise<CertServiceConfig> {
  const file = join(folder, 'config.yaml')
  await writeFile(
    file,
    stringify({
      storage: { path: 'data', masterKeyFile: 'keys/master.key' },
      auth: { psk: { key: KEY } },
      ...changes,
    }),
  )
  return (await loadCertConfig(file, {})).value
}

/** Whatever the store holds that a request could have written. */
export async function written({ service }: Running): Promise<number> {
  const { store } = service
  const certificates = await store.list({ after: 0, limit: 100 })
  const orders = await store.listPendingOrders()
  const audit = await store.listAudit({ limit: 100 })
  return certificates.length + orders.length + audit.length
}

/** An OpenID provider on loopback that signs whatever it is asked to. */
export async function createIdp(t: Test, now: () => number) {
  let key = newSigningKey()
  const server = createServer((request, response) => {
    const isKeys = request.url === '/jwks'
    const body = isKeys ? { keys: [key.jwk] } : { issuer: issuerUrl, jwks_uri: `${issuerUrl}/jwks` }
    response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  const issuerUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = (typ: string, payload: object) => {
    const text = `${part({ alg: 'ES256', kid: key.jwk.kid, typ })}.${part(payload)}`
    const signature = sign('sha256', Buffer.from(text), {
      key: key.privateKey,
      dsaEncoding: 'ieee-p1363',
    })
    return `${text}.${signature.toString('base64url')}`
  }
  return {
    issuerUrl,
    /** Signs with another key from now on. */
    rotate() {
      key = newSigningKey()
    },
    /** An assertion of forward-auth about a person, with this provider as its portal. */
    assertion(claims: object): string {
      const iat = Math.floor(now() / 1000)
      const times = { iat, exp: iat + 60 }
      const about = { sub: '42', provider: 'corp', method: 'session' }
      return signed('gatehouse-assertion+jwt', { iss: issuerUrl, ...times, ...about, ...claims })
    },
    /** An access token for `audience` certs. */
    token(claims: object): string {
      const iat = Math.floor(now() / 1000)
      const payload = { iss: issuerUrl, aud: 'certs', iat, exp: iat + 600, ...claims }
      return signed('at+jwt', payload)
    },
  }
}

function newSigningKey() {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const jwk = {
    ...publicKey.export({ format: 'jwk' }),
    kid: randomUUID(),
    alg: 'ES256',
    use: 'sig',
  }
  return { privateKey, jwk }
}
