import t, { type Test } from 'tap'
import type { CertificateRecord, Work } from '../../../src/port/store.ts'
import { newSchema, openReplica, testServer, until } from '../../helpers/engines.ts'
import { NOW, newAudit, newCertificate, newOrder } from '../../helpers/store.ts'

const DAY = 86_400_000
const lost = { code: 'CERT_LEASE_LOST' }
const domain = 'app.example.com'
const work = (overrides: Partial<Work> = {}): Work => {
  return { requestKey: 'x', domain, names: 1, askedBy: 'psk:a', ...overrides }
}

/** Two replicas on one store. */
async function pair(t: Test) {
  const schema = newSchema()
  const server = await testServer()
  return {
    a: await openReplica(t, { schema, name: 'a' }),
    b: await openReplica(t, { schema, name: 'b' }),
    /** As if all leases had ended so many milliseconds ago. */
    endAll: (ms: number) =>
      server.sql(`UPDATE ${schema}.leases
        SET until = (extract(epoch FROM clock_timestamp()) * 1000)::bigint - ${ms}`),
    /**
     * As if the holders of all leases had been away for so long, until `check` gives something true. A
     * holder that lives may renew its leases in between.
     */
    async expired<T>(check: () => Promise<T | undefined>): Promise<T> {
      const found = await until(async () => {
        await server.sql(`UPDATE ${schema}.leases SET until = 0`)
        return check()
      })
      return found as T
    },
  }
}

t.test('one replica at a time works on a request key', async (t) => {
  const { a, b } = await pair(t)
  const taken = await Promise.all([a.takeLease(work()), b.takeLease(work())])
  t.equal(taken.filter(Boolean).length, 1)
  const [holder, other] = taken[0] ? [a, b] : [b, a]
  const lease = (taken[0] ?? taken[1])!
  t.equal(await other.isBusyElsewhere(domain), true)
  t.equal(await other.isBusyElsewhere('other.example'), false)
  t.equal(await holder.isBusyElsewhere(domain), false)
  t.match(await other.takeLease(work({ requestKey: 'y' })), { requestKey: 'y' }, 'others are free')
  await holder.releaseLease(lease)
  t.ok(await other.takeLease(work()))
  t.equal(await holder.takeLease(work()), undefined)
})

t.test('a lease knows what the one before it stored', async (t) => {
  const { a, b } = await pair(t)
  const lease = (await a.takeLease(work()))!
  const adding = a.addCertificate(newCertificate({ requestKey: 'x' }), newAudit(), { lease })
  // The row of the lease is locked until the commit, which this waits for.
  const next = (await until(() => b.takeLease(work())))!
  t.equal(next.currentId, (await adding).id)
})

t.test('a lease that nobody renews ends, and its holder learns that', async (t) => {
  const { a, b, expired } = await pair(t)
  const lease = (await a.takeLease(work()))!
  const kept = (await a.takeLease(work({ requestKey: 'kept' })))!
  await b.addCertificate(newCertificate({ requestKey: 'other', serialNumber: 'aa' }), newAudit())
  const refused = newCertificate({ requestKey: 'kept', serialNumber: 'aa' })
  await t.rejects(a.addCertificate(refused, newAudit(), { lease: kept }), /unique/i)
  const next = await expired(() => b.takeLease(work()))
  t.ok(next.token > lease.token)
  const certificate = newCertificate({ requestKey: 'x' })
  await t.rejects(a.addCertificate(certificate, newAudit(), { lease }), lost)
  await t.rejects(a.saveOrder(newOrder({ requestKey: 'x' }), lease), lost)
  await a.releaseLease(lease)
  const added = await b.addCertificate(certificate, newAudit(), { lease: next })
  t.equal((await a.findCurrent('x'))?.id, added.id)

  const again = (await a.takeLease(work()))!
  await expired(() => b.takeLease(work()))
  await until(() => again.lost.aborted)
  t.equal(kept.lost.aborted, false)
  const other = await b.takeLease(work({ requestKey: 'kept' }))
  t.equal(
    other,
    undefined,
    'one that was not taken over is renewed, also after a write that failed',
  )
  const late = newCertificate({ requestKey: 'kept' })
  t.ok(await a.addCertificate(late, newAudit(), { lease: kept }))
})

t.test(
  'a lease that ended a moment ago is there for its holder, and nobody waits for it',
  async (t) => {
    const { a, b, endAll } = await pair(t)
    const lease = (await a.takeLease(work()))!
    t.equal(await b.isBusyElsewhere(domain), true)
    await endAll(1_000)
    t.equal(await b.isBusyElsewhere(domain), false)
    await b.prune(NOW, { audit: DAY, certificates: DAY, orders: DAY, challenges: DAY })
    t.ok(await a.addCertificate(newCertificate({ requestKey: 'x' }), newAudit(), { lease }))
  },
)

t.test('of a hundred late writers none stores', async (t) => {
  const { a, b, expired } = await pair(t)
  const requestKeys = Array.from({ length: 100 }, (_, n) => `l${n}`)
  const late = await Promise.all(requestKeys.map((requestKey) => a.takeLease(work({ requestKey }))))
  const half = requestKeys.slice(0, 50)
  const taken = await expired(async () => {
    const all = await Promise.all(half.map((requestKey) => b.takeLease(work({ requestKey }))))
    return all.every(Boolean) ? all : undefined
  })
  const add = (store: typeof a, leases: typeof late) =>
    leases.map((lease) =>
      store
        .addCertificate(newCertificate({ requestKey: lease!.requestKey }), newAudit(), {
          lease: lease!,
        })
        .then(
          () => 'added',
          ({ code }) => code,
        ),
    )
  const outcomes = await Promise.all([...add(a, late), ...add(b, taken)])
  t.same(outcomes.slice(0, 50), Array(50).fill('CERT_LEASE_LOST'))
  t.same(outcomes.slice(50), Array(100).fill('added'), 'what nobody took over is still stored')
  t.equal((await a.list({ after: 0, limit: 999 })).length, 100)
  t.equal((await a.listAudit({ limit: 999 })).length, 100)
})

t.test('a replica that ends leaves its work to the others', async (t) => {
  const { a, b } = await pair(t)
  t.ok(await a.takeLease(work()))
  await a.close()
  t.ok(await b.takeLease(work()))
})

t.test('due renewals are split, and each stays with who claimed it', async (t) => {
  const { a, b } = await pair(t)
  const names = Array.from({ length: 40 }, (_, n) => `${n}.example`)
  await Promise.all(
    names.map((name) =>
      a.addCertificate(newCertificate({ names: [name], renewAt: NOW - 1 }), newAudit()),
    ),
  )
  // Of what both ask for at the same moment, one may get as little as one.
  const [one, other] = (await a.claimDue(NOW, 2)) as [CertificateRecord, CertificateRecord]
  const claimed = await Promise.all([a.claimDue(NOW, 15), b.claimDue(NOW, 15)])
  const ids = claimed.flat().map(({ id }) => id)
  t.equal(new Set(ids).size, ids.length, 'none twice')
  const [ofA = [], ofB = []] = claimed
  t.equal((await b.claimDue(NOW, 99)).length, 40 - ofA.length)
  t.same(
    (await a.claimDue(NOW, 99)).map(({ id }) => id).sort(),
    ofA.map(({ id }) => id).sort(),
    'its own are still its own',
  )
  t.equal(await b.takeLease(work({ requestKey: one.requestKey })), undefined)
  const lease = (await a.takeLease(work({ requestKey: one.requestKey })))!
  t.equal(lease.currentId, one.id)
  await a.setRenewAt(one.id, NOW)
  t.equal(await b.takeLease(work({ requestKey: one.requestKey })), undefined, 'work goes on')
  await a.setRenewAt(other.id, NOW)
  t.match(await b.claimDue(NOW, 99), new Set(), 'a claim does not')
  t.ok((await b.claimDue(NOW, 99)).some(({ id }) => id === other.id))
  t.ok(ofB.length > 0)
})

t.test('a claim that ended is claimed again by who asks first', async (t) => {
  const { a, b, endAll } = await pair(t)
  await a.addCertificate(newCertificate({ renewAt: NOW }), newAudit())
  t.equal((await a.claimDue(NOW, 9)).length, 1)
  await endAll(1_000)
  t.equal((await a.claimDue(NOW, 9)).length, 1)
  t.same(await b.claimDue(NOW, 9), [])
  await endAll(1_000)
  t.equal((await b.claimDue(NOW, 9)).length, 1)
  t.same(await a.claimDue(NOW, 9), [])
})

t.test('what is claimed once is not claimed elsewhere', async (t) => {
  const { a, b } = await pair(t)
  for (let n = 0; n < 20; n += 1) {
    const certificate = newCertificate({ names: [`${n}.example`], checkAt: NOW })
    await a.addCertificate(certificate, newAudit())
    await a.addEvent({ body: `${n}`, at: NOW, receivers: ['webhook'] })
  }
  const unchecked = await Promise.all(
    [a, b, a, b, a, b].map((store) => store.claimUnchecked(NOW, 8, NOW + DAY / 2)),
  )
  const events = await Promise.all(
    [a, b, a, b, a, b].map((store) => store.claimDueEvents('webhook', NOW, 8, NOW + DAY / 2)),
  )
  for (const claimed of [unchecked, events]) {
    const ids = claimed.flat().map(({ id }) => id)
    t.equal(new Set(ids).size, ids.length)
    t.ok(ids.length >= 8)
  }
  const later = NOW + DAY / 2
  t.same(await b.claimDueEvents('webhook', later - 1, 99, later), [], 'for as long as was said')
  t.same(await a.claimUnchecked(later - 1, 99, later), [])
  t.equal((await b.claimDueEvents('webhook', later, 99, NOW + DAY)).length, 20)
  t.equal((await a.claimUnchecked(later, 99, NOW + DAY)).length, 20)
})

t.test('orders that another replica works on are left alone', async (t) => {
  const { a, b, expired } = await pair(t)
  const lease = (await a.takeLease(work()))!
  await a.saveOrder(newOrder({ id: 'x', requestKey: 'x' }), lease)
  await a.saveOrder(newOrder({ id: 'free', requestKey: 'free' }))
  const checkpoint = { state: {}, sealedKey: null }
  const failed = newOrder({
    id: 'y',
    requestKey: 'y',
    status: 'failed',
    nextTryAt: NOW,
    checkpoint,
  })
  await a.saveOrder(failed, (await a.takeLease(work({ requestKey: 'y' })))!)
  const pending = async (store: typeof a) => (await store.listPendingOrders()).map(({ id }) => id)
  t.same((await pending(a)).sort(), ['free', 'x'])
  t.same(await pending(b), ['free'])
  t.same(await b.listResumableOrders(NOW), [])
  const [orders, resumable] = await expired(async () => {
    const found = [await pending(b), await b.listResumableOrders(NOW)] as const
    return found[0].length > 1 && found[1].length > 0 ? found : undefined
  })
  t.same(orders.toSorted(), ['free', 'x'])
  t.match(resumable, [{ id: 'y' }])
})

t.test('of those who ask at once as many are admitted as there is room for', async (t) => {
  const { a, b } = await pair(t)
  const stores = [a, b]
  const admitted = await Promise.all(
    Array.from({ length: 40 }, async (_, n) => {
      const store = stores[n % 2]!
      const lease = (await store.takeLease(work({ requestKey: `l${n}` })))!
      const names = await store.countNames('psk:a', NOW, lease)
      const keys = await store.countInUse(domain, NOW, lease)
      return names.count <= 10 && keys.count <= 10
    }),
  )
  t.equal(admitted.filter(Boolean).length, 10)
})

t.test('what is under way elsewhere counts for quotas', async (t) => {
  const { a, b, expired } = await pair(t)
  t.ok(await a.takeLease(work({ names: 3 })))
  t.same(await b.countNames('psk:a', NOW), { count: 3, until: null })
  t.same(await b.countInUse(domain, NOW), { count: 1, until: null })
  const counted = await expired(async () => {
    const counted = await b.countNames('psk:a', NOW)
    return counted.count === 0 ? counted : undefined
  })
  t.same(counted, { count: 0, until: null })
  const inUse = await expired(async () => {
    const counted = await b.countInUse(domain, NOW)
    return counted.count === 0 ? counted : undefined
  })
  t.same(inUse, counted)
})
