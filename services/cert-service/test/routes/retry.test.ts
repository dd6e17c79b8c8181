import { createDns01, createDnsProviders } from '@gatehouse/acme'
import { generateP256 } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { standIn } from '../../../../packages/acme/test/dns/providers/stand-in.ts'
import { failedOrders, newOrder } from '../../../../packages/cert-store/test/helpers/store.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type { AppDeps } from '../../src/app.ts'
import { briskClock, issuerAt, post, problem, startAcme, startCa } from '../helpers/acme.ts'
import { AcmeClient } from '../helpers/acme-client.ts'
import { PSK } from '../helpers/acme-service.ts'
import { createIdp, DAY, KEY, NOW, type Running, settle } from '../helpers/app.ts'
import { createDnsWorld } from '../helpers/dns-world.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'ACME_')

const MINUTE = 60_000
const idle = (running: Running) => settle(() => running.service.issuance.flights.size === 0)
const retry = ({ call }: Running, domain: string, headers?: object) =>
  call('POST', '/api/certificate/retry', { domain }, headers)

/** A CA that looks at the DNS, and services whose provider of it refuses or accepts their token. */
async function dnsStage(t: Test, more: object = {}) {
  const world = createDnsWorld({
    zones: 'shown',
    resolver: 'answers',
    nameServer: 'answers',
    alias: 'none',
  })
  const api = await standIn(t, (request) => world.api(request))
  const clock = briskClock(NOW, [])
  const ca = await startCa(t, clock, {
    validate: async (challenge) => (world.shows(challenge) ? undefined : 'unauthorized'),
  })
  const createSolver: AppDeps['createSolver'] = (challenge) => {
    if (challenge.type !== 'dns-01') throw new Error('another challenge')
    const providers = createDnsProviders(challenge.providers, api.deps)
    return createDns01({ providers, propagation: challenge.propagation, clock, ask: world.ask })
  }
  const folder = testFolder(t)
  const startWith = async (door: 'open' | 'closed', apiToken = 'a-token') => {
    const providers = [{ type: 'cloudflare', apiToken, endpoint: `${api.url}/${door}` }]
    const challenges = [{ type: 'dns-01', providers }]
    const issuers = [issuerAt(ca, { challenges, ...more })]
    return (await startAcme(t, {}, { ca, clock, folder, createSolver, config: { issuers } }))
      .running
  }
  return { ca, clock, startWith }
}

const domain = 'app.example.com'

t.test('a mended configuration has no wait: the name has its certificate at once', async (t) => {
  const { ca, clock, startWith } = await dnsStage(t)
  const wrong = await startWith('closed')
  for (const seconds of [10, 30, 60, 120, 300, 300]) {
    const { status, headers, body } = await post(wrong, domain)
    t.match({ status, body }, { status: 503, body: { code: 'ACME_DNS_CREDENTIALS' } })
    t.equal(headers['retry-after'], String(seconds), 'a fault of ours makes nobody wait for long')
    await clock.advance(seconds * 1000)
  }
  await post(wrong, domain)
  t.equal((await failedOrders(wrong.service.store))[0]?.lastError?.isEarly, true)
  await wrong.close()

  const same = await startWith('closed')
  const asked = ca.exchanges.length
  t.match(await post(same, domain), {
    status: 503,
    body: {
      failedAt: '2030-01-01T00:13:40Z',
      nextTryAt: '2030-01-01T00:18:40Z',
      detail:
        /This is the failure of 2030-01-01T00:13:40Z; the next try is at 2030-01-01T00:18:40Z. To try now: gatehouse-certs renew app.example.com --now$/,
    },
  })
  t.equal(ca.exchanges.length, asked, 'a restart alone ends no wait')
  await same.close()

  const right = await startWith('open')
  t.match(await post(right, domain), { status: 200, body: { issuer: 'acme' } })
  t.same(await failedOrders(right.service.store), [])
})

t.test('another token alone is another configuration, and is not told in the store', async (t) => {
  const { startWith } = await dnsStage(t)
  const wrong = await startWith('closed', 'token-of-before')
  await post(wrong, domain)
  const [before] = await failedOrders(wrong.service.store)
  await wrong.close()
  const other = await startWith('closed', 'token-of-today')
  await post(other, domain)
  const [after] = await failedOrders(other.service.store)
  t.match(before?.configuration, /^[0-9a-f]{64}$/)
  t.not(before?.configuration, after?.configuration)
  t.equal(after?.failures, 1, 'it begins anew')
})

t.test('a renewal that failed goes on with a mended configuration at the start', async (t) => {
  const { ca, clock, startWith } = await dnsStage(t)
  const first = await startWith('open')
  const { body } = await post(first, domain)
  await first.close()
  await clock.advance(61 * DAY)
  const wrong = await startWith('closed')
  const [held] = await wrong.service.store.findByDomain(domain)
  await t.rejects(wrong.service.issuance.renew(held!, { actor: 'system' }))
  await wrong.service.store.setRenewAt(held!.id, clock.now() + DAY)
  await wrong.close()

  const right = await startWith('open')
  await right.service.issuance.voidOutdated()
  t.equal((await right.service.store.findByDomain(domain))[0]?.renewAt, clock.now())
  right.service.start()
  await settle(() => ca.count('finalize') === 2)
  await idle(right)
  t.not((await post(right, domain)).body.serialNumber, body.serialNumber)
})

t.test('a fallback gives way at once when its issuer is mended', async (t) => {
  const { clock, startWith } = await dnsStage(t, { fallback: 'ca' })
  const wrong = await startWith('closed')
  t.match((await post(wrong, domain)).body, { issuer: 'ca' })
  const [held] = await wrong.service.store.findByDomain(domain)
  await wrong.service.store.setRenewAt(held!.id, clock.now() + DAY)
  await wrong.close()
  const right = await startWith('open')
  right.service.start()
  await clock.advance(MINUTE)
  await idle(right)
  await settle()
  t.match((await post(right, domain)).body, { issuer: 'acme' })
})

t.test('what the CA refused is tried when somebody asks, a few times', async (t) => {
  const keys = [
    { name: 'all', key: KEY },
    { name: 'reader', key: 'a-key-that-may-read', domains: ['*.example.com'], rights: ['read'] },
  ]
  const config = { auth: { psk: { keys } } }
  const { ca, running, clock } = await startAcme(t, {}, { config })
  t.match(await retry(running, domain), { status: 404, body: { code: 'CERT_ORDER_NOT_FOUND' } })
  ca.always('newOrder', problem(403, 'caa', 'CAA forbids'))
  t.equal((await post(running, domain)).status, 422)
  const reader = { authorization: 'APIKey a-key-that-may-read' }
  t.match(await retry(running, domain, reader), { status: 403 })
  for (let n = 0; n < 5; n += 1) {
    const { status, body } = await retry(running, domain)
    t.match({ status, body }, { status: 200, body: { orders: [{ status: 'failed' }] } })
    t.match(body.orders[0].lastError, { code: 'ACME_CAA', failedAt: '2030-01-01T00:00:00Z' })
  }
  t.equal(ca.count('newOrder'), 6)
  const refused = await retry(running, domain)
  t.match(refused, { status: 429, body: { code: 'CERT_CALLER_LIMITED' } })
  t.equal(ca.count('newOrder'), 6, 'no CA is hammered')
  t.equal(refused.headers['retry-after'], '120')
  await clock.advance(2 * MINUTE)
  ca.always('newOrder')
  t.match(await retry(running, domain), { status: 200, body: { orders: [{ status: 'done' }] } })
  t.match(await post(running, domain), { status: 200, body: { cached: true } })
})

t.test('a try stays within the limits of the CA', async (t) => {
  expectWarnings(t, 'CERT_RATE_LIMITED')
  const limits = { failures: { count: 1, per: '1h' } }
  const { ca, running } = await startAcme(
    t,
    { validate: async () => 'unauthorized' },
    { issuerOptions: { limits } },
  )
  await post(running, domain)
  const { body } = await retry(running, domain)
  t.match(body.orders, [{ status: 'failed', lastError: { code: 'CERT_RATE_LIMITED' } }])
  t.equal(ca.count('newOrder'), 1)
})

t.test(
  'what failed before its issuer was changed is over once there is a certificate',
  async (t) => {
    const { running } = await startAcme(t)
    const { store, issuance } = running.service
    const lastError = { code: 'ACME_UNREACHABLE', detail: 'ECONNREFUSED', at: NOW }
    const failed = { status: 'failed', lastError, nextTryAt: NOW, names: [domain] } as const
    const before = { requestKey: 'of another directory', issuer: 'acme', id: 'before' }
    const checkpoint = { state: { step: 'created' }, sealedKey: null }
    await store.saveOrder(newOrder({ ...failed, ...before, checkpoint }))
    await issuance.resume()
    t.match(await store.findOrder('before'), { status: 'failed' })
    await store.saveOrder(newOrder({ ...failed, ...before, checkpoint }))
    await post(running, domain)
    await issuance.resume()
    t.match(await store.findOrder('before'), { status: 'done' })
  },
)

t.test('a try waits as long as the CA has demanded', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  ca.always('newOrder', problem(429, 'rateLimited', 'too many', { 'retry-after': '3600' }))
  await post(running, domain)
  const asked = ca.count('newOrder')
  for (let n = 0; n < 3; n += 1) {
    const { body } = await retry(running, domain)
    t.match(body.orders, [{ status: 'failed', nextTryAt: '2030-01-01T01:00:00Z' }])
  }
  t.equal(ca.count('newOrder'), asked)
  await clock.advance(60 * MINUTE)
  ca.always('newOrder')
  t.match((await retry(running, domain)).body.orders, [{ status: 'done' }])
})

t.test('another configuration waits as long as the CA has demanded', async (t) => {
  const { ca, clock, startWith } = await dnsStage(t)
  const first = await startWith('open')
  await post(first, domain)
  await clock.advance(61 * DAY)
  ca.always('newOrder', problem(429, 'rateLimited', 'too many', { 'retry-after': '3600' }))
  const [held] = await first.service.store.findByDomain(domain)
  await t.rejects(first.service.issuance.renew(held!, { actor: 'system' }))
  const asked = ca.count('newOrder')
  await first.close()
  const other = await startWith('open', 'another-token')
  await other.service.issuance.voidOutdated()
  const [order] = await retry(other, domain).then(({ body }) => body.orders)
  t.match(order, { status: 'failed' })
  const refused = await other.service.issuance
    .renew(held!, { actor: 'system' })
    .catch((error) => error)
  t.match(refused, { code: 'ACME_RATE_LIMITED', wait: 3_600 })
  t.equal(ca.count('newOrder'), asked)
  await clock.advance(60 * MINUTE)
  ca.always('newOrder')
  t.match((await retry(other, domain)).body.orders, [{ status: 'done' }])
})

t.test('a name that the CA has paused is tried when somebody has ended the pause', async (t) => {
  const { ca, running } = await startAcme(t)
  const unpause = 'open https://ca.example/sfe/v1/unpause?jwt=x to go on'
  ca.always('newOrder', problem(429, 'rateLimited', unpause))
  t.match(await post(running, domain), {
    body: { code: 'ACME_PAUSED' },
    headers: { 'retry-after': '86400' },
  })
  ca.always('newOrder')
  t.match((await retry(running, domain)).body.orders, [{ status: 'done' }])
})

t.test('replicas with two configurations do not hand a name to and fro', async (t) => {
  const { ca, startWith } = await dnsStage(t)
  const one = await startWith('closed')
  await post(one, domain)
  const [order] = await failedOrders(one.service.store)
  let tries = 0
  for (let n = 0; n < 20; n += 1) {
    const before = ca.exchanges.length
    await one.service.store.saveOrder({ ...order!, configuration: 'of another replica' })
    await post(one, domain)
    if (ca.exchanges.length > before) tries += 1
  }
  t.ok(tries <= 5, `${tries} tries`)
})

t.test('what an operator tries again stays that of its caller', async (t) => {
  const { ca, running, clock } = await startAcme(t, {}, { config: { auth: { psk: PSK } } })
  const { app, call, service } = running
  const client = new AcmeClient(app)
  await client.register((await call('POST', '/api/acme/key', { caller: 'web' })).body)
  const key = generateP256()
  await client.obtain([domain], {}, key)
  await clock.advance(70 * DAY)
  ca.always('finalize', problem(500, 'serverInternal', 'an outage'))
  await client.finalize(await client.order([domain]), [domain], key)
  t.match(await failedOrders(service.store), [{ names: [domain] }])
  ca.always('finalize')
  t.match((await retry(running, domain)).body, { orders: [{ status: 'done' }] })
  const [held, ...others] = await service.store.listHistory(domain)
  t.match(held, { isCurrent: true, askedBy: 'psk:web' })
  t.equal(others.length, 1)
})

t.test('orders that somebody may not request keep none from a try that he may', async (t) => {
  const idp = await createIdp(t, () => NOW)
  const { issuerUrl: issuer } = idp
  const { running } = await startAcme(
    t,
    {},
    {
      config: {
        auth: { psk: { key: KEY }, jwt: { issuerUrl: issuer, audience: 'certs' } },
        rules: [
          { issuer, names: [domain] },
          { issuer, names: ['*.example.com'], rights: ['read'] },
        ],
      },
    },
  )
  const { store } = running.service
  const save = (id: string, names: readonly string[], nextTryAt: number) => {
    const lastError = { code: 'ACME_UNREACHABLE', detail: 'ECONNREFUSED', at: NOW }
    const failed = { status: 'failed', lastError, nextTryAt, failures: 1 } as const
    return store.saveOrder(newOrder({ ...failed, id, requestKey: id, names, issuer: 'acme' }))
  }
  for (let n = 0; n < 12; n += 1) await save(`wide-${n}`, [domain, `n${n}.example.com`], NOW + n)
  await save('own', [domain], NOW + DAY)
  const headers = { authorization: `Bearer ${idp.token({ sub: 'job' })}` }
  t.match(await retry(running, domain, headers), { status: 200, body: { orders: [{ id: 'own' }] } })
})
