import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { programOf } from '../../../../../scripts/test/program.ts'
import { withClockIn } from '../clock.ts'
import { createHome, KEY, serveMain } from '../service.ts'
import type { TlsServer } from '../tls-clients/index.ts'

const execute = promisify(execFile)
/** Names by whose client certificates callers are known to cert-service. */
export const AGENTS = ['a.agent.test', 'b.agent.test', 'c.agent.test'] as const

/** Days for which a certificate is valid, of which it is renewed after two thirds. */
const LEAF_LIFETIME = 60

export interface NamedServer extends TlsServer {
  readonly name: string
}

/** A cert-service that listens with its own certificate, and the commands of a user of it. */
export interface Gatehouse {
  /** That all users may enter. */
  readonly folder: string
  /** The file of what {@link certs} trusts: the first root, until another file takes its place. */
  readonly roots: string
  readonly server: NamedServer
  /** Resolves when the service has ended, with how it did. */
  readonly ended: Promise<string>
  /** The environment of all that runs by the clock of {@link moveClock}. */
  readonly env: NodeJS.ProcessEnv
  /** Sets the clock ahead by so many days. A program may take a second to see it. */
  moveClock(days: number): void
  /** Runs a program to its end, and gives what it prints. */
  run(command: string, args: readonly string[]): Promise<string>
  /** Runs `gatehouse-certs` by a key that may do everything. */
  certs(...args: readonly string[]): Promise<string>
  /** Takes a step of the roll. */
  roll(step: string, ...options: readonly string[]): Promise<string>
  /** Runs `gatehouse-certs get`, and gives the folder of the certificate. */
  get(name: string, options?: readonly string[]): Promise<string>
  /** Writes what a path answers into a file, as `curl --cacert` does. Gives its path. */
  fetch(path: string, file: string): Promise<string>
}

export async function startGatehouse(t: Test): Promise<Gatehouse> {
  const folder = mkdtempSync(join(tmpdir(), 'gh-'))
  chmodSync(folder, 0o755)
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }))
  const home = createHome(join(folder, 'service'))
  const callers = AGENTS.map(
    (dns, index) => `{ name: agent-${index}, dns: ${dns}, domains: [${dns}] }`,
  )
  writeFileSync(
    join(home.base, 'config.yaml'),
    `server: { port: 0 }
metrics: { enabled: false }
ca: { leafLifetime: ${LEAF_LIFETIME}d }
log: { format: json }
storage: { path: data, masterKeyFile: keys/master.key }
auth: { psk: { key: ${KEY} }, mtls: { callers: [${callers.join()}] } }
`,
  )
  const clock = join(folder, 'clock')
  const moveClock = (days: number) => {
    // Whoever reads it meanwhile finds the whole text.
    writeFileSync(`${clock}.new`, `+${days}d`)
    renameSync(`${clock}.new`, clock)
  }
  moveClock(0)
  const clockEnv = withClockIn(clock)
  const running = serveMain(t, home, [], clockEnv)
  const { url } = await running.said('ready')
  const { port } = new URL(String(url))
  const address = `https://localhost:${port}`
  const root = join(folder, 'root.pem')
  const keyFile = join(folder, 'client.key')
  writeFileSync(keyFile, KEY, { mode: 0o600 })
  const env = {
    PATH: process.env.PATH,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
    GATEHOUSE_URL: address,
    GATEHOUSE_CA: root,
    GATEHOUSE_KEY_FILE: keyFile,
    ...clockEnv,
  }
  const run = async (command: string, args: readonly string[]) =>
    (await execute(command, args, { env })).stdout
  await run('curl', ['-fsSk', `${address}/ca/root.pem`, '-o', root])
  const certs = (...args: readonly string[]) =>
    run(process.execPath, [...programOf('cert-service'), ...args])
  return {
    folder,
    roots: root,
    ended: running.ended.then((end) => JSON.stringify(end)),
    env: clockEnv,
    moveClock,
    run,
    certs,
    server: {
      ...{ name: 'cert-service', host: 'localhost', port: Number(port) },
      ...{ protocol: 'https', path: '/healthz' },
    },
    roll: (step, ...options) => certs('ca', 'roll', step, ...options),
    async get(name, options = []) {
      const out = join(folder, 'tls')
      await certs('get', name, '--out', out, ...options)
      const isClient = options.includes('client')
      return join(out, isClient ? `_client.${encodeURIComponent(name)}` : name)
    },
    async fetch(path, file) {
      const target = join(folder, file)
      await run('curl', ['-fsS', '--cacert', root, `${address}${path}`, '-o', target])
      return target
    },
  }
}
