import { randomBytes, X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { newSchema } from '../../../packages/cert-store/test/helpers/engines.ts'
import { newOrder } from '../../../packages/cert-store/test/helpers/store.ts'
import { Relay } from '../../../packages/store/test/postgres/relay.ts'
import { type PostgresServer, startPostgres } from '../../../scripts/test/postgres.ts'
import { expectWarnings, quietLog } from '../../../scripts/test/quiet.ts'
import { until } from '../../../scripts/test/until.ts'
import { buildApp } from '../src/app.ts'
import type {} from '../src/issuance/issuance.ts'
import { configure, KEY } from './helpers/app.ts'

const MASTER_KEY = randomBytes(32).toString('base64')
const PROXY_KEY = 'a-key-of-a-proxy-000'
const keys = [
  { name: 'all', key: KEY },
  { name: 'proxy', key: PROXY_KEY, domains: ['=*.wild.example.com'] },
]
const headers = { authorization: `APIKey ${KEY}` }
const domain = 'app.example.com'

/** Replicas on one schema, by the system's clock. */
async function startReplicas(t: Test, server: PostgresServer, count: number) {
  const folder = testFolder(
    t,
    Object.fromEntries(Array.from({ length: count + 1 }, (_, n) => [n, {}])),
  )
  const schema = newSchema()
  const { log, logged } = quietLog(t)
  const start = async (n: number, url = server.url): Promise<FastifyInstance> => {
    const config = await configure(join(folder, String(n)), {
      // Replicas are told apart by host and port; none of them listens.
      server: { port: 7401 + n, tls: 'off' },
      storage: { url, schema, masterKey: MASTER_KEY },
      auth: { psk: { keys } },
    })
    const app = await buildApp(config, { log })
    t.teardown(() => app.close())
    return app
  }
  const apps = await Promise.all(Array.from({ length: count }, (_, n) => start(n)))
  return { apps, start, folder, schema, logged }
}

const post = (app: FastifyInstance, url: string, payload: object) =>
  app.inject({ method: 'POST', url, headers, payload })
const obtain = (app: FastifyInstance, name = domain) =>
  post(app, '/api/certificate', { domain: name })
const read = (app: FastifyInstance, name = domain) =>
  app.inject({ url: `/api/certificate/${name}`, headers })

t.test('replicas that start at once for the first time have one CA', async (t) => {
  const { apps } = await startReplicas(t, await startPostgres(t), 5)
  for (const what of ['root', 'intermediate']) {
    const all = await Promise.all(apps.map((app) => app.inject(`/ca/${what}.pem`)))
    t.equal(new Set(all.map(({ body }) => body)).size, 1, what)
  }
  const lists = await Promise.all(apps.map((app) => app.inject('/ca/crl.der')))
  t.equal(new Set(lists.map(({ rawPayload }) => rawPayload.toString('hex'))).size, 1)
})

t.test('replicas on one database', async (t) => {
  expectWarnings(t, 'replicas may still serve')
  const server = await startPostgres(t)
  const { apps } = await startReplicas(t, server, 3)
  const [a, b, c] = apps as [FastifyInstance, FastifyInstance, FastifyInstance]

  await t.test('follow the clock of the database, each on its own', async (t) => {
    for (const { clock, store } of apps) t.equal(clock.now, store.now)
    t.equal(new Set([systemClock, ...apps.map(({ clock }) => clock)].map(({ now }) => now)).size, 4)
  })

  await t.test('issue one certificate for a name, however many ask for it at once', async (t) => {
    for (let n = 0; n < 5; n += 1) {
      const name = `wave-${n}.example.com`
      const wave = await Promise.all(
        Array.from({ length: 30 }, (_, i) => obtain(apps[i % 3] as FastifyInstance, name)),
      )
      t.strictSame(new Set(wave.map(({ statusCode }) => statusCode)), new Set([200]))
      t.equal(new Set(wave.map((answer) => answer.json().serialNumber)).size, 1, name)
      t.equal(new Set(wave.map((answer) => answer.json().privateKey)).size, 1)
    }
  })

  await t.test('do not answer what another one has revoked or deleted', async (t) => {
    for (let n = 0; n < 10; n += 1) {
      const name = `gone-${n}.example.com`
      for (const app of apps) t.equal((await obtain(app, name)).statusCode, 200, 'in memory')
      const isRevoked = n % 2 === 0
      const gone = isRevoked
        ? await post(a, '/api/certificate/revoke', { domain: name })
        : await a.inject({ method: 'DELETE', url: `/api/certificate/${name}`, headers })
      t.equal(gone.statusCode, isRevoked ? 200 : 204)
      const after = await Promise.all(apps.map((app) => read(app, name)))
      t.strictSame(
        after.map(({ statusCode }) => statusCode),
        [404, 404, 404],
        'right after the answer',
      )
      if (!isRevoked) continue
      const [serialNumber] = gone.json().serialNumbers
      const lists = await Promise.all(apps.map((app) => app.inject('/ca/crl.der')))
      for (const { rawPayload } of lists) t.ok(rawPayload.toString('hex').includes(serialNumber))
    }
  })

  await t.test('share orders, challenges and people at the inventory', async (t) => {
    const id = await a.store.saveOrder(newOrder({ id: 'shared' }))
    t.equal((await b.inject({ url: `/api/orders/${id}`, headers })).statusCode, 200)
    await a.challenges.put('token', 'response')
    t.equal(await c.challenges.get('token'), 'response')

    const host = 'certs.example.com'
    const sent = {
      host,
      origin: `https://${host}`,
      'content-type': 'application/x-www-form-urlencoded',
    }
    const form = { method: 'POST', url: '/', headers: sent } as const
    const signedIn = await a.inject({ ...form, payload: `key=${KEY}` })
    t.equal(signedIn.statusCode, 303)
    const [{ name = '', value = '' } = {}] = signedIn.cookies
    for (const app of apps)
      t.equal((await app.inject({ url: '/', cookies: { [name]: value } })).statusCode, 200)
  })

  await t.test('name one that does not confirm', async (t) => {
    await obtain(a, 'silent.example.com')
    await server.sql(
      `INSERT INTO ${await schemaOf(server)}.replicas (id, name, seen_at)
       VALUES (gen_random_uuid(), 'silent:7401', clock_timestamp())`,
    )
    const revoked = await post(a, '/api/certificate/revoke', { domain: 'silent.example.com' })
    t.match(revoked.json(), { unconfirmed: ['silent:7401'] })
    await obtain(a, 'silent.example.com')
    const url = '/api/certificate/silent.example.com'
    const deleted = await a.inject({ method: 'DELETE', url, headers })
    t.strictSame([deleted.statusCode, deleted.json()], [200, { unconfirmed: ['silent:7401'] }])
  })
})

async function schemaOf(server: PostgresServer): Promise<string> {
  const [row] = await server.sql<{ nspname: string }>(
    `SELECT nspname FROM pg_namespace WHERE nspname LIKE 'certs_%'`,
  )
  return row!.nspname
}

t.test('while the database is away, memory answers, once and again', async (t) => {
  expectWarnings(
    t,
    ...['STORE_UNAVAILABLE', 'connection for notifications was lost', 'database is down'],
    ...['audit rows were lost', 'fetch times were lost', 'replicas may still serve'],
  )
  const server = await startPostgres(t)
  const relay = await Relay.start(t, server)
  const { apps, start, logged } = await startReplicas(t, server, 1)
  const [other] = apps as [FastifyInstance]
  const cut = await start(1, relay.through(server.url))
  const isAway = () =>
    cut.store.check().then(
      () => false,
      () => true,
    )
  const lose = () => {
    relay.refuse()
    relay.reset()
    return until(isAway)
  }
  const proxy = { authorization: `APIKey ${PROXY_KEY}` }
  const handshake = () =>
    cut.inject({ url: '/api/proxy/caddy?server_name=app.wild.example.com', headers: proxy })
  /** The serial numbers or errors that it answers to GET and to POST. */
  const asked = (name: string) =>
    Promise.all(
      [read, obtain].map(async (ask) => {
        const answer = await ask(cut, name)
        return answer.json().serialNumber ?? answer.statusCode
      }),
    )

  /** Waits until what was changed is known to both. */
  const allTold = () =>
    until(async () => {
      await obtain(other, 'told.example.com')
      const gone = await post(other, '/api/certificate/revoke', { domain: 'told.example.com' })
      return gone.json().unconfirmed === undefined
    })

  const serials = new Map<string, string>()
  for (let n = 0; n < 30; n += 1) {
    const name = `n${n}.example.com`
    serials.set(name, (await obtain(other, name)).json().serialNumber)
  }
  const [first, second] = ['first.example.com', 'second.example.com']
  await post(other, '/api/certificate', { domain: first, names: [second] })
  await obtain(other, '*.wild.example.com')
  await allTold()
  for (const [n, name] of [...serials.keys()].entries())
    t.equal((await (n % 2 ? read : obtain)(cut, name)).statusCode, 200)
  const [revoked = '', deleted = '', renewed = ''] = serials.keys()
  const bySecond = (await read(cut, second)).json()
  t.equal(bySecond.names[0], first)
  const { payload } = await handshake()
  t.match(payload, /PRIVATE KEY/)

  await lose()
  for (const [name, serial] of serials)
    t.strictSame(await asked(name), [serial, serial], `${name} in the first outage`)
  t.strictSame((await read(cut, second)).json(), bySecond, 'by a name that is not its first')
  t.equal((await handshake()).payload, payload)
  const refused = await obtain(cut, 'new.example.com')
  t.match(refused, { statusCode: 503, headers: { 'retry-after': /^\d+$/ } })
  t.equal(refused.json().code, 'STORE_UNAVAILABLE')
  t.match((await cut.inject('/readyz')).json(), { status: 'ready', degraded: ['store'] })
  t.match(logged.join(''), 'a certificate was served from memory: the store cannot be read')

  const gone = await post(other, '/api/certificate/revoke', { domain: revoked })
  t.match(gone.json().unconfirmed, [/:7402$/])
  await other.inject({ method: 'DELETE', url: `/api/certificate/${deleted}`, headers })
  const [record] = await other.store.findByDomain(renewed)
  const { certificate } = await other.issuance.renew(record!, { actor: 'system' })
  serials.set(renewed, certificate!.record.serialNumber)

  relay.refuse(false)
  await until(async () => (await obtain(cut, 'new.example.com')).statusCode === 200)
  // What is told is confirmed when all is compared.
  await allTold()
  t.equal((await read(cut, revoked)).statusCode, 404)

  await lose()
  for (const [name, serial] of serials) {
    const isGone = name === revoked || name === deleted
    const expected = isGone ? [503, 503] : [serial, serial]
    t.strictSame(await asked(name), expected, `${name} in the second outage`)
  }
  t.equal((await handshake()).payload, payload)
  relay.refuse(false)
  await until(async () => (await cut.inject('/readyz')).json().degraded.length === 0)
})

t.test('replicas take up the stages of a roll at once, and one of several begins it', async (t) => {
  const { apps, start } = await startReplicas(t, await startPostgres(t), 3)
  const step = (app: FastifyInstance, action: string, more: object = {}) =>
    post(app, '/api/ca/roll', { action, ...more })
  const rootsOf = (app: FastifyInstance) =>
    app.ca.roots().map((root) => new X509Certificate(root).subject)
  const begun = await Promise.all(apps.map((app) => step(app, 'begin')))
  t.strictSame(begun.map(({ statusCode }) => statusCode).sort(), [200, 409, 409])
  const [a, b, c] = apps as [FastifyInstance, FastifyInstance, FastifyInstance]
  const [first, next] = ['CN=Gatehouse Root CA', 'CN=Gatehouse Root CA 2']
  for (const app of apps) t.strictSame(rootsOf(app), [first, next])

  for (const [app, action, signing] of [
    [a, 'use', next],
    [b, 'back', first],
    [c, 'use', next],
  ] as const) {
    const answer = await step(app, action, action === 'use' ? { now: true } : {})
    t.match([answer.statusCode, answer.json().unconfirmed], [200, undefined], action)
    for (const [n, each] of apps.entries()) {
      t.equal(rootsOf(each)[0], signing, `${action}: without a restart`)
      const { certificate } = (await obtain(each, `${action}-${n}-${signing.length}.test`)).json()
      t.equal(certificate.match(/BEGIN CERTIFICATE/g).length, signing === next ? 3 : 2)
    }
  }
  const both = await Promise.all([step(a, 'back'), step(b, 'finish', { force: true })])
  t.strictSame(both.map(({ statusCode }) => statusCode).sort(), [200, 409], 'one of two steps')
  const { stage } = (await a.inject({ url: '/api/ca/roll', headers })).json()
  const late = await start(3)
  t.strictSame(rootsOf(late)[0], stage === 'finished' ? next : first, 'one that starts later')
})
