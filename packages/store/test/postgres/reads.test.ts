import t from 'tap'
import { FailedStatements } from '../../src/failed-statements.ts'
import { StoreError } from '../../src/index.ts'
import type { Connection } from '../../src/postgres/connection.ts'
import { Pool } from '../../src/postgres/pool.ts'
import { read } from '../../src/postgres/reads.ts'

/** A connection whose statements all fail with that SQLSTATE. */
function failing(code: string, routine?: string) {
  const { promise: ended } = Promise.withResolvers<void>()
  const connection = {
    ended,
    lost: undefined as Error | undefined,
    attempts: 0,
    async pipeline() {
      connection.attempts++
      const reason = Object.assign(new Error('told'), { code, routine, severity: 'ERROR' })
      return [{ status: 'rejected', reason }]
    },
    destroy(reason: Error) {
      connection.lost = reason
    },
    close: async () => {},
  }
  return connection
}

t.test('a read runs again only if that may help, and five times at most', async (t) => {
  const rows: [what: string, attempts: number, code: string, routine?: string][] = [
    ['a conflict', 5, '40001'],
    ['a plan that the schema changed', 5, '0A000', 'RevalidateCachedQuery'],
    ['a session that was terminated', 5, '57P01'],
    ['a value at fault', 1, '22012'],
    ['a full disk', 1, '53100'],
    ['what is read-only', 1, '25006'],
    ['another feature that is missing', 1, '0A000'],
  ]
  for (const [what, attempts, code, routine] of rows) {
    const connection = failing(code, routine)
    const connect = async () => {
      connection.lost = undefined
      return connection as unknown as Connection
    }
    const pool = new Pool({ size: 1, connect })
    await t.rejects(read({ sql: 'SELECT 1' }, pool, new FailedStatements()), StoreError, what)
    t.equal(connection.attempts, attempts, what)
  }
})
