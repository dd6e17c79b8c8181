import { DatabaseSync } from 'node:sqlite'
import t, { type Test } from 'tap'
import { storeFile } from '../../src/engines/sqlite.ts'
import { Keyring, openDataKeys, PURPOSES, type Purpose } from '../../src/sealing/keyring.ts'
import { createMasterKey, openKeyring } from '../../src/sealing/master-key.ts'
import { context, secret, testKeyring } from '../helpers/keyring.ts'
import { testStore } from '../helpers/store.ts'

const purposes = ['leaf', 'intermediate', 'root'] as const

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

const LEASE = 2 ** 16
const MOST = 2 ** 32

/** A store with a keyring that can be kept from saving, and what opens data keys upon it. */
async function testKeys(t: Test) {
  const { store, folder } = await testStore(t)
  const master = await createMasterKey(`${folder}/master.key`)
  t.ok(await store.createKeyring(master.check))
  const counted = t.capture(store, 'countSeals', store.countSeals)
  const unwraps = t.capture(master, 'unwrap', master.unwrap)
  const open = async () => openDataKeys({ store, stored: await store.loadKeyring(), master })
  const records = async (purpose: Purpose) =>
    (await store.loadKeyring())!.dataKeys.filter((key) => key.purpose === purpose)
  const count = async (purpose: Purpose, seals: number) => {
    const [record] = await records(purpose)
    await store.countSeals(record!.id, seals - record!.seals)
  }
  /** Keeps the store from saving until it is called back. */
  const block = () => {
    const other = new DatabaseSync(storeFile(folder))
    other.exec('BEGIN IMMEDIATE')
    return () => other.close()
  }
  return { store, folder, open, records, count, counted, block, unwraps }
}

/** Lets the store come to rest: its writes are one behind the other. */
const rest = async ({ store }: Pick<Awaited<ReturnType<typeof testKeys>>, 'store'>) => {
  await new Promise(setImmediate)
  await store.addAudit([]).catch(() => {})
  await new Promise(setImmediate)
}

t.test('seals are counted before they are made, at each start anew', async (t) => {
  const { open, records } = await testKeys(t)
  const first = await open()
  const { id } = (await records('leaf'))[0]!
  t.match(await records('leaf'), [{ id, seals: LEASE }])
  t.equal(first.take('leaf'), id)
  await open()
  t.match(await records('leaf'), [{ id, seals: 2 * LEASE }])
})

t.test('a data key that has done its work is followed by another, and still opens', async (t) => {
  const { open, records, count } = await testKeys(t)
  const first = await open()
  const { id } = (await records('leaf'))[0]!
  await count('leaf', MOST - LEASE)
  t.equal((await open()).take('leaf'), id, 'up to the last seal')
  const next = await open()
  t.not(next.take('leaf'), id)
  t.match(await records('leaf'), [{ seals: MOST }, { seals: LEASE }])
  t.ok(next.key(id).equals(first.key(id)))
})

t.test('the next seals are counted while there are some left', async (t) => {
  const { open, records, counted } = await testKeys(t)
  const keys = await open()
  for (let i = 0; i < 5 * LEASE; i++) {
    keys.take('leaf')
    if (i % 1000 === 0) await new Promise(setImmediate)
  }
  t.equal(counted().length, 5, 'once each')
  t.match(await records('leaf'), [{ seals: (1 + 5) * LEASE }])
})

t.test('keys that are made at one time are not one', async (t) => {
  const { store, open, records, count } = await testKeys(t)
  await open()
  for (const purpose of ['leaf', 'root'] as const) await count(purpose, MOST - LEASE)
  const keys = await open()
  for (let i = 0; i <= LEASE / 2; i++) {
    keys.take('leaf')
    keys.take('root')
  }
  await rest({ store })
  t.not(keys.take('leaf'), keys.take('root'))
  t.equal((await records('leaf')).length + (await records('root')).length, 4)
})

t.test('replicas that add data keys at one time add different ones, and open all', async (t) => {
  const { open, records, count } = await testKeys(t)
  await open()
  await count('leaf', MOST)
  await count('account', MOST)
  const replicas = await Promise.all(Array.from({ length: 4 }, open))
  const leaf = await records('leaf')
  t.equal(
    leaf.slice(1).reduce((sum, { seals }) => sum + seals, 0),
    4 * LEASE,
    'each has counted seals of its own',
  )
  const ids = [...leaf, ...(await records('account'))].map(({ id }) => id)
  t.equal(new Set(ids).size, ids.length)
  for (const keys of replicas) {
    await keys.refresh()
    t.ok(leaf.slice(1).some(({ id }) => id === keys.take('leaf')))
    for (const id of ids) t.ok(keys.key(id).equals(replicas[0]!.key(id)))
  }
})

t.test('a data key that another replica has used up is not used', async (t) => {
  const { store, open, records, count } = await testKeys(t)
  const keys = await open()
  const { id } = (await records('leaf'))[0]!
  await count('leaf', MOST)
  for (let i = 0; i <= LEASE / 2; i++) keys.take('leaf')
  await rest({ store })
  t.match((await records('leaf')).slice(1), [{ seals: LEASE }])
  for (let i = LEASE / 2 + 1; i < LEASE; i++)
    if (keys.take('leaf') !== id)
      t.fail('what was counted is used first, while the others learn of the next')
  t.not(keys.take('leaf'), id)
})

t.test(
  'replicas that start at the same time for the first time have the same data keys',
  async (t) => {
    const { store, open } = await testKeys(t)
    const replicas = await Promise.all(Array.from({ length: 5 }, open))
    const { dataKeys } = (await store.loadKeyring())!
    t.strictSame(
      dataKeys.map(({ purpose, seals }) => [purpose, seals]),
      PURPOSES.map((purpose) => [purpose, 5 * LEASE]),
    )
    for (const keys of replicas)
      for (const { id } of dataKeys) t.ok(keys.knows(id), `${id} is known without a refresh`)
  },
)

t.test('a data key that a failover has lost is added again', async (t) => {
  const { store, open, records, folder } = await testKeys(t)
  const keys = await open()
  const [leaf] = await records('leaf')
  const db = new DatabaseSync(storeFile(folder), { timeout: 5_000 })
  db.exec(`DELETE FROM data_keys WHERE id = ${leaf!.id}`)
  db.close()
  t.same(await records('leaf'), [])
  await keys.refresh()
  t.strictSame(
    (await records('leaf')).map(({ wrapped }) => wrapped),
    [leaf!.wrapped],
  )
  t.equal((await store.loadKeyring())!.dataKeys.length, PURPOSES.length)
})

t.test('under another master key no data key is added', async (t) => {
  const { store, open } = await testKeys(t)
  const { check } = (await store.loadKeyring())!
  t.ok(await store.replaceKeyring({ check: Buffer.alloc(32), dataKeys: [] }, check))
  await t.rejects(open(), { code: 'STORE_UNAVAILABLE' })
})

t.test('what cannot be counted is not sealed, until it can be again', async (t) => {
  const { store, open, block } = await testKeys(t)
  const keys = await open()
  const unblock = block()
  for (let i = 0; i < LEASE; i++) keys.take('leaf')
  t.throws(() => keys.take('leaf'), { code: 'STORE_UNAVAILABLE' })
  await rest({ store })
  t.doesNotThrow(() => keys.take('root'), 'the other purposes go on')
  unblock()
  t.throws(() => keys.take('leaf'), { code: 'STORE_UNAVAILABLE' })
  await rest({ store })
  t.doesNotThrow(() => keys.take('leaf'))
})

t.test('the data key of the root is in memory only while it is used', async (t) => {
  const { open, unwraps } = await testKeys(t)
  const keys = await open()
  for (const [purpose, count] of [
    ['leaf', 1],
    ['intermediate', 1],
    ['root', 3],
  ] as const) {
    const id = keys.take(purpose)
    for (let i = 0; i < 3; i++) keys.key(id)
    const results = unwraps()
    t.equal(results.length, count, purpose)
    for (const unwrap of results)
      t.same('returned' in unwrap && unwrap.returned, Buffer.alloc(32), 'no bytes are left')
  }
})

t.test('what another replica sealed with a new data key opens', async (t) => {
  const { open, count } = await testKeys(t)
  const [keys, early] = [await open(), new Keyring(await open())]
  const derived = new Keyring(keys).derive('leaf', 'a secret')
  await count('leaf', MOST)
  const late = new Keyring(await open())
  const sealed = late.seal('leaf', secret, context)
  t.throws(() => early.open(sealed, context), { code: 'STORE_CORRUPT' })
  t.same(await early.openAny(sealed, context), secret)
  for (const keyring of [early, late])
    t.same(keyring.derive('leaf', 'a secret'), derived, 'and what is derived stays the same')
  t.notSame(late.derive('leaf', 'another secret'), derived)
  await t.rejects(early.openAny(Buffer.of(1, 0), context), { code: 'STORE_CORRUPT' })
})
