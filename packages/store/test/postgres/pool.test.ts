import t from 'tap'
import type { Connection } from '../../src/postgres/connection.ts'
import { Pool } from '../../src/postgres/pool.ts'

t.test('a connection that was lost is given to nobody, however soon they ask', async (t) => {
  let made = 0
  const connect = async () => {
    const { promise: ended, resolve } = Promise.withResolvers<void>()
    return { number: ++made, lost: undefined, ended, resolve } as unknown as Connection
  }
  const pool = new Pool({ size: 1, connect })
  const use = (loses: boolean) =>
    pool.use(async (connection) => {
      const it = connection as unknown as { number: number; lost?: Error; resolve(): void }
      if (loses) {
        it.lost = new Error('it ended')
        it.resolve()
      }
      return it.number
    })
  t.strictSame([await use(false), await use(true), await use(true), await use(false)], [1, 1, 2, 3])
})
