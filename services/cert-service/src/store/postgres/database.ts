import { randomUUID } from 'node:crypto'
import {
  type Parameter,
  type Postgres,
  PostgresError,
  type Row,
  type Statement,
  type Transaction,
  type Turn,
  type WriteOptions,
} from '@gatehouse/postgres'
import { CertError, storeUnavailable } from '../../errors.ts'
import type { Age } from '../bounds.ts'

const DAY = 86_400_000

/** The database as this replica uses it: its failures are those of the store. */
export class Database {
  /** Identifies this replica until its process ends. */
  readonly replica: string
  readonly postgres: Postgres
  readonly #elapsed: () => number
  #earlierRunTime = 0
  #since: number

  /** @param elapsed - milliseconds on a monotonic clock; default: since this process started */
  constructor(
    postgres: Postgres,
    elapsed: () => number = () => performance.now(),
    replica: string = randomUUID(),
  ) {
    this.postgres = postgres
    this.replica = replica
    this.#elapsed = elapsed
    this.#since = elapsed()
  }

  all<T = Row>(sql: string, ...params: readonly Parameter[]): Promise<readonly T[]> {
    return mapped(this.postgres.all<T>(sql, params))
  }

  async get<T = Row>(sql: string, ...params: readonly Parameter[]): Promise<T | undefined> {
    return (await this.all<T>(sql, ...params))[0]
  }

  async run(sql: string, ...params: readonly Parameter[]): Promise<void> {
    await this.write([{ sql, params }])
  }

  /** Runs one statement, whose rows are plain JSON. Gives them. */
  async change<T = Row>(
    sql: string,
    params: readonly Parameter[],
    options?: WriteOptions,
  ): Promise<readonly T[]> {
    const [rows = []] = await this.write([{ sql, params, keep: true }], options)
    return rows as readonly T[]
  }

  write(statements: readonly Statement[], options?: WriteOptions) {
    return mapped(this.postgres.write(statements, options))
  }

  transaction<T>(job: (tx: Transaction) => Promise<T>, options?: WriteOptions): Promise<T> {
    return mapped(this.postgres.transaction(job, options))
  }

  turn<Item, Result>(kind: Turn<Item, Result>): (item: Item) => Promise<Result> {
    const add = this.postgres.turn(kind)
    return (item) => mapped(add(item))
  }

  failure(): CertError | undefined {
    const failure = this.postgres.failure()
    return failure && (storeFailure(failure) ?? storeUnavailable(failure.message, failure))
  }

  /**
   * Milliseconds that the service has run on this store, over all starts; replicas that run at the same
   * time count once. The system clock has no influence on it; a crash loses what was not saved.
   */
  runTime(): number {
    return this.#earlierRunTime + Math.floor(Math.max(0, this.#elapsed() - this.#since))
  }

  /** Saves the run time, and takes over that of a replica that has run for longer. */
  async saveRunTime(): Promise<void> {
    const sql = 'UPDATE run_time SET ms = greatest(ms, $1) RETURNING ms'
    const [row] = await this.change<{ ms: number }>(sql, [this.runTime()])
    if (row && row.ms > this.runTime()) {
      this.#earlierRunTime = row.ms
      this.#since = this.#elapsed()
    }
  }
}

/** The beginning of the name that the connections of a replica have in the database. */
export function sessionsOf(replica: string): string {
  return `gatehouse-certs ${replica.slice(0, 8)}`
}

/**
 * The SQL condition for rows to prune, with now, before, ranBefore and limit as parameters. Clock and run
 * time must agree, so that a wrong clock deletes nothing. The time of a row from more than a day in the
 * future is ignored: the clock was wrong when it was written.
 */
export function isOld(at: string, ran: string): string {
  return `((${at} < $2 OR ${at} > $1::bigint + ${DAY}) AND ${ran} <= $3)`
}

/** Deletes rows for which {@link isOld} holds. `select` chooses their keys, with a limit. */
export function deleteOld(
  table: string,
  key: string,
  select: string,
  { now, before, ranBefore, limit }: Age,
): Statement {
  return {
    sql: `WITH gone AS (DELETE FROM ${table} WHERE ${key} IN (${select}) RETURNING 1)
      SELECT count(*) AS total FROM gone`,
    params: [now, before, ranBefore, limit],
  }
}

/** Gives failures of the database as those of the store. */
export async function mapped<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw storeFailure(error) ?? error
  }
}

/**
 * The error to report for one of the database; `undefined` if a statement itself is at fault. It is no cause
 * of it, because logs add the messages of causes.
 */
export function storeFailure(error: unknown): CertError | undefined {
  if (error instanceof CertError) return error
  if (!(error instanceof PostgresError)) return undefined
  const { code, message, retryAfter = 5 } = error
  if (code === 'POSTGRES_UNAVAILABLE' || code === 'POSTGRES_REFUSED')
    return new CertError('CERT_STORE_UNAVAILABLE', message, { retryAfter })
  if (code === 'POSTGRES_SCHEMA_NEWER') return new CertError('CERT_STORE_NEWER', message)
  if (code === 'POSTGRES_SCHEMA_OLDER') return new CertError('CERT_STORE_OLDER', message)
  return undefined
}
