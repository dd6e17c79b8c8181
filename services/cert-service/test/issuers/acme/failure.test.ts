import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import type {
  Kind,
  Reply,
  ScriptedCa,
} from '../../../../../packages/acme/test/scripted-ca/index.ts'
import { failedOrders } from '../../../../../packages/cert-store/test/helpers/store.ts'
import { expectWarnings } from '../../../../../scripts/test/quiet.ts'
import { briskClock, issuerAt, post, problem, startAcme, startCa } from '../../helpers/acme.ts'
import { DAY, type Running, settle } from '../../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'ACME_')

const MINUTE = 60_000

const failureOf = async ({ service }: Running) => (await failedOrders(service.store))[0]

type Row = [what: string, kind: Kind, reply: Reply, code: string, minutes: number, words: RegExp]

const passing: Row[] = [
  [
    'a fault',
    'newOrder',
    problem(500, 'serverInternal'),
    'ACME_SERVER_INTERNAL',
    1,
    /serverInternal/,
  ],
  [
    'rate limit',
    'newOrder',
    problem(429, 'rateLimited', 'too many', { 'retry-after': '7200' }),
    'ACME_RATE_LIMITED',
    120,
    /too many/,
  ],
  [
    'rate limit for weeks',
    'newOrder',
    problem(429, 'rateLimited', 'too many', { 'retry-after': '2592000' }),
    'ACME_RATE_LIMITED',
    1440,
    /too many/,
  ],
  [
    'busy',
    'newOrder',
    problem(503, 'rateLimited', 'later', { 'retry-after': '900' }),
    'ACME_RATE_LIMITED',
    15,
    /later/,
  ],
  [
    'paused',
    'newOrder',
    problem(429, 'rateLimited', 'see https://ca.test/unpause?jwt=abc'),
    'ACME_PAUSED',
    1440,
    /https:\/\/ca.test\/unpause\?jwt=abc/,
  ],
  ['no network', 'newNonce', 'reset', 'ACME_UNREACHABLE', 1 / 6, /failed/],
  [
    'no order',
    'order',
    problem(404, 'malformed', 'no such order'),
    'ACME_MALFORMED',
    1,
    /no such order/,
  ],
  ['no certificate', 'certificate', problem(404, 'malformed', 'none'), 'ACME_MALFORMED', 1, /none/],
  ['no words', 'finalize', { status: 502, body: '' }, 'ACME_SERVER_INTERNAL', 1, /status 502/],
]

for (const [what, kind, reply, code, minutes, words] of passing)
  t.test(`a failure that passes is told, and the order goes on by itself: ${what}`, async (t) => {
    const { ca, running, clock } = await startAcme(t)
    ca.always(kind, reply)
    const { status, headers, body } = await post(running)
    t.same([status, headers['retry-after']], [503, String(minutes * 60)])
    const order = await failureOf(running)
    const orderUrl = `/api/orders/${order?.id}`
    t.equal(headers.location, orderUrl)
    t.match(body, { code, detail: words, action: /\w+/, orderUrl, title: /\w+/ })
    const told = await running.call('GET', orderUrl)
    t.match(told.body, { status: 'failed', lastError: { code, detail: words, action: /\w+/ } })

    const asked = ca.exchanges.length
    for (let n = 0; n < 5; n++) t.match(await post(running), { status: 503, body: { code } })
    t.equal(ca.exchanges.length, asked, 'nothing is asked before its time')
    ca.always(kind)
    const finalised = ca.count('finalize')
    await clock.advance(minutes * MINUTE)
    await running.service.issuance.resume()
    await settle(() => running.service.issuance.flights.size === 0)
    t.match(await post(running), { status: 200, body: { cached: true } })
    t.ok(ca.count('finalize') <= Math.max(finalised, 0) + 1)
  })

const refusals: Row[] = [
  [
    'a name',
    'newOrder',
    problem(400, 'rejectedIdentifier', 'not this name'),
    'ACME_REJECTED_IDENTIFIER',
    1,
    /not this name/,
  ],
  [
    'a kind of name',
    'newOrder',
    problem(400, 'unsupportedIdentifier', 'no'),
    'ACME_UNSUPPORTED_IDENTIFIER',
    1,
    /no/,
  ],
  [
    'the profile',
    'newOrder',
    problem(400, 'invalidProfile', 'no'),
    'ACME_INVALID_PROFILE',
    1,
    /no/,
  ],
  ['the CSR', 'finalize', problem(400, 'badCSR', 'no'), 'ACME_BAD_CSR', 1, /no/],
  ['CAA', 'finalize', problem(403, 'caa', 'CAA forbids'), 'ACME_CAA', 1, /CAA forbids/],
]

for (const [what, kind, reply, code, , words] of refusals)
  t.test(`what the CA refuses for good is 422 without Retry-After: ${what}`, async (t) => {
    const { ca, running, clock } = await startAcme(t)
    ca.answer(kind, reply)
    for (const when of ['at once', 'and from memory']) {
      const { status, headers, body } = await post(running)
      t.same([status, headers['retry-after']], [422, undefined], when)
      t.match(body, { code, detail: words, action: /\w+/, orderUrl: headers.location }, when)
    }
    t.equal(ca.count('newOrder'), 1)
    await running.service.issuance.resume()
    await clock.advance(10 * MINUTE)
    await running.service.issuance.resume()
    t.equal(ca.count('newOrder'), 1, 'it is not tried by itself')
    t.equal((await post(running)).status, 200, 'but when somebody asks')
  })

t.test('a failure of our own is told in general', async (t) => {
  expectWarnings(t, 'CERT_ISSUE_FAILED', 'a certificate could not be issued')
  const { running } = await startAcme(t)
  const { service } = running
  service.store.findOrderByUrl = async () => {
    throw new TypeError('a secret place')
  }
  const { status, body, text } = await post(running)
  t.match({ status, body }, { status: 503, body: { code: 'CERT_ISSUE_FAILED' } })
  t.notMatch(text, /secret/)
})

t.test(
  'what the CA refuses again and again is left alone for longer; an outage is not',
  async (t) => {
    const refused = problem(400, 'rejectedIdentifier')
    for (const [reply, minutes] of [
      [refused, [1, 10, 100, 1440, 1440]],
      [problem(500, 'serverInternal'), [1, 10, 10, 10, 10]],
      ['reset', [1 / 6, 1 / 2, 1, 2, 5, 5]],
    ] as const)
      await t.test(String(minutes), async (t) => {
        const { ca, running, clock } = await startAcme(t)
        ca.always('newOrder', reply)
        for (const wait of minutes) {
          await post(running)
          const order = await failureOf(running)
          t.equal(order?.nextTryAt, clock.now() + wait * MINUTE)
          await clock.advance(wait * MINUTE)
        }
        ca.always('newOrder')
        t.equal((await post(running)).status, 200)
      })
  },
)

t.test('one fault of the CA is put up with while the caller waits', async (t) => {
  for (const [kind, reply] of [
    ['directory', 'reset'],
    ['newNonce', problem(500, 'serverInternal')],
    ['newAccount', problem(500, 'serverInternal')],
    ['newOrder', problem(500, 'serverInternal')],
    ['order', problem(404, 'malformed')],
    ['authorization', problem(500, 'serverInternal')],
    ['challenge', problem(500, 'serverInternal')],
    ['finalize', problem(500, 'serverInternal')],
    ['certificate', problem(404, 'malformed')],
  ] as const)
    await t.test(kind, async (t) => {
      const { ca, running } = await startAcme(t)
      ca.answer(kind, reply)
      t.equal((await post(running)).status, 200)
      t.equal(ca.count('finalize'), kind === 'finalize' ? 2 : 1)
      t.equal(ca.count('newOrder'), kind === 'newOrder' ? 2 : 1)
    })
})

t.test('an order that the CA has goes on by itself, whoever asks or not', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  ca.always('certificate', problem(500, 'serverInternal'))
  t.equal((await post(running)).status, 503)
  t.equal(ca.count('finalize'), 1)
  ca.always('certificate')
  running.service.start()
  await clock.advance(2 * MINUTE)
  await settle(() => running.service.issuance.flights.size === 0)
  t.match(await post(running), { status: 200, body: { cached: true } })
  t.equal(ca.count('finalize'), 1)
})

t.test('an order that expired while the service was stopped is placed again', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  ca.always('order', problem(500, 'serverInternal'))
  t.equal((await post(running)).status, 503)
  ca.always('order')
  const { exchanges } = ca
  ca.answer('order', () => ({
    body: {
      status: 'invalid',
      identifiers: exchanges.find(({ kind }) => kind === 'newOrder')?.payload.identifiers,
      authorizations: [],
      finalize: new URL('/x', ca.directoryUrl).href,
    },
  }))
  await clock.advance(MINUTE)
  await running.service.issuance.resume()
  await settle(() => running.service.issuance.flights.size === 0)
  t.match(await post(running), { status: 200, body: { cached: true } })
  t.equal(ca.count('newOrder'), 2)
})

t.test('an order that the CA never took is given up after a week', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  ca.always('newOrder', problem(500, 'serverInternal'))
  await post(running)
  for (let day = 0; day <= 8; day++) {
    await clock.advance(DAY)
    await running.service.issuance.resume()
    await settle(() => running.service.issuance.flights.size === 0)
    const due = await running.service.store.listResumableOrders(clock.now() + DAY)
    t.equal(due.length, day < 7 ? 1 : 0, `day ${day}`)
  }
})

t.test('an account that the CA does not know for a moment costs no order', async (t) => {
  const { ca, running } = await startAcme(t)
  ca.answer('certificate', problem(400, 'accountDoesNotExist'))
  t.equal((await post(running)).status, 200)
  t.equal(ca.count('newOrder'), 1)
  t.equal(ca.count('finalize'), 1)
})

t.test('an account that cannot be registered again at once keeps its order', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  t.equal((await post(running, 'first.example.com')).status, 200)
  ca.answer('authorization', problem(400, 'accountDoesNotExist'))
  ca.always('newAccount', problem(500, 'serverInternal'))
  t.equal((await post(running)).status, 503)
  ca.always('newAccount')
  await clock.advance(MINUTE)
  ca.answer('authorization', problem(400, 'accountDoesNotExist'))
  t.equal((await post(running)).status, 200)
  t.equal(ca.count('newOrder'), 2, 'one for each name')
})

t.test('an order of a changed or removed issuer is given up', async (t) => {
  const folder = testFolder(t)
  const { ca, running, clock } = await startAcme(t, {}, { folder })
  ca.always('certificate', problem(500, 'serverInternal'))
  await post(running)
  await running.close()
  const again = await startAcme(t, {}, { folder, ca, clock, issuerOptions: { profile: 'other' } })
  await clock.advance(2 * MINUTE)
  await again.running.service.issuance.resume()
  t.same(await again.running.service.store.listResumableOrders(clock.now()), [])
  t.match(await failureOf(again.running), { lastError: { code: 'CERT_NOT_PERMITTED' } })
})

t.test('two requestKeys of the same names do not finalise each other’s order', async (t) => {
  expectWarnings(t, 'CERT_BUSY')
  const { ca, running, clock } = await startAcme(t, { reuseOrders: true })
  const [first, second] = await Promise.all([
    post(running, 'a.test'),
    post(running, 'a.test', { keyType: 'p384' }),
  ])
  t.same([first.status, second.status], [200, 200], 'one after the other')
  t.equal(ca.count('newOrder'), 2)

  ca.always('order', problem(500, 'serverInternal'))
  t.equal((await post(running, 'b.test')).status, 503)
  const waiting = await post(running, 'b.test', { keyType: 'p384' })
  t.match(waiting, { status: 503, body: { code: 'CERT_BUSY' } }, 'it has to wait')
  t.equal(ca.count('finalize'), 2)
  ca.always('order')
  await clock.advance(MINUTE)
  t.equal((await post(running, 'b.test')).status, 200)
  await clock.advance(MINUTE)
  t.equal((await post(running, 'b.test', { keyType: 'p384' })).status, 200)
  t.equal(ca.count('finalize'), 4)
})

t.test('readiness tells of a CA that cannot be reached, and is ready all the same', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  const ready = async () => (await running.call('GET', '/readyz')).body
  t.match(await ready(), { degraded: { length: 0 } })
  ca.always('directory', 'reset')
  await post(running)
  ca.always('directory')
  t.match(await ready(), { status: 'ready', degraded: ['issuer acme'] })
  await clock.advance(MINUTE)
  await post(running)
  t.match(await ready(), { degraded: { length: 0 } })
})

/** An issuer for every name, and one that is for `x.test` alone. */
async function withFallback(t: Test, fallback: string) {
  const clock = briskClock()
  const ca = await startCa(t, clock)
  const second = await startCa(t, clock)
  const issuers = [
    issuerAt(ca, { fallback }),
    issuerAt(second, { name: 'second', names: ['x.test'] }),
  ]
  return startAcme(t, {}, { clock, ca, config: { issuers } })
}

const outage = (ca: ScriptedCa) =>
  ca.answer('newOrder', ...Array.from({ length: 9 }, () => problem(400, 'rejectedIdentifier')))

for (const fallback of ['second', 'ca'])
  t.test(
    `the fallback ${fallback} stands in until the first issuer has a certificate`,
    async (t) => {
      const { ca, running, clock } = await withFallback(t, fallback)
      const domain = 'x.test'
      outage(ca)
      const first = await post(running, domain)
      t.match(first, { status: 200, body: { issuer: fallback, cached: false } })
      t.match(await post(running, domain), {
        status: 200,
        body: { issuer: fallback, cached: true },
      })
      t.equal(ca.count('newOrder'), 1, 'the first is left alone for a while')

      running.service.start()
      await clock.advance(MINUTE)
      await clock.advance(MINUTE)
      await settle(() => ca.count('newOrder') === 2)
      t.match(await post(running, domain), { body: { issuer: fallback } }, 'it is tried again')

      ca.answer('newOrder')
      for (let n = 2; n < 9; n++) {
        await clock.advance(DAY / 2)
        await settle(() => running.service.issuance.flights.size === 0)
        t.equal((await post(running, domain)).status, 200)
      }
      for (let n = 0; n < 12; n++) {
        await clock.advance(DAY / 2)
        await settle(() => running.service.issuance.flights.size === 0)
      }
      t.match(await post(running, domain), { status: 200, body: { issuer: 'acme' } })
      t.match((await running.call('GET', `/api/certificate/${domain}`)).body, { issuer: 'acme' })
    },
  )

t.test('a fallback that may not sign does not', async (t) => {
  const { ca, running } = await withFallback(t, 'second')
  outage(ca)
  t.match(await post(running, 'y.test'), {
    status: 422,
    body: { code: 'ACME_REJECTED_IDENTIFIER' },
  })
})
