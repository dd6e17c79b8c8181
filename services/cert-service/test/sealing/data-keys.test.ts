import t, { type Test } from 'tap'
import { openDataKeys, type Purpose } from '../../src/sealing/keyring.ts'
import { createMasterKey } from '../../src/sealing/master-key.ts'
import type { DataKeyRecord, KeyringRecord } from '../../src/store/store.ts'

const LEASE = 2 ** 16
const MOST = 2 ** 32

/** A store that can be kept from saving, and what opens data keys upon it. */
async function testStore(t: Test) {
  const master = await createMasterKey(`${t.testdir()}/master.key`)
  const kept = new Map<number, DataKeyRecord>()
  const state = { full: false, saves: 0 }
  const store = {
    async saveKeyring({ dataKeys }: KeyringRecord) {
      if (state.full) throw new Error('no room')
      state.saves++
      for (const record of dataKeys) kept.set(record.id, record)
    },
  }
  const open = () => {
    const stored = kept.size > 0 ? { check: master.check, dataKeys: [...kept.values()] } : undefined
    return openDataKeys({ store, stored, master })
  }
  const records = (purpose: Purpose) => [...kept.values()].filter((key) => key.purpose === purpose)
  const set = (purpose: Purpose, seals: number) => {
    const [record] = records(purpose)
    kept.set(record!.id, { ...record!, seals })
  }
  const unwraps = t.capture(master, 'unwrap', master.unwrap)
  return { state, open, records, set, unwraps }
}

const turn = () => new Promise(setImmediate)

t.test('seals are counted before they are made, at each start anew', async (t) => {
  const { open, records } = await testStore(t)
  const first = await open()
  const { id } = records('leaf')[0]!
  t.match(records('leaf'), [{ id, seals: LEASE }])
  t.equal(first.take('leaf'), id)
  await open()
  t.match(records('leaf'), [{ id, seals: 2 * LEASE }])
})

t.test('a data key that has done its work is followed by another, and still opens', async (t) => {
  const { open, records, set } = await testStore(t)
  const first = await open()
  const { id } = records('leaf')[0]!
  set('leaf', MOST - LEASE)
  t.equal((await open()).take('leaf'), id, 'up to the last seal')
  const next = await open()
  t.not(next.take('leaf'), id)
  t.match(records('leaf'), [{ seals: MOST }, { seals: LEASE }])
  t.ok(next.key(id).equals(first.key(id)))
})

t.test('the next seals are counted while there are some left', async (t) => {
  const { open, state } = await testStore(t)
  const keys = await open()
  for (let i = 0; i < 5 * LEASE; i++) {
    keys.take('leaf')
    if (i % 1000 === 0) await turn()
  }
  t.equal(state.saves, 1 + 5, 'once each')
})

t.test('keys that are made at one time are not one', async (t) => {
  const { open, records, set } = await testStore(t)
  await open()
  for (const purpose of ['leaf', 'root'] as const) set(purpose, MOST - LEASE)
  const keys = await open()
  for (let i = 0; i <= LEASE / 2; i++) {
    keys.take('leaf')
    keys.take('root')
  }
  await turn()
  t.not(keys.take('leaf'), keys.take('root'))
  t.equal(records('leaf').length + records('root').length, 4)
})

t.test('what cannot be counted is not sealed, until it can be again', async (t) => {
  const { open, state } = await testStore(t)
  const keys = await open()
  state.full = true
  for (let i = 0; i < LEASE; i++) keys.take('leaf')
  t.throws(() => keys.take('leaf'), { code: 'CERT_STORE_UNAVAILABLE' })
  await turn()
  t.doesNotThrow(() => keys.take('root'), 'the other purposes go on')
  state.full = false
  t.throws(() => keys.take('leaf'), { code: 'CERT_STORE_UNAVAILABLE' })
  await turn()
  t.doesNotThrow(() => keys.take('leaf'))
})

t.test('the data key of the root is in memory only while it is used', async (t) => {
  const { open, unwraps } = await testStore(t)
  const keys = await open()
  for (const [purpose, count] of [
    ['leaf', 1],
    ['intermediate', 1],
    ['root', 3],
  ] as const) {
    const id = keys.take(purpose)
    for (let i = 0; i < 3; i++) keys.key(id)
    t.equal(unwraps().length, count, purpose)
  }
})
