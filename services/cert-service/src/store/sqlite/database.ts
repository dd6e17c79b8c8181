import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { CertError, storeUnavailable as unavailable } from '../../errors.ts'
import type { Age } from '../bounds.ts'
import { columnOf } from '../rows.ts'

interface Job {
  run(): unknown
  resolve(result: unknown): void
  reject(error: unknown): void
}

const DAY = 86_400_000
const MAX_WAITING = 4096
/** Failed reads that are retried. A single one already makes the store unready. */
const MAX_FAILED = 16

/** SQLite's primary result codes for transient conditions, in which the data is intact. */
const TRANSIENT = new Map([
  [5, 'it is locked by another program'],
  [6, 'it is locked'],
  [7, 'out of memory'],
  [8, 'it is read-only'],
  [10, 'the disk failed'],
  [13, 'the disk is full'],
  [14, 'its files cannot be opened'],
])
/** SQLITE_IOERR_SHMSIZE: there is no space for the shared memory of the write-ahead log. */
const TRANSIENT_EXTENDED = new Map([[4874, 'the disk is full']])
const DAMAGED = [11, 26]

/** By position, or one object with the values of named parameters. */
export type Parameters = SQLInputValue[] | [Readonly<Record<string, SQLInputValue>>]

/** One SQLite connection: prepared statements, reads, and writes that share a transaction. */
export class Database {
  readonly #sqlite: DatabaseSync
  readonly #begin: StatementSync
  readonly #commit: StatementSync
  readonly #statements = new Map<string, StatementSync>()
  readonly #failedReads = new Map<() => unknown, CertError>()
  readonly #elapsed: () => number
  readonly #openedAt: number
  #earlierRunTime: number | undefined
  #waiting: Job[] = []
  #refusal: CertError | undefined
  #failedWrite: CertError | undefined

  /** @param elapsed - milliseconds on a monotonic clock; default: since this process started */
  constructor(sqlite: DatabaseSync, elapsed: () => number = () => performance.now()) {
    this.#sqlite = sqlite
    this.#begin = sqlite.prepare('BEGIN IMMEDIATE')
    this.#commit = sqlite.prepare('COMMIT')
    this.#elapsed = elapsed
    this.#openedAt = elapsed()
  }

  prepare(sql: string): StatementSync {
    return this.#prepareOnce(sql, () => sql)
  }

  #prepareOnce(name: string, sqlOf: () => string): StatementSync {
    const statement = this.#statements.get(name) ?? this.#sqlite.prepare(sqlOf())
    this.#statements.set(name, statement)
    return statement
  }

  async read<T>(query: () => T): Promise<T> {
    return this.#read(query)
  }

  async get<Row>(sql: string, ...parameters: Parameters): Promise<Row | undefined> {
    return (await this.all<Row>(sql, ...parameters))[0]
  }

  all<Row>(sql: string, ...parameters: Parameters): Promise<readonly Row[]> {
    // SQLite's rows have no prototype.
    return this.read(() =>
      this.prepare(sql)
        .all(...(parameters as SQLInputValue[]))
        .map((row) => ({ ...row }) as Row),
    )
  }

  run(sql: string, ...parameters: SQLInputValue[]): Promise<void> {
    return this.write(() => void this.prepare(sql).run(...parameters))
  }

  /** Part of a write: stores a row, whose members are the columns in camel case. Gives its id. */
  insert(
    table: string,
    row: Readonly<Record<string, SQLInputValue>>,
    or: 'ABORT' | 'IGNORE' | 'REPLACE' = 'ABORT',
  ): number {
    const members = Object.keys(row)
    const statement = this.#prepareOnce(`${or} ${table} ${members}`, () => {
      const values = members.map((member) => `:${member}`)
      return `INSERT OR ${or} INTO ${table} (${members.map(columnOf)}) VALUES (${values})`
    })
    return Number(statement.run(row).lastInsertRowid)
  }

  /** Runs `job` in one transaction with the other writes of this event loop turn; resolves after the commit. */
  write<T>(job: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#refusal) return reject(this.#refusal)
      if (this.#waiting.length >= MAX_WAITING) return reject(unavailable('too many writes wait'))
      if (this.#waiting.length === 0) setImmediate(() => this.#commitTurn())
      this.#waiting.push({ run: job, resolve: resolve as Job['resolve'], reject })
    })
  }

  /** `undefined` allows writes again. */
  refuseWrites(reason: CertError | undefined): void {
    this.#refusal = reason
  }

  /** Those that succeed no longer count as failures. */
  retryReads(): void {
    for (const query of [...this.#failedReads.keys()])
      try {
        this.#read(query)
      } catch {
        // It still fails and still counts.
      }
  }

  /** The last failure of a write or of a read that has not succeeded since. */
  failure(): CertError | undefined {
    return this.#refusal ?? this.#failedWrite ?? this.#failedReads.values().next().value
  }

  /**
   * Milliseconds that the service has run on this store, over all starts. The system clock has no
   * influence on it; a crash loses what was not saved.
   */
  runTime(): number {
    this.#earlierRunTime ??= this.prepare('SELECT ms FROM run_time').get()?.ms as number
    return this.#earlierRunTime + Math.floor(Math.max(0, this.#elapsed() - this.#openedAt))
  }

  /** Part of a write. */
  saveRunTime(): void {
    this.prepare('UPDATE run_time SET ms = ?').run(this.runTime())
  }

  /** Commits the waiting writes, then closes the connection. */
  close(): void {
    this.#commitTurn()
    this.#sqlite.close()
  }

  #read<T>(query: () => T): T {
    try {
      const result = query()
      this.#failedReads.delete(query)
      return result
    } catch (error) {
      const failure = storeFailure(error)
      if (failure && this.#failedReads.size < MAX_FAILED) this.#failedReads.set(query, failure)
      throw failure ?? error
    }
  }

  #commitTurn(): void {
    const jobs = this.#waiting
    this.#waiting = []
    if (jobs.length > 0) this.#runTogether(jobs)
  }

  #runTogether(jobs: readonly Job[]): void {
    try {
      this.#begin.run()
      const results = jobs.map((job) => job.run())
      this.#commit.run()
      this.#failedWrite = undefined
      jobs.forEach((job, i) => {
        job.resolve(results[i])
      })
    } catch (error) {
      if (this.#sqlite.isOpen && this.#sqlite.isTransaction) this.#sqlite.exec('ROLLBACK')
      // What a job refuses by itself says nothing about the store.
      const failure = error instanceof CertError ? undefined : storeFailure(error)
      if (failure) this.#failedWrite = failure
      // The store is fine, so one job is at fault: run alone, only that one fails.
      if (failure === undefined && jobs.length > 1) for (const job of jobs) this.#runTogether([job])
      else for (const job of jobs) job.reject(failure ?? error)
    }
  }
}

/**
 * The SQL condition for rows to prune, with the parameters of {@link Age}. Clock and run time must
 * agree, so that a wrong clock deletes nothing. The time of a row from more than a day in the future
 * is ignored: the clock was wrong when it was written.
 */
export function isOld(at: string, ran: string): string {
  return `((${at} < :before OR ${at} > :now + ${DAY}) AND ${ran} <= :ranBefore)`
}

/** The error to report for one of SQLite's; `undefined` if the statement itself is at fault. */
export function storeFailure(error: unknown): CertError | undefined {
  if (error instanceof CertError) return error
  const { code, errcode } = error as { code?: string; errcode?: number }
  if (code === 'ERR_INVALID_STATE') return unavailable('it is closed', error)
  if (errcode === undefined) return undefined

  const primary = errcode & 0xff
  if (DAMAGED.includes(primary))
    return new CertError('CERT_STORE_CORRUPT', 'The store is damaged or not a store.', {
      cause: error,
    })
  const reason = TRANSIENT_EXTENDED.get(errcode) ?? TRANSIENT.get(primary)
  return reason === undefined ? undefined : unavailable(reason, error)
}
