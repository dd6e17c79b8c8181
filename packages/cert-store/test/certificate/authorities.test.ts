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
