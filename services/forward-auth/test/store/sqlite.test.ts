import { rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { manualClock } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { HOUR, onFolder, revocation, SECOND, until } from './kit.ts'

t.test('a folder that refuses writes is unready until it takes them again', async (t) => {
  const { folder, open } = onFolder(t)
  const clock = manualClock()
  const { store, log } = await open({ clock })
  const blocker = new DatabaseSync(`${folder}/revocations.db`)
  blocker.exec('BEGIN IMMEDIATE')
  const refused = { code: 'FWA_STORE_UNAVAILABLE', retryAfter: 5 }
  await t.rejects(store.completeLogin('login', clock.now() + HOUR), refused)
  t.strictSame(store.health(), { unready: 'store' })
  t.equal(await store.hasCompleted('login'), false)
  t.strictSame(store.health(), { unready: 'store' }, 'reading works, and does not hide it')
  blocker.close()
  await clock.advance(SECOND)
  await until(() => store.health().unready === undefined)
  t.strictSame(log, ['the store cannot be used: writing fails'])
})

t.test('the running time goes on in a file that took the place of the one before', async (t) => {
  const { folder, open } = onFolder(t)
  const clock = manualClock()
  const time = { passed: 0 }
  const { store, learned, log } = await open({ clock, monotonic: () => time.passed })
  await store.revoke({ add: [revocation('a', { due: 9 * HOUR })], remove: [] })
  await store.catchUp()
  time.passed = 5 * HOUR
  rmSync(`${folder}/revocations.db`)
  await clock.advance(SECOND)
  await store.prune()
  t.strictSame(log, ['the list of ended sessions was replaced: it is written again'])
  const again = await open({ clock, monotonic: () => 0 })
  t.equal(again.store.runningTime(), 5 * HOUR)
  t.strictSame([...again.learned.keys()], [...learned.keys()])
})
