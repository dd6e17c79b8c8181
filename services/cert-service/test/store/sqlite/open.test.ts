import { spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createRoot, generateKeyPair } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { MIGRATIONS, migrate, schemaVersion } from '../../../src/store/sqlite/migrations.ts'
import { connect, openStore, storeFile } from '../../../src/store/sqlite/open.ts'
import { NOW, newAudit, newCertificate, testStore } from '../../helpers/store.ts'

t.test('what was committed is there after the next start', async (t) => {
  const { store, folder } = await testStore(t)
  const added = await store.addCertificate(newCertificate(), newAudit())
  await store.close()
  const again = await openStore({ folder })
  t.same(await again.findCurrent(added.lineage), added)
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
  const store = await openStore({ folder })
  t.equal(statSync(folder).mode & 0o777, 0o700)
  for (const file of ['store.db', 'store.db-wal', 'store.db-shm', 'lock.db']) {
    t.equal(statSync(join(folder, file)).mode & 0o777, 0o600, file)
  }
  await store.close()
})

t.test('a second store in the same folder is refused', async (t) => {
  const { store, folder } = await testStore(t)
  const locked = { code: 'CERT_STORE_LOCKED' }
  await t.rejects(openStore({ folder }), locked, 'in this process')
  await t.rejects(openStore({ folder }), locked, 'and again')
  t.match(await openElsewhere(folder), 'CERT_STORE_LOCKED', 'in another process')
  await store.close()
  t.match(await openElsewhere(folder), 'opened', 'until it is closed')
})

const damage: [what: string, code: string, harm: (file: string) => void][] = [
  ['a truncated file', 'CERT_STORE_CORRUPT', (file) => truncateSync(file, 20_000)],
  ['an empty file', 'CERT_STORE_CORRUPT', (file) => truncateSync(file, 0)],
  ['another kind of file', 'CERT_STORE_CORRUPT', (file) => writeFileSync(file, 'x'.repeat(9000))],
  [
    'the SQLite file of another program',
    'CERT_STORE_CORRUPT',
    (file) => edit(file, 'PRAGMA application_id = 7'),
  ],
  [
    'a store of a newer version',
    'CERT_STORE_NEWER',
    (file) => edit(file, `PRAGMA user_version = ${MIGRATIONS.length + 1}`),
  ],
]

for (const [what, code, harm] of damage) {
  t.test(`${what} is refused and left as it is`, async (t) => {
    const { store, folder } = await testStore(t)
    await store.addCertificate(newCertificate(), newAudit())
    await store.close()
    harm(join(folder, 'store.db'))
    const { size } = statSync(join(folder, 'store.db'))
    await t.rejects(openStore({ folder }), { code, message: /^[^\n]+$/ })
    await t.rejects(openStore({ folder }), { code }, 'at each start')
    t.equal(statSync(join(folder, 'store.db')).size, size)
  })
}

t.test('a log without its store is refused, not taken for a new store', async (t) => {
  const folder = testFolder(t, { 'store.db-wal': 'frames' })
  await t.rejects(openStore({ folder }), { code: 'CERT_STORE_CORRUPT' })
})

t.test('what a start that was killed left of a store is not built upon', async (t) => {
  const folder = testFolder(t, { 'store.db.new': 'half', 'store.db.new-journal': 'undo' })
  const store = await openStore({ folder })
  await store.check()
  await store.close()
  t.same(readdirSync(folder).sort(), ['lock.db', 'store.db'])
})

t.test('a folder that cannot be made is told in one line', async (t) => {
  const folder = join(testFolder(t, { file: '' }), 'file', 'data')
  await t.rejects(openStore({ folder }), {
    code: 'CERT_STORE_UNAVAILABLE',
    message: /cannot be written \(ENOTDIR\)/,
  })
})

t.test('a store of before finds its certificates by name, and what is current alone', async (t) => {
  const { store, folder } = await testStore(t)
  const add = (names: string[], notAfter = NOW) =>
    store.addCertificate(newCertificate({ names, notAfter }), newAudit())
  const revoked = await add(['a.example'])
  await add(['b.example', 'c.example'])
  await store.revoke([revoked.id], NOW, 'superseded', newAudit())
  await store.close()
  edit(
    storeFile(folder),
    `DROP TRIGGER certificate_added; DROP TRIGGER certificate_retired;
     DROP TRIGGER certificate_pruned; DROP TABLE certificate_names; ${MIGRATIONS[1]}`,
  )

  const again = await openStore({ folder })
  const count = async (name: string) => (await again.findByName(name)).length
  t.same([await count('a.example'), await count('c.example')], [0, 1])
  await again.addCertificate(newCertificate({ names: ['b.example', 'c.example'] }), newAudit())
  t.equal(await count('c.example'), 1, 'replaced')
  await again.addCertificate(
    newCertificate({ names: ['d.example', 'f.example'], notAfter: 1 }),
    newAudit(),
  )
  await again.addCertificate(newCertificate({ names: ['e.example', 'g.example'] }), newAudit())
  const never = { audit: NOW, orders: NOW, challenges: NOW }
  await again.prune(NOW + 1, { ...never, certificates: 0 })
  await again.close()
  const sqlite = connect(storeFile(folder))
  const names = sqlite.prepare('SELECT name FROM certificate_names ORDER BY name').all()
  t.same(
    names.map(({ name }) => name),
    ['c.example', 'g.example'],
    'nothing is left of what is gone',
  )
  sqlite.close()
})

t.test('the oldest store is brought to today’s schema with all that it holds', async (t) => {
  const folder = testFolder(t)
  const sqlite = new DatabaseSync(storeFile(folder))
  migrate(sqlite, MIGRATIONS.slice(0, 1))
  sqlite.exec(`
    PRAGMA application_id = 0x47486373;
    INSERT INTO chains VALUES (1, 'issuer', '["AQID"]');
    INSERT INTO certificates VALUES (7, 'a', 1, 'ca', 'a.test', '["a.test","b.test"]', 'p256', '0f',
      x'01', 1, x'02', NULL, ${NOW}, ${NOW + 9}, ${NOW + 6}, ${NOW}, NULL, NULL);
    INSERT INTO orders VALUES ('one', 'b', 'ca', '["c.test"]', 'p256', NULL, 'failed', 'starting',
      ${NOW}, 2, '{"code":"X","detail":"y"}', ${NOW + 1});`)
  sqlite.close()

  const store = await openStore({ folder })
  t.teardown(() => store.close())
  const certificate = { id: 7, renewAt: NOW + 6, chain: [Buffer.from([1, 2, 3])] }
  t.match(await store.findByName('b.test'), [certificate])
  t.match(await store.findOrder('one'), { failures: 2, lastError: { code: 'X' } })
  t.same(
    await store.claimUnchecked(NOW + 99, 9, NOW),
    [],
    'the embedded CA is not asked when to renew',
  )
  t.same(await store.listResumableOrders(NOW + 99), [])
  await store.addCertificate(newCertificate({ lineage: 'b', names: ['c.test'] }), newAudit())
  t.match(await store.findOrder('one'), { status: 'done', failures: 0 })
})

t.test('a key that was compromised before there was a list of them is in it', async (t) => {
  const folder = testFolder(t)
  const sqlite = new DatabaseSync(storeFile(folder))
  migrate(sqlite, MIGRATIONS.slice(0, 1))
  sqlite.exec(`PRAGMA application_id = 0x47486373; INSERT INTO chains VALUES (1, 'i', '["AQID"]')`)
  const add = async (serial: string, reason: string, der?: Uint8Array) => {
    const pair = await generateKeyPair('p256')
    const { certificate } = await createRoot({ commonName: serial, now: NOW, key: pair })
    sqlite
      .prepare(
        `INSERT INTO certificates VALUES (NULL, ?, 1, 'ca', 'a.test', '["a.test"]', 'p256', ?,
         ?, 1, NULL, NULL, 1, 2, NULL, 1, ${NOW}, ?)`,
      )
      .run(serial, serial, der ?? certificate, reason)
    return hash('sha256', pair.spki, 'hex')
  }
  const compromised = await add('01', 'keyCompromise')
  const superseded = await add('02', 'superseded')
  const unreadable = await add('03', 'keyCompromise', Buffer.of(1))
  sqlite.close()

  const store = await openStore({ folder })
  t.teardown(() => store.close())
  t.strictSame(
    await Promise.all([compromised, superseded, unreadable].map((key) => store.isCompromised(key))),
    [true, false, false],
  )
})

t.test('a migration', async (t) => {
  const migrations = [
    'CREATE TABLE a (n)',
    `CREATE TABLE b (n); INSERT INTO b VALUES (1); SELECT halfway(); INSERT INTO b VALUES (2)`,
  ]
  const open = (file: string, halfway: () => void) => {
    const sqlite = new DatabaseSync(file)
    sqlite.function('halfway', () => {
      halfway()
      return null
    })
    return sqlite
  }

  t.test('killed halfway is undone, then done whole at the next start', async (t) => {
    const file = join(testFolder(t), 'm.db')
    const child = spawn(process.execPath, [
      ...process.execArgv,
      '--input-type=module-typescript',
      '--eval',
      `import { DatabaseSync } from 'node:sqlite'
       import { migrate } from '${import.meta.resolve('../../../src/store/sqlite/migrations.ts')}'
       const sqlite = new DatabaseSync(${JSON.stringify(file)})
       sqlite.exec('PRAGMA journal_mode = WAL')
       sqlite.function('halfway', () => process.kill(process.pid, 'SIGKILL'))
       migrate(sqlite, ${JSON.stringify(migrations)})`,
    ])
    t.same(await once(child, 'exit'), [null, 'SIGKILL'])

    const sqlite = open(file, () => {})
    t.equal(schemaVersion(sqlite), 1)
    t.throws(() => sqlite.exec('SELECT * FROM b'), /no such table/)
    migrate(sqlite, migrations)
    t.equal(schemaVersion(sqlite), 2)
    t.same(sqlite.prepare('SELECT count(*) AS n FROM b').get()?.n, 2)
    sqlite.close()
  })

  t.test('that fails changes nothing', async (t) => {
    const file = join(testFolder(t), 'm.db')
    const failing = open(file, () => {
      throw new Error('no')
    })
    t.throws(() => migrate(failing, migrations))
    failing.close()
    const sqlite = open(file, () => {})
    t.equal(schemaVersion(sqlite), 1)
    t.throws(() => sqlite.exec('SELECT * FROM b'), /no such table/)
    sqlite.close()
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
    `import { connect, openStore, storeFile } from '${import.meta.resolve('../../../src/store/sqlite/open.ts')}'
     const say = (text) => process.stdout.write(text)
     try {
       await openStore({ folder: ${JSON.stringify(folder)} })
       say('opened')
     } catch ({ code }) {
       say(code)
     }`,
  ])
  const said: Buffer[] = await child.stdout.toArray()
  return Buffer.concat(said).toString()
}
