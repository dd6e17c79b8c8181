import { PostgresError } from './errors.ts'
import { diagnosed, Failed, toPostgresError } from './failures.ts'
import type { Pool } from './pool.ts'
import type { Parameter, Row } from './statement.ts'

/** Milliseconds after which a read is not tried again. */
const DEADLINE = 4_000
const MAX_ATTEMPTS = 3
const AGAIN = new Set(['lost', 'replan', 'conflict'])

/** Rows of a read. If its connection breaks while the database answers, it runs again. */
export async function read(
  pool: Pool,
  sql: string,
  params?: readonly Parameter[],
): Promise<readonly Row[]> {
  const until = performance.now() + DEADLINE
  for (let attempts = 1; ; attempts++)
    try {
      return await pool.use((connection) =>
        diagnosed(connection, () => connection.all(sql, params)),
      )
    } catch (thrown) {
      // There is no connection, and no use in asking for one again.
      if (thrown instanceof PostgresError) throw thrown
      // Nothing but making a connection throws anything else.
      const failed = thrown instanceof Failed ? thrown : new Failed('lost', thrown)
      const isLast = attempts === MAX_ATTEMPTS || performance.now() > until
      if (isLast || !AGAIN.has(failed.failure)) throw toPostgresError(failed)
    }
}
