import { spawn } from 'node:child_process'
import { readdirSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { connect, openSqliteStore, storeFile } from '../../../src/engines/sqlite.ts'
import { MIGRATIONS } from '../../../src/schema/tables.ts'
import { newAudit, newCertificate, testStore } from '../../helpers/store.ts'

t.test('what was committed is there after the next start', async (t) => {
  const { store, folder } = await testStore(t)
  const added = await store.addCertificate(newCertificate(), newAudit())
  await store.close()
  const again = await openSqliteStore({ folder })
  t.same(await again.findCurrent(added.requestKey), added)
  await again.check()
  await again.close()
  const sqlite = connect(storeFile(folder))
  const pragma = (name: string) => sqlite.prepare(`PRAGMA ${name}`).get()?.[name]
  t.equal(pragma('synchronous'), 2, 'each commit is on the disk: FULL')
  t.equal(pragma('journal_mode'), 'wal')
  sqlite.close()
})

t.test('the folder and its files are for their owner alone', async (t) => {
  const folder = join(testFolder(t), 'deep', 'data')
  const store = await openSqliteStore({ folder })
  t.equal(statSync(folder).mode & 0o777, 0o700)
  for (const file of ['store.db', 'store.db-wal', 'store.db-shm', 'lock.db']) {
    t.equal(statSync(join(folder, file)).mode & 0o777, 0o600, file)
  }
  await store.close()
})

t.test('a second store in the same folder is refused', async (t) => {
  const { store, folder } = await testStore(t)
  const locked = { code: 'STORE_LOCKED' }
  await t.rejects(openSqliteStore({ folder }), locked, 'in this process')
  await t.rejects(openSqliteStore({ folder }), locked, 'and again')
  t.match(await openElsewhere(folder), 'STORE_LOCKED', 'in another process')
  await store.close()
  t.match(await openElsewhere(folder), 'opened', 'until it is closed')
})

const damage: [what: string, code: string, harm: (file: string) => void][] = [
  ['a truncated file', 'STORE_CORRUPT', (file) => truncateSync(file, 20_000)],
  ['an empty file', 'STORE_CORRUPT', (file) => truncateSync(file, 0)],
  ['another kind of file', 'STORE_CORRUPT', (file) => writeFileSync(file, 'x'.repeat(9000))],
  [
    'the SQLite file of another program',
    'STORE_CORRUPT',
    (file) => edit(file, 'PRAGMA application_id = 7'),
  ],
  [
    'a store of a newer version',
    'STORE_NEWER',
    (file) => edit(file, `INSERT INTO schema_versions VALUES (${MIGRATIONS.length + 1}, '')`),
  ],
  [
    'a store that was made before there was a release',
    'STORE_UNRELEASED',
    (file) => edit(file, 'PRAGMA user_version = 13; DROP TABLE schema_versions'),
  ],
  [
    'a store of another state of development',
    'STORE_UNRELEASED',
    (file) => edit(file, `UPDATE schema_versions SET digest = 'another'`),
  ],
]

for (const [what, code, harm] of damage) {
  t.test(`${what} is refused and left as it is`, async (t) => {
    const { store, folder } = await testStore(t)
    await store.addCertificate(newCertificate(), newAudit())
    await store.close()
    harm(join(folder, 'store.db'))
    const { size } = statSync(join(folder, 'store.db'))
    await t.rejects(openSqliteStore({ folder }), { code, message: /^[^\n]+$/ })
    await t.rejects(openSqliteStore({ folder }), { code }, 'at each start')
    t.equal(statSync(join(folder, 'store.db')).size, size)
  })
}

t.test('a log without its store is refused, not taken for a new store', async (t) => {
  const folder = testFolder(t, { 'store.db-wal': 'frames' })
  await t.rejects(openSqliteStore({ folder }), { code: 'STORE_CORRUPT' })
})

t.test('what a start that was killed left of a store is not built upon', async (t) => {
  const folder = testFolder(t, { 'store.db.new': 'half', 'store.db.new-journal': 'undo' })
  const store = await openSqliteStore({ folder })
  await store.check()
  await store.close()
  t.same(readdirSync(folder).sort(), ['lock.db', 'store.db'])
})

t.test('a folder that cannot be made is told in one line', async (t) => {
  const folder = join(testFolder(t, { file: '' }), 'file', 'data')
  await t.rejects(openSqliteStore({ folder }), {
    code: 'STORE_UNAVAILABLE',
    message: /cannot be written \(ENOTDIR\)/,
  })
})

function edit(file: string, sql: string): void {
  const sqlite = new DatabaseSync(file)
  sqlite.exec(sql)
  sqlite.close()
}

/** What another process says when it opens the folder: `opened` or an error's code. */
async function openElsewhere(folder: string): Promise<string> {
  const child = spawn(process.execPath, [
    ...process.execArgv,
    '--input-type=module-typescript',
    '--eval',
    `import { connect, openSqliteStore, storeFile } from '${import.meta.resolve('../../../src/engines/sqlite.ts')}'
     const say = (text) => process.stdout.write(text)
     try {
       await openSqliteStore({ folder: ${JSON.stringify(folder)} })
       say('opened')
     } catch ({ code }) {
       say(code)
     }`,
  ])
  const said: Buffer[] = await child.stdout.toArray()
  return Buffer.concat(said).toString()
}
