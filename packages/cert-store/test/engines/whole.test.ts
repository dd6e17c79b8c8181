import { onBothEngines } from '../helpers/engines.ts'
import { CHAIN, NOW, newAudit, newCertificate, newOrder } from '../helpers/store.ts'

const DAY = 86_400_000

onBothEngines(
  'prune takes what is past its time, and no more than its share',
  async (t, { store, pass }) => {
    const ids: number[] = []
    for (const [domain, notAfter] of [
      ['old.example', NOW - 2],
      ['live.example', NOW + 1],
      ['newest.example', NOW - 2],
    ] as const) {
      const certificate = newCertificate({ names: [domain], notBefore: NOW - DAY, notAfter })
      ids.push((await store.addCertificate(certificate, newAudit({ at: NOW - 2 }))).id)
    }
    const orders = [
      newOrder({ id: 'done', requestKey: 'a', status: 'done', since: NOW - 2 }),
      newOrder({
        id: 'waits',
        requestKey: 'b',
        status: 'failed',
        since: NOW - 2,
        nextTryAt: NOW + 1,
      }),
      newOrder({ id: 'pending', requestKey: 'c', since: NOW - 2 }),
    ]
    for (const order of orders) await store.saveOrder(order)
    await store.addAudit([newAudit({ at: NOW + 1 })])

    const keptFor = { audit: 1, certificates: 1, orders: 1, challenges: 1 }
    t.equal(await store.prune(NOW + 1, keptFor), 0, 'nothing by the clock alone')
    pass(DAY)
    t.equal(await store.prune(NOW + 1, keptFor), 5, 'a certificate, an order, three rows of audit')
    t.equal(await store.prune(NOW + 1, keptFor), 0)
    t.same(
      (await store.list({ after: 0, limit: 9 })).map(({ id }) => id),
      ids.slice(1),
    )
    const left = await Promise.all(orders.map(({ id }) => store.findOrder(id)))
    t.same(
      left.map((order) => order?.id),
      [undefined, 'waits', 'pending'],
    )
    t.equal((await store.listAudit({ limit: 9 })).length, 1)

    pass(DAY)
    await store.prune(NOW + DAY, keptFor)
    const reused = await store.addCertificate(newCertificate(), newAudit())
    t.ok(reused.id > ids[2]!, 'an id is never given out twice')

    await store.addAudit(Array.from({ length: 1500 }, () => newAudit({ at: NOW - 1 })))
    pass(DAY)
    t.ok((await store.prune(NOW + 1, keptFor)) <= 250)
  },
)

onBothEngines(
  'a wrong clock deletes nothing, and what it dated goes by the run time',
  async (t, { store, pass }) => {
    const AHEAD = NOW + 340 * DAY
    const keptFor = { audit: 90 * DAY, certificates: DAY, orders: DAY, challenges: DAY }
    const held = await store.addCertificate(newCertificate({ names: ['a.example'] }), newAudit())
    const revoked = await store.addCertificate(newCertificate({ names: ['b.example'] }), newAudit())
    await store.revoke([revoked.id], NOW, 'superseded', newAudit())
    await store.addCertificate(newCertificate({ names: ['newest.example'] }), newAudit())
    await store.saveOrder(newOrder({ status: 'failed', requestKey: 'x', nextTryAt: NOW }))
    await store.putChallenge('token', 'answer', NOW)

    pass(DAY - 1)
    t.equal(await store.prune(AHEAD, keptFor), 0)
    const list = async (now: number) =>
      (await store.listRevoked(CHAIN[0]!, now)).map(({ serialNumber }) => serialNumber)
    t.same(await list(AHEAD), [revoked.serialNumber], 'the list keeps what may still be valid')
    const late = await store.revoke([held.id], AHEAD, 'keyCompromise', newAudit())
    t.same(late, [held.serialNumber], 'and what has ended by the clock alone can be revoked')
    t.same((await list(NOW)).length, 2)

    await store.addAudit([newAudit({ at: AHEAD, detail: 'ahead' })])
    pass(90 * DAY)
    await store.prune(NOW + 91 * DAY, keptFor)
    t.same(await list(NOW + 91 * DAY), [], 'in the end it all goes')
    t.same(await store.listAudit({ limit: 9 }), [])
    t.equal(await store.findChallenge('token'), undefined)
  },
)

onBothEngines('a store that works says so', async (t, { store }) => {
  await store.check()
  await store.inspect(new AbortController().signal)
  t.equal(store.failure(), undefined)
  t.equal(store.isLeader(), true)
  t.same(await store.awaitReplicas(), [])
  await store.close()
  await t.rejects(store.check(), { code: 'STORE_UNAVAILABLE' })
})
