import { DatabaseSync } from 'node:sqlite'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { Database } from '../../../src/store/sqlite/database.ts'

function testDatabase(t: Test) {
  const file = `${testFolder(t)}/test.db`
  const sqlite = new DatabaseSync(file, { timeout: 0 })
  sqlite.exec('PRAGMA journal_mode = WAL; CREATE TABLE numbers (n INTEGER UNIQUE) STRICT')
  const db = new Database(sqlite)
  t.teardown(() => sqlite.isOpen && sqlite.close())
  const insert = db.prepare('INSERT INTO numbers VALUES (?)')
  const other = new DatabaseSync(file, { timeout: 0 })
  t.teardown(() => other.close())
  return {
    sqlite,
    db,
    other,
    add: (n: number) => db.write(() => insert.run(n).lastInsertRowid),
    /** As another connection sees it: what is committed. */
    committed: () =>
      other
        .prepare('SELECT n FROM numbers ORDER BY n')
        .all()
        .map(({ n }) => n),
  }
}

t.test('the writes of a turn are one transaction, answered after its commit', async (t) => {
  const { db, add, sqlite, committed } = testDatabase(t)
  sqlite.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  const seen: unknown[] = []
  const writes = [1, 2, 3].map((n) => add(n).then(() => seen.push(committed())))
  t.same(committed(), [], 'nothing is written while the turn lasts')
  await Promise.all(writes)
  t.same(seen[0], [1, 2, 3], 'the first answer comes when all are committed')
  const { log } = sqlite.prepare('PRAGMA wal_checkpoint').get() ?? {}
  t.equal(log, 2, 'one commit: a page of the table, a page of its index')
  db.close()
})

t.test('one bad write fails alone', async (t) => {
  const { add, committed } = testDatabase(t)
  const results = await Promise.allSettled([add(1), add(2), add(1), add(3)])
  t.same(
    results.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  )
  t.same(committed(), [1, 2, 3])
})

t.test('a locked database is told with a time to come back, and serves again', async (t) => {
  const { db, add, other, committed } = testDatabase(t)
  other.exec('BEGIN IMMEDIATE')
  const told = { code: 'CERT_STORE_UNAVAILABLE', retryAfter: 5 }
  await Promise.all([t.rejects(add(1), told), t.rejects(add(2), told)])
  t.same(await db.read(() => db.prepare('SELECT count(*) AS n FROM numbers').get()?.n), 0)
  other.exec('ROLLBACK')
  await add(3)
  t.same(committed(), [3])
})

t.test('a full database is told likewise, and serves again when there is room', async (t) => {
  const { add, db, sqlite, committed } = testDatabase(t)
  const big = () =>
    db.write(() => sqlite.exec('CREATE TABLE big AS SELECT randomblob(100000) AS b'))
  const pages = Number(sqlite.prepare('PRAGMA page_count').get()?.page_count)
  sqlite.exec(`PRAGMA max_page_count = ${pages + 2}`)
  await t.rejects(big(), { code: 'CERT_STORE_UNAVAILABLE', retryAfter: 5, message: /full/ })
  sqlite.exec('PRAGMA max_page_count = 4294967294')
  await big()
  await add(1)
  t.same(committed(), [1])
})

t.test('the queue of a turn is bounded', async (t) => {
  const { add } = testDatabase(t)
  const results = await Promise.allSettled(Array.from({ length: 5000 }, (_, n) => add(n)))
  const refused = results.filter(({ status }) => status === 'rejected')
  t.equal(refused.length, 5000 - 4096)
  t.match(refused[0], { reason: { code: 'CERT_STORE_UNAVAILABLE' } })
})

t.test('close commits what waits; after it every write is refused', async (t) => {
  const { db, add, committed } = testDatabase(t)
  const write = add(1)
  db.close()
  await write
  t.same(committed(), [1])
  await t.rejects(add(2), { code: 'CERT_STORE_UNAVAILABLE', message: /closed/ })
})
