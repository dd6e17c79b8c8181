import { hash } from 'node:crypto'
import { copyFileSync, renameSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { manualClock } from '@gatehouse/service-kit/testing'
import { SharedSqlite } from '@gatehouse/store'
import t from 'tap'
import { MIGRATIONS } from '../../src/store/tables.ts'
import { agent, codeOf, HOUR, OLD_SESSION, onFolder, SECOND, session, until } from './kit.ts'

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

const REPLACED = 'the store of sessions was replaced: everybody signs in again'

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
  t.equal(again.store.runningTime(), 5 * HOUR, 'the running time goes on')
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

for (const version of [1, 2])
  t.test(`a file of version ${version}`, async (t) => {
    const { folder, open } = onFolder(t)
    const old = new SharedSqlite(`${folder}/revocations.db`, MIGRATIONS.slice(0, version))
    await old.run(`INSERT INTO completed (login, until, due) VALUES ('login', 9, 9)`)
    if (version > 1) await old.run(OLD_SESSION)
    await old.close()
    for (let i = 0; i < 2; i++) {
      const { store } = await open()
      t.equal(await store.hasCompleted('login'), true)
      if (version > 1) t.match(await store.findSession('old'), { person: 'ada', parent: null })
      t.equal(await store.beginSession(session(`${i}`)), true)
      t.equal(await store.beginAgent(agent(`of ${i}`, `${i}`), codeOf(`${i}`)), true)
    }
  })

t.test('the steps that were released are what they were', async (t) => {
  const digests = MIGRATIONS.map((step) =>
    (['sqlite', 'postgres'] as const).map((dialect) => hash('sha256', step(dialect)).slice(0, 8)),
  )
  t.strictSame(digests, [
    ['d434bb58', '120acd88'],
    ['fe9189b4', '9b8aab65'],
    ['7e131803', '82e327bb'],
    ['e0909795', 'e0909795'],
  ])
})
