import { execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { backup, restore } from '../../src/backup/backup.ts'
import { openSqliteStore } from '../../src/engines/sqlite.ts'
import type { AuditEntry } from '../../src/port/store.ts'
import { openKeyring } from '../../src/sealing/master-key.ts'
import { newAudit, newCertificate } from '../helpers/store.ts'

/** A running service's store and keyring, and where a copy would go. */
async function running(t: Test) {
  const base = testFolder(t)
  const folder = join(base, 'data')
  const masterKeyFile = join(base, 'master.key')
  const store = await openSqliteStore({ folder })
  t.teardown(() => store.close().catch(() => {}))
  const keyring = await openKeyring({ folder, masterKeyFile, store })
  const seal = (domain: string) => {
    const certificate = Buffer.from(`certificate of ${domain}`)
    const sealedKey = keyring.seal('leaf', Buffer.from(`key of ${domain}`), certificate)
    return newCertificate({ names: [domain], certificate, sealedKey })
  }
  const file = join(base, 'copy.db')
  const elsewhere = join(base, 'elsewhere')
  return { base, folder, masterKeyFile, store, seal, file, elsewhere }
}

t.test(
  'a backup of a running store, restored elsewhere, holds the same certificates',
  async (t) => {
    const { store, seal, file, folder, elsewhere, masterKeyFile } = await running(t)
    const before = await store.addCertificate(seal('a.example'), newAudit())
    // So much that the copy takes many turns, in each of which the service writes.
    await store.addAudit(Array<AuditEntry>(8000).fill(newAudit({ detail: 'x'.repeat(1000) })))
    let stop = false
    const busy = (async () => {
      for (let i = 0; !stop; i++) await store.addCertificate(seal(`${i}.example`), newAudit())
    })()
    await backup({ folder, file })
    stop = true
    await busy

    t.equal(statSync(file).mode & 0o777, 0o600)
    t.same(
      readdirSync(join(file, '..')).filter((name) => name.startsWith('copy')),
      ['copy.db'],
    )
    const bytes = Buffer.from(readFileSync(masterKeyFile, 'utf8'), 'base64')
    t.notOk(readFileSync(file).includes(bytes), 'the master key is not in it')

    await restore({ folder: elsewhere, file, forget: true })
    t.same(readdirSync(elsewhere).sort(), ['lock.db', 'store.db'])
    t.equal(statSync(join(elsewhere, 'store.db')).mode & 0o777, 0o600)
    const restored = await openSqliteStore({ folder: elsewhere })
    t.same(await restored.findCurrent(before.requestKey), before)
    const keyring = await openKeyring({ folder: elsewhere, masterKeyFile, store: restored })
    for (const { names, certificate, sealedKey } of await restored.list({ after: 0, limit: 1e6 })) {
      t.equal(keyring.open(sealedKey!, certificate).toString(), `key of ${names[0]}`)
    }
    await restored.close()
  },
)

t.test('nothing is overwritten, nothing half done is left', async (t) => {
  const { store, file, folder, elsewhere, base } = await running(t)
  await backup({ folder, file })
  const copy = readFileSync(file)
  await t.rejects(backup({ folder, file }), { code: 'CERT_FILE_FAILED', message: /exists/ })
  t.same(readFileSync(file), copy)
  const lost = join(base, 'nowhere', 'copy.db')
  await t.rejects(backup({ folder, file: lost }), { code: 'CERT_FILE_FAILED' })
  await t.rejects(backup({ folder: elsewhere, file: join(base, 'x') }), {
    code: 'STORE_MISSING',
  })
  t.notOk(existsSync(join(base, 'x')))
  t.notOk(existsSync(elsewhere))

  await t.rejects(restore({ folder, file }), { code: 'STORE_LOCKED' }, 'in use')
  await store.close()
  await t.rejects(restore({ folder, file }), { code: 'STORE_NOT_EMPTY' }, 'in use before')
  mkdirSync(elsewhere)
  writeFileSync(join(elsewhere, 'store.db-wal'), '')
  const refused = { code: 'STORE_NOT_EMPTY', message: /store\.db-wal/ }
  await t.rejects(restore({ folder: elsewhere, file }), refused)
  const absent = restore({ folder: join(base, 'third'), file: join(base, 'absent') })
  await t.rejects(absent, { code: 'CERT_BACKUP_REFUSED' })
})

t.test('a damaged store gives no backup', async (t) => {
  const { store, folder, file, seal } = await running(t)
  for (let i = 0; i < 50; i++) await store.addCertificate(seal(`${i}.example`), newAudit())
  await store.close()
  overwrite(join(folder, 'store.db'))
  await t.rejects(backup({ folder, file }), { code: 'STORE_CORRUPT' })
  for (const left of [file, `${file}.draft`]) t.notOk(existsSync(left), left)
})

const foreign: [what: string, make: (store: string) => void][] = [
  ['is empty', (store) => writeFileSync(store, '')],
  ['is of another program', (store) => new DatabaseSync(store).exec('CREATE TABLE x (y)')],
  ['is no database', (store) => writeFileSync(store, 'x'.repeat(9999))],
]
for (const [what, make] of foreign)
  t.test(`a store file that ${what} gives no backup`, async (t) => {
    const base = testFolder(t, { data: {} })
    const [folder, file] = [join(base, 'data'), join(base, 'copy.db')]
    make(join(folder, 'store.db'))
    const before = readFileSync(join(folder, 'store.db'))
    const code = 'STORE_CORRUPT'
    const message = /^[^\n]+$/
    await t.rejects(backup({ folder, file }), { code, message })
    t.notOk(existsSync(file))
    t.same(readFileSync(join(folder, 'store.db')), before, 'and the file is as it was')
  })

t.test('a killed service leaves a store that can be backed up', async (t) => {
  const { store, folder, file, elsewhere, seal, base } = await running(t)
  const { requestKey } = await store.addCertificate(seal('a.example'), newAudit())
  // What is on disk now is what a kill would leave: the certificate is in the log alone.
  const killed = join(base, 'killed')
  cpSync(folder, killed, { recursive: true })
  await backup({ folder: killed, file })
  await restore({ folder: elsewhere, file, forget: true })
  const restored = await openSqliteStore({ folder: elsewhere })
  t.ok(await restored.findCurrent(requestKey))
  await restored.close()
})

const bad: [what: string, code: string, harm: (file: string) => void][] = [
  ['is of another program', 'CERT_BACKUP_REFUSED', (file) => makeForeign(file)],
  ['is cut short', 'CERT_BACKUP_REFUSED', (file) => truncateSync(file, 12 * 4096)],
  ['is empty', 'CERT_BACKUP_REFUSED', (file) => truncateSync(file, 0)],
  ['is no backup', 'CERT_BACKUP_REFUSED', (file) => writeFileSync(file, 'x'.repeat(9999))],
  ['was changed', 'CERT_BACKUP_REFUSED', (file) => overwrite(file)],
  ['lacks what its rows need', 'CERT_BACKUP_REFUSED', (file) => dropChains(file)],
  ['is of a newer version', 'STORE_NEWER', (file) => makeNewer(file)],
  ['is of an unreleased version', 'STORE_UNRELEASED', (file) => makeUnreleased(file)],
]

for (const [what, code, harm] of bad) {
  t.test(`a file that ${what} is not restored`, async (t) => {
    const { store, folder, file, elsewhere, seal } = await running(t)
    for (let i = 0; i < 50; i++) await store.addCertificate(seal(`${i}.example`), newAudit())
    await backup({ folder, file })
    harm(file)
    await t.rejects(restore({ folder: elsewhere, file }), { code, message: /^[^\n]+$/ })
    t.same(readdirSync(elsewhere), ['lock.db'], 'and the folder is still empty')
  })
}

/** Pages of rows, written over. */
function overwrite(file: string): void {
  const bytes = readFileSync(file)
  bytes.fill(7, bytes.length - 6 * 4096)
  writeFileSync(file, bytes)
}

function dropChains(file: string): void {
  const sqlite = new DatabaseSync(file, { enableForeignKeyConstraints: false })
  sqlite.exec('DELETE FROM chains')
  sqlite.close()
}

function makeForeign(file: string): void {
  truncateSync(file, 0)
  const sqlite = new DatabaseSync(file)
  sqlite.exec('CREATE TABLE x (y)')
  sqlite.close()
}

function makeNewer(file: string): void {
  const sqlite = new DatabaseSync(file)
  sqlite.exec(`INSERT INTO schema_versions VALUES (99, '')`)
  sqlite.close()
}

function makeUnreleased(file: string): void {
  const sqlite = new DatabaseSync(file)
  sqlite.exec(`UPDATE schema_versions SET digest = 'another'`)
  sqlite.close()
}

t.test('what no store has is not restored', async (t) => {
  const { store, seal, file, folder, elsewhere } = await running(t)
  await store.addCertificate(seal('a.example'), newAudit())
  await backup({ folder, file })
  const rows: readonly (readonly [what: string, sql: string])[] = [
    ['trigger', 'CREATE TRIGGER t AFTER INSERT ON certificates BEGIN DELETE FROM audit; END'],
    ['view', 'CREATE VIEW v AS SELECT * FROM certificates'],
    ['table', 'CREATE TABLE x (a TEXT)'],
    ['index', 'CREATE INDEX x ON audit (at)'],
    ['lack', 'DROP INDEX certificates_current'],
  ]
  for (const [what, sql] of rows) {
    const changed = `${file}.${what}`
    cpSync(file, changed)
    const sqlite = new DatabaseSync(changed)
    sqlite.exec(sql)
    sqlite.close()
    const code = 'CERT_BACKUP_REFUSED'
    await t.rejects(restore({ folder: elsewhere, file: changed }), { code }, what)
    t.notOk(existsSync(join(elsewhere, 'store.db')), what)
  }
  await restore({ folder: elsewhere, file, forget: true })
  t.ok(existsSync(join(elsewhere, 'store.db')), 'and the backup itself is')
})

t.test('a pipe, a device or a folder is no backup, and is not waited for', async (t) => {
  const { base, elsewhere } = await running(t)
  const pipe = join(base, 'pipe')
  execFileSync('/usr/bin/env', ['mkfifo', pipe])
  for (const file of [pipe, '/dev/zero', base])
    await t.rejects(restore({ folder: elsewhere, file }), { code: 'CERT_BACKUP_REFUSED' }, file)
})
