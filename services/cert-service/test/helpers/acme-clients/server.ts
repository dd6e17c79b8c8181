import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { createFetch } from '@gatehouse/net'
import type { Test } from 'tap'
import { stringify } from 'yaml'
import type { PebbleServer } from '../../../../../packages/acme/test/integration/pebble.ts'
import { makeFolder } from '../../../../../packages/acme/test/integration/processes.ts'
import { serveMain } from '../service.ts'
import type { Account, AcmeClient } from './client.ts'

const LIMITED = 'CERT_CALLER_LIMITED'
const OPERATOR = 'key-of-the-operator-0123456789'

/** A record of the inventory. */
interface Held {
  readonly serialNumber: string
  readonly issuer: string
}

/** A cert-service in front of its private CA and of a public one. */
export interface Gatehouse {
  /** PEM of the private CA. */
  readonly root: string
  /** What a client is told, and a folder for it, which servers of other users enter. */
  accountOf(client: AcmeClient): Promise<Account & { readonly folder: string }>
  /** By which name it knows the program of the accounts of a client. */
  findProgram(client: AcmeClient): Promise<string | undefined>
  /** The certificate for a name that it would hand out. */
  find(name: string): Promise<Held | undefined>
  /** Revokes what is held for a name, as an operator. */
  revoke(name: string): Promise<void>
  /** What the revocation list of the private CA has. */
  revokedSerials(): Promise<readonly string[]>
  /** How often it has told an ACME client to come later. */
  countLimited(): number
  /** Takes a certificate by the API, as the caller whose key a client has, if there is one left. */
  spend(client: AcmeClient, name: string): Promise<void>
}

interface Options {
  /** A folder for it. */
  readonly folder: string
  readonly pebble: Pick<PebbleServer, 'directoryUrl' | 'ca'>
  readonly limits?: object
}

const nameOf = ({ title }: AcmeClient) => title.toLowerCase().replaceAll(' ', '-')
const keyOf = (client: AcmeClient) => `key-of-${nameOf(client)}-0123456789`

function configOf(clients: readonly AcmeClient[], { pebble, limits = {} }: Options): object {
  const keys = clients.map((client) => ({
    ...{ name: nameOf(client), key: keyOf(client) },
    domains: ['*.example.com', '*.example.org'],
  }))
  return {
    ...{ server: { port: 0, plainHttp: { port: 0 } }, metrics: { enabled: false }, limits },
    ...{
      log: { format: 'json', level: 'debug' },
      storage: { path: 'data', masterKeyFile: 'keys/master.key' },
    },
    auth: { psk: { keys: [{ name: 'operator', key: OPERATOR }, ...keys] } },
    issuers: [
      {
        ...{ name: 'public', type: 'acme', agreeToTerms: true, names: ['*.example.org'] },
        ...{ directory: pebble.directoryUrl.href, caFile: 'pebble.pem' },
        challenges: [{ type: 'http-01' }],
      },
    ],
  }
}

/** Starts it with a caller for each client. */
export async function startGatehouse(
  t: Test,
  clients: readonly AcmeClient[],
  options: Options,
): Promise<Gatehouse> {
  const { folder } = options
  mkdirSync(folder)
  const file = (name: string) => join(folder, name)
  writeFileSync(file('pebble.pem'), options.pebble.ca)
  writeFileSync(file('config.yaml'), stringify(configOf(clients, options)))
  const home = { base: folder, folder: file('data'), masterKeyFile: file('keys/master.key') }
  const { said, lines } = serveMain(t, home)
  const url = String((await said('ready')).url)
  const root = await fetchRoot(url)
  const around = makeFolder(t)
  chmodSync(around, 0o755)
  const rootFile = join(around, 'root.pem')
  writeFileSync(rootFile, root)

  const fetch = createFetch({ ca: root, timeoutMs: 60_000 })
  t.teardown(() => fetch.close())
  const call = async (method: 'GET' | 'POST', path: string, key: string, body?: object) => {
    const headers = { authorization: `APIKey ${key}`, 'content-type': 'application/json' }
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
    const answer = await fetch(`${url}${path}`, { ...init, status: [200, 404, 429] })
    return { status: answer.status, body: JSON.parse(answer.body.toString()) }
  }
  return {
    root,
    async accountOf(client) {
      const { body } = await call('POST', '/api/acme/key', keyOf(client), {})
      const { kid, hmacKey, directory } = body
      const own = join(around, nameOf(client))
      mkdirSync(own)
      return { directory, rootFile, kid, hmacKey, folder: own }
    },
    async findProgram(client) {
      const { body } = await call('GET', '/api/acme/accounts', keyOf(client))
      return body.accounts[0]?.client
    },
    countLimited: () =>
      lines.filter(({ err }) => (err as { code?: string } | undefined)?.code === LIMITED).length,
    async find(name) {
      const { status, body } = await call('GET', `/api/certificate/${name}`, OPERATOR)
      return status === 200 ? body : undefined
    },
    revoke: async (domain) =>
      void (await call('POST', '/api/certificate/revoke', OPERATOR, { domain })),
    spend: async (client, domain) =>
      void (await call('POST', '/api/certificate', keyOf(client), { domain })),
    async revokedSerials() {
      writeFileSync(file('crl.der'), (await fetch(`${url}/ca/crl.der`)).body)
      const args = ['crl', '-inform', 'DER', '-in', file('crl.der'), '-noout', '-text']
      const { stdout } = await promisify(execFile)('openssl', args)
      return [...stdout.matchAll(/Serial Number: (\w+)/g)].map(([, one = '']) => one.toLowerCase())
    },
  }
}

/** As one does who has no trust yet. */
async function fetchRoot(url: string): Promise<string> {
  const options = { agent: false as const, rejectUnauthorized: false }
  return new Promise((resolve, reject) =>
    request(`${url}/ca/root.pem`, options, (response) => text(response).then(resolve, reject))
      .on('error', reject)
      .end(),
  )
}
