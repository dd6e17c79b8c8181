import t, { type Test } from 'tap'
import { Relay } from '../../../../store/test/postgres/relay.ts'
import type { ReplicaChange, Store } from '../../../src/port/store.ts'
import { newSchema, openReplica, testServer, until } from '../../helpers/engines.ts'
import { NOW, newAudit, newCertificate } from '../../helpers/store.ts'

const DAY = 86_400_000

/** The changes that a store tells of, as long as nobody takes them. */
function heardBy(store: Store) {
  let heard: ReplicaChange['requestKeys'][] = []
  store.onChange(({ requestKeys }) => void heard.push(requestKeys))
  return async (count = 1) => {
    await until(() => heard.length >= count)
    const all = heard
    heard = []
    return all.includes('all') ? 'all' : [...new Set(all.flat())].sort()
  }
}

async function replicas(t: Test) {
  const schema = newSchema()
  const server = await testServer()
  const relay = await Relay.start(t, server)
  return {
    schema,
    relay,
    a: await openReplica(t, { schema, name: 'a' }),
    b: await openReplica(t, { schema, name: 'b', url: relay.through(server.url) }),
    /** `@` stands for the schema. */
    sql: (text: string) => server.sql(text.replaceAll('@', `${schema}.`)),
  }
}

t.test('each change is told to the other replicas, and only to them', async (t) => {
  const { a, b } = await replicas(t)
  const [atA, atB] = [heardBy(a), heardBy(b)]
  const add = (requestKey: string, overrides = {}) =>
    a.addCertificate(newCertificate({ requestKey, ...overrides }), newAudit())
  const { id } = await add('x')
  t.same(await atB(), ['x'])
  await a.setRenewAt(id, NOW)
  t.same(await atB(), ['x'])
  const window = { checkAt: NOW, windowStart: NOW, windowEnd: NOW, explanationUrl: null }
  await a.setRenewalWindow(id, { ...window, renewAt: NOW })
  t.same(await atB(), ['x'])
  await a.remove([id], newAudit())
  t.same(await atB(), ['x'])

  const csr = { sealedKey: null, names: ['n.example'] }
  await add('old', csr)
  t.same(await atB(), ['old'])
  await a.addCertificate(newCertificate({ requestKey: 'new', ...csr }), newAudit())
  t.same(await atB(), ['new'], 'the other one stays in service')

  await add('future', { notBefore: NOW + 9 * DAY, renewAt: NOW + 10 * DAY })
  t.same(await atB(), ['future'])
  t.same(await a.makeFutureDue(NOW + DAY), ['future'])
  t.same(await atB(), ['future'])
  await add('late', { renewAt: NOW + 90 * DAY })
  t.same(await atB(), ['late'])
  await a.bringForward(NOW)
  t.same(await atB(), ['late'])

  await b.addCertificate(newCertificate({ requestKey: 'by b' }), newAudit())
  t.same(await atA(), ['by b'], 'and nothing of its own')
})

t.test('a change of very many is one of all', async (t) => {
  const { a, b } = await replicas(t)
  const added = await Promise.all(
    Array.from({ length: 1001 }, (_, n) =>
      a.addCertificate(newCertificate({ requestKey: `l${n}` }), newAudit()),
    ),
  )
  const atB = heardBy(b)
  await a.revoke(
    added.map(({ id }) => id),
    NOW,
    'superseded',
    newAudit(),
  )
  await until(async () => (await atB()) === 'all')
  t.same(await a.awaitReplicas(), [])
})

t.test('after a lost connection everything may have changed', async (t) => {
  const { a, b, relay } = await replicas(t)
  const atB = heardBy(b)
  relay.refuse()
  relay.reset()
  await a.addCertificate(newCertificate({ requestKey: 'unheard' }), newAudit())
  await t.rejects(
    until(async () => {
      await b.check()
    }),
    { code: 'STORE_UNAVAILABLE' },
  )
  relay.refuse(false)
  t.equal(await atB(), 'all')
  await until(() =>
    b.check().then(
      () => true,
      () => false,
    ),
  )
  await a.addCertificate(newCertificate({ requestKey: 'heard' }), newAudit())
  t.same(await atB(), ['heard'])
})

t.test('a revocation is confirmed by all', async (t) => {
  const { a, b, schema } = await replicas(t)
  const c = await openReplica(t, { schema, name: 'c' })
  const heard: string[] = []
  for (const [name, store] of Object.entries({ b, c }))
    store.onChange(
      ({ requestKeys, isUrgent }) =>
        void heard.push(`${name} ${isUrgent ? 'urgent ' : ''}${requestKeys}`),
    )
  const { id } = await a.addCertificate(newCertificate({ requestKey: 'x' }), newAudit())
  await until(() => heard.length === 2)
  t.same(heard.sort(), ['b x', 'c x'])
  t.same(await a.awaitReplicas(), [], 'of what is not urgent, nothing')
  heard.length = 0
  await a.revoke([id], NOW, 'superseded', newAudit())
  t.same(await a.awaitReplicas(), [])
  t.same(heard.sort(), ['b urgent x', 'c urgent x'], 'they know it by then')
  const other = await b.addCertificate(newCertificate({ requestKey: 'y' }), newAudit())
  await b.remove([other.id], newAudit())
  t.same(await b.awaitReplicas(), [])
})

t.test('a change is confirmed when listeners are done, and told again if one fails', async (t) => {
  const { a, b } = await replicas(t)
  const { promise: done, resolve: finish } = Promise.withResolvers<void>()
  let told = 0
  b.onChange(({ isUrgent }) => {
    if (!isUrgent) return undefined
    told += 1
    return told === 1 ? Promise.reject(new Error('for a test')) : done
  })
  const { id } = await a.addCertificate(newCertificate({ requestKey: 'x' }), newAudit())
  await a.revoke([id], NOW, 'superseded', newAudit())
  let isConfirmed = false
  const confirmed = a.awaitReplicas().finally(() => {
    isConfirmed = true
  })
  // A notification may make it read again before the next look.
  await until(() => told >= 1)
  // It makes the other one read at once.
  await a.addCertificate(newCertificate({ requestKey: 'y' }), newAudit())
  await until(() => told >= 2)
  t.notOk(isConfirmed)
  finish()
  t.same(await confirmed, [])
})

t.test('a replica that does not confirm is named', async (t) => {
  const { a, b, relay, schema, sql } = await replicas(t)
  const revoke = async () => {
    const { id } = await a.addCertificate(newCertificate({ requestKey: 'x' }), newAudit())
    await a.revoke([id], NOW, 'superseded', newAudit())
    return a.awaitReplicas()
  }
  t.same(await revoke(), [])
  relay.mute()
  t.same(await revoke(), ['b'], 'it hangs')
  const atB = heardBy(b)
  relay.reset()
  await until(async () => (await atB()) === 'all')
  await until(async () => (await revoke()).length === 0)

  const insert = (name: string, ago: string) =>
    sql(`INSERT INTO @replicas
      VALUES (gen_random_uuid()::text, '${name}', now() - interval '2 days', now() - interval '${ago}')`)
  await insert('died', '1 hour')
  await insert('died long ago', '25 hours')
  t.same(await revoke(), ['died'])
  await insert('died', '2 hours')
  t.same(await revoke(), ['died', 'died'], 'two of one name that lived at the same time')
  await openReplica(t, { schema, name: 'died' })
  t.same(await revoke(), [], 'it was started again')
  await a.prune(NOW, { audit: DAY, certificates: DAY, orders: DAY, challenges: DAY })
  const left = await sql('SELECT name FROM @replicas ORDER BY name')
  t.same(left, [{ name: 'a' }, { name: 'b' }, { name: 'died' }])
  await b.close()
  t.same(await revoke(), [], 'nor one that ended in order')
})

t.test('what all have done with is deleted', async (t) => {
  const { a, b, sql } = await replicas(t)
  const { id } = await a.addCertificate(newCertificate(), newAudit())
  await a.remove([id], newAudit())
  t.same(await a.awaitReplicas(), [])
  await b.takeLease({ requestKey: 'x', domain: 'x', names: 1 })
  await sql(`
    UPDATE @changes SET at = at - interval '2 hours';
    UPDATE @writes SET at = at - interval '2 hours';
    UPDATE @leases SET until = until - 120000, holder = gen_random_uuid()::text`)
  await a.prune(NOW, { audit: DAY, certificates: DAY, orders: DAY, challenges: DAY })
  const counted = await sql(`
    SELECT (SELECT count(*) FROM @changes)::int AS changes,
      (SELECT count(*) FROM @confirmations)::int AS confirmations,
      (SELECT count(*) FROM @leases)::int AS leases,
      (SELECT count(*) FROM @writes WHERE at < now() - interval '1 hour')::int AS writes
  `)
  t.same(counted, [{ changes: 0, confirmations: 0, leases: 0, writes: 0 }])
})
