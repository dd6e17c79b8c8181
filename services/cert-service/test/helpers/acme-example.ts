import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createFetch, type FetchAnswer } from '@gatehouse/net'
import { toPem } from '@gatehouse/pki'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { parse, stringify } from 'yaml'
import type { PebbleServer } from '../../../../packages/acme/test/integration/pebble.ts'
import { type Context, makeFolder } from '../../../../packages/acme/test/integration/processes.ts'
import { serve } from '../../src/cli/serve.ts'
import { loadCertConfig } from '../../src/config/load.ts'
import { type Service, serviceOf } from './app.ts'
import type { PublicDns } from './public-dns.ts'

const EXAMPLES = join(import.meta.dirname, '../../../../examples/acme')
const SECRETS = '/etc/gatehouse/cert-service'
const DATA = '/var/lib/gatehouse/cert-service'
const KEY = 'key-of-the-tests-0123456789'

/** Headers of the caller that the examples name. */
export const AUTHORIZATION = { authorization: `APIKey ${KEY}` }

type Json = Record<string, unknown>

export interface AcmeExample {
  readonly service: Service
  /** Every warning. */
  readonly logged: readonly string[]
  /** POST to the API over HTTPS, as the caller that the example names. */
  post(path: string, body: object): Promise<FetchAnswer & { readonly json: Json }>
}

interface Surroundings {
  readonly pebble: Pick<PebbleServer, 'directoryUrl' | 'ca'>
  readonly dns: PublicDns
  /** Makes the provider of the one that the example has. */
  readonly provider: (own: object) => object
  /** Further options of the issuer. */
  readonly issuer?: object
  /** Challenges beside dns-01. */
  readonly challenges?: readonly object[]
  /** Further options of the server. */
  readonly server?: object
}

/** Writes the configuration of an example, but for where everything is; gives its path. */
export function writeExample(t: Context, name: string, surroundings: Surroundings): string {
  const { pebble, dns, provider, issuer = {}, challenges = [], server = {} } = surroundings
  const folder = makeFolder(t)
  const text = readFileSync(join(EXAMPLES, name), 'utf8')
  for (const [, file = ''] of text.matchAll(new RegExp(`File: ${SECRETS}/(\\S+)`, 'g')))
    if (file !== 'master.key') writeFileSync(join(folder, file), secretOf(file, dns))
  const config = parse(text.replaceAll(DATA, join(folder, 'data')).replaceAll(SECRETS, folder))
  const [own] = config.issuers
  const [dns01] = own.challenges
  const caFile = join(folder, 'directory-ca.pem')
  writeFileSync(caFile, pebble.ca)
  Object.assign(own, { directory: pebble.directoryUrl.href, caFile }, issuer)
  const propagation = { check: 'resolvers', resolvers: [dns.server] }
  Object.assign(dns01, { propagation, providers: dns01.providers.map(provider) })
  own.challenges.push(...challenges)
  delete config.auth.psk.keys[0].domains

  const file = join(folder, 'config.yaml')
  const local = { server: { port: 0, ...server }, metrics: { enabled: false } }
  writeFileSync(file, stringify({ ...config, ...local }))
  return file
}

/** Runs cert-service as an example says, but for where everything is. */
export async function startExample(
  t: Context,
  name: string,
  surroundings: Surroundings,
): Promise<AcmeExample> {
  const file = writeExample(t, name, surroundings)
  const load = () => loadCertConfig(file, {})
  const logged: string[] = []
  const stream = { write: (line: string) => void logged.push(line) }
  const log = createLogger({ level: 'warn', format: 'json', name: 'test', stream })
  const { url, app, close } = await serve({ loaded: await load(), log, load })
  const service = serviceOf(app)
  const fetch = createFetch({
    ca: toPem('CERTIFICATE', service.ca.root() as Uint8Array),
    timeoutMs: 60_000,
  })
  t.teardown(async () => {
    await fetch.close()
    await close()
  })
  const headers = { ...AUTHORIZATION, 'content-type': 'application/json' }
  return {
    service,
    logged,
    async post(path, body) {
      const init = { method: 'POST', headers, body: JSON.stringify(body) } as const
      const answer = await fetch(`${url}${path}`, { ...init, status: STATUSES })
      return { ...answer, json: JSON.parse(answer.body.toString()) }
    },
  }
}

const STATUSES = Array.from({ length: 400 }, (_, index) => 200 + index)

const secretOf = (file: string, { keySecret }: PublicDns): string =>
  ({ 'web.key': KEY, 'tsig.key': keySecret })[file] ?? 'a-secret-that-nobody-checks'
