import { randomBytes } from 'node:crypto'
import type { RollRecord } from '@gatehouse/cert-store/port'
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

onBothEngines('a roll begins in one write, and its stages change once', async (t, { store }) => {
  const authority = { certificate: randomBytes(400), sealedKey: null, notAfter: NOW }
  const root = (await store.addAuthority({ ...authority, role: 'root' }, null))!
  t.same(await store.listRolls(), [])
  const crl = { number: 7n, crl: randomBytes(50), thisUpdate: NOW, nextUpdate: NOW, entries: null }
  const added = [
    { ...authority, role: 'root', sealedKey: randomBytes(99), crl },
    { ...authority, role: 'cross' },
    { ...authority, role: 'intermediate', crl },
    { ...authority, role: 'client-intermediate', crl },
  ] as const
  const begin = () =>
    store.beginRoll(added, { fromRoot: root.id, begunAt: NOW }, newAudit({ action: 'ca-roll' }))
  const outcomes = await Promise.all([begin(), begin()])
  t.same(outcomes.sort(), [false, true], 'once')
  t.equal(await begin(), false)
  const rows = await store.listAuthorities()
  t.same(
    rows.map(({ role }) => role),
    ['client-intermediate', 'intermediate', 'cross', 'root', 'root'],
  )
  const [, , , next] = rows
  for (const { id, role } of rows)
    t.same(
      await store.findCrl(id),
      role === 'cross' || id === root.id ? undefined : { ...crl, authorityId: id },
      role,
    )
  const roll = { fromRoot: root.id, toRoot: next!.id, stage: 'begun', begunAt: NOW, usedAt: null }
  const [begun] = await store.listRolls()
  t.same(begun, roll)

  const change = (stage: RollRecord['stage'], usedAt: number | null, previous = begun!) =>
    store.changeRoll(previous, { stage, usedAt }, newAudit({ action: 'ca-roll' }))
  t.same((await Promise.all([change('used', NOW), change('used', NOW + 1)])).sort(), [false, true])
  const [used] = await store.listRolls()
  t.match(used, { stage: 'used', begunAt: NOW })
  t.equal(await change('begun', null, used), true)
  t.match(await store.listRolls(), [{ stage: 'begun', usedAt: null }])
  t.equal(await change('finished', NOW, used), false, 'as it was read')
  t.equal(await change('finished', NOW), true)
  const again = { fromRoot: next!.id, begunAt: NOW }
  t.equal(await store.beginRoll(added, again, newAudit()), true)
  const [second] = await store.listRolls()
  t.equal(await store.beginRoll(added, again, newAudit()), false)
  t.equal(await change('cancelled', null, second!), true)
  const third = () => store.beginRoll(added, again, newAudit())
  t.same(
    (await Promise.all([third(), third()])).sort(),
    [false, true],
    'once after a cancelled one',
  )
  const audit = await store.listAudit({ limit: 20 })
  t.equal(audit.filter(({ action }) => action === 'ca-roll').length, 5, 'with each change')
})

onBothEngines('what is in force below authorities', async (t, { store }) => {
  const other = randomBytes(300)
  const add = (changes: object) => store.addCertificate(newCertificate(changes), newAudit())
  await add({ names: ['a.example'], notAfter: NOW + 2 })
  await add({ names: ['a.example'], notAfter: NOW + 5 })
  await add({ names: ['b.example'], notAfter: NOW + 9, chain: [CHAIN[0]!, other] })
  await add({ names: ['c.example'], notAfter: NOW + 3, chain: [other], renewAt: null })
  await add({ names: ['d.example'], notAfter: NOW - 1 })
  const revoked = await add({ names: ['e.example'], notAfter: NOW + 4 })
  await store.revoke([revoked.id], NOW, 'superseded', newAudit())
  const inForce = (...authorities: Buffer[]) => store.findInForce(authorities, NOW)
  t.same(await inForce(CHAIN[0]!), {
    total: 3,
    renewable: 2,
    names: ['b.example', 'a.example'],
    until: NOW + 9,
  })
  t.same(await inForce(other), {
    total: 1,
    renewable: 0,
    names: ['c.example'],
    until: NOW + 3,
  })
  t.match(await inForce(CHAIN[0]!, other), { total: 4 })
  t.same(await inForce(), { total: 0, renewable: 0, names: [], until: null })
})
