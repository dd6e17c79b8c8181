import { randomBytes, randomUUID } from 'node:crypto'
import t from 'tap'
import { startPostgres } from '../../../../../scripts/test/postgres.ts'
import { Relay } from '../../../../store/test/postgres/relay.ts'
import type { Store } from '../../../src/port/store.ts'
import { MIGRATIONS } from '../../../src/schema/tables.ts'
import { newSchema, openReplica, testServer, until } from '../../helpers/engines.ts'
import { NOW, newAudit, newCertificate, newOrder } from '../../helpers/store.ts'

const range = (length: number) => Array.from({ length }, (_, n) => n)

t.test('five replicas that start at once agree', async (t) => {
  const schema = newSchema()
  const stores = await Promise.all(range(5).map((n) => openReplica(t, { schema, name: `r${n}` })))
  const root = () => {
    return { role: 'root', certificate: randomBytes(9), sealedKey: null, notAfter: NOW } as const
  }
  const added = await Promise.all(stores.map((store) => store.addAuthority(root(), null)))
  const [first] = await stores[0]!.listAuthorities()
  t.same(
    added.filter((one) => one !== undefined),
    [first],
    'one root',
  )
  t.equal((await stores[1]!.listAuthorities()).length, 1)

  const checks = stores.map(() => randomBytes(32))
  const created = await Promise.all(stores.map((store, i) => store.createKeyring(checks[i]!)))
  const winner = created.indexOf(true)
  t.equal(created.filter(Boolean).length, 1, 'one master key')
  t.same((await stores[0]!.loadKeyring())?.check, checks[winner])
  const keys = stores.map(() => {
    return { id: 1, purpose: 'leaf', wrapped: randomBytes(60), seals: 0 }
  })
  const kept = await Promise.all(
    stores.map((store, i) => store.addDataKey(keys[i]!, checks[winner]!)),
  )
  t.equal(kept.filter(Boolean).length, 1, 'one data key of an id')
  t.same((await stores[0]!.loadKeyring())?.dataKeys, [keys[kept.indexOf(true)]])
  const seals = await Promise.all(stores.map((store) => store.countSeals(1, 10)))
  t.same(
    seals.sort((a, b) => a - b),
    [10, 20, 30, 40, 50],
  )
  t.equal(stores.filter((store) => store.isLeader()).length, 1, 'one leader')
  const account = { directory: 'd', nextKey: null, url: null, contact: null }
  const accounts = await Promise.all(
    stores.map((store) => store.addAccount({ ...account, sealedKey: randomBytes(9) })),
  )
  t.equal(new Set(accounts.map(({ sealedKey }) => Buffer.from(sealedKey).toString('hex'))).size, 1)
})

t.test('a data key that is added during a rotation is not lost', async (t) => {
  const schema = newSchema()
  const [a, b] = [await openReplica(t, { schema }), await openReplica(t, { schema, name: 'b' })]
  const [check, next] = [randomBytes(32), randomBytes(32)]
  const key = (id: number) => ({ id, purpose: 'leaf', wrapped: randomBytes(60), seals: 0 })
  await a.createKeyring(check)
  await a.addDataKey(key(1), check)
  const stored = (await a.loadKeyring())!
  t.equal(await b.addDataKey(key(2), check), true)
  t.equal(await a.replaceKeyring({ check: next, dataKeys: stored.dataKeys }, check), false)
  t.same((await b.loadKeyring())?.check, check)
})

t.test('CRL numbers grow by one, whoever makes them', async (t) => {
  const schema = newSchema()
  const stores = [await openReplica(t, { schema }), await openReplica(t, { schema, name: 'b' })]
  const certificate = randomBytes(9)
  const of = { role: 'root', certificate, sealedKey: null, notAfter: NOW } as const
  const { id } = (await stores[0]!.addAuthority(of, null))!
  const made = await Promise.all(
    range(20).map((n) =>
      stores[n % 2]!.replaceCrl({ id, certificate }, NOW, (stored) => {
        const rest = { crl: randomBytes(9), thisUpdate: NOW, nextUpdate: NOW, entries: null }
        return { authorityId: id, number: (stored?.number ?? 0n) + 1n, ...rest }
      }),
    ),
  )
  const numbers = made.map(({ number }) => Number(number)).sort((a, b) => a - b)
  t.same(
    numbers,
    range(20).map((n) => n + 1),
  )
})

t.test('no quota is exceeded by replicas that ask at once', async (t) => {
  const schema = newSchema()
  const stores = [await openReplica(t, { schema }), await openReplica(t, { schema, name: 'b' })]
  for (const [key, other] of [
    ['caller a', 'caller b'],
    ['orders ca', 'domain ca'],
  ] as const) {
    const admit = (store: Store, n: number) =>
      store
        .changeUsage(n % 2 ? [key, other] : [other, key], (usage) => {
          if (usage.reservations(key, NOW, 1).length >= 10) throw new Error('used up')
          usage.reserve(`${key} ${n}`, [key], NOW)
          usage.set(key, usage.until(key) + 1)
        })
        .then(
          () => true,
          () => false,
        )
    const admitted = await Promise.all(range(40).map((n) => admit(stores[n % 2]!, n)))
    t.equal(admitted.filter(Boolean).length, 10, key)
    t.equal(await stores[0]!.changeUsage([key], (usage) => usage.until(key)), 10)
  }
})

t.test('writers on one request key: one certificate is current', async (t) => {
  const schema = newSchema()
  const stores = [await openReplica(t, { schema }), await openReplica(t, { schema, name: 'b' })]
  let issued = 0
  const work = { requestKey: 'y', domain: 'y.example', names: 1 }
  const write = async (store: Store) => {
    const lease = await store.takeLease(work)
    if (!lease) return
    await store.addCertificate(newCertificate({ requestKey: 'y' }), newAudit(), { lease })
    issued += 1
  }
  for (const _ of range(10)) await Promise.all(stores.map(write))
  t.ok(issued >= 10)
  const ofY = await stores[0]!.listIssued('app.example.com', { now: NOW, isOut: true })
  t.equal(ofY.length, issued)
})

t.test('two hundred at once are all stored', async (t) => {
  const store = await openReplica(t, { schema: newSchema() })
  const leases = await Promise.all(
    range(200).map((n) =>
      store.takeLease({ requestKey: `l${n}`, domain: `${n}.example`, names: 1 }),
    ),
  )
  await Promise.all(
    leases.map((lease) =>
      store.addCertificate(newCertificate({ requestKey: lease!.requestKey }), newAudit(), {
        lease: lease!,
      }),
    ),
  )
  t.equal((await store.list({ after: 0, limit: 999 })).length, 200)
})

t.test('writes of many certificates never wait for each other in a circle', async (t) => {
  const schema = newSchema()
  const stores = [await openReplica(t, { schema }), await openReplica(t, { schema, name: 'b' })]
  const requestKeys = range(40).map((n) => `l${n}`)
  const work = (requestKey: string) => ({ requestKey, domain: 'app.example.com', names: 1 })
  const add = async (store: Store, requestKey: string) => {
    const lease = await store.takeLease(work(requestKey))
    if (lease) await store.addCertificate(newCertificate({ requestKey }), newAudit(), { lease })
  }
  await Promise.all(requestKeys.map((requestKey) => add(stores[0]!, requestKey)))
  const touch = async (store: Store) => {
    const held = await store.list({ after: 0, limit: 99 })
    await store.setFetchedAt(new Map(held.map(({ id }) => [id, NOW])))
    await store.claimDue(NOW, 99)
  }
  const write = (store: Store, i: number) => {
    const own = i === 0 ? requestKeys : requestKeys.toReversed()
    return Promise.all([
      touch(store),
      ...own.map((requestKey) => add(store, requestKey)),
      touch(store),
    ])
  }
  for (const _ of range(10)) await Promise.all(stores.map(write))
  const server = await testServer()
  const [row] = await server.sql('SELECT sum(deadlocks)::int AS deadlocks FROM pg_stat_database')
  t.strictSame(row, { deadlocks: 0 })
})

t.test('a commit whose outcome is unknown happens once', async (t) => {
  const schema = newSchema()
  const server = await testServer()
  const relay = await Relay.start(t, server)
  const store = await openReplica(t, { schema, url: relay.through(server.url) })
  const write = async (n: number) => {
    const requestKey = `l${n}`
    const work = { requestKey, domain: 'app.example.com', names: 1 }
    const lease = (await store.takeLease(work))!
    const entry = newAudit({ requestId: requestKey })
    const certificate = newCertificate({ requestKey })
    const { id } = await store.addCertificate(certificate, entry, { lease })
    t.equal((await store.findCurrent(requestKey))?.id, id)
    t.equal(await store.saveOrder(newOrder({ id: requestKey, requestKey })), requestKey)
    t.equal(await store.changeUsage(['orders a'], take), n + 1)
  }
  const take: Parameters<typeof store.changeUsage<number>>[1] = (usage) => {
    usage.set('orders a', usage.until('orders a') + 1)
    return usage.until('orders a')
  }
  let n = 0
  for (const cut of ['after', 'during', 'before'] as const)
    for (const _ of range(6)) {
      relay.cut(cut)
      while (relay.left > 0) await write(n++)
    }
  t.ok(n >= 9)
  t.equal((await store.list({ after: 0, limit: 999 })).length, n)
  const rows = await store.listAudit({ limit: 999 })
  t.equal(rows.length, n)
  t.equal(new Set(rows.map(({ requestId }) => requestId)).size, n)
})

t.test('while the database is away', async (t) => {
  const server = await startPostgres(t)
  const options = { schema: newSchema(), url: server.url }
  const store = await openReplica(t, options)
  const { id, requestKey } = await store.addCertificate(newCertificate(), newAudit())
  await server.kill()
  const away = { code: 'STORE_UNAVAILABLE' }
  await t.rejects(store.check(), away)
  await t.rejects(store.addCertificate(newCertificate({ requestKey: 'x' }), newAudit()), away)
  await t.rejects(
    store.changeUsage(['a'], () => {}),
    away,
  )
  await until(() => store.failure())
  t.match(store.failure(), away)
  await t.rejects(store.takeLease({ requestKey, domain: '', names: 1 }), away)
  await t.rejects(openReplica(t, options), away)
  await server.start()
  await until(() =>
    store.check().then(
      () => true,
      () => false,
    ),
  )
  t.equal(store.failure(), undefined)
  t.equal((await store.findCurrent(requestKey))?.id, id)
  await until(() => store.isLeader())
})

t.test('the next one leads when the leader ends', async (t) => {
  const schema = newSchema()
  const a = await openReplica(t, { schema, name: 'a' })
  const b = await openReplica(t, { schema, name: 'b' })
  t.same([a.isLeader(), b.isLeader()], [true, false])
  await a.close()
  await until(() => b.isLeader())
})

t.test('a replica replaces the row that it left when it was killed, and no other', async (t) => {
  const schema = newSchema()
  const server = await testServer()
  await (await openReplica(t, { schema })).close()
  const [killed, paused, elsewhere] = range(3).map(() => randomUUID()) as [string, string, string]
  const rows = [
    [killed, 'twin', '1 minute'],
    [paused, 'twin', '1 minute'],
    [elsewhere, 'other', '1 minute'],
  ].map(([id, name, ago]) => `('${id}', '${name}', clock_timestamp() - interval '${ago}')`)
  await server.sql(`INSERT INTO ${schema}.replicas (id, name, seen_at) VALUES ${rows.join()}`)
  // One that stands still keeps its connections.
  await openReplica(t, { schema: newSchema(), name: 'held', replica: paused })

  const store = await openReplica(t, { schema, name: 'twin' })
  const there = async () => {
    const rows = await server.sql<{ id: string }>(`SELECT id FROM ${schema}.replicas`)
    return rows.map(({ id }) => id)
  }
  await until(async () => !(await there()).includes(killed))
  const left = await there()
  t.equal(left.length, 3)
  t.ok(left.includes(paused) && left.includes(elsewhere))
  await store.close()
  t.same((await there()).sort(), [paused, elsewhere].sort(), 'in order it leaves none')
})

t.test('a beat under way leaves no row behind', async (t) => {
  const schema = newSchema()
  const server = await testServer()
  const store = await openReplica(t, { schema })
  // Held up, it comes after whatever does not wait for it.
  await server.sql(`CREATE FUNCTION ${schema}.slow() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN PERFORM pg_sleep(0.3); RETURN new; END';
    CREATE TRIGGER slow BEFORE INSERT ON ${schema}.replicas FOR EACH ROW EXECUTE FUNCTION ${schema}.slow()`)
  await until(async () => {
    const [row] = await server.sql<{ count: number }>(
      `SELECT count(*)::int FROM pg_stat_activity WHERE wait_event = 'PgSleep'`,
    )
    return row!.count > 0
  })
  await store.close()
  t.strictSame(await server.sql(`SELECT id FROM ${schema}.replicas`), [])
})

t.test('the run time goes on, and replicas at the same time count once', async (t) => {
  const schema = newSchema()
  let passed = 77_000
  const elapsed = () => passed
  const a = await openReplica(t, { schema, name: 'a', elapsed })
  t.equal(a.runTime(), 0)
  passed += 5_000
  await a.check()
  const b = await openReplica(t, { schema, name: 'b', elapsed })
  t.equal(b.runTime(), 5_000)
  passed += 5_000
  t.same([a.runTime(), b.runTime()], [10_000, 10_000])
  await Promise.all([a.check(), b.check()])
  t.same([a.runTime(), b.runTime()], [10_000, 10_000])
  await a.close()
  await b.close()
  passed += 5_000
  t.equal((await openReplica(t, { schema, elapsed })).runTime(), 10_000)
})

t.test('the clock is that of the database', async (t) => {
  const store = await openReplica(t, { schema: newSchema() })
  const server = await testServer()
  const before = store.now!()
  const [row] = await server.sql<{ now: number }>(
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now',
  )
  t.ok(before - 1_000 < row!.now && row!.now < store.now!() + 1_000)
  t.equal(store.isShared, true)
})

t.test('a store of a newer version, or of nobody, is refused', async (t) => {
  const schema = newSchema()
  await openReplica(t, { schema })
  const server = await testServer()
  await server.sql(
    `INSERT INTO ${schema}.schema_versions (version, digest) VALUES (${MIGRATIONS.length + 1}, '')`,
  )
  await t.rejects(openReplica(t, { schema }), { code: 'STORE_NEWER' })
  const url = server.url.replace('test-only', 'wrong')
  const refused = await openReplica(t, { schema, url }).catch((error) => error)
  t.match(refused, { code: 'STORE_REFUSED', retryAfter: 5 })
  t.notMatch(String(refused.message), /wrong:|gatehouse:/)
})
