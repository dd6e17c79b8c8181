import { fulfilled } from './connection.ts'
import { PostgresError } from './errors.ts'
import { diagnosed, Failed, toPostgresError } from './failures.ts'
import type { Pool } from './pool.ts'
import type { Row, Statement } from './statement.ts'

/** Milliseconds after which a read is not tried again. */
const DEADLINE = 4_000
const MAX_ATTEMPTS = 3
const AGAIN = new Set(['lost', 'replan', 'conflict'])

/** Rows of each statement. If the connection breaks while the database answers, all run again. */
export async function read(
  pool: Pool,
  statements: readonly Statement[],
): Promise<readonly (readonly Row[])[]> {
  const until = performance.now() + DEADLINE
  for (let attempts = 1; ; attempts++)
    try {
      return await pool.use((connection) =>
        diagnosed(connection, async () =>
          fulfilled(await connection.pipeline(statements)).map(({ rows }) => rows),
        ),
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
