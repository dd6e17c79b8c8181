import { generateP256 } from '@gatehouse/pki'
import t from 'tap'
import { newAccount, type RequestSigner } from '../../src/index.ts'
import { readOrder } from '../../src/protocol/order.ts'
import { connect, enrol, problem } from '../helpers.ts'
import type { Reply } from '../scripted-ca/index.ts'

const signer = (): RequestSigner => ({ key: generateP256().privateKey })
const register = (who: RequestSigner) => newAccount(who.key, {})
const busy = (retryAfter: string, status = 503): Reply =>
  problem(status, 'rateLimited', { 'retry-after': retryAfter })

t.test('a request is signed, typed and named', async (t) => {
  const { ca, transport } = await connect(t)
  await transport.send(register(signer()), signer())
  t.match(ca.exchanges.at(-1), {
    method: 'POST',
    headers: { 'content-type': 'application/jose+json', 'user-agent': 'gatehouse-test/1.0' },
    header: { alg: 'ES256', url: new URL('/v1/newAccount', ca.directoryUrl).href },
  })
})

t.test('uses no nonce twice, however often a request is repeated', async (t) => {
  const { ca, transport } = await connect(t)
  const who = signer()
  const badNonce = problem(400, 'badNonce')
  ca.answer('newAccount', badNonce, busy('1'), badNonce)
  await transport.send(register(who), who)
  await Promise.all([1, 2, 3].map(() => transport.send(register(who), who)))
  const nonces = ca.exchanges.flatMap(({ header }) => header.nonce ?? [])
  t.equal(nonces.length, 7)
  t.equal(new Set(nonces).size, nonces.length)
})

t.test('needs one more request if the CA has forgotten all nonces', async (t) => {
  const { ca, transport } = await connect(t)
  const who = signer()
  await Promise.all([1, 2, 3, 4].map(() => transport.send(register(who), who)))
  ca.forgetNonces()
  const before = ca.exchanges.length
  await transport.send(register(who), who)
  t.strictSame(
    ca.exchanges.slice(before).map(({ kind }) => kind),
    ['newAccount', 'newAccount'],
  )
  const then = ca.exchanges.length
  await Promise.all([1, 2].map(() => transport.send(register(who), who)))
  t.strictSame(
    ca.exchanges
      .slice(then)
      .map(({ kind }) => kind)
      .toSorted(),
    ['newAccount', 'newAccount', 'newNonce'],
    'the others that it gave before are not tried',
  )
})

t.test('keeps 32 nonces at most', async (t) => {
  const { ca, transport } = await connect(t)
  const who = signer()
  const sendForty = () =>
    Promise.all(Array.from({ length: 40 }, () => transport.send(register(who), who)))
  await sendForty()
  t.equal(ca.count('newNonce'), 40)
  await sendForty()
  t.equal(ca.count('newNonce'), 48)
})

t.test('a nonce that is not base64url is none', async (t) => {
  const { ca, transport } = await connect(t)
  const who = signer()
  ca.answer('newNonce', { headers: { 'replay-nonce': 'a b' } })
  await t.rejects(transport.send(register(who), who), {
    code: 'ACME_ANSWER_INVALID',
    message: /without a nonce/,
  })
})

t.test('retries what may succeed', async (t) => {
  const storm = Array.from({ length: 20 }, () => problem(400, 'badNonce'))
  const rows: [what: string, replies: Reply[], code: string | undefined, attempts: number][] = [
    ['a bad nonce', [problem(400, 'badNonce')], undefined, 2],
    ['a storm of bad nonces', storm, 'ACME_BAD_NONCE', 6],
    ['503 for a second', [busy('1')], undefined, 2],
    ['429 for ten seconds', [busy('10', 429)], undefined, 2],
    ['503 for ever', Array.from({ length: 20 }, () => busy('0')), 'ACME_RATE_LIMITED', 6],
    ['429 for an hour', [busy('3600', 429)], 'ACME_RATE_LIMITED', 1],
    ['503 without Retry-After', [{ status: 503, body: 'busy' }], 'ACME_SERVER_INTERNAL', 1],
    ['500', [problem(500, 'serverInternal')], 'ACME_SERVER_INTERNAL', 1],
    ['a refusal', [problem(403, 'unauthorized')], 'ACME_UNAUTHORIZED', 1],
    ['404', [problem(404, 'malformed')], 'ACME_MALFORMED', 1],
    [
      'a redirect',
      [{ status: 307, headers: { location: '/v1/newAccount' } }],
      'ACME_ANSWER_INVALID',
      1,
    ],
    ['a page', [{ body: '<html>sign in</html>' }], 'ACME_ANSWER_INVALID', 1],
    ['an endless answer', [{ body: 'x'.repeat(300_000) }], 'ACME_ANSWER_INVALID', 1],
    [
      'an account without URL',
      [{ status: 201, body: { status: 'valid' } }],
      'ACME_ANSWER_INVALID',
      1,
    ],
    ['a closed connection', ['reset'], 'ACME_UNREACHABLE', 1],
  ]
  for (const [what, replies, code, attempts] of rows) {
    const { ca, transport } = await connect(t)
    const who = signer()
    ca.answer('newAccount', ...replies)
    const sent = transport.send(register(who), who)
    if (code) await t.rejects(sent, { code }, what)
    else t.equal((await sent).status, 'valid', what)
    t.equal(ca.count('newAccount'), attempts, `${what}: attempts`)
  }
})

t.test('waits for Retry-After, and reports it if it is too long', async (t) => {
  const { ca, clock, transport } = await connect(t)
  const who = signer()
  const start = clock.now()
  ca.answer('newAccount', busy('7'))
  await transport.send(register(who), who)
  t.equal(clock.now() - start, 7000)
  ca.answer('newAccount', busy('3600', 429))
  await t.rejects(transport.send(register(who), who), {
    code: 'ACME_RATE_LIMITED',
    retryAfterMs: 3_600_000,
  })
  const other = await connect(t)
  other.ca.answer('newNonce', { status: 503, headers: { 'retry-after': '60' } })
  await t.rejects(other.transport.send(register(who), who), {
    code: 'ACME_SERVER_INTERNAL',
    retryAfterMs: 60_000,
  })
})

t.test('gives up on a missing response in time, or at an abort', async (t) => {
  const { ca, transport } = await connect(t, {}, 50)
  const who = signer()
  ca.answer('newAccount', 'hang', 'hang')
  await t.rejects(transport.send(register(who), who), { code: 'ACME_TIMEOUT' })
  const patient = await connect(t)
  for (const kind of ['directory', 'newNonce', 'newAccount'] as const) {
    patient.ca.answer(kind, 'hang')
    const stop = new AbortController()
    const sent = patient.transport.send(register(who), who, stop.signal)
    while (patient.ca.count(kind) === 0) await new Promise(setImmediate)
    stop.abort(new Error(`stopped at ${kind}`))
    await t.rejects(sent, { message: `stopped at ${kind}` })
    if (kind === 'directory') Object.assign(patient, await connect(t))
  }
  await t.rejects(transport.send(register(who), who, AbortSignal.abort(new Error('before'))), {
    message: 'before',
  })
})

t.test('reads the directory once for all callers, and again after an hour', async (t) => {
  const { ca, clock, transport } = await connect(t)
  await Promise.all([1, 2, 3].map(() => transport.directory()))
  t.equal(ca.count('directory'), 1)
  await new Promise<void>((resolve) => clock.setTimer(resolve, 3_600_001))
  await transport.directory()
  t.equal(ca.count('directory'), 2)
})

t.test('reads the directory again after a failure', async (t) => {
  const rows: [what: string, reply: Reply, code: string][] = [
    ['a fault', { status: 500, body: '' }, 'ACME_SERVER_INTERNAL'],
    ['another document', { body: { newNonce: 'https://ca.example/' } }, 'ACME_ANSWER_INVALID'],
    [
      'plain http',
      { body: { newNonce: 'http://ca.example/', newAccount: '/', newOrder: '/' } },
      'ACME_ANSWER_INVALID',
    ],
    [
      'terms of service that are no URL',
      { body: { newNonce: '/', newAccount: '/', newOrder: '/', meta: { termsOfService: 'a\nb' } } },
      'ACME_ANSWER_INVALID',
    ],
  ]
  const { ca, transport } = await connect(t)
  for (const [what, reply, code] of rows) {
    ca.answer('directory', reply)
    await t.rejects(transport.directory(), { code }, what)
  }
  t.match(await transport.directory(), { newOrder: URL })
})

t.test('URLs that have moved are found again', async (t) => {
  const { ca, transport, io } = await enrol(t)
  ca.move()
  const found = newAccount(io.account.key, { onlyReturnExisting: true })
  t.equal((await transport.send(found, { key: io.account.key })).url, io.account.accountUrl)
  t.equal(ca.count('directory'), 2)
})

t.test('a missing order says nothing about the directory', async (t) => {
  const { ca, transport, io } = await enrol(t)
  const missing = readOrder(`${ca.directoryUrl.origin}/v1/order/missing`)
  await t.rejects(transport.send(missing, io.account), { code: 'ACME_MALFORMED' })
  await transport.directory()
  t.equal(ca.count('directory'), 1)
})

t.test('does not guess a resource that the directory lacks', async (t) => {
  const { ca, transport } = await connect(t)
  const url = ca.directoryUrl.href
  ca.answer('directory', { body: { newNonce: url, newAccount: url, newOrder: url } })
  const call = { to: 'keyChange', payload: () => ({}), process: () => {} } as const
  await t.rejects(transport.send(call, signer()), { code: 'ACME_NOT_OFFERED' })
})

t.test('reads the directory of the CA', async (t) => {
  const meta = { termsOfService: 'https://ca.example/tos', profiles: { short: 'six days' } }
  const { transport } = await connect(t, meta)
  t.match((await transport.directory()).meta, { ...meta, externalAccountRequired: false })
})

t.test('names the pages that a person has to see (RFC 8555 section 7.3.3)', async (t) => {
  const instance = 'https://ca.example/agree'
  const rows: [link: string | undefined, shown: string][] = [
    ['<https://ca.example/7>;rel="terms-of-service"', `(${instance}, https://ca.example/7)`],
    [
      '<https://ca.example/d>;rel="index", <https://ca.example/agree>;rel="terms-of-service"',
      `(${instance})`,
    ],
    ['<javascript:x>;rel="terms-of-service"', `(${instance})`],
    [undefined, `(${instance})`],
  ]
  for (const [link, shown] of rows) {
    const { ca, transport } = await connect(t)
    const reply = problem(403, 'userActionRequired', link === undefined ? {} : { link })
    ca.answer('newAccount', { ...Object(reply), body: { ...Object(Object(reply).body), instance } })
    const who = signer()
    const error = await transport.send(register(who), who).catch((thrown) => thrown)
    t.equal(error.code, 'ACME_USER_ACTION_REQUIRED')
    t.ok(error.message.endsWith(shown), error.message)
  }
})
