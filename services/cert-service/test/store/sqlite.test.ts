import { randomBytes } from 'node:crypto'
import t from 'tap'
import { openStore } from '../../src/store/open.ts'
import type { CertificateRecord, OrderRecord } from '../../src/store/store.ts'
import { CHAIN, NOW, newAudit, newCertificate, newOrder, testStore } from '../helpers/store.ts'

const DAY = 86_400_000
const domains = (records: readonly CertificateRecord[]) => records.map(({ names }) => names[0])

t.test('a certificate comes back as it went in', async (t) => {
  const { store } = await testStore(t)
  const variants = {
    'with our key': newCertificate({ names: ['a.example'] }),
    'with the key of its caller': newCertificate({
      names: ['b.example'],
      sealedKey: null,
      csr: randomBytes(99),
    }),
    'of many names': newCertificate({ names: ['c.example', '*.c.example', '192.0.2.1'] }),
    'under a longer chain': newCertificate({
      names: ['d.example'],
      chain: [...CHAIN, randomBytes(400)],
    }),
    'under no chain': newCertificate({ names: ['e.example'], chain: [] }),
    'never renewed': newCertificate({ names: ['f.example'], renewAt: null }),
  }
  for (const [name, certificate] of Object.entries(variants)) {
    const added = await store.addCertificate(certificate, newAudit())
    t.match(added, certificate, `${name}: given back`)
    t.same(await store.findCurrent(certificate.lineage), added, `${name}: found`)
  }
})

t.test('the newest certificate of a lineage is the current one', async (t) => {
  const { store } = await testStore(t)
  const first = await store.addCertificate(newCertificate(), newAudit())
  const second = await store.addCertificate(newCertificate(), newAudit())
  t.equal((await store.findCurrent(first.lineage))?.id, second.id)
  t.same(
    (await store.list({ after: 0, limit: 10 })).map(({ id }) => id),
    [second.id],
  )
})

t.test('what comes next, searched and page by page', async (t) => {
  const { store } = await testStore(t)
  const add = (overrides: Parameters<typeof newCertificate>[0]) =>
    store.addCertificate(newCertificate(overrides), newAudit())
  await add({ names: ['late.example'], renewAt: NOW + 9 * DAY })
  await add({ names: ['a.example', 'alias.example'], renewAt: NOW + DAY })
  await add({ names: ['b.example'], renewAt: NOW + DAY })
  await add({ names: ['never.example'], renewAt: null, notAfter: NOW + 5 * DAY })
  await add({ names: ['gone.example'], renewAt: NOW, serialNumber: 'beef' })
  await add({ names: ['gone.example'], renewAt: NOW + 2 * DAY, serialNumber: 'cafe' })

  const cases: [why: string, text: string, found: string[]][] = [
    [
      'by renewal, else by end',
      '',
      ['a.example', 'b.example', 'gone.example', 'never.example', 'late.example'],
    ],
    ['part of any name', 'alias', ['a.example']],
    ['a serial number', 'cafe', ['gone.example']],
    ['not part of one', 'caf', []],
    ['not what was replaced', 'beef', []],
    ['no pattern', '%', []],
  ]
  for (const [why, text, found] of cases)
    for (const limit of [1, 2, 10]) {
      const read: CertificateRecord[] = []
      for (let after = { at: 0, id: 0 }; ; ) {
        const page = await store.listUpcoming({ text, after, limit })
        read.push(...page)
        const last = page.at(-1)
        if (!last) break
        after = { at: last.renewAt ?? last.notAfter, id: last.id }
      }
      t.same(domains(read), found, `${why}, ${limit} at a time`)
    }
})

t.test('orders that failed, until they come to an end', async (t) => {
  const { store } = await testStore(t)
  const order = (id: string, overrides: Partial<OrderRecord> = {}) =>
    store.saveOrder(newOrder({ id, lineage: id, status: 'failed', nextTryAt: NOW, ...overrides }))
  await order('first')
  await order('last', { nextTryAt: NOW + 1 })
  await order('pending', { status: 'pending' })
  await order('done')
  await store.addCertificate(newCertificate({ lineage: 'done' }), newAudit())
  const ids = async (limit: number) => (await store.listFailedOrders(limit)).map(({ id }) => id)
  t.same(await ids(10), ['last', 'first'])
  t.same(await ids(1), ['last'])
})

t.test('finding, listing and what is due', async (t) => {
  const { store } = await testStore(t)
  t.equal(await store.nextDue(), undefined, 'nothing is due in an empty store')
  t.equal(await store.findCurrent('nothing'), undefined)
  const add = (overrides: Parameters<typeof newCertificate>[0]) =>
    store.addCertificate(newCertificate(overrides), newAudit())

  await add({ names: ['a.example'], renewAt: NOW + 2 * DAY })
  await add({ names: ['a.example', 'b.example'], renewAt: NOW + DAY })
  await add({ names: ['b.example'], renewAt: null })

  t.same(
    (await store.findByDomain('a.example')).map(({ names }) => names.length),
    [2, 1],
  )
  t.same(domains(await store.findByDomain('example')), [])
  t.same(domains(await store.findByName('b.example')), ['b.example', 'a.example'], 'first or not')
  const page = await store.list({ after: 0, limit: 2 })
  t.same(domains(page), ['a.example', 'a.example'])
  t.same(domains(await store.list({ after: page[1]!.id, limit: 2 })), ['b.example'])

  t.equal(await store.nextDue(), NOW + DAY)
  t.same(await store.listDue(NOW, 10), [])
  t.same(
    (await store.listDue(NOW + 2 * DAY, 10)).map(({ names }) => names.length),
    [2, 1],
  )
  t.equal((await store.listDue(NOW + 2 * DAY, 1)).length, 1)

  await store.setRenewAt(page[1]!.id, null)
  t.equal(await store.nextDue(), NOW + 2 * DAY, 'a stopped renewal is not due')
  await store.setFetchedAt(new Map([[page[0]!.id, NOW + 5]]))
  t.equal((await store.findCurrent(page[0]!.lineage))?.fetchedAt, NOW + 5)
})

t.test('what is out of service', async (t) => {
  const { store, pass } = await testStore(t)
  const add = (domain: string, notAfter = NOW + DAY) =>
    store.addCertificate(newCertificate({ names: [domain], notAfter }), newAudit())
  const [kept, revoked, expired, removed] = [
    await add('kept.example'),
    await add('revoked.example'),
    await add('expired.example', NOW - 1),
    await add('removed.example'),
  ]
  const entry = newAudit({ action: 'revoke' })
  pass(DAY)
  await store.revoke([revoked.id, expired.id], NOW, 'keyCompromise', entry)
  await store.revoke([revoked.id], NOW + 1, 'superseded', entry)
  await store.remove([removed.id], newAudit({ action: 'delete' }))

  t.same(domains(await store.list({ after: 0, limit: 10 })), [kept.names[0]])
  t.equal(await store.findCurrent(revoked.lineage), undefined)
  t.same(await store.findByDomain('removed.example'), [])
  t.same(
    await store.listRevoked(CHAIN[0]!, NOW),
    [{ serialNumber: revoked.serialNumber, revokedAt: NOW, reason: 'keyCompromise' }],
    'a revocation stands as it was first made, until the certificate expires',
  )
  t.same(await store.listRevoked(randomBytes(9), NOW), [], 'each issuer has its own')
  const again = await add('revoked.example')
  t.equal((await store.findCurrent(again.lineage))?.id, again.id, 'a lineage may begin anew')
})

t.test('revoking takes back what was replaced as well, as far as it has not expired', async (t) => {
  const { store, pass } = await testStore(t)
  const add = (domain: string, notAfter = NOW + DAY) =>
    store.addCertificate(newCertificate({ names: [domain], notAfter }), newAudit())
  await add('a.example', NOW - 1)
  pass(DAY)
  const replaced = await add('a.example')
  const current = await add('a.example')
  const other = await add('b.example')
  const serialNumbers = [replaced.serialNumber, current.serialNumber]

  const revoked = await store.revoke([current.id], NOW, 'keyCompromise', newAudit())
  t.same([...revoked].sort(), [...serialNumbers].sort())
  const list = await store.listRevoked(CHAIN[0]!, NOW)
  t.same(list.map((row) => row.serialNumber).sort(), [...serialNumbers].sort())
  t.equal((await store.findCurrent(other.lineage))?.id, other.id, 'other names are not touched')
})

t.test('a serial number is used once per chain', async (t) => {
  const { store } = await testStore(t)
  const first = newCertificate({ names: ['a.example'] })
  await store.addCertificate(first, newAudit())
  const { serialNumber } = first
  const twice = newCertificate({ names: ['b.example'], serialNumber })
  await t.rejects(store.addCertificate(twice, newAudit()), /UNIQUE/)
  t.equal(await store.findCurrent(twice.lineage), undefined)
  t.equal((await store.listAudit({ limit: 9 })).length, 1, 'no trace of the one that failed')
})

t.test('orders: one per lineage, ended by its certificate', async (t) => {
  const { store } = await testStore(t)
  const failed: Partial<OrderRecord> = {
    status: 'failed',
    failures: 2,
    lastError: { code: 'CERT_ISSUE_FAILED', detail: 'no' },
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
  await store.saveOrder(next)
  t.same(await store.findOrderByLineage(next.lineage), next)
  t.equal(await store.findOrder('order-1'), undefined)
  t.same(await store.listPendingOrders(), [next])

  await store.addCertificate(newCertificate(), newAudit())
  t.equal((await store.findOrder('order-2'))?.status, 'done')
  t.same(await store.listPendingOrders(), [])
})

t.test('authorities and their lists', async (t) => {
  const { store } = await testStore(t)
  const authority = { certificate: randomBytes(400), sealedKey: randomBytes(99), notAfter: NOW }
  const root = await store.addAuthority({ ...authority, role: 'root' })
  const intermediate = await store.addAuthority({ ...authority, role: 'intermediate' })
  t.same(await store.listAuthorities(), [intermediate, root])
  await store.dropAuthorityKey(root.id)
  t.same(await store.listAuthorities(), [intermediate, { ...root, sealedKey: null }])

  t.equal(await store.findCrl(root.id), undefined)
  for (const number of [1n, 2n ** 150n]) {
    const crl = {
      authorityId: root.id,
      number,
      crl: randomBytes(50),
      thisUpdate: NOW - 1,
      nextUpdate: NOW,
    }
    await store.saveCrl(crl)
    t.same(await store.findCrl(root.id), crl)
  }
})

t.test('audit rows come newest first, and grow where they share a key', async (t) => {
  const { store } = await testStore(t)
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
})

t.test('prune takes what is past its time, and no more than its share', async (t) => {
  const { store, pass } = await testStore(t)
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
    newOrder({ id: 'done', lineage: 'a', status: 'done', since: NOW - 2 }),
    newOrder({ id: 'waits', lineage: 'b', status: 'failed', since: NOW - 2, nextTryAt: NOW + 1 }),
    newOrder({ id: 'pending', lineage: 'c', since: NOW - 2 }),
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
  t.ok((await store.prune(NOW + 1, keptFor)) <= 1000)
})

t.test('a wrong clock deletes nothing, and what it dated goes by the run time', async (t) => {
  const { store, pass } = await testStore(t)
  const AHEAD = NOW + 340 * DAY
  const keptFor = { audit: 90 * DAY, certificates: DAY, orders: DAY, challenges: DAY }
  const held = await store.addCertificate(newCertificate({ names: ['a.example'] }), newAudit())
  const revoked = await store.addCertificate(newCertificate({ names: ['b.example'] }), newAudit())
  await store.revoke([revoked.id], NOW, 'superseded', newAudit())
  await store.addCertificate(newCertificate({ names: ['newest.example'] }), newAudit())
  await store.saveOrder(newOrder({ status: 'failed', lineage: 'x', nextTryAt: NOW }))
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
})

t.test('the run time goes on at the next start', async (t) => {
  const folder = t.testdir()
  for (const before of [0, 5_000, 10_000]) {
    let passed = 77_000
    const store = await openStore({ folder, elapsed: () => passed })
    t.equal(store.runTime(), before)
    passed += 5_000
    t.equal(store.runTime(), before + 5_000)
    await store.close()
  }
})

t.test('what begins in the future is due once, if a clock dated it that was ahead', async (t) => {
  const { store } = await testStore(t)
  const HOUR = DAY / 24
  const add = (name: string, begins: number, madeAt: number, overrides = {}) =>
    store.addCertificate(
      newCertificate({
        names: [name],
        notBefore: begins,
        notAfter: begins + 7 * DAY,
        renewAt: begins + 3 * DAY,
        ...overrides,
      }),
      newAudit({ at: madeAt }),
    )
  await add('right.example', NOW - 60_000, NOW)
  t.equal(await store.hasFuture(NOW), false)
  await add('ahead.example', NOW + 5 * DAY, NOW + 5 * DAY)
  await add('ca-ahead.example', NOW + 5 * DAY, NOW)
  await add('not-renewed.example', NOW + 5 * DAY, NOW + 5 * DAY, { renewAt: null })
  t.equal(await store.hasFuture(NOW), true)
  t.same(await store.makeFutureDue(NOW), ['ca|server|p256|ahead.example'])
  t.same(domains(await store.listDue(NOW, 9)), ['ahead.example'])
  t.same(await store.makeFutureDue(NOW), [], 'once')
  await add('twice.example', NOW + 45 * DAY, NOW + 45 * DAY, { renewAt: NOW + 5 * DAY })
  t.same(
    await store.makeFutureDue(NOW),
    ['ca|server|p256|twice.example'],
    'also where a clock made it due that was ahead by less',
  )
  t.same(await store.makeFutureDue(NOW + DAY), ['ca|server|p256|ca-ahead.example'], 'later again')
  t.equal(await store.hasFuture(NOW + 45 * DAY - HOUR), true)
  t.equal(await store.hasFuture(NOW + 45 * DAY), false)
})

t.test('the keyring', async (t) => {
  const { store } = await testStore(t)
  t.equal(await store.loadKeyring(), undefined)
  const key = (id: number, seals: number) => ({
    id,
    purpose: 'leaf',
    wrapped: randomBytes(60),
    seals,
  })
  const [first, second, check] = [key(1, 5), key(2, 0), randomBytes(32)]
  await store.saveKeyring({ check, dataKeys: [first] })
  await store.saveKeyring({ check, dataKeys: [second] })
  t.same(await store.loadKeyring(), { check, dataKeys: [first, second] }, 'no data key is lost')
})
