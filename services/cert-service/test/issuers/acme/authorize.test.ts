import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { type Actor, type IssuanceRequest, parseRequest } from '@gatehouse/issuance/request'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import type { Reply, ScriptedCa } from '../../../../../packages/acme/test/scripted-ca/index.ts'
import { failedOrders } from '../../../../../packages/cert-store/test/helpers/store.ts'
import { expectWarnings } from '../../../../../scripts/test/quiet.ts'
import { briskClock, problem, startAcme, WAIT } from '../../helpers/acme.ts'
import { DAY, type Running, settle, start } from '../../helpers/app.ts'
import { makeCsr } from '../../../../../packages/issuance/test/helpers/csr.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'ACME_', 'CERT_RATE_LIMITED')

const WEB = 'the-key-of-a-web-server'
const NAME = 'app.example.com'
const CALLER: Actor = { actor: 'psk:web' }
const OPERATOR: Actor = { actor: 'psk:ops', isOperator: true }

function requestFor({ service }: Running, csr?: string, domain = NAME): IssuanceRequest {
  return parseRequest({ domain, csr }, service.issuers, () => Infinity)
}

const authorize = (running: Running, by = CALLER, domain = NAME) =>
  running.service.issuance.authorize(requestFor(running, undefined, domain), by)

/** Asks for a certificate of a key that is made for it; tells whether it is of that key. */
async function obtain(running: Running, by = CALLER, domain = NAME): Promise<boolean> {
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const request = requestFor(running, makeCsr({ pair, names: [domain] }), domain)
  const { certificate } = await running.service.issuance.obtain(request, by)
  return certificate ? new X509Certificate(certificate.chain).checkPrivateKey(pair.privateKey) : false
}

/** The kinds of what the CA was asked since a count of requests, without nonces. */
const askedSince = (ca: ScriptedCa, from: number) =>
  ca.exchanges.slice(from).flatMap(({ kind }) => (kind === 'newNonce' ? [] : kind))

const FINALIZING = ['order', 'order', 'finalize', 'certificate']

t.test('finalizing is all that is left after the names were proven', async (t) => {
  for (const reuseOrders of [true, false]) {
    const { ca, running } = await startAcme(t, { reuseOrders })
    const ready = await Promise.all([authorize(running), authorize(running, OPERATOR)])
    t.same(ready, ['ready', 'ready'])
    t.same([ca.count('newOrder'), ca.count('challenge'), ca.count('finalize')], [1, 1, 0])

    const before = ca.exchanges.length
    t.equal(await authorize(running), 'ready')
    t.same(askedSince(ca, before), ['order'], 'that it still is')
    const from = ca.exchanges.length
    t.ok(await obtain(running), 'a certificate for the key of the caller')
    t.same(askedSince(ca, from), FINALIZING)
    t.ok(await obtain(running), 'another key has an order of its own')
    t.same([ca.count('newOrder'), ca.count('finalize'), ca.issued()], [2, 2, 2])
  }
})

t.test('a certificate for a key of ours takes it over as well', async (t) => {
  const { ca, running } = await startAcme(t)
  await authorize(running)
  const from = ca.exchanges.length
  const { status } = await running.call('POST', '/api/certificate', { domain: NAME })
  t.equal(status, 200)
  t.same(askedSince(ca, from), FINALIZING)
})

t.test('the embedded CA has nothing to prove', async (t) => {
  t.equal(await authorize(await start(t)), 'ready')
})

t.test('two keys at once: one has the prepared order, and the other its own', async (t) => {
  for (const reuseOrders of [true, false]) {
    const { ca, running } = await startAcme(t, { reuseOrders, processing: 2 })
    await authorize(running)
    t.same(await Promise.all([obtain(running), obtain(running)]), [true, true])
    t.same([ca.count('newOrder'), ca.count('finalize'), ca.issued()], [2, 2, 2])
  }
})

t.test('whoever asks meanwhile takes over what is being prepared', async (t) => {
  for (const reuseOrders of [true, false]) {
    const { ca, running } = await startAcme(t, { reuseOrders, validating: 2 })
    const [ready, isOwn] = await Promise.all([authorize(running), obtain(running)])
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
    const { ca, running } = await startAcme(t)
    await authorize(running)
    ca.answer('order', reply)
    t.equal(await authorize(running), 'ready')
    t.equal(ca.count('newOrder'), 2)
    ca.answer('order', reply)
    t.ok(await obtain(running))
    t.same([ca.count('newOrder'), ca.count('finalize'), ca.issued()], [3, 1, 1])
  })

t.test('callers do not wait for ever', async (t) => {
  const { promise: seen, resolve: see } = Promise.withResolvers<void>()
  const { promise: decided, resolve: decide } = Promise.withResolvers<undefined>()
  const validate = () => {
    see()
    return decided
  }
  const { ca, running, clock } = await startAcme(t, { validate })
  const early = authorize(running)
  await seen
  await clock.advance(WAIT)
  t.equal(await early, 'working')
  decide(undefined)
  t.equal(await authorize(running), 'ready')
  t.equal(ca.count('newOrder'), 1)
})

t.test('a failure is told, and not repeated before its time', async (t) => {
  let verdict: string | undefined = 'unauthorized'
  const { ca, running, clock } = await startAcme(t, { validate: async () => verdict })
  const failure = { name: 'IssueError', code: 'ACME_UNAUTHORIZED', retryAfter: 60 }
  await t.rejects(authorize(running), failure)
  const asked = ca.exchanges.length
  await t.rejects(authorize(running), failure)
  t.equal(ca.exchanges.length, asked)
  verdict = undefined
  await clock.advance(60_000)
  t.equal(await authorize(running), 'ready')
  t.ok(await obtain(running))
})

t.test('what failed is not told any more once there is a certificate', async (t) => {
  let verdict: string | undefined = 'unauthorized'
  const { running } = await startAcme(t, { validate: async () => verdict })
  await t.rejects(authorize(running), { code: 'ACME_UNAUTHORIZED' })
  t.equal((await failedOrders(running.service.store)).length, 1)
  verdict = undefined
  t.ok(await obtain(running))
  t.same(await failedOrders(running.service.store), [])
})

t.test('an order that is half proven is taken over as it is', async (t) => {
  const { ca, running } = await startAcme(t, { reuseOrders: true })
  ca.always('authorization', problem(500, 'serverInternal'))
  await t.rejects(authorize(running), { code: 'ACME_SERVER_INTERNAL' })
  ca.always('authorization')
  t.ok(await obtain(running), 'although it was to be tried again later')
  t.same([ca.count('newOrder'), ca.count('finalize')], [1, 1])
})

t.test('the fallback of an issuer that is away is ready', async (t) => {
  const { ca, running } = await startAcme(t, {}, { issuerOptions: { fallback: 'ca' } })
  ca.always('newOrder', problem(500, 'serverInternal'))
  t.equal(await authorize(running), 'ready')
})

t.test('limits refuse before the CA is asked', async (t) => {
  const limits = { domain: { count: 5, per: '7d' } }
  const config = { limits: { perCaller: { burst: 2, issuancesPerMinute: 1 } } }
  const { ca, running } = await startAcme(t, {}, { issuerOptions: { limits }, config })
  t.equal(await authorize(running), 'ready')
  const share =
    /the limit of acme is used up: 1 certificates in 7d for example.com by one caller that is no/
  await t.rejects(authorize(running, CALLER, 'b.example.com'), {
    code: 'CERT_RATE_LIMITED',
    message: share,
    retryAfter: 3600,
  })
  t.ok(await obtain(running), 'what is prepared is the share')
  await t.rejects(authorize(running, CALLER, 'c.example.com'), { code: 'CERT_CALLER_LIMITED' })
  t.equal(ca.count('newOrder'), 1)
  t.equal(await authorize(running, OPERATOR, 'b.example.com'), 'ready', 'operators have no share')
})

t.test('what the share of one caller refused is still refused to it alone', async (t) => {
  const limits = { domain: { count: 10, per: '7d' } }
  const { ca, running, clock } = await startAcme(t, {}, { issuerOptions: { limits } })
  const { issuance } = running.service
  const names = ['a', 'b', 'c', 'd'].map((label) => `${label}.example.com`)
  const asked = await Promise.allSettled(names.map((name) => obtain(running, CALLER, name)))
  t.equal(asked.filter(({ status }) => status === 'fulfilled').length, 3)
  const last = names[asked.findIndex(({ status }) => status === 'rejected')] ?? ''
  await clock.advance(DAY)
  await issuance.resume()
  await settle(() => issuance.flights.size === 0)
  t.equal(ca.count('newOrder'), 3, 'it is not taken up by itself before its time')

  const byKeyOfOurs = async (by: Actor) => issuance.obtain(requestFor(running, undefined, last), by)
  const limited = { code: 'CERT_RATE_LIMITED' }
  await t.rejects(byKeyOfOurs(CALLER), limited)
  await t.rejects(byKeyOfOurs(CALLER), limited)
  // Whoever waits for a caller that is refused is asked for by itself.
  const [refused, other] = await Promise.allSettled([CALLER, { actor: 'psk:b' }].map(byKeyOfOurs))
  t.match([refused?.status, other?.status], ['rejected', 'fulfilled'])
  t.equal(ca.count('newOrder'), 4)
  t.ok(await obtain(running, OPERATOR, 'e.example.com'))
})

t.test('a dry run shows the shares', async (t) => {
  const config = {
    auth: { psk: { keys: [{ name: 'web', key: WEB, domains: ['*.example.com'] }] } },
  }
  const limits = { domain: { count: 10, per: '7d' } }
  const { running } = await startAcme(t, {}, { issuerOptions: { limits }, config })
  const ask = async (name: string, query = '') => {
    const headers = { authorization: `APIKey ${WEB}` }
    const body = { domain: `${name}.example.com` }
    return (await running.call('POST', `/api/certificate${query}`, body, headers)).body
  }
  for (const name of ['a', 'b', 'c']) await ask(name)
  const own = 'example.com by one caller that is no operator'
  const kept = 'example.com, without 3 for renewals'
  t.match(await ask('d', '?dryRun=true'), {
    budgets: [
      { limit: 'domain', subject: kept, left: 4, count: 10 },
      { limit: 'domain', subject: own, left: 0, count: 3 },
    ],
    obstacles: ['the limit `domain` for example.com by one caller that is no operator is used up'],
  })
  t.match(await ask('d'), {
    code: 'CERT_RATE_LIMITED',
    detail: /3 .* by one caller/,
    action: /an operator can/,
  })
})

t.test('what nobody finalizes ends by itself', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  const { store, issuance } = running.service
  await authorize(running)
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
  const { ca, running } = await startAcme(t, { validate }, { folder, clock })
  const early = authorize(running)
  await seen
  await running.close()
  t.equal(await early, 'working')
  decide(undefined)
  const { running: next } = await startAcme(t, {}, { ca, folder, clock })
  await next.service.issuance.resume()
  await settle(() => next.service.issuance.flights.size === 0)
  const from = ca.exchanges.length
  t.ok(await obtain(next))
  t.notOk(askedSince(ca, from).includes('newOrder'))
  t.same([ca.count('newOrder'), ca.count('finalize')], [1, 1])
})
