import { copyFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { SqliteHealth } from '../../src/index.ts'
import { failureOf, insert, numbers, openSqlite } from '../kit.ts'

const { signal } = new AbortController()
const corrupt = { code: 'STORE_CORRUPT' }
const gone = { code: 'STORE_UNAVAILABLE', message: /test\.db was removed or replaced/ }

const changes: [what: string, suffix: string, replace?: (place: string) => void][] = [
  ['the file is removed', ''],
  ['the file is another one', '', (place) => copyFileSync(`${place}.kept`, place)],
  ['the log is removed', '-wal'],
  ['the log is another one', '-wal', (place) => writeFileSync(place, '')],
]

for (const [what, suffix, replace] of changes)
  t.test(`nothing is written once ${what}`, async (t) => {
    const { db, file } = openSqlite(t)
    const health = new SqliteHealth(db, file)
    await health.check()
    const place = file + suffix
    renameSync(place, `${place}.kept`)
    replace?.(place)
    t.match(await failureOf(health.check()), gone)
    t.match(await failureOf(insert(db, 1)), gone)
    renameSync(`${place}.kept`, place)
    await health.check()
    await insert(db, 1)
    t.strictSame(await numbers(db), [1], 'until it is in its place again')
  })

t.test('nothing is written into what is damaged, until it is whole again', async (t) => {
  const { db, file, sqlite } = openSqlite(t)
  const health = new SqliteHealth(db, file)
  const text = 'a'.repeat(1_000)
  await Promise.all(Array.from({ length: 100 }, (_, n) => insert(db, n, text)))
  sqlite.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  await health.inspect(signal)
  const bytes = readFileSync(file)
  writeFileSync(file, Buffer.from(bytes).fill(7, bytes.length - 6 * 4_096))
  t.match(await failureOf(health.inspect(signal)), corrupt)
  for (const refused of [() => insert(db, 100), () => health.check()])
    t.match(await failureOf(refused()), corrupt)
  writeFileSync(file, bytes)
  await health.inspect(signal)
  await health.check()
  t.equal(await insert(db, 100), 1)
})

t.test('an inspection that is stopped finds nothing', async (t) => {
  const { db, file } = openSqlite(t)
  const health = new SqliteHealth(db, file)
  const stop = new AbortController()
  const inspecting = health.inspect(stop.signal)
  stop.abort()
  await inspecting
  await health.inspect(stop.signal)
  await health.check()
})
