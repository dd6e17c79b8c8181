import { randomBytes } from 'node:crypto'
import {
  chmodSync,
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
import { DatabaseSync } from 'node:sqlite'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { openSqliteStore, storeFile } from '../../src/engines/sqlite.ts'
import { createMasterKey, openKeyring } from '../../src/sealing/master-key.ts'

const secret = Buffer.from('a private key')
const context = Buffer.from('its certificate')
const purposes = ['leaf', 'intermediate', 'root'] as const

async function testKeyring(t: Test) {
  const base = testFolder(t)
  const folder = join(base, 'data')
  const store = await openSqliteStore({ folder })
  t.teardown(() => store.close())
  const options = { masterKeyFile: join(base, 'keys', 'master.key'), folder, store }
  return { ...options, options, base, keyring: await openKeyring(options) }
}

t.test('what was sealed opens again, also after a restart', async (t) => {
  const { keyring, options } = await testKeyring(t)
  for (const purpose of purposes) {
    const sealed = keyring.seal(purpose, secret, context)
    t.same(keyring.open(sealed, context), secret, purpose)
    t.same((await openKeyring(options)).open(new Uint8Array(sealed), context), secret)
    t.notOk(sealed.includes(secret))
    t.notSame(keyring.seal(purpose, secret, context), sealed, 'each seal has a nonce of its own')
  }
})

t.test('a sealed key that was changed or moved does not open', async (t) => {
  const { keyring } = await testKeyring(t)
  const sealed = keyring.seal('leaf', secret, context)
  const broken = { code: 'STORE_CORRUPT' }
  for (let i = 0; i < sealed.length; i++) {
    const changed = Buffer.from(sealed)
    changed[i]! ^= 1
    t.throws(() => keyring.open(changed, context), broken, `byte ${i}`)
  }
  for (let length = 0; length < sealed.length; length++) {
    t.throws(() => keyring.open(sealed.subarray(0, length), context), broken, `cut at ${length}`)
  }
  t.throws(() => keyring.open(sealed, Buffer.from('another certificate')), broken)
})

t.test('a data key cannot take the place of another', async (t) => {
  const { keyring, folder, options } = await testKeyring(t)
  const sealed = keyring.seal('root', secret, context)
  const db = new DatabaseSync(storeFile(folder))
  db.exec("UPDATE data_keys SET purpose = 'leaf' WHERE purpose = 'root'")
  db.close()
  const swapped = await openKeyring(options)
  t.throws(() => swapped.open(sealed, context), { code: 'STORE_CORRUPT' })
})

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

function replaceByFolder(file: string): void {
  rmSync(file)
  mkdirSync(file, 0o700)
}

function snapshot(file: string): unknown {
  if (!existsSync(file)) return undefined
  return statSync(file).isDirectory() ? 'folder' : readFileSync(file, 'utf8')
}
