import t, { type Test } from 'tap'
import type { NewCertificate, Work } from '../../../src/store/store.ts'
import { NOW, newAudit, newCertificate, newOrder, testStore } from '../../helpers/store.ts'

const LOST = { code: 'CERT_LEASE_LOST' }

/** A store, and work on the lineage of a certificate. */
async function setup(t: Test) {
  const { store } = await testStore(t)
  const certificate = newCertificate()
  const { lineage } = certificate
  const take = async (changes: Partial<Work> = {}) => {
    const work = { lineage, domain: 'app.example.com', names: 2, ...changes }
    return (await store.takeLease(work))!
  }
  const add = (changes: Partial<NewCertificate>, lease: Awaited<ReturnType<typeof take>>) =>
    store.addCertificate(newCertificate({ lineage, ...changes }), newAudit(), { lease })
  return { store, lineage, take, add }
}

t.test('a certificate is stored by the lease in force, and ends it', async (t) => {
  const { store, lineage, take, add } = await setup(t)
  const lease = await take()
  t.match(lease, { lineage, currentId: null })
  const { id } = await add({}, lease)
  await t.rejects(add({}, lease), LOST, 'once')
  t.equal((await store.findCurrent(lineage))?.id, id)
  const next = await take()
  t.ok(next.token > lease.token)
  t.equal(next.currentId, id)
  t.not((await add({}, next)).id, id, 'it replaces what was current when it was taken')
})

for (const [what, lose] of [
  ['taken over', async ({ take }) => void (await take())],
  ['given back', ({ store }, lease) => store.releaseLease(lease)],
  [
    'behind a certificate that came otherwise',
    async ({ store, lineage }) =>
      void (await store.addCertificate(newCertificate({ lineage }), newAudit())),
  ],
] as readonly [
  string,
  (
    at: Awaited<ReturnType<typeof setup>>,
    lease: Parameters<Awaited<ReturnType<typeof setup>>['add']>[1],
  ) => Promise<void>,
][])
  t.test(`a lease that was ${what} stores nothing`, async (t) => {
    const at = await setup(t)
    const { store, lineage, take, add } = at
    await store.saveOrder(newOrder({ lineage }))
    const lease = await take()
    await lose(at, lease)
    const before = [await store.findCurrent(lineage), await store.listAudit({ limit: 9 })]
    const order = await store.findOrderByLineage(lineage)
    await t.rejects(add({}, lease), LOST)
    await t.rejects(store.saveOrder(newOrder({ lineage, status: 'failed' }), lease), LOST)
    t.strictSame([await store.findCurrent(lineage), await store.listAudit({ limit: 9 })], before)
    t.strictSame(await store.findOrderByLineage(lineage), order)
  })

t.test('the end of an old lease does not end the one that followed', async (t) => {
  const { store, take, add } = await setup(t)
  const old = await take()
  const lease = await take()
  await store.releaseLease(old)
  await t.resolves(add({}, lease))
})

t.test('a certificate that was revoked meanwhile is no obstacle', async (t) => {
  const { store, lineage, take, add } = await setup(t)
  const { id } = await add({}, await take())
  const lease = await take()
  await store.revoke([id], NOW, 'superseded', newAudit())
  await add({}, lease)
  t.ok(await store.findCurrent(lineage))
})

t.test('the work of leases counts against quotas until it ends', async (t) => {
  const { store, take, add } = await setup(t)
  const counts = async () => [
    (await store.countNames('psk:a', NOW)).count,
    (await store.countInUse('app.example.com', NOW)).count,
  ]
  const lease = await take({ askedBy: 'psk:a' })
  t.strictSame(await counts(), [2, 1])
  const others = [
    await take({ lineage: 'csr', askedBy: 'psk:a' }),
    await take({ lineage: 'renewal' }),
    await take({ lineage: 'elsewhere', domain: 'other.example.com', askedBy: 'psk:b' }),
  ]
  t.strictSame(await counts(), [4, 2], 'a renewal takes nothing')
  for (const other of others) await store.releaseLease(other)
  t.strictSame(await counts(), [2, 1])
  await add({ askedBy: 'psk:a' }, lease)
  t.strictSame(await counts(), [1, 1], 'then the certificate counts')
})

t.test('the order of a lineage keeps its id', async (t) => {
  const { store, lineage, take } = await setup(t)
  t.equal(await store.saveOrder(newOrder({ lineage, id: 'first' })), 'first')
  const lease = await take()
  t.equal(await store.saveOrder(newOrder({ lineage, id: 'second', step: 'x' }), lease), 'first')
  t.match(await store.findOrder('first'), { step: 'x' })
  t.equal(await store.findOrder('second'), undefined)
  t.equal(await store.saveOrder(newOrder({ lineage: 'other', id: 'second' })), 'second')
})

t.test('an order is filed unless there is one that is not done', async (t) => {
  const { store, lineage } = await setup(t)
  const filed = await store.fileOrder(newOrder({ lineage, id: 'first' }))
  t.match(filed, { id: 'first', status: 'pending' })
  const failed = { lineage, status: 'failed', failures: 1, nextTryAt: NOW + 9 } as const
  await store.saveOrder(newOrder(failed))
  t.match(await store.fileOrder(newOrder({ lineage, id: 'second' })), { id: 'first', ...failed })
  await store.saveOrder(newOrder({ lineage, status: 'done' }))
  const again = await store.fileOrder(newOrder({ lineage, id: 'third', step: 'again' }))
  t.match(again, { id: 'first', status: 'pending', step: 'again' })
  t.strictSame(await store.findOrderByLineage(lineage), again)
})
