// Failures that users of comparable services report. docs/threats.md lists them.

import { readFile } from 'node:fs/promises'
import type { CertEvent } from '@gatehouse/issuance'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { failedOrders } from '../../../packages/cert-store/test/helpers/store.ts'
import { expectWarnings } from '../../../scripts/test/quiet.ts'
import { briskClock, post, problem, startAcme } from './helpers/acme.ts'
import { DAY, KEY, type Running, rest, settle } from './helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'ACME_')

const HOUR = DAY / 24
const idle = (running: Running) => settle(() => running.service.issuance.flights.size === 0)

t.test('several proxies share one certificate and one renewal', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  const ask = () => Promise.all(Array.from({ length: 5 }, () => post(running)))
  const serials = (answers: Awaited<ReturnType<typeof ask>>) =>
    new Set(answers.map(({ body }) => body.serialNumber)).size
  t.equal(serials(await ask()), 1)
  await clock.advance(91 * DAY)
  t.equal(serials(await ask()), 1)
  t.equal(ca.count('newOrder'), 2)
})

t.test('renews short-lived certificates once, at a share of the issued lifetime', async (t) => {
  for (const days of [1, 6, 30]) {
    const { ca, running, clock } = await startAcme(t, { lifetimeMs: days * DAY })
    running.service.start()
    for (let hour = 0; hour < days * 23; hour += days) {
      await post(running)
      await clock.advance(days * HOUR)
      await idle(running)
    }
    t.equal(ca.count('newOrder'), 2, `${days} days: renewed once in that time`)
    const { notBefore, notAfter, renewAt } = (await post(running)).body
    const [from = 0, to = 0, at = 0] = [notBefore, notAfter, renewAt].map(Date.parse)
    t.ok(Math.abs((at - from) / (to - from) - (days < 10 ? 1 / 2 : 2 / 3)) < 0.01)
    await running.close()
  }
})

t.test('retries a 429 of the CA, but not before Retry-After', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  ca.answer('newOrder', problem(429, 'rateLimited', 'rateLimited', { 'retry-after': '5000' }))
  t.equal((await post(running)).headers['retry-after'], '5000')
  await clock.advance(4_999_000)
  t.equal((await post(running)).status, 503)
  t.equal(ca.count('newOrder'), 1)
  await clock.advance(1_000)
  t.equal((await post(running)).status, 200)
})

t.test('requests for the same names finalize one order for each key type', async (t) => {
  const { ca, running } = await startAcme(t, { reuseOrders: true })
  const answers = await Promise.all([
    post(running, 'a.test', { names: ['b.test'] }),
    post(running, 'b.test', { names: ['a.test'] }),
    post(running, 'b.test', { names: ['a.test'], keyType: 'p384' }),
  ])
  t.same(
    answers.map(({ status }) => status),
    [200, 200, 200],
  )
  t.equal(ca.count('finalize'), 2, 'one for each kind of key')
})

t.test('continues with an order that the CA returns a second time', async (t) => {
  const { ca, running, clock } = await startAcme(t, { reuseOrders: true })
  ca.always('order', problem(404, 'malformed'))
  t.equal((await post(running)).status, 503)
  ca.always('order')
  const [order] = await failedOrders(running.service.store)
  // As after a crash before the answer of the CA was kept.
  const { request } = order!.checkpoint!.state as { request: object }
  const created = { step: 'created', request }
  await running.service.store.saveOrder({
    ...order!,
    checkpoint: { ...order!.checkpoint!, state: created },
  })
  await clock.advance(60_000)
  t.equal((await post(running)).status, 200)
  t.equal(ca.count('newOrder'), 2)
  t.equal(ca.count('finalize'), 1)
})

t.test('issues every certificate of simultaneous requests with one account', async (t) => {
  const { ca, running } = await startAcme(t)
  const domains = Array.from({ length: 30 }, (_, i) => `n${i}.test`)
  await Promise.all(domains.map((domain) => post(running, domain)))
  const { certificates } = (await running.call('GET', '/api/certificates')).body
  t.same(certificates.map(({ domain }: { domain: string }) => domain).sort(), domains.sort())
  t.equal(ca.count('newAccount'), 1)
})

t.test('removes failed orders and challenge answers after a while', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  const { store } = running.service
  ca.answer('newOrder', problem(400, 'caa'))
  await post(running)
  await store.putChallenge('http-01:left', 'behind', clock.now())
  await clock.advance(60 * DAY)
  running.service.start()
  for (let n = 0; n < 10; n++) await settle()
  t.equal(await store.findChallenge('http-01:left'), undefined)
  t.same(await failedOrders(store), [])
})

t.test('lists certificates with their issuer, validity and next renewal', async (t) => {
  const { running } = await startAcme(t)
  await post(running)
  t.match((await running.call('GET', '/api/certificates')).body, {
    certificates: [{ domain: 'app.example.com', issuer: 'acme', notAfter: /Z$/, renewAt: /Z$/ }],
  })
})

t.test('orders and polls by API alone, with a key for each client', async (t) => {
  const gate = Promise.withResolvers<void>()
  const keys = [
    { name: 'all', key: KEY },
    { name: 'b', key: 'a-key-that-may-have-b', domains: ['b.test'] },
  ]
  const { running, clock } = await startAcme(
    t,
    {},
    {
      config: { auth: { psk: { keys } } },
      createSolver: () => ({
        type: 'http-01',
        present: () => gate.promise,
        cleanUp: async () => {},
      }),
    },
  )
  const answer = post(running, 'b.test')
  await settle(
    () =>
      running.service.issuance.flights.values().next().value?.order.step ===
      'answering the challenge',
  )
  await clock.advance(60_000)
  const { status, headers } = await answer
  t.equal(status, 202)
  const own = { authorization: 'APIKey a-key-that-may-have-b' }
  const poll = async () =>
    (await running.call('GET', String(headers.location), undefined, own)).body
  t.match(await poll(), { status: 'pending' })
  gate.resolve()
  await idle(running)
  t.match(await poll(), { status: 'done' })
  t.equal((await running.call('POST', '/api/certificate', { domain: 'a.test' }, own)).status, 403)
})

t.test('renews certificates that expired while the service was down', async (t) => {
  const folder = testFolder(t)
  const { ca, running, clock } = await startAcme(t, {}, { folder })
  await post(running)
  await running.close()
  await clock.advance(100 * DAY)
  const again = await startAcme(t, {}, { folder, ca, clock })
  again.running.service.start()
  await settle(() => ca.count('newOrder') === 2)
  await idle(again.running)
  t.equal((await again.running.call('GET', '/api/certificate/app.example.com')).status, 200)
})

t.test('reports a failed renewal as an event', async (t) => {
  const events: CertEvent[] = []
  const { ca, running, clock } = await startAcme(
    t,
    {},
    { events: { emit: (event) => void events.push(event) } },
  )
  running.service.start()
  await post(running)
  ca.answer('newOrder', problem(400, 'caa'))
  await clock.advance(61 * DAY)
  await rest(clock, running.service.issuance)
  t.match(events, [
    { type: 'issued' },
    { type: 'failing', order: { lastError: { code: 'ACME_CAA' } } },
  ])
  const { certificates } = (await running.call('GET', '/api/certificates')).body
  t.match(certificates, [{ lastFailure: { code: 'ACME_CAA', action: /CAA records/ } }])
  t.ok(
    running.logged.some((line) => line.includes('a certificate could not be renewed')),
    'in the log as well',
  )
})

t.test('makes a key for each certificate and answers an unchanged one with 304', async (t) => {
  const { running } = await startAcme(t)
  const [a, b] = [(await post(running, 'a.test')).body, (await post(running, 'b.test')).body]
  t.not(a.privateKey, b.privateKey)
  const url = '/api/certificate/a.test'
  const { etag } = (await running.call('GET', url)).headers
  t.equal((await running.call('GET', url, undefined, { 'if-none-match': etag })).status, 304)
})

t.test('answers proxies from the store without asking the CA', async (t) => {
  const { ca, running } = await startAcme(t)
  await post(running)
  const before = ca.exchanges.length
  for (let n = 0; n < 50; n++) await running.call('GET', '/api/certificate/app.example.com')
  t.equal(ca.exchanges.length, before)
  t.equal((await running.call('GET', '/api/certificate/new.example.com')).status, 404)
  t.equal(ca.exchanges.length, before, 'nor does a name that is not held')
})

t.test('stores no key in the clear while an order is pending', async (t) => {
  const { ca, running, folder } = await withOrderUnderWay(t)
  const bytes = await readFile(`${folder}/data/store.db-wal`)
  t.ok(bytes.includes('"step":"authorizing"'), 'the order is kept')
  t.notOk(bytes.includes(Buffer.from('308187020100301306072a8648ce3d02', 'hex')))
  t.equal(ca.count('finalize'), 0)
  await running.close()
})

t.test('an order of a stopped process does not block the next process', async (t) => {
  const { ca, running, folder, clock } = await withOrderUnderWay(t)
  await running.close()
  const again = await startAcme(t, {}, { folder, ca, clock })
  t.equal((await post(again.running)).status, 200)
})

t.test('finalizes once for 20 callers while the CA is still processing', async (t) => {
  const { ca, running } = await startAcme(t, { processing: 3 })
  const answers = await Promise.all(Array.from({ length: 20 }, () => post(running)))
  t.equal(new Set(answers.map(({ body }) => body.serialNumber)).size, 1)
  t.equal(ca.count('finalize'), 1)
})

async function withOrderUnderWay(t: Test) {
  const folder = testFolder(t)
  const started = await startAcme(t, {}, { folder, clock: briskClock() })
  started.ca.answer('challenge', 'hang')
  post(started.running).catch(() => {})
  await settle(() => started.ca.count('challenge') === 1)
  return { ...started, folder }
}
