import { randomBytes } from 'node:crypto'
import type { Lease, OrderRecord } from '../../src/port/store.ts'
import { onBothEngines } from '../helpers/engines.ts'
import { failedOrders, NOW, newAudit, newCertificate, newOrder } from '../helpers/store.ts'

const DAY = 86_400_000
const checkpoint = {
  state: { step: 'ordered', orderUrl: 'https://ca.test/order/1' },
  sealedKey: randomBytes(60),
}

onBothEngines('orders that failed, until they come to an end', async (t, { store }) => {
  const order = (id: string, overrides: Partial<OrderRecord> = {}) =>
    store.saveOrder(
      newOrder({ id, requestKey: id, status: 'failed', nextTryAt: NOW, ...overrides }),
    )
  t.same(await store.countFailedOrders(), {})
  await order('last', { nextTryAt: NOW + 1, issuer: 'other' })
  await order('first')
  await order('pending', { status: 'pending' })
  await order('done')
  await store.addCertificate(newCertificate({ requestKey: 'done' }), newAudit())
  await store.addCertificate(newCertificate({ requestKey: 'held' }), newAudit())
  await order('held', { nextTryAt: NOW + 2 })
  t.same(
    (await failedOrders(store)).map(({ id }) => id),
    ['held', 'first', 'last'],
  )
  t.same(await store.countFailedOrders(), { ca: 2, other: 1 })
})

onBothEngines('orders: one per request key, ended by its certificate', async (t, { store }) => {
  const failed: Partial<OrderRecord> = {
    status: 'failed',
    failures: 2,
    lastError: { code: 'CERT_ISSUE_FAILED', detail: 'no', at: NOW },
    nextTryAt: NOW + 1,
  }
  const variants = [
    newOrder(),
    newOrder({ csr: randomBytes(9) }),
    newOrder({ askedBy: 'psk:web' }),
    newOrder(failed),
  ]
  for (const order of variants) {
    await store.saveOrder(order)
    t.same(await store.findOrder(order.id), order, order.status)
  }
  t.same(await store.listPendingOrders(), [])
  const next = newOrder({ id: 'order-2' })
  t.equal(await store.saveOrder(next), 'order-1', 'which keeps its id')
  t.same(await store.findOrderByRequestKey(next.requestKey), newOrder())
  const other = newOrder({ ...failed, id: 'order-3', requestKey: 'failed' })
  await store.saveOrder(other)
  const found = await store.findOrders([next.requestKey, 'absent', 'failed'])
  t.same(found, new Map([newOrder(), other].map((order) => [order.requestKey, order])))
  t.same(await store.findOrders([]), new Map())
  t.equal(await store.findOrder('order-2'), undefined)
  t.same(await store.listPendingOrders(), [newOrder()])
  const work = { requestKey: next.requestKey, domain: 'app.example.com', names: 1 }
  const lease = (await store.takeLease(work))!
  t.equal(await store.saveOrder({ ...next, step: 'x' }, lease), 'order-1', 'nor by a lease')
  t.same(await store.findOrder('order-1'), newOrder({ step: 'x' }))
  t.equal(await store.findOrder('order-2'), undefined)

  await store.addCertificate(newCertificate(), newAudit())
  t.equal((await store.findOrder('order-1'))?.status, 'done')
  t.same(await store.listPendingOrders(), [])
  t.equal(await store.saveOrder({ ...next, requestKey: 'other' }), 'order-2', 'which is free')
})

onBothEngines('an order goes on with what another one has, which ends', async (t, { store }) => {
  const work = (requestKey: string) => ({ requestKey, domain: '', names: 0 })
  const lease = async (requestKey: string) => (await store.takeLease(work(requestKey)))!
  const save = (requestKey: string, ended?: Lease) =>
    lease(requestKey).then((own) =>
      store.saveOrder(newOrder({ id: requestKey, requestKey, checkpoint }), own, ended),
    )
  const prepared = () =>
    store.saveOrder(newOrder({ id: 'p', requestKey: 'p', status: 'done', checkpoint }))
  await prepared()
  const stale = await lease('p')
  const held = await lease('p')
  const lost = { code: 'CERT_LEASE_LOST' }
  await t.rejects(save('a', stale), lost)
  t.equal(await store.findOrder('a'), undefined, 'all of it, or nothing')
  t.match(await store.findOrder('p'), { status: 'done' })

  t.equal(await save('a', held), 'a')
  t.match(await store.findOrderByUrl(checkpoint.state.orderUrl), { id: 'a', checkpoint })
  t.equal(await store.findOrder('p'), undefined)
  await t.rejects(store.saveOrder(newOrder({ requestKey: 'p' }), held), lost, 'its lease as well')
  await t.rejects(save('b', held), lost, 'nobody takes it a second time')
  t.equal(await store.findOrder('b'), undefined)

  await prepared()
  const own = await lease('c')
  await store.releaseLease(own)
  const order = newOrder({ id: 'c', requestKey: 'c', checkpoint })
  await t.rejects(store.saveOrder(order, own, await lease('p')), lost)
  t.match(await store.findOrder('p'), { status: 'done' }, 'it stays if the other one has no lease')
})

/** The orders of which something is left that only an order in progress has. */
const LEFT = `
  SELECT id FROM @orders
  WHERE state IS NULL AND (url IS NOT NULL OR sealed_key IS NOT NULL OR status = 'done' AND failures > 0)`

onBothEngines(
  'an order keeps what its issuer goes on from, until it ends',
  async (t, { store, sql }) => {
    const order = newOrder({ checkpoint, failures: 2 })
    await store.saveOrder(order)
    t.match(await store.findOrder(order.id), order)
    t.match(await store.findOrderByUrl('https://ca.test/order/1'), { id: order.id })
    t.equal(await store.findOrderByUrl('https://ca.test/order/2'), undefined)
    const orderUrl = `https://ca.test/${'x'.repeat(3_000)}`
    const long = newOrder({
      id: 'l',
      requestKey: 'l',
      checkpoint: { ...checkpoint, state: { orderUrl } },
    })
    await store.saveOrder(long)
    t.match(await store.findOrderByUrl(orderUrl), long, 'as long as it is')
    await store.addCertificate(newCertificate({ requestKey: order.requestKey }), newAudit())
    t.notOk('checkpoint' in (await store.findOrder(order.id))!)
    t.equal(await store.findOrderByUrl('https://ca.test/order/1'), undefined)
    t.same(await sql(LEFT), [], 'nor is its key left')
  },
)

onBothEngines(
  'what failed is gone on with once it is due, if the CA has an order for it',
  async (t, { store, sql }) => {
    const failed = { status: 'failed', nextTryAt: NOW } as const
    await store.saveOrder(newOrder({ ...failed, id: 'a', requestKey: 'a', checkpoint }))
    await store.saveOrder(newOrder({ ...failed, id: 'b', requestKey: 'b' }))
    await store.saveOrder(
      newOrder({ ...failed, id: 'c', requestKey: 'c', checkpoint, nextTryAt: NOW + 1 }),
    )
    const ids = async (now: number) => (await store.listResumableOrders(now)).map(({ id }) => id)
    t.same(await ids(NOW - 1), [])
    t.same(await ids(NOW), ['a'])
    t.same(await ids(NOW - DAY + 1), [])
    t.same(await ids(NOW - DAY), ['c'], 'or was put off by a clock that was ahead')

    const { id } = await store.addCertificate(newCertificate({ requestKey: 'x' }), newAudit())
    await store.saveOrder(newOrder({ ...failed, id: 'x', requestKey: 'x', checkpoint }))
    t.same(await ids(NOW), ['a', 'x'])
    await store.remove([id], newAudit())
    t.same(await ids(NOW), ['a'], 'nor is what was deleted')
    t.same(await sql(LEFT), [], 'of which no key is left')
    await store.addCertificate(newCertificate({ requestKey: 'p' }), newAudit())
    const pending = newOrder({ id: 'p', requestKey: 'p', checkpoint })
    await store.saveOrder(pending)
    const held = (await store.findCurrent('p'))!
    await store.remove([held.id], newAudit())
    t.match(await store.findOrder('p'), pending, 'what is in progress is not touched')
  },
)

onBothEngines(
  'accounts and answers to challenges come back as they went in',
  async (t, { store }) => {
    const account = {
      directory: 'https://ca.test/directory',
      sealedKey: randomBytes(60),
      nextKey: null,
      url: null,
      contact: 'ops@example.com',
    }
    t.equal(await store.findAccount(account.directory), undefined)
    await store.saveAccount(account)
    await store.saveAccount({ ...account, url: 'https://ca.test/account/1' })
    t.match(await store.findAccount(account.directory), {
      ...account,
      url: 'https://ca.test/account/1',
    })

    await store.putChallenge('http-01:a', 'one', NOW)
    await store.putChallenge('http-01:a', 'two', NOW)
    t.equal(await store.findChallenge('http-01:a'), 'two')
    await store.deleteChallenge('http-01:a')
    t.equal(await store.findChallenge('http-01:a'), undefined)
  },
)

onBothEngines('an order is filed unless there is one in force', async (t, { store }) => {
  const requestKey = 'a'
  const first = newOrder({ id: 'first', requestKey })
  t.same(await store.fileOrder(first), first)
  const second = newOrder({ id: 'second', requestKey, step: 'other' })
  t.same(await store.fileOrder(second), first)
  await store.addCertificate(newCertificate({ requestKey }), newAudit())
  const third = { ...second, id: 'first' }
  t.same(await store.fileOrder(second), third, 'what is done makes room, and leaves its id')
  t.same(await store.findOrder('first'), third)
  const failed = newOrder({ ...third, status: 'failed', nextTryAt: NOW })
  await store.saveOrder(failed)
  t.same(await store.fileOrder(first), failed, 'what failed is in force')
})

onBothEngines('of states that are saved at once the last one stays', async (t, { store }) => {
  const steps = ['one', 'two', 'three']
  const saved = await Promise.all(steps.map((step) => store.saveOrder(newOrder({ step }))))
  t.same(saved, ['order-1', 'order-1', 'order-1'])
  t.equal((await store.findOrder('order-1'))?.step, 'three')
})

onBothEngines('the first of two accounts stays', async (t, { store }) => {
  const account = {
    directory: 'https://ca.test/directory',
    sealedKey: randomBytes(60),
    nextKey: null,
    url: null,
    contact: null,
  }
  t.match(await store.addAccount(account), account)
  t.match(await store.addAccount({ ...account, sealedKey: randomBytes(60) }), account)
  t.match(await store.findAccount(account.directory), account)
})

onBothEngines('the wait of what failed ends by its key or configuration', async (t, { store }) => {
  const failed = { status: 'failed', nextTryAt: NOW + DAY } as const
  for (const [id, more] of [
    ['a', { configuration: 'one' }],
    ['b', { configuration: 'two' }],
    ['c', {}],
    ['due', { configuration: 'one', nextTryAt: NOW }],
    ['pending', { configuration: 'one', status: 'pending' }],
  ] as const)
    await store.saveOrder(newOrder({ ...failed, id, requestKey: id, ...more }))
  const ids = (orders: readonly OrderRecord[]) => orders.map(({ id }) => id).toSorted()
  t.match(await store.findOrder('a'), { configuration: 'one' })
  t.same(ids(await store.voidWaits({ requestKeys: ['b', 'c', 'due', 'absent'] }, NOW)), ['b', 'c'])
  t.equal((await store.findOrder('b'))?.nextTryAt, NOW)
  t.equal((await store.findOrder('a'))?.nextTryAt, NOW + DAY)
  t.same(await store.voidWaits({ configurations: ['one', 'two'] }, NOW), [])
  t.same(ids(await store.voidWaits({ configurations: ['two'] }, NOW)), ['a'])
  t.equal((await store.findOrder('a'))?.nextTryAt, NOW)
  t.match(await store.findOrder('pending'), { status: 'pending', nextTryAt: NOW + DAY })
})
