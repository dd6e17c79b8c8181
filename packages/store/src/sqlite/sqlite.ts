import { closeSync, existsSync, openSync, statSync } from 'node:fs'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import {
  bound,
  type Engine,
  type Parameter,
  queriesOf,
  type Row,
  type Transaction,
  toSqlite,
  type WriteOptions,
} from '../engine.ts'
import { type StoreError, storeUnavailable } from '../errors.ts'
import { FailedStatements, isOfStore } from '../failed-statements.ts'
import { type Migration, RUN_TIME } from '../migrations.ts'
import { asStoreError, isBusy, requireRoom } from './failures.ts'
import { migrateSqlite } from './migrate.ts'
import { Thread } from './thread.ts'

type MaybePromise<T> = T | Promise<T>

/** Runs the statements of a store. Errors are those of `node:sqlite`. */
interface Runner {
  /** Milliseconds between two transactions, in which more writes come to share the next one. */
  readonly pause: number
  /** A read that is no part of a transaction. */
  read(sql: string, params: readonly Parameter[]): MaybePromise<readonly Row[]>
  /** Begins a transaction. Its statements follow, one after the other. */
  begin(isDurable: boolean): MaybePromise<unknown>
  all(sql: string, params: readonly Parameter[]): MaybePromise<readonly Row[]>
  run(sql: string, params: readonly Parameter[]): MaybePromise<number>
  end(how: 'COMMIT' | 'ROLLBACK'): MaybePromise<unknown>
  /** The last write, which is no part of a transaction. */
  finish(sql: string, params: readonly Parameter[]): unknown
  close(): MaybePromise<void>
}

interface Statement {
  readonly sql: string
  readonly params: readonly Parameter[]
}

/** The statements of a transaction so far. */
interface Statements {
  /** The parameters of the statements that ran, by their texts. */
  readonly ran: Map<string, Statement['params']>
  /** The first one that failed. */
  culprit?: string
}

interface Job {
  readonly isDurable: boolean
  run(tx: Transaction): Promise<unknown>
  resolve(result: unknown): void
  reject(error: unknown): void
}

export interface SqliteOptions {
  /** Milliseconds on a monotonic clock. Default: since this process started. */
  readonly elapsed?: (() => number) | undefined
  /** Default: statements run in this thread. */
  readonly runner?: Runner | undefined
  /** The file, with a write-ahead log: once it is large, reports are read in another thread. Default: never. */
  readonly file?: string
}

const BEGIN = 'BEGIN IMMEDIATE'
const MAX_WAITING = 4096
/** A transaction of nothing else shows whether one can begin. */
const NOTHING = 'SELECT 1'
/** Bytes of a file all of whose rows are read within 20 ms. */
const LARGE = 33_554_432
const SAVE_RUN_TIME = `UPDATE ${RUN_TIME} SET ms = greatest(ms, $1)`

/** Longest wait of a write for those of other processes, on a slow disk, in ms. */
const BUSY_TIMEOUT = 2_000
/** The time to wait for a lock at a start, in ms: nothing is blocked yet, and several processes may create the file. */
const START_TIMEOUT = 5_000
/** The time to wait for a lock later, in ms: it blocks the process, as the last write does. */
const LAST_TIMEOUT = 100
/** Tries of a read while another process commits, and the pause between two of them, in ms. */
const READ_TRIES = 80
const READ_PAUSE = 25
/** No WAL: it wants all processes on one machine. A removed journal is created for each commit, and may reappear after a power failure. */
const PRAGMAS = 'PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL'

/** A store in SQLite. Writes that come together share a transaction, and so a wait for the disk. */
export class Sqlite implements Engine {
  readonly dialect = 'sqlite'
  readonly reports = queriesOf((sql, params) => {
    const size =
      this.#file === undefined ? 0 : statSync(this.#file, { throwIfNoEntry: false })?.size
    return Number(size) > LARGE ? this.#read(sql, params, this.#reporter) : this.all(sql, ...params)
  })
  readonly #runner: Runner
  /** The path of the file; null for a store in memory. */
  readonly #location: string | null
  readonly #failed = new FailedStatements()
  readonly #elapsed: () => number
  readonly #openedAt: number
  readonly #earlierRunTime: number
  readonly #file: string | undefined
  #reporter: Thread | undefined
  #waiting: Job[] = []
  /** The transaction that is under way, which readers wait for. */
  #running: Promise<void> | undefined
  /** The end of the last transaction that was begun or waits. */
  #turn: Promise<void> = Promise.resolve()
  #refusal: StoreError | undefined

  constructor(sqlite: DatabaseSync, options: SqliteOptions = {}) {
    const { elapsed = () => performance.now(), file } = options
    this.#runner = options.runner ?? new LocalRunner(sqlite)
    this.#location = sqlite.location()
    this.#elapsed = elapsed
    this.#openedAt = elapsed()
    this.#earlierRunTime = Number(sqlite.prepare(`SELECT ms FROM ${RUN_TIME}`).get()?.ms)
    this.#file = file
    this.#reporter = file === undefined ? undefined : new Thread(file)
  }

  async all<T = Row>(sql: string, ...params: readonly Parameter[]): Promise<readonly T[]> {
    return (await this.#read(sql, params)) as readonly T[]
  }

  async get<T = Row>(sql: string, ...params: readonly Parameter[]): Promise<T | undefined> {
    return (await this.all<T>(sql, ...params))[0]
  }

  run(sql: string, ...params: readonly Parameter[]): Promise<number> {
    return this.transaction((tx) => tx.run(sql, ...params))
  }

  transaction<T>(
    job: (tx: Transaction) => Promise<T>,
    { durable: isDurable = true }: WriteOptions = {},
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#refusal) return reject(this.#refusal)
      if (this.#waiting.length >= MAX_WAITING)
        return reject(storeUnavailable('too many writes wait'))
      if (this.#waiting.length === 0) this.#turn = this.#commitTurn(this.#turn)
      this.#waiting.push({ isDurable, run: job, resolve: resolve as Job['resolve'], reject })
    })
  }

  runTime(): number {
    return this.#earlierRunTime + Math.floor(Math.max(0, this.#elapsed() - this.#openedAt))
  }

  async check(): Promise<void> {
    await this.run(SAVE_RUN_TIME, this.runTime())
    if (this.#location && this.#failed.size > 0) await requireRoom(this.#location)
    await this.#failed.retry((job) => this.transaction(job))
    const failure = this.failure()
    if (failure) throw failure
  }

  failure(): StoreError | undefined {
    return this.#refusal ?? this.#failed.first()
  }

  /** `undefined` allows writes again. */
  refuseWrites(reason: StoreError | undefined): void {
    this.#refusal = reason
  }

  /** Commits the waiting writes and saves the run time, then closes the connection. */
  async close(): Promise<void> {
    const refusal = this.#refusal
    this.#refusal = storeUnavailable('it is closed')
    await this.#turn
    try {
      if (!refusal) this.#runner.finish(SAVE_RUN_TIME, [this.runTime()])
    } catch {
      // The run time since the last check is lost.
    }
    await this.#reporter?.end()
    this.#reporter = undefined
    await this.#runner.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #commitTurn(previous: Promise<void>): Promise<void> {
    await Promise.all([previous, new Promise(setImmediate)])
    const jobs = this.#waiting
    this.#waiting = []
    this.#running = this.#runTogether(jobs)
    await this.#running
    this.#running = undefined
    if (this.#runner.pause > 0) await pause(this.#runner.pause)
  }

  async #runTogether(jobs: readonly Job[]): Promise<void> {
    const statements: Statements = { ran: new Map([[NOTHING, []]]) }
    try {
      const isDurable = jobs.some((job) => job.isDurable)
      await this.#runner.begin(isDurable)
      const results: unknown[] = []
      for (const job of jobs) results.push(await this.#runJob(job, statements))
      await this.#runner.end('COMMIT')
      for (const sql of statements.ran.keys()) this.#failed.delete(sql)
      jobs.forEach((job, i) => {
        job.resolve(results[i])
      })
    } catch (error) {
      await this.#runner.end('ROLLBACK')
      const failure = asStoreError(error)
      if (isOfStore(failure)) this.#note(statements, failure)
      // The store is fine, so one job is at fault: run alone, only that one fails.
      else if (jobs.length > 1) return this.#runAlone(jobs)
      for (const job of jobs) job.reject(failure)
    }
  }

  async #runAlone(jobs: readonly Job[]): Promise<void> {
    for (const job of jobs) await this.#runTogether([job])
  }

  /** Keeps nothing of a job whose statement failed, as PostgreSQL does. A statement that comes late does nothing. */
  async #runJob(job: Job, statements: Statements): Promise<unknown> {
    let failure: unknown
    let isOver = false
    const writes: Promise<unknown>[] = []
    const attempt = async <T>(method: 'all' | 'run', { sql, params }: Statement): Promise<T> => {
      if (isOver) throw new Error('The transaction is over')
      if (failure) throw failure
      statements.ran.set(sql, params)
      try {
        return (await this.#runner[method](sql, params)) as T
      } catch (error) {
        statements.culprit ??= sql
        failure ??= asStoreError(error)
        throw failure
      }
    }
    try {
      const result = await job.run({
        ...queriesOf((sql, params) => attempt('all', { sql, params })),
        run: (sql, ...params) => {
          const ended = attempt<number>('run', { sql, params })
          writes.push(ended.catch(() => {}))
          return ended
        },
      })
      await Promise.all(writes)
      if (failure) throw failure
      return result
    } catch (error) {
      throw failure ?? error
    } finally {
      isOver = true
    }
  }

  /** Notes a failure. If the commit failed, its last statement stands for it. */
  #note({ ran, culprit = [...ran.keys()].at(-1) ?? NOTHING }: Statements, failure: StoreError) {
    this.#failed.note(culprit, ran.get(culprit) ?? [], failure)
  }

  async #read(
    sql: string,
    params: readonly Parameter[],
    runner: Pick<Runner, 'read'> = this.#runner,
  ): Promise<readonly Row[]> {
    while (this.#running) await this.#running
    try {
      const rows = await runner.read(sql, params)
      this.#failed.delete(sql)
      return rows
    } catch (error) {
      const failure = asStoreError(error)
      this.#failed.note(sql, params, failure)
      throw failure
    }
  }
}

/** Runs statements in this thread. */
class LocalRunner implements Runner {
  readonly pause = 0
  readonly finish = this.run
  readonly read = this.all
  readonly #sqlite: DatabaseSync
  readonly #statements = new Map<string, { statement: StatementSync; names: string[] }>()
  #isDurable = true

  constructor(sqlite: DatabaseSync) {
    this.#sqlite = sqlite
  }

  /** Unless durable, the commit does not wait for the disk; with a write-ahead log, the next one that is durable does. */
  begin(isDurable: boolean): void {
    if (isDurable !== this.#isDurable)
      this.#sqlite.exec(`PRAGMA synchronous = ${isDurable ? 'FULL' : 'NORMAL'}`)
    this.#isDurable = isDurable
    this.#sqlite.exec(BEGIN)
  }

  end(how: 'COMMIT' | 'ROLLBACK'): void {
    if (how === 'COMMIT' || (this.#sqlite.isOpen && this.#sqlite.isTransaction))
      this.#sqlite.exec(how)
  }

  all(sql: string, params: readonly Parameter[]): readonly Row[] {
    const { statement, names } = this.#prepare(sql)
    const rows: unknown = statement.all(...params.map(bound))
    return (rows as readonly unknown[][]).map((values) => rowOf(names, values))
  }

  run(sql: string, params: readonly Parameter[]): number {
    return Number(this.#prepare(sql).statement.run(...params.map(bound)).changes)
  }

  close(): void {
    if (this.#sqlite.isOpen) this.#sqlite.close()
  }

  #prepare(sql: string) {
    const cached = this.#statements.get(sql)
    if (cached) return cached
    const statement = this.#sqlite.prepare(toSqlite(sql))
    // Rows that are made by their columns' names take three times as long, and have no prototype.
    statement.setReturnArrays(true)
    const prepared = { statement, names: statement.columns().map(({ name }) => name) }
    this.#statements.set(sql, prepared)
    return prepared
  }
}

function rowOf(names: readonly string[], values: readonly unknown[]): Row {
  const row: Record<string, unknown> = {}
  for (const [i, name] of names.entries()) row[name] = values[i]
  return row
}

/** A store in a file that several processes use. A thread writes it, because a commit waits for the disk. */
export class SharedSqlite extends Sqlite {
  readonly #file: SharedFile

  /**
   * Creates the file if it is absent, and runs the migrations that it lacks.
   * @throws StoreError as {@link migrateSqlite}, and what SQLite and the system throw
   */
  constructor(path: string, migrations: readonly Migration[], options: SqliteOptions = {}) {
    const file = new SharedFile(path, migrations)
    super(file.sqlite, { ...options, runner: file })
    this.#file = file
    file.waitAtMost(0)
  }

  /** Opens the file that is there now, if the old one was removed or replaced. Throws as the constructor does. */
  renew(): boolean {
    return this.#file.renew()
  }
}

/** Reads in this thread, over a connection that waits for nobody, and writes in another one. */
class SharedFile implements Runner {
  readonly pause = 50
  readonly #path: string
  readonly #migrations: readonly Migration[]
  readonly #thread: Thread
  #opened: ReturnType<typeof open>

  constructor(path: string, migrations: readonly Migration[]) {
    this.#path = path
    this.#migrations = migrations
    this.#opened = open(path, migrations)
    const options = { timeout: BUSY_TIMEOUT, pragmas: PRAGMAS, isOpenedOnce: false }
    this.#thread = new Thread(path, options)
  }

  get sqlite(): DatabaseSync {
    return this.#opened.sqlite
  }

  renew(): boolean {
    const { inode, sqlite } = this.#opened
    if (statSync(this.#path, { throwIfNoEntry: false })?.ino === inode) return false
    this.#opened = open(this.#path, this.#migrations)
    this.waitAtMost(0)
    sqlite.close()
    return true
  }

  waitAtMost(ms: number): void {
    this.sqlite.exec(`PRAGMA busy_timeout = ${ms}`)
  }

  /** Reads in a thread: another process locks the file for as long as its disk takes. */
  async read(sql: string, params: readonly Parameter[]): Promise<readonly Row[]> {
    for (let left = READ_TRIES; ; left--)
      try {
        return this.#opened.reader.all(sql, params)
      } catch (error) {
        if (left === 0 || !isBusy(error)) throw error
        await pause(READ_PAUSE)
      }
  }

  begin(): Promise<unknown> {
    return this.#thread.call('run', BEGIN, [])
  }

  end(how: 'COMMIT' | 'ROLLBACK'): Promise<unknown> {
    return this.#thread.call('run', how, [])
  }

  async all(sql: string, params: readonly Parameter[]): Promise<readonly Row[]> {
    return (await this.#thread.call('all', sql, params)) as readonly Row[]
  }

  async run(sql: string, params: readonly Parameter[]): Promise<number> {
    const { changes } = (await this.#thread.call('run', sql, params)) as { changes: number }
    return changes
  }

  finish(sql: string, params: readonly Parameter[]): void {
    this.waitAtMost(LAST_TIMEOUT)
    this.#opened.reader.run(sql, params)
  }

  async close(): Promise<void> {
    this.#opened.reader.close()
    await this.#thread.end()
  }
}

function open(path: string, migrations: readonly Migration[]) {
  // To close a file frees the locks that this process has on it.
  if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600))
  const inode = statSync(path).ino
  const sqlite = new DatabaseSync(path, { timeout: START_TIMEOUT })
  try {
    sqlite.exec(PRAGMAS)
    migrateSqlite(sqlite, migrations)
    return { sqlite, inode, reader: new LocalRunner(sqlite) }
  } catch (error) {
    sqlite.close()
    throw error
  }
}
