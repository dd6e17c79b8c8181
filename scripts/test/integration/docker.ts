import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Test } from 'tap'

const ROOT = join(import.meta.dirname, '../../..')
const DOCKERD = '/usr/sbin/dockerd'
const PATIENCE = 30_000
const MAX_OUTPUT = 64 * 1_048_576

const run = promisify(execFile)

export type ComposeProxy = 'traefik' | 'caddy'

/** A Docker engine, and Compose on this repository's files. */
export interface Docker {
  /** The proxies that it has images of. */
  readonly proxies: readonly ComposeProxy[]
  /** Gives what the command prints. */
  docker(...args: string[]): Promise<string>
  compose(files: readonly string[], ...args: string[]): Promise<string>
}

export interface ComposeOptions {
  readonly project: string
  /** What the compose files are to read. */
  readonly env: Readonly<Record<string, string>>
  /** Names of the images of others, made where they cannot be pulled. */
  readonly images: Readonly<Record<ComposeProxy | 'postgres', string>>
}

/** The engine that runs here, else one that goes with the test; a text says why there is none. */
export async function findDocker(
  t: Test,
  { project, images, env: added }: ComposeOptions,
): Promise<Docker | string> {
  const env = { ...process.env, ...added }
  if (await answers(env)) return { ...(await dockerOf(env, project)), proxies: PROXIES }
  if (process.getuid?.() !== 0) return 'no Docker engine runs here, and only root may start one'
  if (!existsSync(DOCKERD)) return 'no Docker engine is installed here'
  const started = await startEngine(t, env)
  if (typeof started === 'string') return started
  const DOCKER_SOCKET = started.host.slice('unix://'.length)
  const own = { ...env, DOCKER_HOST: started.host, DOCKER_SOCKET }
  const names = [images.caddy, images.postgres, images.traefik]
  await run(join(ROOT, 'scripts/base-image.sh'), names, { env: own, maxBuffer: MAX_OUTPUT })
  const proxies = PROXIES.filter((proxy) => proxy !== 'traefik' || env.TRAEFIK)
  return { ...(await dockerOf(own, project)), proxies }
}

const PROXIES: readonly ComposeProxy[] = ['traefik', 'caddy']

async function dockerOf(env: NodeJS.ProcessEnv, project: string): Promise<Omit<Docker, 'proxies'>> {
  const ask = async (command: string, args: readonly string[]) =>
    (await run(command, args, { env, maxBuffer: MAX_OUTPUT })).stdout
  const compose = await ask('docker', ['compose', 'version']).then(
    () => ['docker', 'compose'],
    () => ['docker-compose'],
  )
  return {
    docker: (...args) => ask('docker', args),
    compose(files, ...args) {
      const paths = files.flatMap((file) => ['-f', join(ROOT, file)])
      const [program = '', ...words] = [...compose, '-p', project, ...paths, ...args]
      return ask(program, words)
    },
  }
}

/** Starts dockerd with everything that it keeps in a folder of its own. */
async function startEngine(t: Test, env: NodeJS.ProcessEnv): Promise<{ host: string } | string> {
  const folder = await mkdtemp(join(tmpdir(), 'gh-docker-'))
  const at = (name: string) => join(folder, name)
  const host = `unix://${at('socket')}`
  const args = ['--data-root', at('data'), '--exec-root', at('exec'), '--pidfile', at('pid')]
  // Ends with this process, even if that is killed.
  const bound = ['--pdeathsig', 'TERM', DOCKERD, ...args, '--host', host]
  const engine = spawn('setpriv', bound, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  const said = text(engine.stderr)
  const ended = once(engine, 'exit')
  t.teardown(async () => {
    engine.kill('SIGTERM')
    await ended
    await rm(folder, { recursive: true, force: true })
  })
  for (const start = Date.now(); Date.now() - start < PATIENCE; await setTimeout(200)) {
    if (engine.exitCode !== null) break
    if (await answers({ ...env, DOCKER_HOST: host })) return { host }
  }
  engine.kill('SIGTERM')
  return `no Docker engine can be started here: ${(await said).trim().split('\n').at(-1)}`
}

async function answers(env: NodeJS.ProcessEnv): Promise<boolean> {
  return run('docker', ['info', '--format', '{{.ServerVersion}}'], { env }).then(
    () => true,
    () => false,
  )
}
