import { mock } from 'node:test'
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

/** A pool of one connection, and jobs that last until they are ended. */
function busyPool() {
  const { promise: ended } = Promise.withResolvers<void>()
  const connect = async () => ({ ended }) as unknown as Connection
  const pool = new Pool({ size: 1, connect })
  const job = () => {
    const { promise, resolve: end } = Promise.withResolvers<void>()
    return { done: pool.use(() => promise), end }
  }
  return { pool, job }
}

t.test('whoever has waited for too long leaves, and the next one has the turn', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const { pool, job } = busyPool()
  const first = job()
  const impatient = pool.use(async () => 'impatient')
  mock.timers.tick(9_999)
  const patient = pool.use(async () => 'patient')
  mock.timers.tick(1)
  await t.rejects(impatient, { message: /all connections are busy/ })
  first.end()
  t.equal(await patient, 'patient')
  await first.done
  t.equal(await pool.use(async () => 'later'), 'later')
})

t.test('4,096 wait, and no more', async (t) => {
  const { pool, job } = busyPool()
  const first = job()
  const waiting = Array.from({ length: 4_096 }, (_, n) => pool.use(async () => n))
  await t.rejects(
    pool.use(async () => 'one more'),
    { message: /too much waits for it/ },
  )
  first.end()
  t.equal((await Promise.all(waiting)).length, 4_096)
})
