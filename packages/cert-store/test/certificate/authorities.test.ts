import { randomBytes } from 'node:crypto'
import { onBothEngines } from '../helpers/engines.ts'
import { CHAIN, NOW, newAudit, newCertificate } from '../helpers/store.ts'

onBothEngines('authorities, each after the last one of its role', async (t, { store }) => {
  const authority = { certificate: randomBytes(400), sealedKey: randomBytes(99), notAfter: NOW }
  const root = (await store.addAuthority({ ...authority, role: 'root' }, null))!
  t.equal(await store.addAuthority({ ...authority, role: 'root' }, null), undefined)
  const first = (await store.addAuthority({ ...authority, role: 'intermediate' }, null))!
  const second = (await store.addAuthority({ ...authority, role: 'intermediate' }, first.id))!
  t.equal(await store.addAuthority({ ...authority, role: 'intermediate' }, first.id), undefined)
  t.same(await store.listAuthorities(), [second, first, root])
  await store.dropAuthorityKey(root.id)
  t.same(await store.listAuthorities(), [second, first, { ...root, sealedKey: null }])
})

onBothEngines('a CRL replaces the one before', async (t, { store }) => {
  const certificate = CHAIN[0]!
  const authority = { role: 'root', certificate, sealedKey: null, notAfter: NOW } as const
  const { id } = (await store.addAuthority(authority, null))!
  t.equal(await store.findCrl(id), undefined)
  const revoked = await store.addCertificate(newCertificate(), newAudit())
  await store.revoke([revoked.id], NOW, 'superseded', newAudit())
  for (const number of [1n, 2n ** 150n]) {
    const before = await store.findCrl(id)
    const crl = {
      authorityId: id,
      number,
      crl: randomBytes(50),
      thisUpdate: NOW - 1,
      nextUpdate: NOW,
      entries: null,
    }
    const made = await store.replaceCrl({ id, certificate }, NOW, (stored, list) => {
      t.same(stored, before)
      t.same(list, listOf(revoked.serialNumber))
      return crl
    })
    t.same(made, crl)
    t.same(await store.findCrl(id), crl)
  }
  const kept = await store.replaceCrl({ id, certificate }, NOW, (stored) => stored!)
  t.same(await store.findCrl(id), kept)
  const failing = store.replaceCrl({ id, certificate }, NOW, () => {
    throw new Error('no key')
  })
  await t.rejects(failing, /no key/)
  t.same(await store.findCrl(id), kept)
})

const listOf = (serialNumber: string) => [
  { serialNumber, revokedAt: NOW, reason: 'superseded' as const },
]

onBothEngines('the keyring', async (t, { store }) => {
  t.equal(await store.loadKeyring(), undefined)
  const key = (id: number, seals: number) => ({
    id,
    purpose: 'leaf',
    wrapped: randomBytes(60),
    seals,
  })
  const [first, second, check, next] = [key(1, 5), key(2, 0), randomBytes(32), randomBytes(32)]
  t.equal(await store.addDataKey(first, check), false, 'there is none')
  t.equal(await store.createKeyring(check), true)
  t.equal(await store.createKeyring(next), false)
  t.same(await store.loadKeyring(), { check, dataKeys: [] })
  t.equal(await store.addDataKey(first, check), true)
  t.equal(await store.addDataKey(key(1, 0), check), false, 'no data key is replaced')
  t.equal(await store.addDataKey(key(3, 0), next), false, 'the master key is another')
  t.equal(await store.addDataKey(second, check), true)
  t.equal(await store.countSeals(1, 10), 15)
  t.equal(await store.countSeals(1, 10), 25)
  const dataKeys = [{ ...first, seals: 25 }, second]
  t.same(await store.loadKeyring(), { check, dataKeys })
  const wrapped = dataKeys.map((one) => ({ ...one, wrapped: randomBytes(60) }))
  t.equal(await store.replaceKeyring({ check: next, dataKeys: wrapped }, next), false)
  t.same(await store.loadKeyring(), { check, dataKeys })
  t.equal(await store.replaceKeyring({ check: next, dataKeys: wrapped }, check), true)
  t.same(await store.loadKeyring(), { check: next, dataKeys: wrapped })
})

onBothEngines('the keyring, and another master key for it', async (t, { store }) => {
  const [check, next] = [randomBytes(32), randomBytes(32)]
  const key = (id: number) => ({ id, purpose: 'leaf', wrapped: randomBytes(60), seals: 0 })
  t.equal(await store.loadKeyring(), undefined)
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
