import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { openSqliteStore, storeFile } from '../../../src/engines/sqlite.ts'
import { newAudit, newCertificate, testStore } from '../../helpers/store.ts'

const never = new AbortController().signal
const unavailable = { code: 'STORE_UNAVAILABLE' }
const corrupt = { code: 'STORE_CORRUPT' }

t.test('a sound store is found sound', async (t) => {
  const { store } = await testStore(t)
  await store.addCertificate(newCertificate(), newAudit())
  await store.inspect(never)
  await store.check()
  t.equal(store.failure(), undefined)
})

t.test('a damaged store is not written any more, and is read as far as it goes', async (t) => {
  const { store, folder } = await testStore(t)
  for (let n = 0; n < 300; n += 1)
    await store.addCertificate(newCertificate({ names: [`n${n}.example`] }), newAudit())
  const { requestKey } = await store.addCertificate(newCertificate(), newAudit())
  await store.close()
  const file = storeFile(folder)
  const bytes = readFileSync(file)
  writeFileSync(file, bytes.fill(7, bytes.length - 6 * 4096))

  const damaged = await openSqliteStore({ folder })
  t.teardown(() => damaged.close())
  await t.rejects(damaged.inspect(never), corrupt)
  t.match(damaged.failure(), corrupt)
  await t.rejects(damaged.addAudit([newAudit()]), corrupt)
  await t.rejects(damaged.check(), corrupt)
  t.ok(await damaged.findCurrent(requestKey).catch(() => 'another page'), 'reads go on')
  t.ok(await damaged.listAuthorities())
})

for (const [what, harm] of [
  ['removed', (file: string) => rmSync(file)],
  ['moved away', (file: string) => renameSync(file, `${file}.moved`)],
] as const)
  t.test(`a store that was ${what} is not written any more`, async (t) => {
    const { store, folder } = await testStore(t)
    await store.check()
    harm(storeFile(folder))
    await t.rejects(store.check(), unavailable)
    t.match(store.failure(), unavailable)
    await t.rejects(store.addAudit([newAudit()]), unavailable)
    t.same(await store.listAudit({ limit: 1 }), [], 'reads go on')
  })

t.test('a store whose log was removed is not written any more', async (t) => {
  const { store, folder } = await testStore(t)
  await store.check()
  rmSync(`${storeFile(folder)}-wal`)
  await t.rejects(store.check(), unavailable)
})

t.test('a store that is back in its place is written again', async (t) => {
  const { store, folder } = await testStore(t)
  const file = storeFile(folder)
  renameSync(file, `${file}.moved`)
  await t.rejects(store.check(), unavailable)
  renameSync(`${file}.moved`, file)
  await store.check()
  t.equal(store.failure(), undefined)
  await store.addAudit([newAudit()])
})

t.test('another store in its place is not taken for it', async (t) => {
  const { store, folder } = await testStore(t)
  const other = await testStore(t)
  await other.store.close()
  renameSync(storeFile(other.folder), storeFile(folder))
  await t.rejects(store.check(), unavailable)
})

t.test('a write that failed counts until a write succeeds', async (t) => {
  const { store, folder } = await testStore(t)
  const other = new DatabaseSync(storeFile(folder))
  other.exec('BEGIN IMMEDIATE')
  await t.rejects(store.addAudit([newAudit()]), unavailable)
  await store.listAudit({ limit: 1 })
  t.match(store.failure(), unavailable, 'a read does not cure it')
  await t.rejects(store.check(), unavailable)
  other.exec('ROLLBACK')
  other.close()
  await store.check()
  t.equal(store.failure(), undefined)
})

t.test('an inspection that is stopped says nothing', async (t) => {
  const { store } = await testStore(t)
  const stopping = new AbortController()
  const inspected = store.inspect(stopping.signal)
  stopping.abort()
  await inspected
  t.equal(store.failure(), undefined)
})
