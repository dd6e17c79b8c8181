import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { backup, restore } from '../../src/backup/backup.ts'
import { openSqliteStore } from '../../src/engines/sqlite.ts'
import { PURPOSES } from '../../src/sealing/keyring.ts'
import { createMasterKey, openKeyring, replaceMasterKey } from '../../src/sealing/master-key.ts'
import { context, secret, testKeyring } from '../helpers/keyring.ts'
import { testStore } from '../helpers/store.ts'

t.test('the master key is made at first, for its owner alone, and kept', async (t) => {
  const { masterKeyFile, options, store } = await testKeyring(t)
  t.match(readFileSync(masterKeyFile, 'utf8'), /^[A-Za-z0-9+/]{43}=\n$/)
  t.equal(statSync(masterKeyFile).mode & 0o777, 0o600)
  t.equal(statSync(join(masterKeyFile, '..')).mode & 0o777, 0o700)
  const before = readFileSync(masterKeyFile)
  await openKeyring(options)
  t.same(readFileSync(masterKeyFile), before)
  const { check, dataKeys } = (await store.loadKeyring())!
  const bytes = Buffer.from(before.toString(), 'base64')
  for (const stored of [check, ...dataKeys.map(({ wrapped }) => wrapped)]) {
    t.notOk(Buffer.from(stored).includes(bytes), 'it is not in the store')
  }
})

t.test('a first start that was killed while it wrote the key begins anew', async (t) => {
  const folder = join(testFolder(t, { 'master.key.draft': 'AAA' }), 'data')
  const store = await openSqliteStore({ folder })
  await openKeyring({ masterKeyFile: join(folder, '..', 'master.key'), folder, store })
  await store.close()
  t.same(readdirSync(join(folder, '..')).sort(), ['data', 'master.key'])
})

t.test('a store without keyring takes the key that lies there', async (t) => {
  const base = testFolder(t)
  const masterKeyFile = join(base, 'master.key')
  await createMasterKey(masterKeyFile)
  const text = readFileSync(masterKeyFile)
  const folder = join(base, 'data')
  const store = await openSqliteStore({ folder })
  await openKeyring({ masterKeyFile, folder, store })
  await store.close()
  t.same(readFileSync(masterKeyFile), text)
})

const anotherKey = `${randomBytes(32).toString('base64')}\n`
const faults: [what: string, message: RegExp, harm: (file: string) => void][] = [
  ['is absent', /does not exist/, (file) => rmSync(file)],
  [
    'is of another store',
    /is not the key of this store/,
    (file) => writeFileSync(file, anotherKey),
  ],
  ['is empty', /not hold 32 bytes/, (file) => writeFileSync(file, '')],
  ['is cut short', /not hold 32 bytes/, (file) => writeFileSync(file, anotherKey.slice(4))],
  ['is longer', /not hold 32 bytes/, (file) => writeFileSync(file, anotherKey.repeat(2))],
  ['is a folder', /Cannot read/, (file) => replaceByFolder(file)],
  ['may be read by others', /open to other users/, (file) => chmodSync(file, 0o604)],
  ['may be written by its group', /open to other users/, (file) => chmodSync(file, 0o660)],
]

for (const [what, message, harm] of faults) {
  t.test(`a master key that ${what} stops the start, and no new one is made`, async (t) => {
    const { masterKeyFile, options, store } = await testKeyring(t)
    const before = await store.loadKeyring()
    harm(masterKeyFile)
    const left = snapshot(masterKeyFile)
    const error = await openKeyring(options).catch((error) => error)
    t.match(error, { code: 'CERT_MASTER_KEY_UNUSABLE', message })
    t.match(error.message, /^[^\n]+$/)
    t.notMatch(error.message, anotherKey.trim().slice(4, -4), 'no key is told')
    t.same(snapshot(masterKeyFile), left)
    t.same(await store.loadKeyring(), before)
  })
}

t.test(
  'a key that is configured has to be that of the store, whatever the file holds',
  async (t) => {
    const { options } = await testKeyring(t)
    const wrong = openKeyring({ ...options, masterKey: anotherKey.trim() })
    await t.rejects(wrong, {
      code: 'CERT_MASTER_KEY_UNUSABLE',
      message: '`storage.masterKey` is not the key of this store.',
    })
  },
)

t.test('a shared store makes no key, which other replicas would not know', async (t) => {
  const { store } = await testStore(t)
  const masterKeyFile = join(testFolder(t), 'master.key')
  const message = /does not exist. Create it once/
  await t.rejects(openKeyring({ masterKeyFile, store }), { message })
  t.notOk(existsSync(masterKeyFile))
  t.equal(await store.loadKeyring(), undefined)
})

t.test('of replicas that begin at the same time, one has its key', async (t) => {
  const { store } = await testStore(t)
  const open = (masterKey: string) => openKeyring({ masterKeyFile: 'none', masterKey, store })
  const keys = [1, 2].map(() => randomBytes(32).toString('base64'))
  const opened = await Promise.allSettled(keys.map(open))
  t.match(opened.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
  const refused = opened.find(({ status }) => status === 'rejected')
  t.match(refused, { reason: { code: 'CERT_MASTER_KEY_UNUSABLE' } })
})

t.test('a master key that its group may read is taken', async (t) => {
  const { masterKeyFile, options } = await testKeyring(t)
  chmodSync(masterKeyFile, 0o440)
  await t.resolves(openKeyring(options))
})

t.test('a master key inside the data folder is refused, by any name', async (t) => {
  const { options, folder, base, masterKeyFile } = await testKeyring(t)
  symlinkSync(folder, join(base, 'alias'))
  symlinkSync(join(folder, 'real.key'), join(base, 'link.key'))
  const misplaced = { code: 'CERT_MASTER_KEY_UNUSABLE', message: /inside the data folder/ }
  const inside = [
    join(folder, 'master.key'),
    join(folder, 'deep', 'master.key'),
    join(folder, '..key'),
    join(base, 'keys', '..', 'data', 'master.key'),
    join(base, 'alias', 'master.key'),
  ]
  for (const file of inside) {
    const refused = openKeyring({ ...options, masterKeyFile: file })
    await t.rejects(refused, misplaced, file.slice(base.length))
    t.notOk(existsSync(file))
  }
  renameSync(masterKeyFile, join(folder, 'real.key'))
  const linked = openKeyring({ ...options, masterKeyFile: join(base, 'link.key') })
  await t.rejects(linked, misplaced, 'through a link')
})

async function sealedStore(t: Test) {
  const base = testFolder(t)
  const folder = join(base, 'data')
  const masterKeyFile = join(base, 'keys', 'master.key')
  /** What a start does, and what it then reads. */
  const start = async () => {
    const store = await openSqliteStore({ folder })
    try {
      const keyring = await openKeyring({ folder, masterKeyFile, store })
      sealed ??= PURPOSES.map((purpose) => keyring.seal(purpose, secret, context))
      const [first, ...others] = sealed.map((one) => keyring.open(one, context))
      for (const other of others) t.same(other, first)
      return first
    } finally {
      await store.close()
    }
  }
  const replace = async (file = masterKeyFile) => {
    await using store = await openSqliteStore({ folder })
    await replaceMasterKey(store, file)
  }
  let sealed: Buffer[] | undefined
  await start()
  return { base, folder, masterKeyFile, next: `${masterKeyFile}.next`, start, replace }
}

t.test('the new master key opens what the old one sealed, the old one nothing', async (t) => {
  const { base, masterKeyFile, start, replace } = await sealedStore(t)
  const old = join(base, 'old.key')
  copyFileSync(masterKeyFile, old)
  await replace()
  t.same(readdirSync(join(base, 'keys')), ['master.key'])
  t.equal(statSync(masterKeyFile).mode & 0o777, 0o600)
  t.notSame(readFileSync(masterKeyFile), readFileSync(old))
  t.same(await start(), secret)
  copyFileSync(old, masterKeyFile)
  await t.rejects(start(), { message: /is not the key of this store/ })
})

t.test('a backup from before opens with the old key only', async (t) => {
  const { base, folder, masterKeyFile, replace } = await sealedStore(t)
  const old = join(base, 'keys', 'old.key')
  copyFileSync(masterKeyFile, old)
  const file = join(base, 'copy.db')
  await backup({ folder, file })
  await replace()

  const elsewhere = join(base, 'elsewhere')
  await restore({ folder: elsewhere, file, forget: true })
  const store = await openSqliteStore({ folder: elsewhere })
  t.teardown(() => store.close())
  const openWith = (masterKeyFile: string) =>
    openKeyring({ folder: elsewhere, masterKeyFile, store })
  await t.rejects(openWith(masterKeyFile), { message: /is not the key of this store/ })
  await t.resolves(openWith(old))
})

t.test('cut short at any point, the next start has a key that opens', async (t) => {
  t.test('before the store is wrapped anew: the old one', async (t) => {
    const { masterKeyFile, next, start } = await sealedStore(t)
    const old = readFileSync(masterKeyFile)
    await createMasterKey(next)
    t.same(await start(), secret)
    t.same(readFileSync(masterKeyFile), old)
    t.notOk(existsSync(next), 'the one that was to come is gone')
  })

  t.test('while the new key is written: the old one', async (t) => {
    const { next, start, replace } = await sealedStore(t)
    writeFileSync(`${next}.draft`, 'AAA', { mode: 0o600 })
    t.same(await start(), secret)
    await replace()
    t.same(await start(), secret, 'and the next rotation is not in its way')
    t.notOk(existsSync(`${next}.draft`))
  })

  t.test('after the store is wrapped anew: the new one', async (t) => {
    const { masterKeyFile, next, start, replace, base } = await sealedStore(t)
    const old = join(base, 'old.key')
    copyFileSync(masterKeyFile, old)
    await replace()
    // As if the last step, the renaming, had not happened.
    copyFileSync(masterKeyFile, next)
    copyFileSync(old, masterKeyFile)
    const kept = readFileSync(next)
    t.same(await start(), secret)
    t.same(readFileSync(masterKeyFile), kept)
    t.notOk(existsSync(next))
    t.same(await start(), secret)
  })
})

t.test('a key that was replaced meanwhile is not replaced again', async (t) => {
  const { folder, masterKeyFile, next } = await sealedStore(t)
  await using store = await openSqliteStore({ folder })
  const replaceKeyring = async () => false
  const replacing = replaceMasterKey({ ...store, replaceKeyring }, masterKeyFile)
  await t.rejects(replacing, { message: 'The master key was replaced meanwhile.' })
  t.ok(existsSync(next), 'the present key stays in its place')
})

t.test('without the present key no other takes its place', async (t) => {
  const { base, start, replace } = await sealedStore(t)
  await t.rejects(replace(join(base, 'other.key')), { message: /does not exist/ })
  t.same(readdirSync(join(base, 'keys')), ['master.key'])
  t.same(await start(), secret)
})

function replaceByFolder(file: string): void {
  rmSync(file)
  mkdirSync(file, 0o700)
}

function snapshot(file: string): unknown {
  if (!existsSync(file)) return undefined
  return statSync(file).isDirectory() ? 'folder' : readFileSync(file, 'utf8')
}
