import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../../scripts/test/quiet.ts'
import type { Kind, Reply, ScriptedCa } from '../../../../acme/test/scripted-ca/index.ts'
import { failedOrders } from '../../../../cert-store/test/helpers/store.ts'
import { briskClock, issuerAt, openAcmeStage, problem, startCa } from '../../helpers/acme.ts'
import { currentOf, DAY, obtain, type Stage } from '../../helpers/stage.ts'
import { settle } from '../../leap-clock.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'ACME_')

const MINUTE = 60_000

const failureOf = async ({ store }: Stage) => (await failedOrders(store))[0]

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
    const { ca, stage, clock } = await openAcmeStage(t)
    ca.always(kind, reply)
    const error = await obtain(stage)
    t.equal(error.retryAfter, minutes * 60)
    const order = await failureOf(stage)
    const orderUrl = `/api/orders/${order?.id}`
    t.match(error, { code, detail: words, action: /\w+/, orderUrl })
    t.match(order, { status: 'failed', lastError: { code, detail: words } })

    const asked = ca.exchanges.length
    for (let n = 0; n < 5; n++) t.match(await obtain(stage), { code })
    t.equal(ca.exchanges.length, asked, 'nothing is asked before its time')
    ca.always(kind)
    const finalised = ca.count('finalize')
    await clock.advance(minutes * MINUTE)
    await stage.issuance.resume()
    await settle(() => stage.issuance.flights.size === 0)
    t.match(await obtain(stage), { cached: true })
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
    const { ca, stage, clock } = await openAcmeStage(t)
    ca.answer(kind, reply)
    for (const when of ['at once', 'and from memory']) {
      const error = await obtain(stage)
      t.match(error, { code, detail: words, action: /\w+/, orderUrl: /orders/ }, when)
      t.equal(error.retryAfter, undefined, when)
    }
    t.equal(ca.count('newOrder'), 1)
    await stage.issuance.resume()
    await clock.advance(10 * MINUTE)
    await stage.issuance.resume()
    t.equal(ca.count('newOrder'), 1, 'it is not tried by itself')
    t.ok((await obtain(stage)).certificate, 'but when somebody asks')
  })

t.test('a failure of our own is told in general', async (t) => {
  expectWarnings(t, 'CERT_ISSUE_FAILED', 'a certificate could not be issued')
  const { stage } = await openAcmeStage(t)
  stage.store.findOrderByUrl = async () => {
    throw new TypeError('a secret place')
  }
  const error = await obtain(stage)
  t.match(error, { code: 'CERT_ISSUE_FAILED' })
  t.notMatch(error.detail, /secret/)
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
        const { ca, stage, clock } = await openAcmeStage(t)
        ca.always('newOrder', reply)
        for (const wait of minutes) {
          await obtain(stage)
          const order = await failureOf(stage)
          t.equal(order?.nextTryAt, clock.now() + wait * MINUTE)
          await clock.advance(wait * MINUTE)
        }
        ca.always('newOrder')
        t.ok((await obtain(stage)).certificate)
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
      const { ca, stage } = await openAcmeStage(t)
      ca.answer(kind, reply)
      t.ok((await obtain(stage)).certificate)
      t.equal(ca.count('finalize'), kind === 'finalize' ? 2 : 1)
      t.equal(ca.count('newOrder'), kind === 'newOrder' ? 2 : 1)
    })
})

t.test('an order that the CA has goes on by itself, whoever asks or not', async (t) => {
  const { ca, stage, clock } = await openAcmeStage(t)
  ca.always('certificate', problem(500, 'serverInternal'))
  t.ok((await obtain(stage)).code)
  t.equal(ca.count('finalize'), 1)
  ca.always('certificate')
  await stage.start()
  await clock.advance(2 * MINUTE)
  await settle(() => stage.issuance.flights.size === 0)
  t.match(await obtain(stage), { cached: true })
  t.equal(ca.count('finalize'), 1)
})

t.test('an order that expired while the service was stopped is placed again', async (t) => {
  const { ca, stage, clock } = await openAcmeStage(t)
  ca.always('order', problem(500, 'serverInternal'))
  t.ok((await obtain(stage)).code)
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
  await stage.issuance.resume()
  await settle(() => stage.issuance.flights.size === 0)
  t.match(await obtain(stage), { cached: true })
  t.equal(ca.count('newOrder'), 2)
})

t.test('an order that the CA never took is given up after a week', async (t) => {
  const { ca, stage, clock } = await openAcmeStage(t)
  ca.always('newOrder', problem(500, 'serverInternal'))
  await obtain(stage)
  for (let day = 0; day <= 8; day++) {
    await clock.advance(DAY)
    await stage.issuance.resume()
    await settle(() => stage.issuance.flights.size === 0)
    const due = await stage.store.listResumableOrders(clock.now() + DAY)
    t.equal(due.length, day < 7 ? 1 : 0, `day ${day}`)
  }
})

t.test('an account that the CA does not know for a moment costs no order', async (t) => {
  const { ca, stage } = await openAcmeStage(t)
  ca.answer('certificate', problem(400, 'accountDoesNotExist'))
  t.ok((await obtain(stage)).certificate)
  t.equal(ca.count('newOrder'), 1)
  t.equal(ca.count('finalize'), 1)
})

t.test('an account that cannot be registered again at once keeps its order', async (t) => {
  const { ca, stage, clock } = await openAcmeStage(t)
  t.ok((await obtain(stage, { domain: 'first.example.com' })).certificate)
  ca.answer('authorization', problem(400, 'accountDoesNotExist'))
  ca.always('newAccount', problem(500, 'serverInternal'))
  t.ok((await obtain(stage)).code)
  ca.always('newAccount')
  await clock.advance(MINUTE)
  ca.answer('authorization', problem(400, 'accountDoesNotExist'))
  t.ok((await obtain(stage)).certificate)
  t.equal(ca.count('newOrder'), 2, 'one for each name')
})

t.test('an order of a changed or removed issuer is given up', async (t) => {
  const folder = testFolder(t)
  const { ca, stage, clock } = await openAcmeStage(t, {}, { folder })
  ca.always('certificate', problem(500, 'serverInternal'))
  await obtain(stage)
  await stage.close()
  const again = await openAcmeStage(
    t,
    {},
    { folder, acme: ca, clock, changes: { profile: 'other' } },
  )
  await clock.advance(2 * MINUTE)
  await again.stage.issuance.resume()
  t.same(await again.stage.store.listResumableOrders(clock.now()), [])
  t.match(await failureOf(again.stage), { lastError: { code: 'CERT_NOT_PERMITTED' } })
})

t.test('two requestKeys of the same names do not finalise each other’s order', async (t) => {
  expectWarnings(t, 'CERT_BUSY')
  const { ca, stage, clock } = await openAcmeStage(t, { reuseOrders: true })
  const [first, second] = await Promise.all([
    obtain(stage, { domain: 'a.test' }),
    obtain(stage, { domain: 'a.test', keyType: 'p384' }),
  ])
  t.ok(first.certificate && second.certificate, 'one after the other')
  t.equal(ca.count('newOrder'), 2)

  ca.always('order', problem(500, 'serverInternal'))
  t.ok((await obtain(stage, { domain: 'b.test' })).code)
  const waiting = await obtain(stage, { domain: 'b.test', keyType: 'p384' })
  t.match(waiting, { code: 'CERT_BUSY' }, 'it has to wait')
  t.equal(ca.count('finalize'), 2)
  ca.always('order')
  await clock.advance(MINUTE)
  t.ok((await obtain(stage, { domain: 'b.test' })).certificate)
  await clock.advance(MINUTE)
  t.ok((await obtain(stage, { domain: 'b.test', keyType: 'p384' })).certificate)
  t.equal(ca.count('finalize'), 4)
})

t.test('what is degraded names a CA that cannot be reached', async (t) => {
  const { ca, stage, clock } = await openAcmeStage(t)
  const degraded = () => stage.issuers.degraded()
  t.strictSame(degraded(), [])
  ca.always('directory', 'reset')
  await obtain(stage)
  ca.always('directory')
  t.strictSame(degraded(), ['issuer acme'])
  await clock.advance(MINUTE)
  await obtain(stage)
  t.strictSame(degraded(), [])
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
  return openAcmeStage(t, {}, { clock, acme: ca, issuers })
}

const outage = (ca: ScriptedCa) =>
  ca.answer('newOrder', ...Array.from({ length: 9 }, () => problem(400, 'rejectedIdentifier')))

for (const fallback of ['second', 'ca'])
  t.test(
    `the fallback ${fallback} stands in until the first issuer has a certificate`,
    async (t) => {
      const { ca, stage, clock } = await withFallback(t, fallback)
      const domain = 'x.test'
      outage(ca)
      const first = await obtain(stage, { domain })
      t.match(first, { issuer: fallback, cached: false })
      t.match(await obtain(stage, { domain }), { issuer: fallback, cached: true })
      t.equal(ca.count('newOrder'), 1, 'the first is left alone for a while')

      await stage.start()
      await clock.advance(MINUTE)
      await clock.advance(MINUTE)
      await settle(() => ca.count('newOrder') === 2)
      t.match(await obtain(stage, { domain }), { issuer: fallback }, 'it is tried again')

      ca.answer('newOrder')
      for (let n = 2; n < 9; n++) {
        await clock.advance(DAY / 2)
        await settle(() => stage.issuance.flights.size === 0)
        t.ok((await obtain(stage, { domain })).certificate)
      }
      for (let n = 0; n < 12; n++) {
        await clock.advance(DAY / 2)
        await settle(() => stage.issuance.flights.size === 0)
      }
      t.match(await obtain(stage, { domain }), { issuer: 'acme' })
      t.match(await currentOf(stage, domain), { issuer: 'acme' })
    },
  )

t.test('a fallback that may not sign does not', async (t) => {
  const { ca, stage } = await withFallback(t, 'second')
  outage(ca)
  t.match(await obtain(stage, { domain: 'y.test' }), { code: 'ACME_REJECTED_IDENTIFIER' })
})
