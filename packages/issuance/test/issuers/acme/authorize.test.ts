import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { type Actor, type IssuanceRequest, parseRequest } from '@gatehouse/issuance/request'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { expectWarnings } from '../../../../../scripts/test/quiet.ts'
import type { Reply, ScriptedCa } from '../../../../acme/test/scripted-ca/index.ts'
import { failedOrders } from '../../../../cert-store/test/helpers/store.ts'
import { briskClock, openAcmeStage, problem, WAIT } from '../../helpers/acme.ts'
import { makeCsr } from '../../helpers/csr.ts'
import { DAY, OPERATOR, obtain as obtainAny, openStage, type Stage } from '../../helpers/stage.ts'
import { settle } from '../../leap-clock.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'ACME_', 'CERT_RATE_LIMITED')

const NAME = 'app.example.com'
const CALLER: Actor = { actor: 'psk:web' }

function requestFor({ issuers }: Stage, csr?: string, domain = NAME): IssuanceRequest {
  return parseRequest({ domain, csr }, issuers, () => Infinity)
}

const authorize = (stage: Stage, by = CALLER, domain = NAME) =>
  stage.issuance.authorize(requestFor(stage, undefined, domain), by)

/** Asks for a certificate of a key that is made for it; tells whether it is of that key. */
async function obtain(stage: Stage, by = CALLER, domain = NAME): Promise<boolean> {
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const request = requestFor(stage, makeCsr({ pair, names: [domain] }), domain)
  const { certificate } = await stage.issuance.obtain(request, by)
  return certificate
    ? new X509Certificate(certificate.chain).checkPrivateKey(pair.privateKey)
    : false
}

/** The kinds of what the CA was asked since a count of requests, without nonces. */
const askedSince = (ca: ScriptedCa, from: number) =>
  ca.exchanges.slice(from).flatMap(({ kind }) => (kind === 'newNonce' ? [] : kind))

const FINALIZING = ['order', 'order', 'finalize', 'certificate']

t.test('finalizing is all that is left after the names were proven', async (t) => {
  for (const reuseOrders of [true, false]) {
    const { ca, stage } = await openAcmeStage(t, { reuseOrders })
    const ready = await Promise.all([authorize(stage), authorize(stage, OPERATOR)])
    t.same(ready, ['ready', 'ready'])
    t.same([ca.count('newOrder'), ca.count('challenge'), ca.count('finalize')], [1, 1, 0])

    const before = ca.exchanges.length
    t.equal(await authorize(stage), 'ready')
    t.same(askedSince(ca, before), ['order'], 'that it still is')
    const from = ca.exchanges.length
    t.ok(await obtain(stage), 'a certificate for the key of the caller')
    t.same(askedSince(ca, from), FINALIZING)
    t.ok(await obtain(stage), 'another key has an order of its own')
    t.same([ca.count('newOrder'), ca.count('finalize'), ca.issued()], [2, 2, 2])
  }
})

t.test('a certificate for a key of ours takes it over as well', async (t) => {
  const { ca, stage } = await openAcmeStage(t)
  await authorize(stage)
  const from = ca.exchanges.length
  t.ok((await obtainAny(stage, { domain: NAME })).certificate)
  t.same(askedSince(ca, from), FINALIZING)
})

t.test('the embedded CA has nothing to prove', async (t) => {
  t.equal(await authorize(await openStage(t)), 'ready')
})

t.test('two keys at once: one has the prepared order, and the other its own', async (t) => {
  for (const reuseOrders of [true, false]) {
    const { ca, stage } = await openAcmeStage(t, { reuseOrders, processing: 2 })
    await authorize(stage)
    t.same(await Promise.all([obtain(stage), obtain(stage)]), [true, true])
    t.same([ca.count('newOrder'), ca.count('finalize'), ca.issued()], [2, 2, 2])
  }
})

t.test('whoever asks meanwhile takes over what is being prepared', async (t) => {
  for (const reuseOrders of [true, false]) {
    const { ca, stage } = await openAcmeStage(t, { reuseOrders, validating: 2 })
    const [ready, isOwn] = await Promise.all([authorize(stage), obtain(stage)])
    t.same([ready, isOwn], ['ready', true])
    t.equal(ca.count('finalize'), 1)
    t.ok(ca.count('newOrder') <= 2)
  }
})

const orderAs = (status: string): Reply => ({
  body: {
    status,
    identifiers: [{ type: 'dns', value: NAME }],
    authorizations: [],
    finalize: 'http://127.0.0.1/finalize',
    ...(status === 'valid' && { certificate: 'http://127.0.0.1/certificate' }),
  },
})

const UNUSABLE: readonly [what: string, reply: Reply][] = [
  ['gone', problem(404, 'malformed')],
  ['expired', orderAs('invalid')],
  ['used', orderAs('valid')],
  ['being used', orderAs('processing')],
]

for (const [what, reply] of UNUSABLE)
  t.test(`a prepared order that is ${what} is placed anew`, async (t) => {
    const { ca, stage } = await openAcmeStage(t)
    await authorize(stage)
    ca.answer('order', reply)
    t.equal(await authorize(stage), 'ready')
    t.equal(ca.count('newOrder'), 2)
    ca.answer('order', reply)
    t.ok(await obtain(stage))
    t.same([ca.count('newOrder'), ca.count('finalize'), ca.issued()], [3, 1, 1])
  })

t.test('callers do not wait for ever', async (t) => {
  const { promise: seen, resolve: see } = Promise.withResolvers<void>()
  const { promise: decided, resolve: decide } = Promise.withResolvers<undefined>()
  const validate = () => {
    see()
    return decided
  }
  const { ca, stage, clock } = await openAcmeStage(t, { validate })
  const early = authorize(stage)
  await seen
  await clock.advance(WAIT)
  t.equal(await early, 'working')
  decide(undefined)
  t.equal(await authorize(stage), 'ready')
  t.equal(ca.count('newOrder'), 1)
})

t.test('a failure is told, and not repeated before its time', async (t) => {
  let verdict: string | undefined = 'unauthorized'
  const { ca, stage, clock } = await openAcmeStage(t, { validate: async () => verdict })
  const failure = { name: 'IssueError', code: 'ACME_UNAUTHORIZED', retryAfter: 60 }
  await t.rejects(authorize(stage), failure)
  const asked = ca.exchanges.length
  await t.rejects(authorize(stage), failure)
  t.equal(ca.exchanges.length, asked)
  verdict = undefined
  await clock.advance(60_000)
  t.equal(await authorize(stage), 'ready')
  t.ok(await obtain(stage))
})

t.test('what failed is not told any more once there is a certificate', async (t) => {
  let verdict: string | undefined = 'unauthorized'
  const { stage } = await openAcmeStage(t, { validate: async () => verdict })
  await t.rejects(authorize(stage), { code: 'ACME_UNAUTHORIZED' })
  t.equal((await failedOrders(stage.store)).length, 1)
  verdict = undefined
  t.ok(await obtain(stage))
  t.same(await failedOrders(stage.store), [])
})

t.test('an order that is half proven is taken over as it is', async (t) => {
  const { ca, stage } = await openAcmeStage(t, { reuseOrders: true })
  ca.always('authorization', problem(500, 'serverInternal'))
  await t.rejects(authorize(stage), { code: 'ACME_SERVER_INTERNAL' })
  ca.always('authorization')
  t.ok(await obtain(stage), 'although it was to be tried again later')
  t.same([ca.count('newOrder'), ca.count('finalize')], [1, 1])
})

t.test('the fallback of an issuer that is away is ready', async (t) => {
  const { ca, stage } = await openAcmeStage(t, {}, { changes: { fallback: 'ca' } })
  ca.always('newOrder', problem(500, 'serverInternal'))
  t.equal(await authorize(stage), 'ready')
})

t.test('limits refuse before the CA is asked', async (t) => {
  const limits = { domain: { count: 5, per: 7 * DAY } }
  const callerLimits = { perCaller: { burst: 2, issuancesPerMinute: 1 } }
  const { ca, stage } = await openAcmeStage(t, {}, { changes: { limits }, limits: callerLimits })
  t.equal(await authorize(stage), 'ready')
  const share =
    /the limit of acme is used up: 1 certificates in 7d for example.com by one caller that is no/
  await t.rejects(authorize(stage, CALLER, 'b.example.com'), {
    code: 'CERT_RATE_LIMITED',
    message: share,
    retryAfter: 3600,
  })
  t.ok(await obtain(stage), 'what is prepared is the share')
  await t.rejects(authorize(stage, CALLER, 'c.example.com'), { code: 'CERT_CALLER_LIMITED' })
  t.equal(ca.count('newOrder'), 1)
  t.equal(await authorize(stage, OPERATOR, 'b.example.com'), 'ready', 'operators have no share')
})

t.test('what the share of one caller refused is still refused to it alone', async (t) => {
  const limits = { domain: { count: 10, per: 7 * DAY } }
  const { ca, stage, clock } = await openAcmeStage(t, {}, { changes: { limits } })
  const { issuance } = stage
  const names = ['a', 'b', 'c', 'd'].map((label) => `${label}.example.com`)
  const asked = await Promise.allSettled(names.map((name) => obtain(stage, CALLER, name)))
  t.equal(asked.filter(({ status }) => status === 'fulfilled').length, 3)
  const last = names[asked.findIndex(({ status }) => status === 'rejected')] ?? ''
  await clock.advance(DAY)
  await issuance.resume()
  await settle(() => issuance.flights.size === 0)
  t.equal(ca.count('newOrder'), 3, 'it is not taken up by itself before its time')

  const byKeyOfOurs = async (by: Actor) => issuance.obtain(requestFor(stage, undefined, last), by)
  const limited = { code: 'CERT_RATE_LIMITED' }
  await t.rejects(byKeyOfOurs(CALLER), limited)
  await t.rejects(byKeyOfOurs(CALLER), limited)
  // Whoever waits for a caller that is refused is asked for by itself.
  const [refused, other] = await Promise.allSettled([CALLER, { actor: 'psk:b' }].map(byKeyOfOurs))
  t.match([refused?.status, other?.status], ['rejected', 'fulfilled'])
  t.equal(ca.count('newOrder'), 4)
  t.ok(await obtain(stage, OPERATOR, 'e.example.com'))
})

t.test('what nobody finalizes ends by itself', async (t) => {
  const { ca, stage, clock } = await openAcmeStage(t)
  const { store, issuance } = stage
  await authorize(stage)
  await issuance.resume()
  t.equal(issuance.flights.size, 0)
  t.same(await store.list({ after: 0, limit: 9 }), [], 'no certificate')
  const url = ca.exchanges.find(({ kind }) => kind === 'order')?.path ?? ''
  const found = () => store.findOrderByUrl(new URL(url, ca.directoryUrl).href)
  t.match(await found(), { status: 'done', csr: null, names: [NAME] })
  await clock.advance(400 * DAY)
  const week = 7 * DAY
  await store.prune(clock.now(), {
    audit: week,
    certificates: week,
    orders: week,
    challenges: week,
  })
  t.equal(await found(), undefined)
  t.equal(ca.count('finalize'), 0)
})

t.test('a restart goes on with what was being prepared', async (t) => {
  const { promise: seen, resolve: see } = Promise.withResolvers<void>()
  const folder = testFolder(t)
  const clock = briskClock()
  const { promise: decided, resolve: decide } = Promise.withResolvers<undefined>()
  const validate = () => {
    see()
    return decided
  }
  const { ca, stage } = await openAcmeStage(t, { validate }, { folder, clock })
  const early = authorize(stage)
  await seen
  await stage.close()
  t.equal(await early, 'working')
  decide(undefined)
  const { stage: next } = await openAcmeStage(t, {}, { acme: ca, folder, clock })
  await next.issuance.resume()
  await settle(() => next.issuance.flights.size === 0)
  const from = ca.exchanges.length
  t.ok(await obtain(next))
  t.notOk(askedSince(ca, from).includes('newOrder'))
  t.same([ca.count('newOrder'), ca.count('finalize')], [1, 1])
})
