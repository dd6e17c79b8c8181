import { copyFileSync, renameSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { manualClock } from '@gatehouse/service-kit/testing'
import { SharedSqlite } from '@gatehouse/store'
import t from 'tap'
import { HOUR, MANY_EVENTS, onFolder, SECOND, session, until } from './kit.ts'

t.test('a folder that refuses writes is degraded until it takes them again', async (t) => {
  const { folder, open } = onFolder(t)
  const clock = manualClock()
  const { store, log } = await open({ clock })
  const blocker = new DatabaseSync(`${folder}/revocations.db`)
  blocker.exec('BEGIN IMMEDIATE')
  const refused = { code: 'STORE_UNAVAILABLE', retryAfter: 5 }
  await t.rejects(store.completeLogin('login', clock.now() + HOUR), refused)
  t.strictSame(store.health(), { degraded: ['store'] })
  t.equal(await store.hasCompleted('login'), false)
  t.strictSame(store.health(), { degraded: ['store'] }, 'reading works, and does not hide it')
  blocker.close()
  await clock.advance(SECOND)
  await until(() => store.health().degraded?.length === 0)
  t.strictSame(log, ['the store cannot be used: writing fails', 'the store can be used again'])
})

const REPLACED = 'the session store was replaced: everybody signs in again'

t.test('a file that was removed', async (t) => {
  const { folder, open } = onFolder(t)
  const clock = manualClock()
  const time = { passed: 0 }
  const { store, full, log } = await open({ clock, monotonic: () => time.passed })
  await store.beginSession(session('a'))
  time.passed = 5 * HOUR
  rmSync(`${folder}/revocations.db`)
  await clock.advance(SECOND)
  await store.prune()
  t.strictSame(log, [REPLACED])
  t.equal(full.length, 2, 'something may have been missed')
  t.equal(await store.findSession('a'), undefined)
  const again = await open({ clock, monotonic: () => 0 })
  t.equal(again.store.age().running, 5 * HOUR, 'the running time goes on')
})

t.test('in a file that was restored, what had ended ends again', async (t) => {
  const { folder, open } = onFolder(t)
  const clock = manualClock(Date.now())
  const { store, learned, log } = await open({ clock })
  for (const sid of ['a', 'b']) await store.beginSession(session(sid))
  copyFileSync(`${folder}/revocations.db`, `${folder}/backup`)
  await store.endSessions({ sid: 'a' })
  await store.catchUp()
  renameSync(`${folder}/backup`, `${folder}/revocations.db`)
  await store.catchUp()
  t.equal(await store.findSession('a'), undefined)
  t.ok(await store.findSession('b'))
  t.match(log, [REPLACED, /had ended/])
  t.strictSame(learned('ended'), ['a'])
  const late = await open({ clock })
  t.strictSame(late.learned('ended'), ['a'], 'with events')
})

t.test('whoever starts learns of tickets, the last ends and all that comes', async (t) => {
  const { folder, open } = onFolder(t)
  await (await open()).close()
  using sqlite = new DatabaseSync(`${folder}/revocations.db`)
  sqlite.exec(MANY_EVENTS)
  const { store, events, learned } = await open()
  t.equal(events.length, 10_001)
  t.strictSame(learned('burnt'), ['event 2'])
  sqlite.exec(MANY_EVENTS)
  await store.catchUp()
  t.equal(events.length, 20_004)
})

t.test('a file of a version that was never released is refused as it is', async (t) => {
  const { folder, open } = onFolder(t)
  const other = new SharedSqlite(`${folder}/revocations.db`, [() => 'CREATE TABLE other (id)'])
  await other.close()
  await t.rejects(open(), { code: 'STORE_UNRELEASED' })
  using file = new DatabaseSync(`${folder}/revocations.db`)
  t.equal(file.prepare('SELECT count(*) AS count FROM other').get()?.count, 0)
})
