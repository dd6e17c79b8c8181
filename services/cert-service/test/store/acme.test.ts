import { randomBytes } from 'node:crypto'
import t from 'tap'
import { NOW, newAudit, newCertificate, newOrder, testStore } from '../helpers/store.ts'

const DAY = 86_400_000
const checkpoint = {
  state: { step: 'ordered', orderUrl: 'https://ca.test/order/1' },
  sealedKey: randomBytes(60),
}

t.test('an order keeps what its issuer goes on from, until it ends', async (t) => {
  const { store } = await testStore(t)
  const order = newOrder({ checkpoint })
  await store.saveOrder(order)
  t.match(await store.findOrder(order.id), order)
  t.match(await store.findOrderByUrl('https://ca.test/order/1'), { id: order.id })
  t.equal(await store.findOrderByUrl('https://ca.test/order/2'), undefined)
  await store.addCertificate(newCertificate({ lineage: order.lineage }), newAudit())
  t.notOk('checkpoint' in (await store.findOrder(order.id))!)
})

t.test('what failed is gone on with once it is due, if the CA has an order for it', async (t) => {
  const { store } = await testStore(t)
  const failed = { status: 'failed', nextTryAt: NOW } as const
  await store.saveOrder(newOrder({ ...failed, id: 'a', lineage: 'a', checkpoint }))
  await store.saveOrder(newOrder({ ...failed, id: 'b', lineage: 'b' }))
  await store.saveOrder(
    newOrder({ ...failed, id: 'c', lineage: 'c', checkpoint, nextTryAt: NOW + 1 }),
  )
  const ids = async (now: number) => (await store.listResumableOrders(now)).map(({ id }) => id)
  t.same(await ids(NOW - 1), [])
  t.same(await ids(NOW), ['a'])

  const { id } = await store.addCertificate(newCertificate({ lineage: 'x' }), newAudit())
  await store.saveOrder(newOrder({ ...failed, id: 'x', lineage: 'x', checkpoint }))
  t.same(await ids(NOW), ['a', 'x'])
  await store.remove([id], newAudit())
  t.same(await ids(NOW), ['a'], 'nor is what was deleted')
})

t.test('windows of renewal, as far as there is a renewal', async (t) => {
  const { store } = await testStore(t)
  const { id } = await store.addCertificate(newCertificate({ checkAt: NOW }), newAudit())
  await store.addCertificate(newCertificate({ lineage: 'none', names: ['b.test'] }), newAudit())
  const ids = async (now: number) => (await store.listUnchecked(now, 9)).map((one) => one.id)
  t.same(await ids(NOW - 1), [])
  t.same(await ids(NOW), [id])
  const window = {
    checkAt: NOW + DAY,
    windowStart: NOW + 1,
    windowEnd: NOW + 3,
    explanationUrl: 'https://ca.test/why',
  }
  await store.setRenewalWindow(id, { ...window, renewAt: NOW + 2 })
  t.same(await ids(NOW), [])
  t.match(await store.listUnchecked(NOW + DAY, 9), [{ ...window, renewAt: NOW + 2 }])
  await store.setRenewAt(id, null)
  t.same(await ids(NOW + DAY), [])
  await store.setRenewalWindow(id, { ...window, renewAt: NOW + 2 })
  t.match(await store.list({ after: 0, limit: 1 }), [{ renewAt: null }], 'it stays let go')
})

t.test('what is planned later than anything is planned is brought forward', async (t) => {
  const { store } = await testStore(t)
  const window = { windowStart: NOW, windowEnd: NOW + 80 * DAY, explanationUrl: null }
  for (const [what, days, checkDays, windows, brought] of [
    ['two thirds of its life', 60, 0.5, undefined, [60, 0.5]],
    ['later', 61, 2, undefined, [0, 0]],
    ['later, as its window says', 80, 1, window, [80, 1]],
    ['later than its window', 81, 1, window, [0, 1]],
    ['let go', null, null, undefined, [null, null]],
  ] as const)
    await t.test(what, async (t) => {
      const at = (one: number | null) => (one === null ? null : NOW + one * DAY)
      const { id } = await store.addCertificate(
        newCertificate({ notAfter: NOW + 90 * DAY, renewAt: at(days), checkAt: at(checkDays) }),
        newAudit(),
      )
      if (windows)
        await store.setRenewalWindow(id, {
          ...windows,
          checkAt: at(checkDays),
          renewAt: NOW + days * DAY,
        })
      await store.bringForward(NOW)
      const [record] = await store.findByDomain('app.example.com')
      t.same([record?.renewAt, record?.checkAt ?? null], brought.map(at))
    })

  const late = newCertificate({ notAfter: NOW + 90 * DAY, renewAt: NOW + 89.5 * DAY })
  await store.addCertificate(late, newAudit())
  await store.bringForward(NOW + 89 * DAY)
  t.match(await store.findByDomain('app.example.com'), [{ renewAt: late.renewAt }], 'or by a day')
})

t.test('accounts and answers to challenges come back as they went in', async (t) => {
  const { store } = await testStore(t)
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
})
