import { randomBytes } from 'node:crypto'
import type { CertificateRecord } from '../../src/port/store.ts'
import { onBothEngines } from '../helpers/engines.ts'
import { CHAIN, NOW, newAudit, newCertificate, newOrder } from '../helpers/store.ts'

const DAY = 86_400_000
const domains = (records: readonly CertificateRecord[]) => records.map(({ names }) => names[0])

onBothEngines('a certificate comes back as it went in', async (t, { store }) => {
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
    t.same(await store.findCurrent(certificate.requestKey), added, `${name}: found`)
  }
})

onBothEngines(
  'the newest certificate of a request key is the current one',
  async (t, { store }) => {
    const first = await store.addCertificate(newCertificate(), newAudit())
    const second = await store.addCertificate(newCertificate(), newAudit())
    t.equal((await store.findCurrent(first.requestKey))?.id, second.id)
    t.same(
      (await store.list({ after: 0, limit: 10 })).map(({ id }) => id),
      [second.id],
    )
  },
)

onBothEngines('the history of a name, in service or not', async (t, { store }) => {
  const add = (overrides: Parameters<typeof newCertificate>[0]) =>
    store.addCertificate(newCertificate({ names: ['a.example'], ...overrides }), newAudit())
  const replaced = await add({ serialNumber: 'aa' })
  const revoked = await add({ requestKey: 'another', serialNumber: 'bb' })
  const deleted = await add({ requestKey: 'deleted', serialNumber: 'cc' })
  const current = await add({ serialNumber: 'dd' })
  await add({ names: ['b.example', 'a.example'], serialNumber: 'ee' })
  await store.revoke([revoked.id], NOW + DAY, 'superseded', newAudit({ action: 'revoke' }))
  await store.remove([deleted.id], newAudit({ action: 'delete' }))

  const history = await store.listHistory('a.example')
  t.strictSame(
    history.map(({ id, isCurrent, revokedAt, revocationReason }) => [
      ...[id, isCurrent, revokedAt, revocationReason],
    ]),
    [
      [current.id, true, null, null],
      [deleted.id, false, null, null],
      [revoked.id, false, NOW + DAY, 'superseded'],
      [replaced.id, false, null, null],
    ],
    'the newest first, and none of another first name',
  )
  const [newest] = history
  const { requestKey, issuer, names, keyType, serialNumber, notBefore, notAfter } = current
  const members = { requestKey, issuer, names, keyType, serialNumber, notBefore, notAfter }
  t.match(newest, { ...members, madeAt: NOW })
  t.strictSame(await store.listHistory('none.example'), [])

  const cases: [why: string, domain: string, serial: string, found: object | undefined][] = [
    ['in service', 'a.example', 'dd', { ...current, isCurrent: true, revokedAt: null }],
    ['revoked', 'a.example', 'bb', { id: revoked.id, isCurrent: false, revokedAt: NOW + DAY }],
    ['replaced', 'a.example', 'aa', { id: replaced.id, isCurrent: false, sealedKey: null }],
    ['of another name', 'b.example', 'dd', undefined],
    ['part of a serial number', 'a.example', 'd', undefined],
  ]
  for (const [why, domain, serial, found] of cases) {
    const record = await store.findBySerial(domain, serial)
    if (found) t.match(record, found, why)
    else t.equal(record, undefined, why)
  }
})

onBothEngines(
  'who asks is a client, and not who has its order tried again',
  async (t, { store }) => {
    const ofClient = { way: 'acme', account: 'a' } as const
    const add = async (name: string, by: string, account?: string) => {
      const certificate = newCertificate({ names: [name], ...ofClient })
      const entry = newAudit({ actor: by, ...(account && { account }) })
      return store.findById((await store.addCertificate(certificate, entry)).id)
    }
    t.match(await add('a.example', 'psk:web', 'a'), { askedBy: 'psk:web' })
    t.match(await add('a.example', 'psk:other', 'a'), { askedBy: 'psk:other' }, 'it renews')
    t.match(await add('a.example', 'psk:operator'), { askedBy: 'psk:other' }, 'an operator')
  },
)

onBothEngines('a history ends with its hundred newest', async (t, { store }) => {
  for (let n = 0; n < 105; n += 1) await store.addCertificate(newCertificate(), newAudit())
  const history = await store.listHistory('app.example.com')
  t.equal(history.length, 100)
  t.equal(history[0]?.isCurrent, true)
  t.ok(history.every(({ id }, at) => at === 0 || id < history[at - 1]!.id))
})

onBothEngines('finding, listing and what is due', async (t, { store }) => {
  const nextDue = async () => (await store.claimDue(NOW + 9 * DAY, 1))[0]?.renewAt
  t.equal(await nextDue(), undefined, 'nothing is due in an empty store')
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

  t.equal(await nextDue(), NOW + DAY)
  t.same(await store.claimDue(NOW, 10), [])
  t.same(
    (await store.claimDue(NOW + 2 * DAY, 10)).map(({ names }) => names.length),
    [2, 1],
  )
  t.equal((await store.claimDue(NOW + 2 * DAY, 1)).length, 1)
  const due = { names: ['due.example'], renewAt: NOW, checkAt: NOW }
  await add(due)
  const { id } = await add(due)
  const claimed = [...(await store.claimDue(NOW, 9)), ...(await store.claimUnchecked(NOW, 9, NOW))]
  t.same(
    claimed.map((one) => one.id),
    [id, id],
    'not what was replaced',
  )
  await store.setRenewAt(id, null)

  await store.setRenewAt(page[1]!.id, null)
  t.equal(await nextDue(), NOW + 2 * DAY, 'a stopped renewal is not due')
  await store.setFetchedAt(new Map([[page[0]!.id, NOW + 5]]))
  t.equal((await store.findCurrent(page[0]!.requestKey))?.fetchedAt, NOW + 5)
})

onBothEngines('a serial number is used once per chain', async (t, { store }) => {
  const first = newCertificate({ names: ['a.example'] })
  await store.addCertificate(first, newAudit())
  const { serialNumber } = first
  const twice = newCertificate({ names: ['b.example'], serialNumber })
  await t.rejects(store.addCertificate(twice, newAudit()), /unique/i)
  t.equal(await store.findCurrent(twice.requestKey), undefined)
  t.equal((await store.listAudit({ limit: 9 })).length, 1, 'no trace of the one that failed')
})

onBothEngines('a request key may be as long as a hundred names are', async (t, { store }) => {
  const names = Array.from({ length: 100 }, (_, i) => `${i}.${'x'.repeat(60)}.example`)
  const added = await store.addCertificate(newCertificate({ names }), newAudit({ names }))
  t.same(await store.findCurrent(added.requestKey), added)
  t.same(await store.findByName(names[99]!), [added])
  const again = await store.addCertificate(newCertificate({ names }), newAudit({ names }))
  t.same(await store.list({ after: 0, limit: 9 }), [again], 'it is one request key')
  const issued = await store.listIssued(names[0]!, { now: NOW, isOut: true })
  t.match(issued, [{ id: added.id }, { id: again.id }])
  await store.setRenewAt(again.id, NOW - 1)
  t.same(
    (await store.claimDue(NOW, 9)).map(({ requestKey }) => requestKey),
    [added.requestKey],
  )
  const [entry] = await store.listAudit({ limit: 1 })
  t.same(entry?.names, names)
})

onBothEngines('names and texts are stored as they are', async (t, { store }) => {
  const odd = ['quote"d', 'back\\slash', "it's", '{a,b}', ' NULL ', 'NULL', 'naïve', '']
  const added = await store.addCertificate(newCertificate({ names: odd }), newAudit({ names: odd }))
  t.same(await store.findCurrent(added.requestKey), added)
  t.same((await store.listAudit({ limit: 1 }))[0]?.names, odd)
})

onBothEngines(
  'a page of the certificates of a name: those with a key first',
  async (t, { store }) => {
    const add = (n: number, overrides = {}) =>
      store.addCertificate(newCertificate({ requestKey: `l${n}`, ...overrides }), newAudit())
    const ids: number[] = []
    for (let n = 0; n < 101; n += 1) ids.push((await add(n)).id)
    const { id } = await add(101, { sealedKey: null, csr: randomBytes(9) })
    for (const find of [store.findByDomain, store.findByName]) {
      const [first, second] = [await find('app.example.com'), await find('app.example.com', 100)]
      t.same(
        [...first, ...second].map((one) => one.id),
        [...ids.toReversed(), id],
      )
      t.equal(first.length, 100)
    }
  },
)

onBothEngines('what expires soonest, and what is late', async (t, { store }) => {
  const add = (name: string, notAfter: number, renewAt: number | null = NOW) =>
    store.addCertificate(
      newCertificate({ names: [name], notBefore: NOW, notAfter, renewAt }),
      newAudit(),
    )
  await add('b.example', NOW + 6 * DAY)
  await add('a.example', NOW + 3 * DAY)
  await add('never.example', NOW + DAY, null)
  t.same(await store.listEnding(NOW, 1), {
    soonest: [
      { domain: 'a.example', issuer: 'ca', notBefore: NOW, notAfter: NOW + 3 * DAY, way: null },
    ],
    total: 2,
  })
  t.same(domains(await store.listLate(NOW + 2 * DAY, 9)), [])
  t.same(domains(await store.listLate(NOW + 2 * DAY + 1, 9)), ['a.example'])
  t.same(domains(await store.listLate(NOW + 5 * DAY, 9)), ['a.example', 'b.example'])
})

onBothEngines(
  'how long it may live is kept with a certificate and with an order',
  async (t, { store }) => {
    const { requestKey } = await store.addCertificate(
      newCertificate({ lifetime: 3_600_000 }),
      newAudit(),
    )
    t.equal((await store.findCurrent(requestKey))?.lifetime, 3_600_000)
    await store.saveOrder(newOrder({ requestKey: 'x', lifetime: 7_200_000 }))
    t.equal((await store.findOrderByRequestKey('x'))?.lifetime, 7_200_000)
    await store.saveOrder(newOrder({ requestKey: 'x' }))
    t.notOk('lifetime' in ((await store.findOrderByRequestKey('x')) ?? {}))
  },
)
