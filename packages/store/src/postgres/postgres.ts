import { setTimeout as pause } from 'node:timers/promises'
import {
  type Engine,
  type Parameter,
  queriesOf,
  type Row,
  type Transaction,
  type WriteOptions,
} from '../engine.ts'
import { StoreError } from '../errors.ts'
import { FailedStatements } from '../failed-statements.ts'
import { type Migration, RUN_TIME } from '../migrations.ts'
import { DatabaseClock } from './clock.ts'
import type { ConnectionOptions } from './connection.ts'
import { diagnose, reportFailure } from './failures.ts'
import { type Feed, type FeedOptions, Follower } from './feed.ts'
import { Leadership } from './leader.ts'
import type { PostgresLog } from './log.ts'
import { migrate, requireMigrated } from './migrate.ts'
import { Pool } from './pool.ts'
import { read } from './reads.ts'
import { PROBE_INTERVAL, Servers } from './servers.ts'
import { Session } from './session.ts'
import { write } from './writes.ts'

/** The names that a schema may have. Channels, whose names have at most 63 characters, can begin with them. */
export const SCHEMA_PATTERN = '^[a-z_][a-z0-9_]{0,47}$'

const NAME = new RegExp(SCHEMA_PATTERN)
/** Connections for reads, each of which many share; a slow one holds up only those that come after it there. */
const READERS = 2
const SHARED_BY = 64
/** Connections for transactions, each for one at a time: one that waits for a lock does not hold up the others. */
const WRITERS = 4
/** Writes that one statement forgets, so that none takes long. */
const MAX_PRUNED = 10_000
const PRUNE = `
  DELETE FROM writes WHERE id IN (
    SELECT id FROM writes WHERE at < clock_timestamp() - interval '1 hour' LIMIT ${MAX_PRUNED})`
const CORRECT = `SET xid = pg_current_xact_id()
  WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())`
const SAVE_RUN_TIME = `UPDATE ${RUN_TIME} SET ms = greatest(ms, $1) RETURNING ms`

export interface PostgresOptions extends ConnectionOptions {
  /** Forward only: each runs once, in its own transaction, in this order. */
  readonly migrations: readonly Migration[]
  /** Whether to open only a schema that has had all migrations, and to change nothing in it. */
  readonly existing?: boolean
  /** Tables with a column `xid` that {@link Postgres.follow} reads: those of a restored dump are corrected. */
  readonly feeds?: readonly string[]
  /** Tables that {@link Engine.check} demands to be writable. */
  readonly writable?: readonly string[]
  readonly log: PostgresLog
  /** Longest wait at the start for a server that answers, in ms. Default: none. */
  readonly patience?: number | undefined
  /** Milliseconds from a clock that nobody can set. Default: how long this process has been running. */
  readonly elapsed?: (() => number) | undefined
}

/**
 * A database, with connections that are made again by themselves.
 *
 * Every method may reject with `STORE_UNAVAILABLE`: at once while the database is known to be away. A
 * statement that the database rejects gives `STORE_STATEMENT_FAILED` with its SQLSTATE in the message.
 * Each write happens once, whatever fails: conflicts are tried again, and after a lost connection
 * the database is asked whether it committed.
 */
export interface Postgres extends Engine {
  /** Follows rows that any replica adds. */
  follow<T = Row>(options: FeedOptions<T>): Feed
  /**
   * Tries to become the one leader for `key` among all that use this schema. It lasts as long as the connection: when that
   * breaks, the server may choose another. What it protects needs a fencing token.
   */
  tryLead(key: string): Promise<boolean>
  /** Whether this process leads, as far as it knows. */
  leads(key: string): boolean
  /** The database's clock, which is the same for all replicas: epoch milliseconds, a whole number. */
  readonly clock: { now(): number }
  /** Forgets which writes were made more than an hour ago; call it every few minutes. Gives their number. */
  prune(): Promise<number>
}

/**
 * Connects to the first host that takes writes, creates the schema and runs the migrations that it lacks.
 * @throws StoreError `STORE_UNAVAILABLE`, `STORE_REFUSED`, `STORE_NEWER`, `STORE_MISSING`,
 *   `STORE_UNRELEASED` or `STORE_NOT_EMPTY`
 */
export async function openPostgres(options: PostgresOptions): Promise<Postgres> {
  const { schema, feeds = [], patience = 0, log } = options
  if (![schema, ...feeds].every((name) => NAME.test(name))) throw new TypeError('Not a name')
  const deadline = performance.now() + patience
  for (let tries = 1; ; tries++) {
    const database = new Database(options)
    try {
      await database.start()
      return database
    } catch (error) {
      await database.close()
      // Waiting does not help against a wrong password.
      const isAway = error instanceof StoreError && error.code === 'STORE_UNAVAILABLE'
      if (!isAway || performance.now() >= deadline) throw error
      if (tries === 1) log.warn({ reason: error.message }, 'waiting for the database')
      await pause(PROBE_INTERVAL)
    }
  }
}

class Database implements Postgres {
  readonly dialect = 'postgres'
  readonly reports = queriesOf((sql, params) =>
    read({ sql, params }, this.#reporters, this.#failed),
  )
  readonly clock: DatabaseClock
  readonly #options: PostgresOptions
  readonly #servers: Servers
  readonly #session: Session
  readonly #leadership: Leadership
  readonly #reads: Pool
  readonly #reporters: Pool
  readonly #writers: Pool
  readonly #failed = new FailedStatements()
  readonly #feeds = new Set<Feed>()
  readonly #elapsed: () => number
  /** The transactions that run. */
  readonly #underWay = new Set<Promise<unknown>>()
  /** Whether `close` saves the run time: not in a schema that was refused. */
  #savesRunTime = false
  #earlierRunTime = 0
  #since: number

  constructor(options: PostgresOptions) {
    const { schema, log, elapsed = () => performance.now() } = options
    const servers = new Servers(options, log)
    const connect = () => servers.connect()
    this.#options = options
    this.#servers = servers
    this.#session = new Session(servers, log)
    this.clock = new DatabaseClock(this.#session)
    this.#leadership = new Leadership(this.#session, schema)
    this.#reads = new Pool({ size: READERS, share: SHARED_BY, connect })
    this.#reporters = new Pool({ size: 1, connect })
    this.#writers = new Pool({ size: WRITERS, connect })
    this.#elapsed = elapsed
    this.#since = elapsed()
  }

  async start(): Promise<void> {
    const { existing, feeds = [] } = this.#options
    await this.#servers.start()
    const connection = await reportFailure(this.#servers.connect())
    const prepare = existing ? requireMigrated : migrate
    await reportFailure(diagnose(connection, () => prepare(connection, this.#options)))
    await connection.close()
    await reportFailure(this.#session.start())
    if (existing) return
    await this.#correct(feeds)
    await this.#saveRunTime()
    this.#savesRunTime = true
  }

  failure(): Error | undefined {
    return this.#servers.failure() ?? this.#failed.first()
  }

  async all<T>(sql: string, ...params: readonly Parameter[]): Promise<readonly T[]> {
    return (await read({ sql, params }, this.#reads, this.#failed)) as readonly T[]
  }

  async get<T>(sql: string, ...params: readonly Parameter[]): Promise<T | undefined> {
    return (await this.all<T>(sql, ...params))[0]
  }

  run(sql: string, ...params: readonly Parameter[]): Promise<number> {
    return this.transaction((tx) => tx.run(sql, ...params))
  }

  async transaction<T>(
    job: (tx: Transaction) => Promise<T>,
    options: WriteOptions = {},
  ): Promise<T> {
    const { after } = options
    const run = () => this.#write(job, options)
    const work = after ? after.then(run, run) : run()
    this.#underWay.add(work)
    return await work.finally(() => this.#underWay.delete(work))
  }

  follow<T>(options: FeedOptions<T>): Feed {
    const feed = new Follower(options, this.#session, this.#options.log)
    this.#feeds.add(feed)
    return feed
  }

  tryLead(key: string): Promise<boolean> {
    return this.#leadership.tryLead(key)
  }

  leads(key: string): boolean {
    return this.#leadership.leads(key)
  }

  runTime(): number {
    return this.#earlierRunTime + Math.floor(Math.max(0, this.#elapsed() - this.#since))
  }

  async check(): Promise<void> {
    await this.#saveRunTime(this.#options.writable)
    await this.#failed.retry((job) => this.#write(job))
    const failure = this.failure()
    if (failure) throw failure
  }

  async prune(): Promise<number> {
    let sum = 0
    for (let pruned = MAX_PRUNED; pruned === MAX_PRUNED; sum += pruned)
      pruned = await this.transaction((tx) => tx.run(PRUNE), { durable: false })
    return sum
  }

  /** Waits for the writes that are under way and saves the run time, then closes all connections. */
  async close(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay)
    if (this.#savesRunTime && !this.#servers.failure()) await this.#saveRunTime().catch(() => {})
    this.clock.close()
    for (const feed of this.#feeds) feed.close()
    const ended = this.#session.close()
    await this.#servers.close()
    await ended
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #write<T>(job: (tx: Transaction) => Promise<T>, options: WriteOptions = {}): Promise<T> {
    const deps = { pool: this.#writers, servers: this.#servers, failed: this.#failed }
    return write(job, options, deps)
  }

  /** Saves the run time, and takes over that of a replica that has run for longer. Tries the tables for writes. */
  async #saveRunTime(writable: readonly string[] = []): Promise<void> {
    const save = async (tx: Transaction) => {
      // Writes need this lock and a right. Other writers do not wait for it.
      if (writable.length > 0)
        await tx.run(`LOCK TABLE ${writable.join(', ')} IN ROW EXCLUSIVE MODE`)
      return tx.get<{ ms: number }>(SAVE_RUN_TIME, this.runTime())
    }
    const { ms = 0 } = (await this.transaction(save)) ?? {}
    if (ms <= this.runTime()) return
    this.#earlierRunTime = ms
    this.#since = this.#elapsed()
  }

  /** A dump may come from a server that was ahead: its rows would be read again and again, until this one is. */
  async #correct(tables: readonly string[]): Promise<void> {
    for (const table of tables) await this.run(`UPDATE ${table} ${CORRECT}`)
  }
}
