import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BoundedFetch, FetchInit } from '@gatehouse/net'
import { NetError } from '@gatehouse/net'
import { actionFor } from '../../../../services/cert-service/src/errors.ts'
import { KEY, type Running } from '../../../../services/cert-service/test/helpers/app.ts'
import { type CertificateRequest, readPair } from '../../src/certificate.ts'
import { openCredentials } from '../../src/credentials.ts'
import type { FolderOptions } from '../../src/folder.ts'
import type { Get } from '../../src/keep.ts'
import { openFolder } from '../../src/place.ts'
import { connect } from '../../src/service.ts'
import { readNames } from '../../src/settings.ts'

export interface Fetched {
  readonly method: string
  readonly path: string
  readonly status: number
}

/** A fetch that asks an app without a socket, and notes what was answered. */
export function injected({
  app,
}: Pick<Running, 'app'>): BoundedFetch & { readonly log: Fetched[] } {
  const log: Fetched[] = []
  const fetch = async (url: URL | string, init: FetchInit = {}) => {
    const { pathname, search } = new URL(url)
    const { method = 'GET', headers = {}, body } = init
    const response = await app.inject({
      ...{ method, headers, url: pathname + search },
      ...(body !== undefined && { payload: String(body) }),
    })
    const { statusCode: status } = response
    log.push({ method, path: pathname + search, status })
    if (!(init.status ?? [200]).includes(status))
      throw new NetError('NET_FETCH_STATUS', `${status}`)
    const answered = Object.fromEntries(
      Object.entries(response.headers).map(([name, value]) => [name, String(value)]),
    )
    return { status, headers: answered, body: response.rawPayload }
  }
  return Object.assign(fetch, { log, close: async () => {} })
}

export interface ClientOptions {
  readonly names?: readonly string[]
  readonly keyType?: CertificateRequest['keyType']
  readonly lifetime?: string
  readonly csr?: boolean
  readonly reload?: string
  readonly folder?: Partial<FolderOptions>
  readonly fetch?: BoundedFetch
  readonly signal?: AbortSignal
  readonly key?: string
  readonly ports?: Get['ports']
}

/** A client of an app, that keeps certificates in a folder of the test. */
export function clientOf(running: Running, options: ClientOptions = {}) {
  const { names = ['a.test'], keyType, lifetime, csr = false, reload, key = KEY } = options
  const { signal = new AbortController().signal, ports = [] } = options
  const { clock } = running
  const dir = options.folder?.dir ?? join(running.folder, 'out')
  const fetch = options.fetch ?? injected(running)
  const logged: { level: string; message: string; [field: string]: unknown }[] = []
  const log = {
    info: (fields: object, message: string) =>
      void logged.push({ level: 'info', message, ...fields }),
    warn: (fields: object, message: string) =>
      void logged.push({ level: 'warn', message, ...fields }),
    error: (fields: object, message: string) =>
      void logged.push({ level: 'error', message, ...fields }),
  }
  const wanted = { names: readNames(names), keyType, lifetime }
  const credentials = openCredentials(
    { kind: 'key', key: { text: key } },
    { fetch, now: clock.now },
  )
  const place = openFolder({
    ...{ dir, domain: wanted.names[0]?.text ?? '', mode: 0o600, owner: undefined },
    ...{ isOwnKey: csr, clock, log, signal, ...options.folder },
    reload: reload === undefined ? undefined : { command: reload, timeoutMs: 10_000 },
  })
  const get: Get = {
    ...{
      request: wanted,
      isOwnKey: csr,
      place,
      clock,
      random: () => 0,
      log,
      signal,
      patienceMs: 60_000,
      ports,
    },
    service: connect({
      url: new URL('http://certs.test/'),
      credentials,
      fetch,
      now: clock.now,
      signal,
      actionFor,
    }),
  }
  mkdirSync(dir, { recursive: true })
  return { get, dir, place, fetch, logged, messages: () => logged.map(({ message }) => message) }
}

/** What a proxy finds in the folder of a certificate; it has to belong together. */
export function lookAt(dir: string, name: string) {
  const read = (file: string) => readFileSync(join(dir, name, file), 'utf8')
  const [key, chain, combined] = ['privkey.pem', 'fullchain.pem', 'combined.pem'].map(read) as [
    string,
    string,
    string,
  ]
  if (combined !== key + chain) throw new Error('combined.pem is not the other two')
  return readPair(chain, key)
}

/** Everything in a folder by name, whether a proxy sees it or not. */
export function listAll(dir: string): string[] {
  return readdirSync(dir).sort()
}
