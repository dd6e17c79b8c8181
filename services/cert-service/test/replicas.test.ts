import { createPrivateKey, randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '@gatehouse/service-kit'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { type PostgresServer, startPostgres } from '../../../scripts/test/postgres.ts'
import { expectWarnings, quietLog } from '../../../scripts/test/quiet.ts'
import { until } from '../../../scripts/test/until.ts'
import { buildApp } from '../src/app.ts'
import { CertError } from '../src/errors.ts'
import type {} from '../src/plugins/issuance.ts'
import { configure, KEY } from './helpers/app.ts'
import { newSchema } from './helpers/engines.ts'
import { newOrder } from './helpers/store.ts'

const MASTER_KEY = randomBytes(32).toString('base64')
const headers = { authorization: `APIKey ${KEY}` }
const domain = 'app.example.com'

/** Replicas on one schema, by the system's clock. */
async function startReplicas(t: Test, server: PostgresServer, count: number, storage: object = {}) {
  const folder = testFolder(t, Object.fromEntries(Array.from({ length: count }, (_, n) => [n, {}])))
  const schema = newSchema()
  const { log, logged } = quietLog(t)
  const start = async (n: number): Promise<FastifyInstance> => {
    const config = await configure(join(folder, String(n)), {
      // Replicas are told apart by host and port; none of them listens.
      server: { port: 7401 + n, tls: 'off' },
      storage: { url: server.url, schema, masterKey: MASTER_KEY, ...storage },
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
  expectWarnings(t, 'replicas that may still answer')
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

t.test('while the database is away, what was handed out is answered', async (t) => {
  expectWarnings(t, 'CERT_STORE_UNAVAILABLE', 'connection for notifications lost', 'database lost')
  const server = await startPostgres(t)
  const started = await startReplicas(t, server, 2, { cachePath: 'cache' })
  const [a, other] = started.apps as [FastifyInstance, FastifyInstance]
  const { serialNumber, privateKey } = (await obtain(a)).json()
  t.equal((await read(a)).statusCode, 200)
  t.equal((await obtain(other, 'revoked.example.com')).statusCode, 200)
  t.equal((await read(other, 'revoked.example.com')).statusCode, 200)

  const copy = join(started.folder, '0/cache/handed-out.db')
  t.ok(existsSync(copy))
  const { d = '' } = createPrivateKey(privateKey).export({ format: 'jwk' })
  t.notOk(readFileSync(copy).includes(Buffer.from(d, 'base64url')), 'with its key sealed')

  // Without its memory, it has only the copy; and what was revoked meanwhile is not in it any more.
  await other.close()
  await post(a, '/api/certificate/revoke', { domain: 'revoked.example.com' })
  await a.close()
  const again = await started.start(0)
  const otherAgain = await started.start(1)
  for (const app of [again, otherAgain]) app.loops.start()
  await until(async () => again.holdings.remembered(domain, away).length === 1)

  await server.kill()
  await until(async () => again.store.failure() !== undefined)
  t.match((await read(again)).json(), { serialNumber, privateKey })
  t.match((await obtain(again)).json(), { serialNumber, cached: true })
  t.equal((await read(otherAgain, 'revoked.example.com')).statusCode, 503, 'never what was revoked')
  const refused = await obtain(again, 'new.example.com')
  t.match(refused, { statusCode: 503, headers: { 'retry-after': /^\d+$/ } })
  t.equal(refused.json().code, 'CERT_STORE_UNAVAILABLE')
  t.match((await again.inject('/readyz')).json(), { status: 'ready', degraded: ['store'] })
  t.match(started.logged.join(''), 'answered from memory: the store cannot be read')

  await server.start()
  await until(async () => (await obtain(again, 'new.example.com')).statusCode === 200)
  t.equal((await read(otherAgain, 'new.example.com')).statusCode, 200)
  await until(async () => (await again.inject('/readyz')).json().degraded.length === 0)
})

const away = new CertError('CERT_STORE_UNAVAILABLE', 'for a test')
