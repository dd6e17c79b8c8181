import type { Lease, NewCertificate, Store, Work } from '../../src/port/store.ts'
import { onBothEngines } from '../helpers/engines.ts'
import { NOW, newAudit, newCertificate, newOrder } from '../helpers/store.ts'

const LOST = { code: 'CERT_LEASE_LOST' }
const domain = 'app.example.com'
const { requestKey } = newCertificate()

/** Work on the request key of a certificate. */
function workOn(store: Store) {
  return {
    async take(changes: Partial<Work> = {}): Promise<Lease> {
      return (await store.takeLease({ requestKey, domain, names: 2, ...changes }))!
    },
    add: (changes: Partial<NewCertificate>, lease?: Lease) =>
      store.addCertificate(newCertificate({ requestKey, ...changes }), newAudit(), { lease }),
    async counted(): Promise<readonly number[]> {
      const names = await store.countNames('psk:a', NOW)
      return [names.count, (await store.countInUse(domain, NOW)).count]
    },
  }
}

onBothEngines('a certificate is stored by the lease in force, and ends it', async (t, opened) => {
  const { store } = opened
  const { take, add } = workOn(store)
  const lease = await take()
  t.match(lease, { requestKey, currentId: null, lost: { aborted: false } })
  const added = await add({}, lease)
  t.equal((await store.findCurrent(requestKey))?.id, added.id)
  await t.rejects(add({}, lease), LOST, 'it stores once')
  await t.rejects(store.saveOrder(newOrder({ requestKey }), lease), LOST)
  t.equal((await store.findCurrent(requestKey))?.id, added.id)
  t.equal((await store.listAudit({ limit: 9 })).length, 1, 'no trace of what was refused')

  const next = await take()
  t.ok(next.token > lease.token)
  t.equal(next.currentId, added.id)
  t.not((await add({}, next)).id, added.id, 'it replaces what was current when it was taken')
  await t.resolves(add({}, await take()), 'whatever was replaced before')
  t.equal(await store.isBusyElsewhere(domain), false)
})

onBothEngines('of those who ask for a lease at once, one has it', async (t, { store }) => {
  const { take } = workOn(store)
  const [a, b, other] = await Promise.all([take(), take(), take({ requestKey: 'other' })])
  t.match([a, other], [{ requestKey }, { requestKey: 'other' }])
  t.equal(b, undefined)
})

for (const [what, lose] of [
  ['taken over', async (store) => void (await workOn(store).take())],
  ['given back', (store, lease) => store.releaseLease(lease)],
  [
    'given back twice',
    async (store, lease) => {
      await store.releaseLease(lease)
      await store.releaseLease(lease)
    },
  ],
  ['behind a certificate that came otherwise', async (store) => void (await workOn(store).add({}))],
] as readonly [string, (store: Store, lease: Lease) => Promise<void>][])
  for (const isFirst of [true, false])
    onBothEngines(
      `a lease that was ${what} stores nothing, ${isFirst ? 'nor the first' : 'nor another'}`,
      async (t, { store }) => {
        const { take, add } = workOn(store)
        if (!isFirst) await add({})
        await store.saveOrder(newOrder({ requestKey }))
        const lease = await take()
        await lose(store, lease)
        const stored = async () => [
          await store.findCurrent(requestKey),
          await store.listAudit({ limit: 9 }),
          await store.findOrderByRequestKey(requestKey),
        ]
        const before = await stored()
        await t.rejects(add({}, lease), LOST)
        await t.rejects(store.saveOrder(newOrder({ requestKey, status: 'failed' }), lease), LOST)
        t.strictSame(await stored(), before)
      },
    )

onBothEngines('of two leases at once, the one in force stores', async (t, { store }) => {
  const { take, add } = workOn(store)
  const leases = [await take(), await take()]
  const saved = await Promise.allSettled(
    leases.map((lease, n) => store.saveOrder(newOrder({ requestKey, step: `${n}` }), lease)),
  )
  const added = await Promise.allSettled(leases.map((lease) => add({}, lease)))
  for (const [late, inForce] of [saved, added]) {
    t.match(late, { status: 'rejected', reason: LOST })
    t.match(inForce, { status: 'fulfilled' })
  }
  t.equal(store.failure(), undefined)
  t.match(await store.findOrderByRequestKey(requestKey), { step: '1' })
  t.equal((await store.listAudit({ limit: 9 })).length, 1)
})

onBothEngines('the end of an old lease does not end the next one', async (t, { store }) => {
  const { take, add } = workOn(store)
  const old = await take()
  const lease = await take()
  await store.releaseLease(old)
  await t.resolves(add({}, lease))
})

for (const [what, withdraw] of [
  ['revoked', (store, id) => store.revoke([id], NOW, 'superseded', newAudit())],
  ['deleted', (store, id) => store.remove([id], newAudit())],
] as readonly [string, (store: Store, id: number) => Promise<unknown>][])
  onBothEngines(`a certificate that was ${what} meanwhile is no obstacle`, async (t, { store }) => {
    const { take, add } = workOn(store)
    const { id } = await add({}, await take())
    const lease = await take()
    t.equal(lease.currentId, id)
    await withdraw(store, id)
    const added = await add({}, lease)
    t.equal((await store.findCurrent(requestKey))?.id, added.id)
  })

onBothEngines('the work of leases counts against quotas until it ends', async (t, { store }) => {
  const { take, add, counted } = workOn(store)
  const lease = await take({ askedBy: 'psk:a' })
  t.strictSame(await counted(), [2, 1])
  const others = [
    await take({ requestKey: 'csr', askedBy: 'psk:a' }),
    await take({ requestKey: 'renewal' }),
    await take({ requestKey: 'elsewhere', domain: 'other.example.com', askedBy: 'psk:b' }),
  ]
  t.strictSame(await counted(), [4, 2], 'a renewal takes nothing')
  for (const other of others) await store.releaseLease(other)
  t.strictSame(await counted(), [2, 1])
  await add({ askedBy: 'psk:a' }, lease)
  t.strictSame(await counted(), [1, 1], 'then the certificate counts')
})

onBothEngines('a write that fails leaves its lease as it was', async (t, { store }) => {
  const { take, add, counted } = workOn(store)
  await add({ requestKey: 'other', names: ['other.example.com'], serialNumber: 'aa' })
  const [lease, given] = [
    await take({ askedBy: 'psk:a' }),
    await take({ requestKey: 'given', askedBy: 'psk:a' }),
  ]
  for (const one of [lease, given])
    await t.rejects(add({ requestKey: one.requestKey, serialNumber: 'aa' }, one), /unique/i)
  t.strictSame(await counted(), [4, 2])
  await t.resolves(add({ askedBy: 'psk:a' }, lease), 'it stores')
  await store.releaseLease(given)
  t.strictSame(await counted(), [1, 1], 'or is given back')
})
