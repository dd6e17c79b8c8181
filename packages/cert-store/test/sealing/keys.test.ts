import { randomBytes } from 'node:crypto'
import { onBothEngines } from '../helpers/engines.ts'

onBothEngines('the keyring, and another master key for it', async (t, { store }) => {
  const [check, next] = [randomBytes(32), randomBytes(32)]
  const key = (id: number) => ({ id, purpose: 'leaf', wrapped: randomBytes(60), seals: 0 })
  t.equal(await store.loadKeyring(), undefined)
  t.equal(await store.addDataKey(key(1), check), false, 'there is none')
  t.equal(await store.createKeyring(check), true)
  t.equal(await store.createKeyring(next), false)
  const [first, second] = [key(1), key(2)]
  t.equal(await store.addDataKey(first, check), true)
  t.equal(await store.addDataKey(key(1), check), false, 'there is one')
  t.equal(await store.addDataKey(second, next), false, 'under another master key')
  t.equal(await store.addDataKey(second, check), true)
  t.same([await store.countSeals(1, 10), await store.countSeals(1, 5)], [10, 15])
  const stored = { check, dataKeys: [{ ...first, seals: 15 }, second] }
  t.same(await store.loadKeyring(), stored)

  const rewrapped = stored.dataKeys.map((one) => ({ ...one, wrapped: randomBytes(60) }))
  const rotated = { check: next, dataKeys: rewrapped }
  t.equal(await store.replaceKeyring(rotated, next), false, 'it is another one')
  const some = { check: next, dataKeys: rewrapped.slice(1) }
  t.equal(await store.replaceKeyring(some, check), false, 'one key would be lost')
  t.same(await store.loadKeyring(), stored)
  t.equal(await store.replaceKeyring(rotated, check), true)
  t.same(await store.loadKeyring(), rotated)
})
