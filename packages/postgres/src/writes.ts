import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type Answer, type Connection, fulfilled, type Outcome } from './connection.ts'
import { PostgresError } from './errors.ts'
import { diagnosed, Failed, reasonOf, toPostgresError, unavailable } from './failures.ts'
import type { Pool } from './pool.ts'
import type { Servers } from './servers.ts'
import type { Row, Statement } from './statement.ts'

/** What an attempt of a write is given. */
interface Attempt {
  readonly connection: Connection
  /** Identifies the write in the table `writes`, in all attempts. */
  readonly id: string
  /** Is called before COMMIT is sent: from then on the write may have happened. */
  committing(): void
}

/** A write to be made once. */
interface Write<T> {
  attempt(attempt: Attempt): Promise<T>
  /** The result of a write that turned out to be committed, from what it kept. */
  recall(kept: Kept | null): T
}

type Kept = Readonly<Record<string, readonly Row[]>>

type Pipeline = (statements: readonly Statement[]) => Promise<readonly (readonly Row[])[]>

/** Milliseconds after which a write is not tried again, and for which it then still asks for its outcome. */
const DEADLINE = 5_000
const GRACE = 3_000
/** Conflicts after which a write gives up. */
const MAX_CONFLICTS = 20
/** Milliseconds before another attempt: at most this for each that failed. */
const PAUSE = 10

const BEGIN = { sql: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE' }
const COMMIT = { sql: 'COMMIT' }
const NOT_DURABLE = { sql: 'SET LOCAL synchronous_commit TO off' }
const LOOK_UP = 'SELECT result FROM writes WHERE id = $1::uuid'

/** The statements that a write begins with. */
function beginning(id: string, durable: boolean): readonly Statement[] {
  const remember = { sql: 'INSERT INTO writes (id) VALUES ($1::uuid)', params: [id] }
  return durable ? [BEGIN, remember] : [BEGIN, remember, NOT_DURABLE]
}

/** Writes of which each happens once, over a few connections. */
export class Writes {
  readonly #pool: Pool
  readonly #servers: Servers

  constructor(pool: Pool, servers: Servers) {
    this.#pool = pool
    this.#servers = servers
  }

  /** Runs the statements in one transaction and one round trip. Gives the rows of each. */
  pipeline(statements: readonly Statement[], durable = true): Promise<readonly (readonly Row[])[]> {
    return this.#once({
      async attempt({ connection, id, committing }) {
        const head = beginning(id, durable)
        const kept = statements.map((statement, i) => keeping(statement, id, i))
        committing()
        const answers = committed(await connection.pipeline([...head, ...kept, COMMIT]))
        return answers.slice(head.length, -1).map(({ rows }) => rows)
      },
      recall: (kept) => statements.map(({ keep }, i) => (keep && kept?.[i]) || []),
    })
  }

  /** Runs `job` within one transaction. */
  interactive<T>(job: (pipeline: Pipeline) => Promise<T>, durable = true): Promise<T> {
    let result: T
    return this.#once({
      async attempt({ connection, id, committing }) {
        result = await uncommitted(connection, beginning(id, durable), job)
        committing()
        committed(await connection.pipeline([COMMIT]))
        return result
      },
      recall: () => result,
    })
  }

  /**
   * Tries until the outcome is known. After a lost connection whose COMMIT may have arrived, the id
   * tells: it is in the table if the write was committed. If it is not there yet, the write runs
   * again with the same id, and waits in the table for the end of the old transaction.
   */
  async #once<T>(write: Write<T>): Promise<T> {
    const id = randomUUID()
    let until = performance.now() + DEADLINE
    let maybeWritten = false
    for (let attempts = 1; ; attempts++) {
      let isSent = false
      const committing = () => {
        isSent = true
      }
      const attempt = async (connection: Connection) => {
        const [found] = maybeWritten ? await connection.all(LOOK_UP, [id]) : []
        if (found) return write.recall(found.result as Kept | null)
        return await write.attempt({ connection, id, committing })
      }
      try {
        return await this.#pool.use((connection) =>
          diagnosed(connection, () => attempt(connection)),
        )
      } catch (thrown) {
        // Nothing but making a connection throws anything else.
        const failed = thrown instanceof Failed ? thrown : new Failed('lost', thrown)
        if ((failed.failure === 'lost' && isSent) || failed.failure === 'written') {
          if (!maybeWritten) until = Math.max(until, performance.now() + GRACE)
          maybeWritten = true
        }
        const isOver = attempts > MAX_CONFLICTS || performance.now() > until
        await this.#prepare(failed, maybeWritten, isOver ? undefined : until)
        await pause(Math.random() * PAUSE * attempts)
      }
    }
  }

  /** Resolves when another attempt makes sense. Throws if none does. */
  async #prepare(failed: Failed, maybeWritten: boolean, until: number | undefined): Promise<void> {
    const { failure, error } = failed
    if (failure === 'rejected') throw toPostgresError(failed)
    if (failure === 'read-only') this.#servers.drop(new Error('it is read-only'))
    if (error instanceof PostgresError && !maybeWritten) throw error
    if (failure === 'busy' || until === undefined) throw unavailable(reasonOf(error), maybeWritten)
    if (failure === 'lost') await this.#servers.recovered(until - performance.now())
  }
}

/** Runs `job`; the transaction begins with its first statements. If it fails, all is rolled back. */
async function uncommitted<T>(
  connection: Connection,
  begin: readonly Statement[],
  job: (pipeline: Pipeline) => Promise<T>,
): Promise<T> {
  let isOpen = true
  let head = begin
  let firstFailure: unknown
  const pipeline = async (statements: readonly Statement[]) => {
    if (!isOpen) throw new Error('The transaction is over')
    const all = [...head, ...statements]
    head = []
    try {
      const answers = await diagnosed(connection, async () =>
        fulfilled(await connection.pipeline(all)),
      )
      return answers.slice(all.length - statements.length).map(({ rows }) => rows)
    } catch (failed) {
      firstFailure ??= (failed as Failed).error
      throw toPostgresError(failed as Failed)
    }
  }
  try {
    return await job(pipeline)
  } catch (error) {
    if (!connection.lost) await connection.pipeline([{ sql: 'ROLLBACK' }])
    throw firstFailure ?? error
  } finally {
    isOpen = false
  }
}

/** The statement, and if its rows have to be kept, one that also stores them with the write. */
function keeping({ sql, params = [], keep }: Statement, id: string, position: number): Statement {
  if (!keep) return { sql, params }
  const [self, key] = [`$${params.length + 1}::uuid`, `$${params.length + 2}::text`]
  const store = `stored AS (UPDATE writes SET result = coalesce(result, '{}') || jsonb_build_object(${key},
    (SELECT coalesce(jsonb_agg(to_jsonb(kept)), '[]') FROM kept)) WHERE id = ${self})`
  const last = /\)\s*SELECT \* FROM kept\s*$/
  const isWith = /^\s*WITH\s/i.test(sql)
  if (isWith && !last.test(sql)) throw new TypeError('SQL to keep ends in `SELECT * FROM kept`')
  const start = isWith ? sql.replace(last, ')') : `WITH kept AS (${sql})`
  return { sql: `${start}, ${store} SELECT * FROM kept`, params: [...params, id, String(position)] }
}

/** A COMMIT after a failed statement rolls back, without an error of its own. */
function committed(outcomes: readonly Outcome[]): readonly Answer[] {
  const answers = fulfilled(outcomes)
  if (answers.at(-1)?.command !== 'COMMIT') throw new Error('A statement of the transaction failed')
  return answers
}
