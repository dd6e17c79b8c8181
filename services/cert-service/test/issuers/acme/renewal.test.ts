import { X509Certificate } from 'node:crypto'
import { renewalId } from '@gatehouse/acme'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import type { Exchange } from '../../../../../packages/acme/test/scripted-ca/index.ts'
import { expectWarnings } from '../../../../../scripts/test/quiet.ts'
import type { AppDeps } from '../../../src/app.ts'
import { post, problem, startAcme, WAIT } from '../../helpers/acme.ts'
import { DAY, type LeapClock, NOW, type Running, settle } from '../../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'ACME_')

const HOUR = DAY / 24

/** Lets time pass in steps, each of which finds what is due. */
async function pass({ service }: Running, clock: LeapClock, ms: number, step = 6 * HOUR) {
  for (let at = 0; at < ms; at += step) {
    await clock.advance(step)
    await settle(() => service.issuance.flights.size === 0)
  }
}

const currentOf = async ({ service }: Running, domain = 'app.example.com') =>
  (await service.store.findByDomain(domain))[0]!

const orders = ({ exchanges }: { exchanges: readonly Exchange[] }) =>
  exchanges.filter(({ kind }) => kind === 'newOrder').map(({ payload }) => payload)

const time = (at: number) => new Date(at).toISOString()

t.test('without ARI: by the share of the lifetime, with a new key', async (t) => {
  for (const [days, before, after] of [
    [90, 56, 61],
    [6, 2.5, 3.25],
  ] as const)
    await t.test(`${days} days`, async (t) => {
      const { ca, running, clock } = await startAcme(t, { lifetimeMs: days * DAY })
      running.service.start()
      const first = (await post(running)).body
      await pass(running, clock, before * DAY)
      t.equal(ca.count('newOrder'), 1, 'not before')
      await pass(running, clock, (after - before) * DAY)
      t.equal(ca.count('newOrder'), 2, 'and not much later')
      const second = (await post(running)).body
      t.match(second, { cached: true })
      t.not(second.privateKey, first.privateKey)
      t.match(orders(ca)[1], { replaces: undefined })
    })
})

t.test('with ARI: at one moment in the window of the CA, telling what is replaced', async (t) => {
  const asked: string[] = []
  const window = { start: NOW + 10 * DAY, end: NOW + 12 * DAY }
  const { ca, running, clock } = await startAcme(
    t,
    {
      renewalWindow: (id) => {
        asked.push(id)
        return { start: time(window.start), end: time(window.end) }
      },
    },
    { random: () => 0.5 },
  )
  running.service.start()
  const { certificate } = (await post(running)).body
  const id = renewalId(new X509Certificate(certificate).raw)
  await pass(running, clock, DAY)
  t.equal(asked[0], id)
  t.ok(asked.length >= 2, 'asked at least twice a day')
  t.ok(asked.length <= 5, 'and no more often than the CA wants')
  const { renewAt } = await currentOf(running)
  t.equal(renewAt, NOW + 11 * DAY)

  await pass(running, clock, 9 * DAY)
  t.equal((await currentOf(running)).renewAt, renewAt, 'the moment was drawn once')
  t.equal(ca.count('newOrder'), 1)
  window.end += 40 * DAY
  await pass(running, clock, DAY / 2)
  t.equal((await currentOf(running)).renewAt, NOW + 31 * DAY, 'a new window, a new moment')
  window.start = NOW - DAY
  window.end = NOW
  await pass(running, clock, DAY / 2)
  t.match(orders(ca), [{}, { replaces: id }], 'a window in the past: at once')
  t.not((await post(running)).body.certificate, certificate)
})

t.test('why the CA would have it renewed then is told wherever `renewAt` is', async (t) => {
  let explanationURL: string | undefined
  const window = { start: time(NOW + 10 * DAY), end: time(NOW + 12 * DAY) }
  const { running, clock } = await startAcme(t, {
    renewalWindow: () => ({ ...window, ...(explanationURL && { explanationURL }) }),
  })
  running.service.start()
  const domain = 'app.example.com'
  await post(running)
  const told = async () => {
    await pass(running, clock, DAY / 2)
    const listed = (await running.call('GET', '/api/certificates')).body.certificates
    const dry = await running.call('POST', '/api/certificate?dryRun=true', { domain })
    const found = await running.call('GET', `/api/certificate/${domain}`)
    const bodies = [(await post(running)).body, found.body, dry.body.held, ...listed]
    const urls = bodies.map((body) => body.renewalExplanationUrl)
    t.equal(urls.length, 4)
    t.equal(new Set(urls).size, 1, 'the same everywhere')
    return urls[0]
  }
  t.equal(await told(), undefined)
  const { renewAt } = await currentOf(running)
  for (explanationURL of ['https://ca.test/why', 'https://ca.test/why-now'])
    t.equal(await told(), explanationURL, 'also where the window stays')
  t.ok(running.logged.some((line) => line.includes('"explanationUrl":"https://ca.test/why"')))
  explanationURL = undefined
  t.equal(await told(), undefined, 'and no longer than the CA says')
  t.equal((await currentOf(running)).renewAt, renewAt)

  explanationURL = 'https://ca.test/why'
  t.equal(await told(), explanationURL)
  await pass(running, clock, 12 * DAY)
  explanationURL = undefined
  t.not((await currentOf(running)).renewAt, renewAt)
  t.equal(await told(), undefined, 'of a new certificate it is told anew')
})

t.test('a window that outlasts the certificate is no advice', async (t) => {
  const { running, clock } = await startAcme(t, {
    lifetimeMs: 6 * DAY,
    renewalWindow: () => ({ start: time(NOW), end: time(NOW + 400 * DAY) }),
  })
  running.service.start()
  await post(running)
  const planned = (await currentOf(running)).renewAt
  await pass(running, clock, DAY)
  t.equal((await currentOf(running)).renewAt, planned)
})

t.test('where `replaces` is refused the order is placed without it', async (t) => {
  const renewalWindow = () => ({ start: time(NOW + DAY), end: time(NOW + 2 * DAY) })
  const { ca, running, clock } = await startAcme(t, { renewalWindow })
  running.service.start()
  await post(running)
  ca.answer('newOrder', problem(409, 'alreadyReplaced', 'replaced'))
  await pass(running, clock, 3 * DAY)
  t.match(
    orders(ca)
      .slice(1, 3)
      .map(({ replaces }) => typeof replaces),
    ['string', 'undefined'],
  )
  t.ok((await currentOf(running)).notBefore > NOW)
})

t.test(
  'a renewal that fails leaves the certificate in use to its end, and no longer',
  async (t) => {
    const { ca, running, clock } = await startAcme(t, { lifetimeMs: 6 * DAY })
    running.service.start()
    const { serialNumber } = (await post(running)).body
    const gone = problem(400, 'caa', 'no')
    ca.answer('newOrder', ...Array.from({ length: 50 }, () => gone))
    await pass(running, clock, 5.75 * DAY)
    t.ok(ca.count('newOrder') > 2)
    t.match((await post(running)).body, { cached: true, serialNumber })
    await pass(running, clock, DAY / 2)
    t.match(await post(running), { status: 422, body: { code: 'ACME_CAA' } })
  },
)

t.test('a clock that jumps makes a renewal late by one look, and none too many', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  running.service.start()
  await post(running)
  await clock.advance(80 * DAY)
  await settle(() => ca.count('newOrder') === 2)
  await settle(() => running.service.issuance.flights.size === 0)
  await pass(running, clock, 3 * DAY)
  t.equal(ca.count('newOrder'), 2)
})

t.test('what is deleted while its renewal is under way is not renewed any more', async (t) => {
  const gate = Promise.withResolvers<void>()
  let presented = 0
  const createSolver: AppDeps['createSolver'] = ({ type }) => ({
    type,
    present: async () => (presented++ > 0 ? gate.promise : undefined),
    cleanUp: async () => {},
  })
  const { ca, running, clock } = await startAcme(t, {}, { createSolver })
  running.service.start()
  await post(running)
  await clock.advance(61 * DAY)
  await settle(() => presented === 2)
  const deletion = running.call('DELETE', '/api/certificate/app.example.com')
  await settle()
  await clock.advance(WAIT)
  t.equal((await deletion).status, 204)
  gate.resolve()
  await settle(() => running.service.issuance.flights.size === 0)
  t.match(await currentOf(running), { renewAt: null })
  await pass(running, clock, 80 * DAY, 10 * DAY)
  t.equal(ca.count('newOrder'), 2)
  t.match((await post(running)).body, { cached: true }, 'yet nothing issued is lost')
})

t.test('the service ends at once, whatever is due and however long the CA takes', async (t) => {
  for (const kind of ['newOrder', 'renewalInfo'] as const)
    await t.test(kind, async (t) => {
      const renewalWindow = () => ({ start: time(NOW + 60 * DAY), end: time(NOW + 61 * DAY) })
      const { ca, running, clock } = await startAcme(t, { renewalWindow })
      await Promise.all(Array.from({ length: 40 }, (_, n) => post(running, `n${n}.test`)))
      ca.answer(kind, ...Array.from({ length: 40 }, () => 'hang' as const))
      if (kind === 'newOrder') await clock.advance(70 * DAY)
      const placed = ca.count('newOrder')
      running.service.start()
      await settle(() => ca.count(kind) >= (kind === 'newOrder' ? placed + 16 : 16))
      await running.close()
      t.equal(ca.count(kind), kind === 'newOrder' ? placed + 16 : 16, 'and begins nothing')
    })
})

t.test('thousands of renewals are spread, though all were issued at once', async (t) => {
  let n = 0
  const { running } = await startAcme(t, {}, { random: () => (n++ % 10) / 10 })
  const bodies = await Promise.all(
    Array.from({ length: 10 }, async (_, i) => (await post(running, `n${i}.test`)).body),
  )
  const moments = bodies.map(({ renewAt }) => Date.parse(renewAt))
  t.equal(new Set(moments).size, 10)
  t.ok(Math.max(...moments) - Math.min(...moments) > 3 * DAY)
})

t.test('a certificate follows its names to another issuer when it is renewed', async (t) => {
  const folder = testFolder(t)
  const { ca, running, clock } = await startAcme(t, {}, { folder, config: { issuers: [] } })
  t.match((await post(running)).body, { issuer: 'ca' })
  await running.close()
  const again = await startAcme(t, {}, { folder, ca, clock })
  again.running.service.start()
  await pass(again.running, clock, 4 * DAY)
  t.match(await again.running.call('GET', '/api/certificate/app.example.com'), {
    body: { issuer: 'acme' },
  })
  await pass(again.running, clock, 20 * DAY)
  t.equal(ca.count('newOrder'), 1, 'and the old one is let go')
})

t.test('revoked at the CA first, those that it replaced as well', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  running.service.start()
  await post(running)
  await pass(running, clock, 61 * DAY)
  t.equal(ca.count('newOrder'), 2)
  const revoke = () =>
    running.call('POST', '/api/certificate/revoke', {
      domain: 'app.example.com',
      reason: 'superseded',
    })
  ca.always('revokeCert', problem(500, 'serverInternal', 'out of order'))
  t.match(await revoke(), {
    status: 503,
    body: { code: 'ACME_SERVER_INTERNAL', detail: /out of order/, action: /\w+/ },
  })
  t.equal((await post(running)).status, 200, 'what the CA did not revoke is not revoked')
  ca.always('revokeCert')
  const asked = ca.count('revokeCert')
  ca.answer('revokeCert', problem(500, 'serverInternal'))
  const revoked = await revoke()
  t.match(revoked, { status: 200, body: { serialNumbers: { length: 2 } } })
  t.notOk('unknownAtCa' in revoked.body)
  t.equal(ca.count('revokeCert') - asked, 3, 'one fault is put up with')
  t.match((await post(running)).body, { cached: false })
  t.match(await revoke(), { status: 200, body: { serialNumbers: { length: 1 } } })
})

t.test('what the CA does not know any more is revoked here, and the answer says so', async (t) => {
  const rows = [
    ['by status', problem(404, 'malformed', 'Not found'), true],
    ['in words', problem(400, 'malformed', 'Unable to find specified certificate.'), true],
    ['another fault', problem(400, 'malformed', 'The request is no JWS'), false],
    ['a page of a proxy', { status: 404, body: '' }, false],
  ] as const
  for (const [what, reply, isUnknown] of rows) {
    const { ca, running } = await startAcme(t)
    const { serialNumber } = (await post(running)).body
    ca.always('revokeCert', reply)
    const domain = 'app.example.com'
    const { status, body } = await running.call('POST', '/api/certificate/revoke', { domain })
    if (isUnknown)
      t.match({ status, body }, { status: 200, body: { unknownAtCa: [serialNumber] } }, what)
    else
      t.match(
        { status, body },
        { status: 503, body: { code: /^ACME_/, detail: /app.example.com/ } },
        what,
      )
    const held = await running.call('GET', `/api/certificate/${domain}`)
    t.equal(held.status, isUnknown ? 404 : 200, what)
  }
})

t.test('what a removed issuer issued cannot be revoked here, only deleted', async (t) => {
  const folder = testFolder(t)
  const { ca, running, clock } = await startAcme(t, {}, { folder })
  await post(running)
  await running.close()
  const again = await startAcme(t, {}, { folder, ca, clock, config: { issuers: [] } })
  const domain = 'app.example.com'
  t.match(await again.running.call('POST', '/api/certificate/revoke', { domain }), {
    status: 409,
    body: { code: 'CERT_ISSUER_ABSENT' },
  })
  t.equal((await again.running.call('DELETE', `/api/certificate/${domain}`)).status, 204)
  t.equal(ca.count('revokeCert'), 0)
})
