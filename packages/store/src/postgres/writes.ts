import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type Parameter, queriesOf, type Transaction, type WriteOptions } from '../engine.ts'
import { StoreError } from '../errors.ts'
import type { FailedStatements } from '../failed-statements.ts'
import { type Connection, fulfilled, type Statement, type StatementResult } from './connection.ts'
import {
  diagnose,
  failureIn,
  noteFailure,
  reasonOf,
  type StatementFailure,
  toStoreError,
  unavailable,
} from './failures.ts'
import type { Pool } from './pool.ts'
import type { Servers } from './servers.ts'

/** The parts that writes work with. */
interface WriteDeps {
  readonly pool: Pool
  readonly servers: Servers
  readonly failed: FailedStatements
}

type Job<T> = (tx: Transaction) => Promise<T>

/** Milliseconds after which a write is not tried again, and for which it then still asks for its outcome. */
const DEADLINE = 5_000
const GRACE = 3_000
/** Conflicts after which a write gives up. */
const MAX_CONFLICTS = 20
/** Milliseconds before another attempt: at most this for each that failed. */
const PAUSE = 10

const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE'
const COMMIT = 'COMMIT'
const NOT_DURABLE = 'SET LOCAL synchronous_commit TO off'
const REMEMBER = 'INSERT INTO writes (id) VALUES ($1::uuid)'
const LOOK_UP = 'SELECT FROM writes WHERE id = $1::uuid'

/**
 * Runs a transaction that happens once, over one of a few connections: tries until the outcome is known. After a lost
 * connection whose COMMIT may have arrived, the id tells: it is in the table if the write was committed. If it is not
 * there yet, the write runs again with the same id, and waits in the table for the end of the old transaction.
 */
export async function write<T>(job: Job<T>, options: WriteOptions, deps: WriteDeps): Promise<T> {
  const { pool, failed } = deps
  const id = randomUUID()
  let until = performance.now() + DEADLINE
  let maybeWritten = false
  let result: T
  for (let attempts = 1; ; attempts++) {
    const attempt = new Attempt(id, options)
    try {
      return await pool.use((connection) =>
        diagnose(connection, async () => {
          if (maybeWritten && (await connection.all(LOOK_UP, [id])).length > 0) return result
          result = await attempt.run(connection, job)
          if (!options.repeatable) await attempt.commit(connection)
          for (const { sql } of attempt.ran) failed.delete(sql)
          return result
        }),
      )
    } catch (thrown) {
      const failedAttempt = failureIn(thrown)
      const isUnknown = failedAttempt.failure === 'lost' && attempt.isSent && !options.repeatable
      if (isUnknown || failedAttempt.failure === 'written') {
        if (!maybeWritten) until = Math.max(until, performance.now() + GRACE)
        maybeWritten = true
      }
      const report = noteFailure(failed, attempt.culprit, failedAttempt)
      if (failedAttempt.failure === 'rejected') throw report
      const time = attempts > MAX_CONFLICTS ? 0 : until - performance.now()
      await recover(failedAttempt, maybeWritten, time, deps.servers)
      await pause(Math.random() * PAUSE * attempts)
    }
  }
}

/** Resolves when another attempt makes sense, within `time` ms. Throws if none does. */
async function recover(
  { failure, error }: StatementFailure,
  maybeWritten: boolean,
  time: number,
  servers: Servers,
): Promise<void> {
  if (failure === 'read-only') servers.drop(new Error('it is read-only'))
  if (error instanceof StoreError && !maybeWritten) throw error
  if (failure === 'busy' || time <= 0) throw unavailable(reasonOf(error), maybeWritten)
  if (failure === 'lost') await servers.recovered(time)
}

/** One run of a transaction. */
class Attempt {
  /** The statements of the job, in their order. */
  readonly ran: Statement[] = []
  /** Whether COMMIT was sent: from then on it may have happened. */
  isSent = false
  /** The statements that are sent with the first one. */
  #head: readonly Statement[]
  readonly #isRepeatable: boolean
  /** The ends of its writes. */
  readonly #pending: Promise<unknown>[] = []
  #isOpen = true
  /** The first one: the others only follow from it. */
  #failure: { readonly statement: Statement; readonly error: unknown } | undefined

  constructor(id: string, { durable = true, repeatable = false }: WriteOptions) {
    const remember = repeatable ? [] : [{ sql: REMEMBER, params: [id] }]
    this.#head = [{ sql: BEGIN }, ...remember, ...(durable ? [] : [{ sql: NOT_DURABLE }])]
    this.#isRepeatable = repeatable
  }

  /** The statement that failed. If COMMIT did, the one before it. */
  get culprit(): Statement | undefined {
    return this.#failure?.statement ?? this.ran.at(-1)
  }

  /** Runs a job. If it fails, or one of its statements, all is rolled back. */
  async run<T>(connection: Connection, job: Job<T>): Promise<T> {
    const send = (sql: string, params: readonly Parameter[]) => this.#send(connection, sql, params)
    try {
      const running = job({
        ...queriesOf(async (sql, params) => (await send(sql, params)).rows),
        run: (sql, ...params) => {
          const ended = send(sql, params).then(({ rowCount }) => rowCount ?? 0)
          this.#pending.push(ended.catch(() => {}))
          return ended
        },
      })
      const committed = this.#isRepeatable ? this.commit(connection) : undefined
      committed?.catch(() => {})
      const result = await running
      this.#isOpen = false
      if (this.#failure) throw this.#failure.error
      await committed
      return result
    } catch (error) {
      this.#isOpen = false
      if (!this.isSent && !connection.lost) await connection.pipeline([{ sql: 'ROLLBACK' }])
      throw this.#failure ? this.#failure.error : error
    }
  }

  /** A COMMIT after a failed statement rolls back, without an error of its own. */
  async commit(connection: Connection): Promise<void> {
    this.isSent = true
    this.#isOpen = false
    const answers = fulfilled(await connection.pipeline([...this.#head, { sql: COMMIT }]))
    if (answers.at(-1)?.command === COMMIT) return
    await Promise.all(this.#pending)
    throw this.#failure?.error ?? new Error('A statement of the transaction failed')
  }

  async #send(
    connection: Connection,
    sql: string,
    params: readonly Parameter[],
  ): Promise<StatementResult> {
    if (!this.#isOpen) throw new Error('The transaction is over')
    const statement = { sql, params }
    this.ran.push(statement)
    const statements = [...this.#head, statement]
    this.#head = []
    try {
      return await diagnose(
        connection,
        async () => fulfilled(await connection.pipeline(statements)).at(-1) as StatementResult,
      )
    } catch (failed) {
      this.#failure ??= { statement, error: (failed as StatementFailure).error }
      throw toStoreError(failed as StatementFailure)
    }
  }
}
