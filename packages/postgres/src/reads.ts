import { diagnosed, Failed, toPostgresError } from './failures.ts'
import type { Pool } from './pool.ts'
import type { Servers } from './servers.ts'
import type { Parameter, Row } from './statement.ts'

/** Milliseconds after which a read is not tried again. */
const DEADLINE = 4_000
const MAX_ATTEMPTS = 3
const AGAIN = new Set(['lost', 'replan', 'conflict'])

/** Rows of a read. If its connection breaks while the database answers, it runs again. */
export async function read(
  pool: Pool,
  servers: Servers,
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
      // Nothing but making a connection throws anything else.
      const failed = thrown instanceof Failed ? thrown : new Failed('lost', thrown)
      const isAway = failed.failure === 'lost' && servers.failure()
      if (isAway) throw isAway
      const isLast = attempts === MAX_ATTEMPTS || performance.now() > until
      if (isLast || !AGAIN.has(failed.failure)) throw toPostgresError(failed)
    }
}
