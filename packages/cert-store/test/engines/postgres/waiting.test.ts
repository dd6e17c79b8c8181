import { randomBytes } from 'node:crypto'
import { type Engine, openPostgres, parsePostgresUrl, type Transaction } from '@gatehouse/store'
import t, { type Test } from 'tap'
import { storeOn } from '../../../src/engines/whole.ts'
import { Leases } from '../../../src/orders/leases.ts'
import type { Lease, Store } from '../../../src/port/store.ts'
import { MIGRATIONS } from '../../../src/schema/tables.ts'
import { newSchema, openReplica, testServer, until } from '../../helpers/engines.ts'
import { NOW, newAudit, newCertificate, newOrder } from '../../helpers/store.ts'

const DAY = 86_400_000
const KEPT_FOR = { audit: DAY, certificates: DAY, orders: DAY, challenges: DAY }
const domain = 'app.example.com'
const { requestKey } = newCertificate()
const work = { requestKey, domain, names: 1, askedBy: 'psk:a' }

/** An engine whose next write can be held up right before its commit. */
function holding(engine: Engine) {
  let next: { reached(): void; readonly until: Promise<void> } | undefined
  let begin: Promise<void> | undefined
  const transaction: Engine['transaction'] = async (job, options) => {
    const [held, begun] = [next, begin]
    next = begin = undefined
    await begun
    if (!held) return engine.transaction(job, options)
    const heldUp = async (tx: Transaction) => {
      const result = await job(tx)
      held.reached()
      await held.until
      return result
    }
    // The commit of what is repeatable waits for nothing.
    return engine.transaction(heldUp, { ...options, repeatable: false })
  }
  const db: Engine = {
    dialect: engine.dialect,
    reports: engine.reports,
    all: (sql, ...params) => engine.all(sql, ...params),
    get: (sql, ...params) => engine.get(sql, ...params),
    run: (sql, ...params) => transaction((tx) => tx.run(sql, ...params)),
    transaction,
    runTime: () => engine.runTime(),
    check: () => engine.check(),
    failure: () => engine.failure(),
    close: () => engine.close(),
    [Symbol.asyncDispose]: () => engine.close(),
  }
  /** Resolves when `write` has done all but its commit. */
  const hold = async <T>(write: () => Promise<T>) => {
    const [reached, letGo] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    next = { reached: reached.resolve, until: letGo.promise }
    const written = write()
    await Promise.race([reached.promise, written])
    return { written, letGo: letGo.resolve }
  }
  /** The next write does not begin until what this gives is called. */
  const delay = (): (() => void) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    begin = promise
    return resolve
  }
  return { db, hold, delay }
}

/** Two replicas of a store, the commits of one of which can be held up. */
async function setup(t: Test) {
  const schema = newSchema()
  const server = await testServer()
  const b = await openReplica(t, { schema, name: 'b' })
  const log = { info() {}, warn() {} }
  const url = parsePostgresUrl(server.url)
  const engine = await openPostgres({
    url,
    schema,
    name: 'a',
    migrations: MIGRATIONS,
    log,
  })
  t.teardown(() => engine.close())
  const { db, hold, delay } = holding(engine)
  const leases = new Leases(db, 'a')
  const a = storeOn(db, { leases })
  return {
    ...{ a, b, db, hold, delay, leases },
    /** `@` stands for the schema. */
    sql: (text: string) => server.sql(text.replaceAll('@', `${schema}.`)),
  }
}

type Replicas = Awaited<ReturnType<typeof setup>>

/** What one replica has not committed yet while another one comes, and what then is so. */
interface Case<Given, First, Second> {
  given(replicas: Replicas): Promise<Given>
  first(replicas: Replicas, given: Given): Promise<First>
  second(replicas: Replicas, given: Given): Promise<Second>
  /** Default: it waits. */
  readonly passes?: boolean
  check(
    t: Test,
    replicas: Replicas,
    outcome: { given: Given; first: First; second: Second },
  ): Promise<unknown>
}

function during<Given, First, Second>(
  name: string,
  { given: prepare, first, second, passes = false, check }: Case<Given, First, Second>,
): void {
  t.test(name, async (t) => {
    const replicas = await setup(t)
    const { hold, sql } = replicas
    const given = await prepare(replicas)
    const { written, letGo } = await hold(() => first(replicas, given))
    let isDone = false
    const other = second(replicas, given).finally(() => {
      isDone = true
    })
    const waiting = 'SELECT FROM pg_locks WHERE NOT granted'
    await until(async () => isDone || (await sql(waiting)).length > 0)
    t.equal(isDone, passes, passes ? 'does not wait' : 'waits')
    letGo()
    const outcome = { given, first: await written, second: await other }
    await check(t, replicas, outcome)
  })
}

const added = ({ b }: Replicas) => b.addCertificate(newCertificate(), newAudit())
const nothing = async () => {}

during('a lease that counts comes after those with smaller tokens', {
  given: nothing,
  first: ({ a }) => a.takeLease(work),
  second: ({ b }) => b.takeLease({ ...work, requestKey: 'other' }),
  async check(t, { b }, { first, second }) {
    t.ok(first!.token < second!.token)
    t.equal((await b.countNames('psk:a', NOW, second)).count, 2, 'and counts them all')
    t.equal((await b.countInUse(domain, NOW, second)).count, 2)
    t.equal((await b.countNames('psk:a', NOW, first)).count, 1)
  },
})

during('a lease under which something is stored is not taken over meanwhile', {
  async given({ a, sql }) {
    const lease = (await a.takeLease(work))!
    await sql('UPDATE @leases SET until = 0')
    return lease
  },
  first: ({ a }, lease: Lease) => a.saveOrder(newOrder({ requestKey, step: 'late' }), lease),
  second: ({ b }) => b.takeLease(work),
  async check(t, { a, b }, { given, second }) {
    await b.saveOrder(newOrder({ requestKey, step: 'next' }), second)
    const late = a.saveOrder(newOrder({ requestKey, step: 'later' }), given)
    await t.rejects(late, { code: 'CERT_LEASE_LOST' })
    t.match(await b.findOrderByRequestKey(requestKey), { step: 'next' })
  },
})

during('a lease that is being renewed is not deleted as an old one', {
  async given({ a, sql }) {
    const lease = (await a.takeLease(work))!
    await sql('UPDATE @leases SET until = 0')
    return lease
  },
  first: ({ leases }) => leases.renew(),
  second: ({ b }) => b.prune(NOW, KEPT_FOR),
  passes: true,
  check: (t, { a }, { given: lease }) =>
    t.resolves(a.addCertificate(newCertificate(), newAudit(), { lease })),
})

during('a lease that ends with its certificate is not taken for lost', {
  given: async ({ a }) => (await a.takeLease(work))!,
  first: ({ a }, lease) => a.addCertificate(newCertificate(), newAudit(), { lease }),
  second: ({ leases }) => leases.renew(),
  passes: true,
  async check(t, _, { given: lease }) {
    t.equal(lease.lost.aborted, false)
  },
})

during('what replaces a certificate that is being revoked is found after it', {
  given: added,
  first: ({ a }) => a.addCertificate(newCertificate(), newAudit()),
  async second({ b }, { id, serialNumber, names: [domain = ''] }) {
    const revoked = await b.revoke([id], NOW, 'superseded', newAudit())
    const left = await b.listIssued(domain, { now: NOW, isOut: true })
    return { isRevoked: revoked.includes(serialNumber), left: left.map(({ id }) => id) }
  },
  async check(t, _, { first, second }) {
    t.same(second, { isRevoked: true, left: [first.id] })
  },
})

during('what is being revoked counts on beside what follows it', {
  async given({ b }) {
    return (await b.addCertificate(newCertificate({ askedBy: 'psk:a' }), newAudit())).id
  },
  first: ({ a }, id) => a.revoke([id], NOW, 'superseded', newAudit()),
  second: ({ b }) => b.addCertificate(newCertificate({ askedBy: 'psk:a' }), newAudit()),
  async check(t, { b }, { second }) {
    t.equal((await b.findCurrent(requestKey))?.id, second.id)
    t.equal((await b.countNames('psk:a', NOW)).count, 2)
  },
})

during('a renewal that is being stopped is not made due', {
  async given({ b }) {
    const times = { notBefore: NOW + 9 * DAY, renewAt: NOW + 10 * DAY }
    return (await b.addCertificate(newCertificate(times), newAudit())).id
  },
  first: ({ a }, id) => a.setRenewAt(id, null),
  second: ({ b }) => b.makeFutureDue(NOW + DAY),
  async check(t, { b }, { second }) {
    t.same(second, [])
    t.match(await b.findCurrent(requestKey), { renewAt: null })
  },
})

during('what another replica makes due is not made due again', {
  async given({ b }) {
    for (const name of ['a.example', 'b.example']) {
      const times = { notBefore: NOW + 9 * DAY, renewAt: NOW + 10 * DAY }
      await b.addCertificate(newCertificate({ names: [name], ...times }), newAudit())
    }
  },
  first: ({ a }) => a.makeFutureDue(NOW + DAY),
  second: ({ b }) => b.makeFutureDue(NOW + DAY),
  async check(t, _, { first, second }) {
    t.equal(first.length, 2)
    t.same(second, [])
  },
})

during('what is being claimed for a look at its window is passed over', {
  async given({ b }) {
    await b.addCertificate(newCertificate({ checkAt: NOW }), newAudit())
  },
  first: ({ a }) => a.claimUnchecked(NOW, 9, NOW + DAY),
  second: ({ b }) => b.claimUnchecked(NOW, 9, NOW + DAY),
  passes: true,
  async check(t, _, { first, second }) {
    t.equal(first.length, 1)
    t.same(second, [])
  },
})

during('what is being claimed for a look at what is served is passed over', {
  async given({ b }) {
    await b.addCertificate(newCertificate(), newAudit())
  },
  first: ({ a }) => a.claimUnprobed(NOW, 9, NOW + DAY),
  second: ({ b }) => b.claimUnprobed(NOW, 9, NOW + DAY),
  passes: true,
  async check(t, _, { first, second }) {
    t.equal(first.length, 1)
    t.same(second, [])
  },
})

during('a renewal that is being claimed is passed over', {
  async given({ b }) {
    await b.addCertificate(newCertificate({ renewAt: NOW }), newAudit())
  },
  first: ({ a }) => a.claimDue(NOW, 9),
  second: ({ b }) => b.claimDue(NOW, 9),
  passes: true,
  async check(t, _, { first, second }) {
    t.equal(first.length, 1)
    t.same(second, [])
  },
})

during('an old order that is being taken up again is not deleted', {
  async given({ b }) {
    await b.saveOrder(newOrder({ status: 'done' }))
  },
  first: ({ a }) => a.saveOrder(newOrder()),
  second: ({ b }) => b.prune(NOW + 9 * DAY, { ...KEPT_FOR, orders: -DAY }),
  passes: true,
  async check(t, { b }) {
    t.match(await b.findOrderByRequestKey(requestKey), { status: 'pending' })
  },
})

during('a master key under which a data key is being added is not replaced', {
  async given({ b }) {
    const check = randomBytes(32)
    await b.createKeyring(check)
    await b.addDataKey(dataKey(1), check)
    return (await b.loadKeyring())!
  },
  first: ({ a }, { check }) => a.addDataKey(dataKey(2), check),
  second: ({ b }, { check, dataKeys }) =>
    b.replaceKeyring({ check: randomBytes(32), dataKeys }, check),
  async check(t, { b }, { given, first, second }) {
    t.strictSame([first, second], [true, false])
    const stored = await b.loadKeyring()
    t.same(stored?.check, given.check)
    t.equal(stored?.dataKeys.length, 2)
  },
})

t.test(
  'a state of an order is saved after those before it, also if they are held up',
  async (t) => {
    const { a, b, delay } = await setup(t)
    const begin = delay()
    const saved = ['one', 'two'].map((step) => a.saveOrder(newOrder({ requestKey, step })))
    // Time enough for the second one, if it did not wait.
    for (let n = 0; n < 9; n += 1) await b.addAudit([newAudit()])
    begin()
    await Promise.all(saved)
    t.match(await b.findOrderByRequestKey(requestKey), { step: 'two' })
  },
)

function dataKey(id: number): Parameters<Store['addDataKey']>[0] {
  return { id, purpose: 'leaf', wrapped: randomBytes(60), seals: 0 }
}

t.test('leases that are renewed and ended never wait for each other in a circle', async (t) => {
  const { leases, db, sql } = await setup(t)
  const range = Array.from({ length: 100 }, (_, n) => n)
  for (let round = 0; round < 10; round++) {
    const taking = range.map((n) => leases.takeLease({ ...work, requestKey: `${round} ${n}` }))
    const taken = (await Promise.all(taking)).flatMap((lease) => lease ?? [])
    const end = (some: readonly Lease[]) => db.transaction((tx) => leases.end(tx, some))
    await Promise.all([
      leases.renew(),
      end(taken.slice(70)),
      leases.renew(),
      end(taken.slice(30, 70)),
    ])
  }
  const [row] = await sql('SELECT sum(deadlocks)::int AS deadlocks FROM pg_stat_database')
  t.strictSame(row, { deadlocks: 0 })
})
