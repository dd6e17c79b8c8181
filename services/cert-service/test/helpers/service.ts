import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { programOf } from '../../../../scripts/test/program.ts'
import { type Running, startRunning } from '../../../../scripts/test/running.ts'

export const KEY = 'key-of-the-tests-0123456789'

/** Where a service lives: `config.yaml`, `data/`, `keys/master.key`. */
export interface Home {
  readonly base: string
  readonly folder: string
  readonly masterKeyFile: string
}

/** An answer of POST /api/certificate, as far as tests look at it. */
export interface Answer {
  readonly status: number
  readonly retryAfter: string | null
  readonly body: {
    readonly certificate: string
    readonly privateKey: string
    readonly serialNumber: string
    readonly cached: boolean
    readonly code?: string
  }
}

export interface RunningService {
  readonly child: ChildProcess
  readonly url: string
  /** POST /api/certificate. */
  obtain(domain: string): Promise<Answer>
  stop(): Promise<void>
}

/** A configuration that listens on a port of the system's choice, over plain HTTP. */
export function createHome(base: string): Home {
  const folder = join(base, 'data')
  const masterKeyFile = join(base, 'keys', 'master.key')
  mkdirSync(base, { recursive: true })
  writeFileSync(
    join(base, 'config.yaml'),
    `server: { port: 0, tls: off }
metrics: { enabled: false }
log: { format: json }
storage: { path: data, masterKeyFile: keys/master.key }
auth: { psk: { key: ${KEY} } }
`,
  )
  return { base, folder, masterKeyFile }
}

const argumentsOf = ({ base }: Home, args: readonly string[]): readonly string[] => [
  ...programOf('cert-service'),
  ...args,
  ...['--config', join(base, 'config.yaml')],
]

/** Starts a command as a user would; whatever still runs is ended after the test. */
export function spawnMain(t: Test, home: Home, args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, argumentsOf(home, args), {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

/** Runs one command to its end. */
export async function runMain(
  t: Test,
  home: Home,
  args: readonly string[],
): Promise<{ code: number; stdout: string; stderr: string }> {
  const child = spawnMain(t, home, args)
  const [stdout, stderr, [code]] = await Promise.all([
    textOf(child.stdout),
    textOf(child.stderr),
    once(child, 'exit'),
  ])
  return { code, stdout, stderr }
}

/** Starts the service, which need not become ready. */
export const serveMain = (
  t: Test,
  home: Home,
  flags: readonly string[] = [],
  env?: NodeJS.ProcessEnv,
): Running => startRunning(t, argumentsOf(home, ['serve', ...flags]), env)

/** Starts the service; resolves when it says that it is ready. */
export async function startService(...args: Parameters<typeof serveMain>): Promise<RunningService> {
  const { child, said, ended } = serveMain(...args)
  const url = String((await said('ready')).url)
  return {
    child,
    url,
    obtain: (domain) => obtain(url, domain),
    async stop() {
      child.kill('SIGTERM')
      await ended
    },
  }
}

/** What the service says of itself when it is ready; `undefined` if it ends before. */
export const readyUrl = ({ said }: Running): Promise<string | undefined> =>
  said('ready').then(
    ({ url }) => String(url),
    () => undefined,
  )

export async function obtain(url: string, domain: string): Promise<Answer> {
  const response = await fetch(`${url}/api/certificate`, {
    method: 'POST',
    headers: { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ domain }),
  })
  const { status, headers } = response
  const body = (await response.json()) as Answer['body']
  return { status, retryAfter: headers.get('retry-after'), body }
}

/** GET /api/certificate/:domain: the serial number of what is held, if anything is. */
export async function findSerial(url: string, domain: string): Promise<string | undefined> {
  const response = await fetch(`${url}/api/certificate/${domain}`, {
    headers: { authorization: `APIKey ${KEY}` },
  })
  return ((await response.json()) as Partial<Answer['body']>).serialNumber
}

/** POST /api/certificate/revoke: the serial numbers that it says are revoked. */
export async function revoke(url: string, domain: string): Promise<readonly string[] | undefined> {
  const response = await fetch(`${url}/api/certificate/revoke`, {
    method: 'POST',
    headers: { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ domain }),
  })
  const body = (await response.json()) as { serialNumbers?: readonly string[] }
  return response.status === 200 ? body.serialNumbers : undefined
}

async function textOf(stream: NodeJS.ReadableStream | null): Promise<string> {
  let text = ''
  for await (const chunk of stream ?? []) text += chunk
  return text
}
