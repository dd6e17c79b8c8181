import { hash, randomBytes, X509Certificate } from 'node:crypto'
import { createRoot } from '@gatehouse/pki'
import type { CertificateRecord } from '../../src/port/store.ts'
import { onBothEngines } from '../helpers/engines.ts'
import { CHAIN, NOW, newAudit, newCertificate } from '../helpers/store.ts'

const DAY = 86_400_000
const domains = (records: readonly CertificateRecord[]) => records.map(({ names }) => names[0])

onBothEngines('what is out of service', async (t, { store, pass }) => {
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
  const ids = [revoked.id, expired.id]
  t.same(await store.revoke(ids, NOW, 'keyCompromise', entry), [revoked.serialNumber])
  t.same(await store.revoke([revoked.id], NOW + 1, 'superseded', entry), [])
  const entryOfDelete = newAudit({ action: 'delete' })
  await Promise.all([1, 2].map(() => store.remove([removed.id], entryOfDelete)))
  t.same(
    (await store.listAudit({ limit: 3 })).map(({ action }) => action),
    ['delete', 'revoke', 'issue'],
    'what was done before is told once',
  )
  for (const { id } of [revoked, removed]) t.equal((await store.listTransitions(id)).length, 1)

  t.same(domains(await store.list({ after: 0, limit: 10 })), [kept.names[0]])
  t.equal(await store.findCurrent(revoked.requestKey), undefined)
  t.same(await store.findByDomain('removed.example'), [])
  t.same(
    await store.listRevoked(CHAIN[0]!, NOW),
    [{ serialNumber: revoked.serialNumber, revokedAt: NOW, reason: 'keyCompromise' }],
    'a revocation stands as it was first made, until the certificate expires',
  )
  t.same(await store.listRevoked(randomBytes(9), NOW), [], 'each issuer has its own')
  pass(9 * DAY)
  t.same(await store.listRevoked(CHAIN[0]!, NOW + DAY + 1), [], 'nor for longer')
  const again = await add('revoked.example')
  t.equal((await store.findCurrent(again.requestKey))?.id, again.id, 'a request key may begin anew')
})

onBothEngines(
  'all that may still be revoked of a name, page by page: as far as it has not expired',
  async (t, { store, pass }) => {
    const domain = 'a.example'
    const add = (n: number, overrides = {}) =>
      store.addCertificate(
        newCertificate({ requestKey: `l${n}`, names: [domain], notAfter: NOW + DAY, ...overrides }),
        newAudit(),
      )
    await add(5, { notAfter: NOW - 1 })
    const [old] = await Promise.all([add(1), add(2, { names: ['b.example', domain] })])
    pass(DAY)
    // Replaced by another request key, deleted, and replaced in its own.
    const replaced = [old, await add(3)]
    const predecessor = { ...old, reason: 'due' } as const
    const certificate = newCertificate({
      requestKey: 'l4',
      names: [domain],
      notAfter: NOW + 2 * DAY,
    })
    const current = await store.addCertificate(certificate, newAudit(), { predecessor })
    await store.remove([replaced[1]!.id], newAudit())
    const [again, renewed] = [await add(5), await add(5, { notAfter: NOW + 3 * DAY })]
    const all = async (isOut: boolean, now = NOW) => {
      const found = await store.listIssued(domain, { now, isOut })
      return found.map(({ id }) => id)
    }
    t.same(
      await all(true),
      [...replaced, again, current, renewed].map(({ id }) => id),
    )
    t.same(
      await all(false, NOW + 9 * DAY),
      [current, renewed].map(({ id }) => id),
    )
    const later = Array.from({ length: 230 }, (_, n) =>
      add(10 + n, { notAfter: NOW + DAY + (n % 3) }),
    )
    await Promise.all(later)
    const seen = new Set<number>()
    for (let page = await store.listIssued(domain, { now: NOW, isOut: true }); page.length > 0; ) {
      t.ok(page.length <= 100)
      for (const { id } of page) seen.add(id)
      const ids = page.map(({ id }) => id)
      t.equal((await store.revoke(ids, NOW, 'superseded', newAudit())).length, page.length)
      page = await store.listIssued(domain, { now: NOW, isOut: true, after: page.at(-1)! })
    }
    t.equal(seen.size, 235)
    t.same(await all(true), [])
  },
)

onBothEngines(
  'of what is out of service no key is left, and none of its names finds it',
  async (t, { store, sql }) => {
    const names = ['a.example', 'b.example']
    const add = (requestKey: string) =>
      store.addCertificate(newCertificate({ requestKey, names }), newAudit())
    for (const [what, end] of [
      ['replaced', async () => {}],
      ['deleted', (_, id) => store.remove([id], newAudit())],
      ['revoked', (_, id) => store.revoke([id], NOW, 'superseded', newAudit())],
      [
        'both revoked',
        (replaced, current) => store.revoke([replaced, current], NOW, 'superseded', newAudit()),
      ],
    ] as readonly [string, (replaced: number, current: number) => Promise<unknown>][])
      await t.test(what, async (t) => {
        const [replaced, current] = [await add(what), await add(what)]
        await end(replaced.id, current.id)
        const left = what === 'replaced' ? [current.id] : []
        for (const name of names) {
          const found = await store.findByName(name)
          t.same(
            found.filter(({ requestKey }) => requestKey === what).map(({ id }) => id),
            left,
            name,
          )
        }
        const ids = `(${replaced.id}, ${current.id})`
        const kept = await sql<{ id: number }>(`
          SELECT id FROM @certificates WHERE id IN ${ids} AND sealed_key IS NOT NULL`)
        t.same(
          kept.map(({ id }) => Number(id)),
          left,
          'keys',
        )
        const named = await sql<{ id: number }>(`
          SELECT certificate AS id FROM @certificate_names WHERE certificate IN ${ids}`)
        t.same(
          named.map(({ id }) => Number(id)),
          left,
          'names',
        )
      })
  },
)

onBothEngines(
  'whether a client of a name was withdrawn, and not just replaced',
  async (t, { store }) => {
    const has = (since: number) => store.hasRevokedOfClient('client.example', since)
    const revoke = async (issuer: string, reason: 'superseded' | 'keyCompromise', at: number) => {
      const requestKey = `${issuer} ${reason}`
      const { id } = await store.addCertificate(
        newCertificate({ requestKey, issuer, names: ['client.example'] }),
        newAudit(),
      )
      await store.revoke([id], at, reason, newAudit())
    }
    await revoke('ca', 'keyCompromise', NOW)
    await revoke('ca-client', 'superseded', NOW)
    t.equal(await has(NOW), false, 'a server, and one that was replaced')
    await revoke('ca-client', 'keyCompromise', NOW)
    t.equal(await has(NOW), true)
    t.equal(await has(NOW + 1), false, 'before that')
  },
)

onBothEngines('what counts for a caller, and under a name', async (t, { store }) => {
  const askedBy = 'psk:web'
  const add = (names: string[], overrides = {}) =>
    store.addCertificate(newCertificate({ names, ...overrides }), newAudit())
  t.same(await store.countNames(askedBy, NOW), { count: 0, until: null })
  const first = await add(['a.example', 'b.example'], { askedBy, notAfter: NOW + DAY })
  await add(['c.example'], { askedBy, notAfter: NOW + 2 * DAY })
  await add(['d.example'], { askedBy: 'psk:other' })
  t.same(await store.countNames(askedBy, NOW), { count: 3, until: NOW + DAY })
  t.same(await store.countNames(askedBy, NOW + DAY), { count: 1, until: NOW + 2 * DAY })
  t.same(await store.countInUse('a.example', NOW), { count: 1, until: NOW + DAY })

  const renewed = await add(['a.example', 'b.example'], { notAfter: NOW + 3 * DAY })
  const counted = { count: 3, until: NOW + 2 * DAY }
  t.same(await store.countNames(askedBy, NOW), counted, 'a renewal takes its place')
  await store.remove([renewed.id], newAudit())
  t.same(await store.countNames(askedBy, NOW), counted, 'deleting does not free names')
  t.same(await store.countInUse('a.example', NOW), { count: 0, until: null })
  t.equal(first.names.length, 2)

  const work = { requestKey: 'x', domain: 'x.example', names: 5, askedBy }
  const leases = [
    await store.takeLease(work),
    await store.takeLease({ ...work, requestKey: 'csr' }),
    await store.takeLease({ ...work, requestKey: 'renewal', askedBy: undefined }),
  ]
  t.same(await store.countNames(askedBy, NOW), { count: 13, until: NOW + 2 * DAY }, 'and leases')
  t.same(await store.countInUse('x.example', NOW), { count: 2, until: null })
  const [earliest] = leases
  t.same(await store.countNames(askedBy, NOW, earliest), { count: 8, until: NOW + 2 * DAY })
  t.same(await store.countInUse('x.example', NOW, earliest), { count: 1, until: null })
  for (const lease of leases) await store.releaseLease(lease!)
  t.same(await store.countNames(askedBy, NOW), counted)
  t.same(await store.countInUse('x.example', NOW), { count: 0, until: null })
})

onBothEngines('keys that are asked about at once have an answer each', async (t, { store }) => {
  const { certificate } = await createRoot({ commonName: 'Test', now: NOW })
  await store.compromise([certificate, certificate], NOW)
  const { publicKey } = new X509Certificate(certificate)
  const revoked = hash('sha256', publicKey.export({ type: 'spki', format: 'der' }))
  const keys = ['00', revoked, 'ff', revoked, '00']
  t.strictSame(await Promise.all(keys.map((key) => store.isCompromised(key))), [
    false,
    true,
    false,
    true,
    false,
  ])
})

onBothEngines('what is in use under a name', async (t, { store }) => {
  const csr = { sealedKey: null, csr: randomBytes(9) }
  const life = { notBefore: NOW, notAfter: NOW + 7 * DAY }
  const add = (n: number, overrides = {}) =>
    store.addCertificate(newCertificate({ requestKey: `l${n}`, ...life, ...overrides }), newAudit())
  const at = async (days: number) =>
    (await store.countInUse('app.example.com', NOW + days * DAY)).count
  await add(0)
  await add(1, csr)
  const { id } = await add(2, csr)
  t.equal(await at(0), 3)
  // As the service renews them, whoever still fetches them.
  const renewed = { notBefore: NOW + 4 * DAY, notAfter: NOW + 11 * DAY }
  await add(0, renewed)
  await add(1, { ...csr, ...renewed })
  await add(2, { ...csr, ...renewed })
  t.equal(await at(6), 3)
  t.equal(await at(7), 1, 'nobody has fetched those for CSRs within a lifetime')
  await store.setFetchedAt(new Map([[id + 3, NOW + 6 * DAY]]))
  t.equal(await at(7), 2)
  await add(3, csr)
  t.equal((await store.findByDomain('app.example.com')).length, 4, 'none makes room for another')
  t.equal(await at(11), 0)
})

onBothEngines('many at once: each has its own outcome', async (t, { store }) => {
  const csr = { sealedKey: null, csr: randomBytes(9) }
  const add = (n: number, overrides = {}) =>
    store.addCertificate(
      newCertificate({ requestKey: `l${n}`, names: [`${n % 2}.example`], ...csr, ...overrides }),
      newAudit({ requestId: String(n) }),
    )
  const serialNumber = 'beef'
  await add(0, { serialNumber })
  const outcomes = await Promise.allSettled(
    [1, 2, 3, 4, 5, 6, 7, 8].map((n) => add(n, n === 5 ? { serialNumber } : {})),
  )
  t.same(
    outcomes.map(({ status }) => status === 'fulfilled'),
    [true, true, true, true, false, true, true, true],
  )
  const current = await store.list({ after: 0, limit: 99 })
  t.same(current.map(({ requestKey }) => requestKey).sort(), [
    'l0',
    'l1',
    'l2',
    'l3',
    'l4',
    'l6',
    'l7',
    'l8',
  ])
  const issued = (await store.listAudit({ limit: 99 })).filter(({ action }) => action === 'issue')
  t.same(issued.map(({ requestId }) => requestId).sort(), ['0', '1', '2', '3', '4', '6', '7', '8'])
})

onBothEngines('the time of delivery goes over to what replaces it', async (t, { store, pass }) => {
  pass(500)
  const first = await store.addCertificate(newCertificate(), newAudit())
  t.equal(first.fetchedRan, 500)
  pass(500)
  await store.setFetchedAt(new Map([[first.id, NOW + 7]]))
  t.match(await store.findCurrent(first.requestKey), { fetchedAt: NOW + 7, fetchedRan: 1000 })
  pass(500)
  const renewed = await store.addCertificate(newCertificate({ fetchedAt: NOW + 7 }), newAudit())
  t.equal(renewed.fetchedRan, 1000, 'if it was not delivered meanwhile')
  const asked = await store.addCertificate(newCertificate({ fetchedAt: NOW + 8 }), newAudit())
  t.equal(asked.fetchedRan, 1500)
  await store.setFetchedAt(new Map())
})

onBothEngines(
  'keys that were revoked as compromised, and what may still be revoked',
  async (t, { store }) => {
    const certificate = Buffer.from('MIIBtDCCAVqgAwIBAgIUFakeForNothing', 'base64')
    t.equal(await store.isCompromised('00'), false)
    const root = await createRoot({ commonName: 'Test', now: NOW })
    const { id, requestKey } = await store.addCertificate(
      newCertificate({ certificate: root.certificate, askedBy: 'psk:web' }),
      newAudit(),
    )
    const unreadable = await store.addCertificate(
      newCertificate({ requestKey: 'x', names: ['x.example'], certificate }),
      newAudit(),
    )
    const spki = new X509Certificate(root.certificate).publicKey.export({
      type: 'spki',
      format: 'der',
    })
    t.match(await store.listIssued('app.example.com', { now: NOW, isOut: false }), [
      {
        id,
        requestKey,
        issuer: 'ca',
        names: ['app.example.com'],
        serialNumber: (await store.findCurrent(requestKey))?.serialNumber,
      },
    ])
    await store.remove([id], newAudit())
    t.same(await store.listIssued('app.example.com', { now: NOW, isOut: false }), [])
    t.match(await store.listIssued('app.example.com', { now: NOW, isOut: true }), [{ id }])
    await store.compromise([root.certificate, unreadable.certificate], NOW)
    await store.revoke([id, unreadable.id], NOW, 'keyCompromise', newAudit())
    t.equal(await store.isCompromised(hash('sha256', spki)), true)
    t.same(await store.listIssued('app.example.com', { now: NOW, isOut: true }), [])
  },
)
