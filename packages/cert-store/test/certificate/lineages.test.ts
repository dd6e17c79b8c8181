import type { NewCertificate, Predecessor } from '../../src/port/store.ts'
import { onBothEngines } from '../helpers/engines.ts'
import { NOW, newAudit, newCertificate } from '../helpers/store.ts'

const ACME = { way: 'acme', account: 'a', address: '10.0.0.1', askedBy: 'psk:web' } as const
let added = 0

function newOne(changes: Partial<NewCertificate> = {}): NewCertificate {
  added += 1
  return newCertificate({ requestKey: `key ${added}`, ...ACME, ...changes })
}

onBothEngines('one follows another in a lineage, once', async (t, { store }) => {
  const add = (reason?: Predecessor['reason'], id = 0) =>
    store.addCertificate(
      newOne(),
      newAudit(),
      reason && { predecessor: { id, requestKey: '', reason } },
    )
  const first = await add()
  const second = await add('named', first.id)
  t.match(await store.findById(first.id), {
    isCurrent: false,
    replacedBy: second.id,
    askedBy: null,
  })
  const third = await add('named', first.id)
  t.match(await store.findById(second.id), { replacedBy: third.id }, 'nobody fetched the second')
  await store.setDownloaded(third.id, NOW)
  await add('named', first.id)
  t.match(await store.findById(third.id), { isCurrent: true, replacedBy: null }, 'it is in use')
  await add('due', second.id)
  t.match(await store.findById(third.id), { isCurrent: true }, 'nor if it was not named')
  const fresh = await add()
  const unused = await add('named', fresh.id)
  await add('due', fresh.id)
  t.match(await store.findById(unused.id), { isCurrent: true }, 'though nobody fetched it')
  await add('named', 999_999)
  const heads = await store.listHeads('psk:web', ['app.example.com'], { account: '', address: '' })
  t.equal(heads.length, 6)
  const actions = (await store.listTransitions(second.id)).map(({ action }) => action)
  t.same(actions, ['replace'])
})

onBothEngines('what is fetched after it was replaced begins a lineage', async (t, { store }) => {
  const names = ['app.example.com', 'www.example.com']
  const first = await store.addCertificate(newOne({ names }), newAudit())
  const predecessor = { id: first.id, requestKey: first.requestKey, reason: 'named' } as const
  await store.addCertificate(newOne({ names }), newAudit(), { predecessor })
  const by = { at: NOW, actor: 'psk:web', account: 'a' }
  await store.reinstate(first, by)
  t.match(await store.findById(first.id), {
    isCurrent: true,
    askedBy: 'psk:web',
    downloadedAt: NOW,
  })
  t.equal((await store.findByName('www.example.com')).length, 2, 'by each of its names')
  t.match(await store.listTransitions(first.id), [
    { ...by, action: 'reinstate' },
    { action: 'replace' },
  ])
  await store.addCertificate(newOne({ names }), newAudit(), { predecessor })
  await store.reinstate(first, by)
  t.match(await store.findById(first.id), { isCurrent: false }, 'not one that was fetched before')
  const revoked = await store.addCertificate(newOne(), newAudit())
  const named = { id: revoked.id, requestKey: '', reason: 'named' } as const
  await store.addCertificate(newOne(), newAudit(), { predecessor: named })
  await store.revoke([revoked.id], NOW, 'superseded', newAudit())
  await store.reinstate(revoked, by)
  t.match(await store.findById(revoked.id), { isCurrent: false }, 'nor one that was revoked')
  const key = newOne()
  const old = await store.addCertificate(key, newAudit())
  await store.addCertificate({ ...newOne(), requestKey: key.requestKey }, newAudit())
  await store.reinstate(old, by)
  t.match(await store.findById(old.id), { isCurrent: false }, 'nor one whose key has a newer one')
})

onBothEngines(
  'what was withdrawn does not come back by what came before it',
  async (t, { store }) => {
    const first = await store.addCertificate(newOne(), newAudit())
    const predecessor = { id: first.id, requestKey: '', reason: 'named' } as const
    const next = await store.addCertificate(newOne(), newAudit(), { predecessor })
    await store.remove([next.id], newAudit({ action: 'delete' }))
    await store.reinstate(first, { at: NOW, actor: 'psk:web', account: 'a' })
    t.match(await store.findById(first.id), { isCurrent: false })
  },
)

onBothEngines('transitions go with the certificate', async (t, { store }) => {
  const { id } = await store.addCertificate(newOne({ notAfter: NOW }), newAudit())
  await store.addCertificate(newOne({ notAfter: NOW }), newAudit())
  await store.remove([id], newAudit({ action: 'delete' }))
  t.equal((await store.listTransitions(id)).length, 1)
  const all = { audit: 0, certificates: 0, orders: 0, challenges: 0 }
  await store.prune(NOW + 400 * 86_400_000, all)
  const left = await store.findById(id)
  t.equal((await store.listTransitions(id)).length, left ? 1 : 0)
})

onBothEngines('clients are asked to renew, and what they ask is kept', async (t, { store }) => {
  const { id } = await store.addCertificate(newOne(), newAudit())
  const other = await store.addCertificate(newOne({ account: null, way: 'api' }), newAudit())
  await store.requestRenewals(new Map([id, other.id].map((one) => [one, NOW + 1])), newAudit())
  await store.setRenewalInfoRead(new Map([[id, NOW + 2]]))
  t.match(await store.findById(id), { renewalRequestedAt: NOW + 1, renewalInfoReadAt: NOW + 2 })
  for (const [at, earliest] of [
    [NOW + 5, NOW + 1],
    [NOW, NOW],
  ] as const) {
    await store.requestRenewals(new Map([[id, at]]), newAudit())
    t.match(await store.findById(id), { renewalRequestedAt: earliest }, 'it is put off by none')
  }
  t.same(await store.listTransitions(other.id), [], 'only those of ACME clients')
})
