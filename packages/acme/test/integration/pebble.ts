import { hash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BoundedFetch, createFetch } from '@gatehouse/net'
import { createTestCa } from '../../../../scripts/test/certificates.ts'
import type { Solver } from '../../src/index.ts'
import { type Context, freePorts, makeFolder, run, untilAnswered } from './processes.ts'

/** A Pebble that is newer than that of the system, as `.ci/run` installs it where Go is. */
export const CURRENT_PEBBLE = process.env.PEBBLE
/** Why what takes it is skipped. */
export const NO_CURRENT_PEBBLE = CURRENT_PEBBLE ? false : '$PEBBLE names no Pebble of 2.10 or newer'

export interface PebbleServer {
  readonly directoryUrl: URL
  /** PEM of what signed the certificate of Pebble's own server. */
  readonly ca: string
  /** Trusts that. */
  readonly fetch: BoundedFetch
  /** Where tests see and change what a CA would not tell. */
  readonly managementUrl: string
  /** A root that Pebble issues under, PEM. */
  root(index: number): Promise<string>
}

export interface Pebble extends PebbleServer {
  readonly dns01: Solver
  readonly http01: Solver
}

interface PebbleOptions {
  /** The name server that it asks, with its port. */
  readonly dns: string
  readonly env?: Readonly<Record<string, string>>
  /** Goes into its configuration. */
  readonly config?: object
  /** Default: the one of the system. */
  readonly program?: string
}

/** Starts Pebble on loopback; it is gone with the test. */
export async function startPebbleServer(
  t: Context,
  { dns, env = {}, config = {}, program = 'pebble' }: PebbleOptions,
): Promise<PebbleServer> {
  const folder = makeFolder(t)
  const [acme, management] = await freePorts(2)
  const ca = await writeServerCertificate(folder)
  const pebble = {
    listenAddress: `127.0.0.1:${acme}`,
    managementListenAddress: `127.0.0.1:${management}`,
    certificate: join(folder, 'cert.pem'),
    privateKey: join(folder, 'key.pem'),
    ...config,
  }
  const file = join(folder, 'pebble.json')
  writeFileSync(file, JSON.stringify({ pebble }))
  const args = ['-strict', '-config', file, '-dnsserver', dns]
  run(t, program, args, { PEBBLE_VA_NOSLEEP: '1', ...env })

  const fetch = createFetch({ ca })
  t.teardown(() => fetch.close())
  const directoryUrl = new URL(`https://127.0.0.1:${acme}/dir`)
  const managementUrl = `https://127.0.0.1:${management}`
  // A strict Pebble answers nobody without a name.
  await untilAnswered(() => fetch(directoryUrl, { headers: { 'user-agent': 'gatehouse' } }))
  const root = async (index: number) =>
    (await fetch(`${managementUrl}/roots/${index}`)).body.toString()
  return { directoryUrl, ca, fetch, managementUrl, root }
}

/** Pebble with a DNS and a web server that do as they are told. */
export async function startPebble(
  t: Context,
  env: Readonly<Record<string, string>> = {},
  config: object = {},
  program?: string,
): Promise<Pebble> {
  const [httpPort, tlsPort, dns, control] = await freePorts(4)
  run(t, 'pebble-challtestsrv', [
    ...['-http01', `127.0.0.1:${httpPort}`, '-https01', '', '-tlsalpn01', '', '-defaultIPv6', ''],
    ...['-dns01', `127.0.0.1:${dns}`, '-management', `127.0.0.1:${control}`],
  ])
  const server = await startPebbleServer(t, {
    dns: `127.0.0.1:${dns}`,
    env,
    config: { httpPort, tlsPort, ...config },
    ...(program !== undefined && { program }),
  })
  const tell = (path: string, body: object) =>
    server.fetch(`http://127.0.0.1:${control}/${path}`, post(body))
  await untilAnswered(() => tell('clear-txt', { host: 'x.' }))
  return { ...server, ...solvers(tell) }
}

function solvers(tell: (path: string, body: object) => Promise<unknown>) {
  const host = (value: string) => `_acme-challenge.${value}.`
  const standing = new Map<string, number>()
  const count = (name: string, by: number) => {
    standing.set(name, (standing.get(name) ?? 0) + by)
    return standing.get(name)
  }
  const dns01: Solver = {
    type: 'dns-01',
    async present({ identifier, keyAuthorization }) {
      count(identifier.value, 1)
      const value = hash('sha256', keyAuthorization, 'base64url')
      await tell('set-txt', { host: host(identifier.value), value })
    },
    // All values of a name go at once, so the last one takes them away.
    async cleanUp({ identifier: { value } }) {
      if (count(value, -1) === 0) await tell('clear-txt', { host: host(value) })
    },
  }
  const http01: Solver = {
    type: 'http-01',
    present: async ({ token, keyAuthorization: content }) =>
      void (await tell('add-http01', { token, content })),
    cleanUp: async ({ token }) => void (await tell('del-http01', { token })),
  }
  return { dns01, http01 }
}

const post = (body: object) => ({ method: 'POST', body: JSON.stringify(body) }) as const

/** For Pebble's own listener; gives the root to trust. */
async function writeServerCertificate(folder: string): Promise<string> {
  const ca = await createTestCa()
  const { cert, key } = ca.certificateFor('127.0.0.1')
  writeFileSync(join(folder, 'cert.pem'), cert)
  writeFileSync(join(folder, 'key.pem'), key)
  return ca.root
}
