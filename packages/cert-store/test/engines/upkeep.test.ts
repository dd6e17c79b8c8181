import { randomBytes } from 'node:crypto'
import type { NewEvent } from '../../src/port/store.ts'
import { onBothEngines } from '../helpers/engines.ts'
import { CHAIN, NOW, newAudit, newCertificate, newOrder } from '../helpers/store.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

onBothEngines(
  'audit rows come newest first, and grow where they share a key',
  async (t, { store }) => {
    const full = newAudit({
      serialNumber: 'ab',
      remoteAddress: '192.0.2.1',
      requestId: 'r1',
      detail: 'CERT_X',
    })
    await store.addAudit([newAudit(), full])
    await store.addAudit([newAudit({ key: 'k', requestId: 'first' })])
    await store.addAudit([newAudit({ key: 'k', requestId: 'later', count: 5 })])
    const rows = await store.listAudit({ limit: 9 })
    t.same(rows, [
      { ...newAudit(), id: 3, requestId: 'first', count: 6 },
      { ...full, id: 2, count: 1 },
      { ...newAudit(), id: 1, count: 1 },
    ])
    t.same(await store.listAudit({ before: 3, limit: 1 }), [rows[1]])
  },
)

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

onBothEngines('rows of one key that are written at once are one row', async (t, { store }) => {
  const entry = (n: number, key?: string) => newAudit({ requestId: String(n), ...(key && { key }) })
  await Promise.all([
    store.addAudit([entry(1), entry(2, 'b'), entry(3, 'a')]),
    store.addAudit([entry(4, 'b'), entry(5)]),
    store.addAudit([]),
  ])
  const rows = await store.listAudit({ limit: 9 })
  // On PostgreSQL, either of the two may be first.
  const told = rows.map(({ requestId, count }) => `${requestId} ${count}`).sort()
  t.match(told.join(), /^1 1,(2 2,3 1|3 1,4 2),5 1$/)
})

onBothEngines('events wait for their turn, and are told once', async (t, { store }) => {
  const event = (body: string, at: number, once?: NewEvent['once']) =>
    store.addEvent({ body, at, receivers: ['phone'], ...(once && { once }) })
  const claim = (now: number, limit = 9) => store.claimDueEvents('phone', now, limit, now)
  const bodies = async (now: number, limit?: number) =>
    (await claim(now, limit)).map(({ body }) => body)
  const waiting = async () => (await store.countEvents()).phone ?? 0
  await event('later', NOW + 1)
  await event('earlier', NOW)
  const both = await claim(NOW + 1)
  t.same(
    both.map(({ body }) => body),
    ['earlier', 'later'],
  )
  for (const { id } of both) await store.deleteEvent(id)

  await event('first', NOW)
  await event('second', NOW + 1)
  const once = { key: 'k', until: NOW + DAY }
  await event('once', NOW + 2, once)
  await event('again', NOW + 3, once)
  t.equal(await waiting(), 3)
  t.same(await bodies(NOW - 1), [])
  t.same(await bodies(NOW, 1), ['first'])
  t.same(await bodies(NOW + 2), ['first', 'second', 'once'])
  const [due] = await claim(NOW + 2, 1)
  t.match(due, { body: 'first', at: NOW, tries: 0 })
  await store.delayEvent(due!.id, NOW + DAY / 2)
  t.same(await bodies(NOW + DAY / 2 - 1), ['second', 'once'])
  t.match(await claim(NOW + DAY / 2), new Set([{ body: 'first', tries: 1 }]))
  await store.deleteEvent(due!.id)
  t.equal(await waiting(), 2)
  await event('always', NOW + 3, { ...once, always: true })
  t.equal(await waiting(), 3)
  await event('later', NOW + DAY, once)
  t.equal(await waiting(), 4, 'its time is over')
  await store.pruneEvents(NOW + DAY, { receivers: ['phone'], olderThan: NOW + DAY })
  await event('anew', NOW, { key: 'k', until: NOW + 1 })
  t.equal(await waiting(), 5)
})

onBothEngines('each receiver has events of its own', async (t, { store }) => {
  const due = async (receiver: string) =>
    (await store.claimDueEvents(receiver, NOW + DAY, 9, NOW + DAY)).map(({ body }) => body)
  const once = { key: 'k', until: NOW + DAY }
  await store.addEvent({ body: 'both', at: NOW, receivers: ['mail', 'phone'], once })
  await store.addEvent({ body: 'again', at: NOW, receivers: ['mail', 'phone'], once })
  await store.addEvent({ body: 'one', at: NOW + 1, receivers: ['phone'] })
  t.same(await store.countEvents(), { mail: 1, phone: 2 })
  t.same(await due('mail'), ['both'])
  t.same(await due('phone'), ['both', 'one'])
  t.same(await due('webhook'), [])
  const [mail] = await store.claimDueEvents('mail', NOW + DAY, 1, NOW + DAY)
  await store.deleteEvent(mail!.id)
  t.same(await store.countEvents(), { phone: 2 }, 'what one accepted waits for the other')

  await store.addEvent({ body: 'kept', at: NOW, receivers: ['mail'] })
  await store.pruneEvents(NOW, { receivers: ['mail'], olderThan: NOW })
  t.same(await store.countEvents(), { mail: 1, phone: 1 }, 'for nobody, and old')
  await store.pruneEvents(NOW, { receivers: [], olderThan: NOW + 1 })
  t.same(await store.countEvents(), {})
})

onBothEngines('the use of limits, with what orders have reserved', async (t, { store, pass }) => {
  const keys = ['orders ca', `domain ca ${'x'.repeat(3000)}`]
  const read = () =>
    store.changeUsage(keys, (usage) => [
      keys.map((key) => usage.until(key)),
      keys.map((key) => usage.reservations(key, NOW, DAY).map(({ order }) => order)),
    ])
  t.same(await read(), [
    [0, 0],
    [[], []],
  ])
  const result = await store.changeUsage(keys, (usage) => {
    usage.set(keys[0]!, NOW + 1)
    usage.reserve('a', keys, NOW)
    return 'done'
  })
  t.equal(result, 'done')
  await store.changeUsage(keys, (usage) => usage.reserve('b', [keys[1]!], NOW))
  t.same(await read(), [
    [NOW + 1, 0],
    [['a'], ['a', 'b']],
  ])
  const refused = store.changeUsage(keys, (usage) => {
    usage.set(keys[0]!, NOW + 9)
    usage.end('a')
    throw new Error('used up')
  })
  await t.rejects(refused, /used up/)
  await store.changeUsage(keys, (usage) => usage.end('b'))
  t.same(
    await read(),
    [
      [NOW + 1, 0],
      [['a'], ['a']],
    ],
    'what is refused changes nothing',
  )
  await Promise.all(
    [1, 2].map((n) => store.changeUsage(keys, (usage) => usage.reserve('a', keys, NOW + n))),
  )
  t.same((await read())[1], [['a'], ['a']], 'each takes the place of the one before')
  await store.changeUsage(keys, (usage) => usage.reserve('a', [], NOW))
  t.same((await read())[1], [[], []])

  await store.pruneUsage(NOW + DAY)
  pass(7 * DAY)
  t.equal((await read())[0]?.[0], NOW + 1)
  await store.pruneUsage(NOW + DAY)
  t.equal((await read())[0]?.[0], 0)
})

onBothEngines(
  'use that ended, and what is reserved, go in their time',
  async (t, { store, pass }) => {
    const read = () =>
      store.changeUsage(['orders ca'], (usage) => [
        usage.until('orders ca'),
        usage.reservations('orders ca', NOW, 9 * DAY).length,
      ])
    await store.changeUsage(['orders ca'], (usage) => {
      usage.set('orders ca', NOW + 1)
      usage.reserve('a', ['orders ca'], NOW)
    })
    await store.pruneUsage(NOW + DAY - 1)
    t.same(await read(), [NOW + 1, 1], 'ended')
    pass(7 * DAY - 1)
    await store.pruneUsage(NOW)
    t.same(await read(), [NOW + 1, 1], 'not ended: the clock was ahead')
    pass(1)
    await store.pruneUsage(NOW + DAY)
    t.same(await read(), [NOW + 1, 0], 'ended a moment ago')
    pass(7 * DAY)
    await store.pruneUsage(NOW + DAY)
    t.same(await read(), [0, 0])
  },
)

onBothEngines('a hundred at once count exactly', async (t, { store }) => {
  // No database stores it as it is.
  const caller = 'caller n\0\ud800'
  const one = () =>
    store.changeUsage([caller], (usage) => {
      usage.set(caller, usage.until(caller) + 1)
      return usage.until(caller)
    })
  const counts = await Promise.all(Array.from({ length: 100 }, one))
  t.same(
    counts.toSorted((a, b) => a - b),
    Array.from({ length: 100 }, (_, n) => n + 1),
  )
})

onBothEngines('sessions at the inventory, until nobody can use them', async (t, { store }) => {
  const session = { id: 'a', keySha256: randomBytes(32), openedAt: NOW, usedAt: NOW }
  t.equal(await store.findSignIn('a'), undefined)
  await store.addSignIn(session)
  await store.touchSignIn('a', NOW + 5)
  await store.addSignIn({ ...session, id: 'b' })
  t.same(await store.findSignIn('a'), { ...session, usedAt: NOW + 5 })
  const keptFor = { audit: DAY, certificates: DAY, orders: DAY, challenges: DAY }
  t.equal(await store.prune(NOW + HOUR + 1, keptFor), 1)
  t.equal(await store.findSignIn('b'), undefined)
  await store.deleteSignIn('a')
  await store.touchSignIn('a', NOW + HOUR)
  t.equal(await store.findSignIn('a'), undefined, 'one that was signed out stays so')
})

onBothEngines('a store that works says so', async (t, { store }) => {
  await store.check()
  await store.inspect(new AbortController().signal)
  t.equal(store.failure(), undefined)
  t.equal(store.isLeader(), true)
  t.same(await store.awaitReplicas(), [])
  await store.close()
  await t.rejects(store.check(), { code: 'STORE_UNAVAILABLE' })
})
