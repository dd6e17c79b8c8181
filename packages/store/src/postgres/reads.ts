import type { Row } from '../engine.ts'
import { StoreError } from '../errors.ts'
import type { FailedStatements } from '../failed-statements.ts'
import { fulfilled, type Statement } from './connection.ts'
import { diagnose, failureIn, noteFailure } from './failures.ts'
import type { Pool } from './pool.ts'

/** Milliseconds after which a read is not tried again. */
const DEADLINE = 4_000
/** Connections that end together fail a read one after the other: two of them, twice. */
const MAX_ATTEMPTS = 5
const AGAIN = new Set(['lost', 'replan', 'conflict'])

/** The rows of a read. If the connection breaks while the database answers, it runs again. */
export async function read(
  statement: Statement,
  pool: Pool,
  failures: FailedStatements,
): Promise<readonly Row[]> {
  const until = performance.now() + DEADLINE
  for (let attempts = 1; ; attempts++)
    try {
      return await pool.use((connection) =>
        diagnose(connection, async () => {
          const [answer] = fulfilled(await connection.pipeline([statement]))
          failures.delete(statement.sql)
          return answer?.rows ?? []
        }),
      )
    } catch (thrown) {
      // There is no connection, and no use in asking for one again.
      if (thrown instanceof StoreError) throw thrown
      const failed = failureIn(thrown)
      const isLast = attempts === MAX_ATTEMPTS || performance.now() > until
      if (isLast || !AGAIN.has(failed.failure)) throw noteFailure(failures, statement, failed)
    }
}
