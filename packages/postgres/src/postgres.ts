import { setTimeout as pause } from 'node:timers/promises'
import { DatabaseClock } from './clock.ts'
import { PostgresError } from './errors.ts'
import { connected, explained } from './failures.ts'
import { type Feed, type FeedOptions, Follower } from './feed.ts'
import { Leadership } from './leader.ts'
import type { PostgresLog } from './log.ts'
import { migrate, requireMigrated } from './migrate.ts'
import { Pool } from './pool.ts'
import { read } from './reads.ts'
import { PROBE_INTERVAL, Servers } from './servers.ts'
import { Session } from './session.ts'
import type { Parameter, Row, Statement } from './statement.ts'
import { type Turn, Turns } from './turns.ts'
import type { PostgresUrl } from './url.ts'
import { Writes } from './writes.ts'

/** Which names a schema may have. Channels, whose names have at most 63 characters, can begin with them. */
export const SCHEMA_PATTERN = '^[a-z_][a-z0-9_]{0,47}$'

const NAME = new RegExp(SCHEMA_PATTERN)
const POOL = 4
/** Connections for writes: one whose statements wait for a lock does not hold up the others. */
const WRITERS = 2
/** Writes that one statement forgets, so that none takes long. */
const MAX_PRUNED = 10_000
const PRUNE = `WITH gone AS (
  DELETE FROM writes WHERE id IN (
    SELECT id FROM writes WHERE at < clock_timestamp() - interval '1 hour' LIMIT ${MAX_PRUNED}
  ) RETURNING 1
) SELECT count(*) AS pruned FROM gone`
const CORRECT = `SET xid = pg_current_xact_id()
  WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())`

export interface PostgresOptions {
  readonly url: PostgresUrl
  /** PEM certificates of a private CA, which replace those of the system. */
  readonly ca?: string | undefined
  /** The schema, which is created if it is absent. Fits {@link SCHEMA_PATTERN}. */
  readonly schema: string
  /** Shown by the database as `application_name`. */
  readonly name: string
  /** Forward only: each is SQL that runs once, in its own transaction, in this order. */
  readonly migrations: readonly string[]
  /** Only opens a schema that has had all migrations, and changes nothing in it. */
  readonly existing?: boolean
  /** Tables with a column `xid` that {@link Postgres.follow} reads: those of a restored dump are corrected. */
  readonly feeds?: readonly string[]
  readonly log: PostgresLog
  /** How long to wait at the start for a server that answers, in ms. Default: not at all. */
  readonly patience?: number | undefined
  /** Connections for reads and transactions. Default: 4. Writes and the feed have three more. */
  readonly poolSize?: number
}

export interface WriteOptions {
  /** `false`: may be lost if the database's machine crashes within a second, and is faster. Default: true. */
  readonly durable?: boolean
}

/** The statements of an interactive transaction. */
export interface Transaction {
  all<T = Row>(sql: string, params?: readonly Parameter[]): Promise<readonly T[]>
  /** Runs the statements in one round trip; gives the rows of each. */
  pipeline(statements: readonly Statement[]): Promise<readonly (readonly Row[])[]>
}

/**
 * One database, with connections that are made again by themselves.
 *
 * Every method may reject with `POSTGRES_UNAVAILABLE`: at once while the database is known to be away. A
 * statement that the database rejects gives `POSTGRES_STATEMENT_FAILED` with its SQLSTATE in the message.
 * Each write happens once, whatever fails: conflicts are tried again, and after a lost connection
 * the database is asked whether it committed.
 */
export interface Postgres {
  /** Rows of a read. It may run twice if a connection breaks. */
  all<T = Row>(sql: string, params?: readonly Parameter[]): Promise<readonly T[]>
  /** Runs the statements in one transaction and one round trip; resolves, after the commit, with the rows of each. */
  write(
    statements: readonly Statement[],
    options?: WriteOptions,
  ): Promise<readonly (readonly Row[])[]>
  /**
   * A READ COMMITTED transaction with JavaScript between its statements, for rare writes. `job` runs
   * again after a conflict or a lost connection, so it changes nothing else.
   */
  transaction<T>(job: (tx: Transaction) => Promise<T>, options?: WriteOptions): Promise<T>
  /** Registers a kind of writes, or reads, that share round trips. Gives the function that adds one item. */
  turn<Item, Result>(kind: Turn<Item, Result>): (item: Item) => Promise<Result>
  /** Follows rows that any replica adds. */
  follow<T = Row>(options: FeedOptions<T>): Feed
  /**
   * Tries to become the one leader for `key` among all that use this schema. It lasts as long as the connection: when that
   * breaks, the server may choose another. What it protects needs a fencing token.
   */
  tryLead(key: string): Promise<boolean>
  /** Whether this process leads, as far as it knows. */
  leads(key: string): boolean
  /** Why the database cannot be used; undefined while it answers. */
  failure(): Error | undefined
  /** The database's clock, which is the same for all replicas: epoch milliseconds, a whole number. */
  readonly clock: { now(): number }
  /** Forgets which writes were made more than an hour ago; call it every few minutes. Gives their number. */
  prune(): Promise<number>
  /** Commits what waits, then closes all connections. */
  close(): Promise<void>
}

/**
 * Connects to the first host that takes writes, creates the schema and runs the migrations that it lacks.
 * @throws PostgresError `POSTGRES_UNAVAILABLE`, `POSTGRES_REFUSED`, `POSTGRES_SCHEMA_NEWER`, `POSTGRES_SCHEMA_OLDER` or
 *   `POSTGRES_SCHEMA_FOREIGN`
 */
export async function openPostgres(options: PostgresOptions): Promise<Postgres> {
  const { schema, feeds = [], patience = 0, log } = options
  if (![schema, ...feeds].every((name) => NAME.test(name))) throw new TypeError('Not a name')
  const deadline = performance.now() + patience
  for (let tries = 1; ; tries++) {
    const database = new Database(options)
    try {
      await database.start(options)
      return database
    } catch (error) {
      await database.close()
      // Waiting does not help against a wrong password.
      const isAway = error instanceof PostgresError && error.code === 'POSTGRES_UNAVAILABLE'
      if (!isAway || performance.now() >= deadline) throw error
      if (tries === 1) log.warn({ reason: error.message }, 'waiting for the database')
      await pause(PROBE_INTERVAL)
    }
  }
}

class Database implements Postgres {
  readonly clock: DatabaseClock
  readonly #servers: Servers
  readonly #session: Session
  readonly #log: PostgresLog
  readonly #leadership: Leadership
  readonly #reads: Pool
  readonly #writes: Writes
  readonly #interactive: Writes
  readonly #durable: Turns
  readonly #fast: Turns
  readonly #reading: Turns
  readonly #feeds = new Set<Feed>()

  constructor(options: PostgresOptions) {
    const { schema, log, poolSize = POOL } = options
    const servers = new Servers(options, log)
    const connect = () => servers.connect()
    this.#servers = servers
    this.#session = new Session(servers, log)
    this.#log = log
    this.clock = new DatabaseClock(this.#session)
    this.#leadership = new Leadership(this.#session, schema)
    this.#reads = new Pool(poolSize, connect)
    this.#interactive = new Writes(this.#reads, servers)
    this.#writes = new Writes(new Pool(WRITERS, connect), servers)
    this.#durable = new Turns((statements) => this.#writes.pipeline(statements, true))
    this.#fast = new Turns((statements) => this.#writes.pipeline(statements, false))
    this.#reading = new Turns((statements) => read(this.#reads, statements))
  }

  async start({ schema, migrations, feeds = [], existing }: PostgresOptions) {
    await this.#servers.start()
    const connection = await connected(this.#servers.connect())
    const prepare = existing ? requireMigrated : migrate
    await explained(connection, () => prepare(connection, schema, migrations, feeds))
    await connection.close()
    await connected(this.#session.start())
    await this.#correct(feeds)
  }

  failure(): Error | undefined {
    return this.#servers.failure()
  }

  async all<T>(sql: string, params?: readonly Parameter[]): Promise<readonly T[]> {
    const [rows = []] = await read(this.#reads, [{ sql, ...(params && { params }) }])
    return rows as readonly T[]
  }

  write(statements: readonly Statement[], { durable }: WriteOptions = {}) {
    return this.#writes.pipeline(statements, durable)
  }

  transaction<T>(job: (tx: Transaction) => Promise<T>, { durable }: WriteOptions = {}): Promise<T> {
    return this.#interactive.interactive((pipeline) => {
      const all = async (sql: string, params: readonly Parameter[] = []) =>
        (await pipeline([{ sql, params }]))[0]
      return job({ all: all as Transaction['all'], pipeline })
    }, durable)
  }

  turn<Item, Result>(kind: Turn<Item, Result>): (item: Item) => Promise<Result> {
    const { durable = true, readOnly = false } = kind
    if (readOnly) return this.#reading.register(kind)
    return (durable ? this.#durable : this.#fast).register(kind)
  }

  follow<T>(options: FeedOptions<T>): Feed {
    const feed = new Follower(options, this.#session, this.#log)
    this.#feeds.add(feed)
    return feed
  }

  tryLead(key: string): Promise<boolean> {
    return this.#leadership.tryLead(key)
  }

  leads(key: string): boolean {
    return this.#leadership.leads(key)
  }

  async prune(): Promise<number> {
    let sum = 0
    for (let pruned = MAX_PRUNED; pruned === MAX_PRUNED; sum += pruned) {
      const [rows] = await this.#writes.pipeline([{ sql: PRUNE }], false)
      pruned = rows?.[0]?.pruned as number
    }
    return sum
  }

  async close(): Promise<void> {
    await Promise.all([this.#durable, this.#fast, this.#reading].map((turns) => turns.idle()))
    this.clock.close()
    for (const feed of this.#feeds) feed.close()
    const ended = this.#session.close()
    await this.#servers.close()
    await ended
  }

  /** A dump may come from a server that was ahead: its rows would be read again and again, until this one is. */
  async #correct(tables: readonly string[]): Promise<void> {
    if (tables.length > 0)
      await this.#writes.pipeline(tables.map((table) => ({ sql: `UPDATE ${table} ${CORRECT}` })))
  }
}
