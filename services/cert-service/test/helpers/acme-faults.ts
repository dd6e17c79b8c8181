import { randomBytes } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { openStore } from '@gatehouse/cert-store'
import type { Store } from '@gatehouse/cert-store/port'
import { type BoundedFetch, NetError } from '@gatehouse/net'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { StoreError } from '@gatehouse/store'
import type { FastifyInstance } from 'fastify'
import { openPostgresStore } from '../../../../packages/cert-store/src/engines/postgres.ts'
import {
  connect,
  initialise,
  lockFolder,
  sqliteStore,
  storeFile,
} from '../../../../packages/cert-store/src/engines/sqlite.ts'
import type { PostgresServer } from '../../../../scripts/test/postgres.ts'
import { until } from '../../../../scripts/test/until.ts'
import { buildApp } from '../../src/app.ts'
import { PSK } from './acme-service.ts'
import { configure, KEY, type LeapClock, leapClock, NOW } from './app.ts'

/** What the store does at its nth call from now on. */
interface StoreFault {
  readonly at: number
  /** `kill`: the process ends there. Without `isDone`, before the call has done anything. */
  readonly how: 'refuse' | 'kill'
  readonly isDone: boolean
}

/** What goes wrong with a request. */
export type Fault =
  | { readonly what: 'lost-request' | 'lost-answer' | 'twice' | 'lost-nonce' | 'used-nonce' }
  | { readonly what: 'stop' | 'term' | 'power' | 'rival' | 'revoke' }
  | { readonly what: 'kill'; readonly isAnswered: boolean }
  | { readonly what: 'clock'; readonly to: number }
  | { readonly what: 'store'; readonly fault: StoreFault }

const HOST = '127.0.0.1'
export const lost = () => new NetError('NET_FETCH_FAILED', 'the connection was lost')

/** A process of the service, which can be ended anywhere. */
interface Process {
  readonly app: FastifyInstance
  readonly died: Promise<never>
  readonly state: () => 'running' | 'ending' | 'dead'
  /** Resolves when another one can take its place. */
  readonly ended: Promise<unknown>
  arm(fault: StoreFault | undefined): void
  /** Looks at its store, which it can write or not. */
  look(): Promise<void>
  kill(): Promise<void>
  term(): Promise<void>
}

/** One or several processes of the service on one store, by one clock, that start again when they have ended. */
export class FaultyService {
  readonly clock: LeapClock = leapClock(NOW)
  readonly #folder: string
  readonly #server: PostgresServer | undefined
  readonly #masterKey = randomBytes(32).toString('base64')
  readonly #schema = `certs_${randomBytes(6).toString('hex')}`
  readonly #processes: (Promise<Process> | undefined)[]
  readonly #warned: string[] = []
  #data: string
  #durable = 0
  #moves = 0
  #offset = 0
  #ticking: NodeJS.Timeout | undefined

  /** @param server - three replicas on it; without one, a process on a file */
  constructor(folder: string, server?: PostgresServer) {
    this.#folder = folder
    mkdirSync(folder, { recursive: true })
    this.#server = server
    this.#data = join(folder, 'data')
    this.#processes = Array.from({ length: server ? 3 : 1 }, () => undefined)
    // Replicas that wait for each other go by this clock.
    if (server) this.#ticking = setInterval(() => void this.clock.advance(200), 10)
  }

  /** The lines at warn or above since the last time, of processes that nothing was done to. */
  warnings(): readonly string[] {
    return this.#warned.splice(0)
  }

  /** Ends what was begun for the store, and waits until each process can use it. */
  async calm(): Promise<void> {
    for (const n of this.#processes.keys()) {
      const process = await this.pick(n)
      process.arm(undefined)
      await until(() =>
        process.app.store.check().then(
          () => true,
          () => false,
        ),
      )
    }
    this.#warned.length = 0
  }

  /** Sets the clock to so many milliseconds from where it began, and what has passed. */
  setClock(to: number): void {
    this.clock.shift(to - this.#offset)
    this.#offset = to
  }

  /** Lets time pass, after which each process has looked at the store, as it does every five seconds. */
  async advance(ms: number): Promise<void> {
    await this.clock.advance(ms)
    for (const starting of this.#processes) {
      const process = await starting
      if (process?.state() === 'running') await process.look()
    }
  }

  async pick(n: number): Promise<Process> {
    const i = n % this.#processes.length
    this.#processes[i] ??= this.#start(i)
    const starting = this.#processes[i]
    const process = await starting
    if (process?.state() === 'running') return process
    await process?.ended
    if (this.#processes[i] === starting) this.#processes[i] = undefined
    return this.pick(n)
  }

  /** Sends a request to one of the processes. Rejects if that ends before it answers. */
  async send(n: number, url: URL, init: { method?: string; headers?: object; body?: string }) {
    const process = await this.pick(n)
    const answer = await Promise.race([
      process.died,
      process.app.inject({
        method: (init.method ?? 'GET') as 'GET',
        url: url.pathname + url.search,
        headers: { 'user-agent': 'model/1.0', ...init.headers, host: HOST },
        ...(init.body !== undefined && { payload: init.body }),
      }),
    ])
    return { status: answer.statusCode, headers: answer.headers, body: answer.rawPayload }
  }

  /** A request of the operator to the API. */
  async call(method: 'GET' | 'POST', path: string, body?: object) {
    const headers = { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' }
    const sent = { method, headers, ...(body && { body: JSON.stringify(body) }) }
    const answer = await this.send(0, new URL(path, `http://${HOST}`), sent)
    if (answer.status >= 500) throw lost()
    return { status: answer.status, body: JSON.parse(answer.body.toString() || 'null') }
  }

  /** Ends the machine of the store: what it has not written to the disk is lost. */
  async power(): Promise<void> {
    const running = await Promise.all(this.#processes)
    if (this.#server) {
      // The replicas go on.
      await this.#server.kill()
      await this.#server.start()
      return
    }
    this.#moves += 1
    const data = `${this.#folder}/data-${this.#moves}`
    mkdirSync(data)
    for (const end of ['', '-wal'])
      if (existsSync(storeFile(this.#data) + end))
        cpSync(storeFile(this.#data) + end, storeFile(data) + end)
    if (existsSync(`${storeFile(data)}-wal`)) truncateSync(`${storeFile(data)}-wal`, this.#durable)
    await running[0]?.kill()
    this.#data = data
  }

  /** Runs SQL beside the processes; `@` stands for the schema. */
  async sql<Row>(text: string): Promise<readonly Row[]> {
    if (this.#server) return this.#server.sql<Row>(text.replaceAll('@', `${this.#schema}.`))
    using sqlite = new DatabaseSync(storeFile(this.#data))
    return sqlite.prepare(text.replaceAll('@', '')).all() as Row[]
  }

  async close(): Promise<void> {
    const running = await Promise.all(this.#processes)
    await Promise.all(running.map((process) => process?.term()))
    clearInterval(this.#ticking)
  }

  async #start(n: number): Promise<Process> {
    const { promise: died, reject } = Promise.withResolvers<never>()
    const ended = Promise.withResolvers<void>()
    died.catch(() => {})
    let state: 'running' | 'ending' | 'dead' = 'running'
    let opened: Store | undefined
    let fault: StoreFault | undefined
    const die = async () => {
      if (state === 'dead') return ended.promise
      state = 'dead'
      reject(lost())
      await opened?.close().catch(() => {})
      ended.resolve()
    }
    const call = async (run: () => unknown): Promise<unknown> => {
      const now = fault?.at === 0 ? fault : undefined
      fault = fault && fault.at > 0 ? { ...fault, at: fault.at - 1 } : undefined
      if (state === 'dead') return never()
      if (now && !now.isDone) return end(now)
      const result = await run()
      if (state === ('dead' as typeof state)) return never()
      return now ? end(now) : result
    }
    const end = ({ how }: StoreFault) => {
      if (how === 'refuse') throw new StoreError('STORE_UNAVAILABLE', 'the store refuses by chance')
      void die()
      return never()
    }
    const log = createLogger({
      level: 'warn',
      format: 'json',
      name: 'test',
      stream: {
        write: (line: string) => {
          if (state === 'running') this.#warned.push(line)
        },
      },
    })
    const storage = this.#server
      ? { url: this.#server.url, schema: this.#schema, masterKey: this.#masterKey }
      : { path: this.#data, masterKeyFile: join(this.#folder, 'keys', 'master.key') }
    const config = await configure(this.#folder, {
      storage,
      server: { port: 7501 + n, tls: 'off' },
      auth: { psk: PSK },
    })
    const app = await buildApp(config, {
      log,
      clock: this.clock,
      elapsed: this.clock.elapsed,
      random: () => 0,
      isNew: true,
      openStore: async (options) => {
        opened = await this.#open(options)
        return faulty(opened, call)
      },
    })
    await app.issuance.resume()
    return {
      app,
      died,
      look: async () => opened?.check().catch(() => {}),
      ended: ended.promise,
      state: () => state,
      arm: (next) => {
        fault = next
      },
      kill: die,
      term: async () => {
        if (state !== 'running') return
        state = 'ending'
        fault = undefined
        // It may be killed meanwhile.
        await app.close().catch(() => {})
        await die()
      },
    }
  }

  #open: typeof openStore = async ({ elapsed, name, log }) => {
    if (this.#server) {
      const { url } = this.#server
      return openPostgresStore({ url, name, log, elapsed, schema: this.#schema, patience: 30_000 })
    }
    const unlock = await lockFolder(this.#data)
    const file = storeFile(this.#data)
    if (!existsSync(file)) initialise(file)
    const sqlite = connect(file)
    this.#durable = sizeOf(`${file}-wal`)
    let isFull = true
    // A commit that does not wait for the disk is there after the next one that does.
    const noted = new Proxy(sqlite, {
      get: (target, key) => {
        const value = Reflect.get(target, key) as unknown
        if (key !== 'exec') return typeof value === 'function' ? value.bind(target) : value
        return (sql: string) => {
          target.exec(sql)
          if (sql.startsWith('PRAGMA synchronous')) isFull = sql.endsWith('FULL')
          if (sql === 'COMMIT' && isFull) this.#durable = sizeOf(`${file}-wal`)
        }
      },
    })
    return sqliteStore(noted, { file, elapsed, closed: unlock })
  }
}

function sizeOf(file: string): number {
  return existsSync(file) ? statSync(file).size : 0
}

const never = () => new Promise<never>(() => {})
/** What gives no promise, or belongs to no request. */
const PLAIN = ['isShared', 'isLeader', 'onChange', 'runTime', 'now', 'failure', 'close']

/** A store whose calls go through `call`. */
function faulty<T extends object>(store: T, call: (run: () => unknown) => Promise<unknown>): T {
  return new Proxy(store, {
    get(target, key) {
      const value = Reflect.get(target, key) as unknown
      if (key === 'acme') return faulty(value as object, call)
      if (typeof value !== 'function' || typeof key === 'symbol') return value
      const bound = value.bind(target)
      return PLAIN.includes(key) ? bound : (...args: unknown[]) => call(() => bound(...args))
    },
  })
}

/** The network between a client and the service, on which all goes wrong that `faults` names by number of request. */
export interface Network {
  readonly fetch: BoundedFetch
  /** Whether lines at warn are to be expected. */
  isLoud: boolean
  /** Requests that were sent. */
  sent: number
}

export interface NetworkOptions {
  readonly service: FaultyService
  readonly faults: ReadonlyMap<number, Fault>
  readonly replica: (n: number) => number
  /** Does what others do. */
  rival(): Promise<void>
  revoke(): Promise<void>
  /** Hears each answer that the client gets. */
  hear(url: URL, answer: Awaited<ReturnType<FaultyService['send']>>): void
  stop(): void
}

export function faultyNetwork(options: NetworkOptions): Network {
  const { service, faults, replica } = options
  const used: string[] = []
  const network: Network = { isLoud: false, sent: 0, fetch: Object.assign(fetch, { close }) }
  async function close() {}

  async function fetch(url: URL | string, init: object = {}) {
    const n = network.sent++
    const fault = faults.get(n)
    const target = new URL(url)
    if (fault) await before(fault, replica(n))
    const sent = [service.send(replica(n), target, init)]
    if (fault?.what === 'twice') sent.push(service.send(replica(n + 1), target, init))
    const [first, second] = await Promise.all(sent)
    // Where the nonce is known, one of them is refused.
    const isRefused = String(first?.headers['content-type']).includes('problem')
    const answer = (isRefused && second) || first!
    if (fault?.what === 'lost-answer') throw lost()
    if (fault?.what === 'stop') return stopped()
    if (fault?.what === 'kill') await (await service.pick(replica(n))).kill()
    if (fault?.what === 'lost-nonce') delete answer.headers['replay-nonce']
    if (fault?.what === 'used-nonce') answer.headers['replay-nonce'] = used.at(-1)
    used.push(String(answer.headers['replay-nonce'] ?? ''))
    if (fault?.what === 'kill' && !fault.isAnswered) throw lost()
    return heard(target, answer)
  }

  function heard(url: URL, answer: Awaited<ReturnType<FaultyService['send']>>) {
    options.hear(url, answer)
    return answer as Awaited<ReturnType<BoundedFetch>>
  }

  function stopped(): Promise<never> {
    options.stop()
    return never()
  }

  async function before(fault: Fault, n: number) {
    const { what } = fault
    if (what === 'lost-request') throw lost()
    if (what === 'rival') await options.rival()
    if (what === 'revoke') await options.revoke()
    if (what === 'clock') service.setClock(fault.to)
    if (what === 'kill' || what === 'power' || what === 'store') network.isLoud = true
    if (what === 'power') await service.power()
    const process = await service.pick(n)
    // It answers what it has, and ends.
    if (what === 'term') setImmediate(() => void process.term())
    if (what === 'store') process.arm(fault.fault)
  }

  return network
}
