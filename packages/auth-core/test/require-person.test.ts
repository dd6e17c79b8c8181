import fc from 'fast-check'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import type { AuthOptions } from '../src/index.ts'
import {
  AUDIENCE,
  assertion,
  assertionClaims,
  encode,
  fakeIssuer,
  ISSUER,
  issue,
  NOW,
  ORIGIN,
  PORTAL,
  signingKey,
  startApp,
  token,
} from './kit.ts'

const es = signingKey('ES256', 'es')
const next = signingKey('ES256', 'next')
const ed = signingKey('EdDSA', 'ed')
const rs = signingKey('RS256', 'rs')
const trusted: AuthOptions = { assertion: { issuerUrl: PORTAL, audience: ORIGIN } }
const machines: AuthOptions = {
  psk: { key: 'correct-horse-battery-staple' },
  jwt: { issuers: [{ issuerUrl: ISSUER, audience: [AUDIENCE, ORIGIN] }] },
}

async function setup(t: Test, options: AuthOptions = trusted) {
  const portal = fakeIssuer({ issuer: PORTAL, keys: [es.jwk, next.jwk, ed.jwk] })
  const issuer = fakeIssuer({ keys: [rs.jwk, es.jwk] })
  const { app, clock, lines } = await startApp(t, options, portal, issuer)
  app.get('/open', (request) => request.person)
  app.get('/maybe', { onRequest: app.requirePerson({ optional: true }) }, (request) => ({
    person: request.optionalPerson?.id ?? null,
  }))
  if (options.assertion)
    app.get('/', { onRequest: app.requirePerson() }, (request) => request.person)
  if (options.psk) app.get('/api', { onRequest: app.requireCaller() }, ({ caller }) => caller)
  return { app, portal, clock, lines }
}

const get = (app: FastifyInstance, value?: string, url = '/', header = 'x-gatehouse-assertion') =>
  app.inject({ url, headers: value === undefined ? {} : { [header]: value } })

t.test('request.person is the person whom the assertion is about', async (t) => {
  const { app, portal } = await setup(t)
  const answer = await get(app, assertion(es))
  t.equal(answer.statusCode, 200)
  t.match(answer.json(), {
    provider: 'corp',
    id: '42',
    name: { full: 'Ada Lovelace' },
    email: { address: 'ada@example.com', verified: true },
    groups: ['staff', 'ops'],
    claims: { acr: 'mfa', auth_time: NOW / 1_000 - 600 },
  })
  t.strictSame(
    ['iss', 'aud', 'sid', 'method', 'provider'].filter((name) => name in answer.json().claims),
    [],
    'without claims that are not about the person',
  )
  await get(app, assertion(es))
  t.equal((await get(app, assertion(next))).statusCode, 200, 'signed with the next key')
  t.equal(portal.readings(), 1, 'and the keys are read once')
})

t.test('a person is known the next time, and cannot be changed', async (t) => {
  const { app } = await setup(t)
  const seen: unknown[] = []
  app.get('/same', { onRequest: app.requirePerson() }, ({ person }) => {
    seen.push(person)
    return [person, person.claims, person.groups, person.name, person.email].every(Object.isFrozen)
  })
  const one = assertion(es)
  for (let i = 0; i < 2; i++) t.equal((await get(app, one, '/same')).json(), true)
  t.equal(seen[0], seen[1])
})

t.test('a claim that the assertion does not hold is unknown, not missing', async (t) => {
  const { app } = await setup(t)
  app.get('/roles', { onRequest: app.requirePerson() }, ({ person }) => ({
    isAdmin: person.claims.roles !== undefined,
  }))
  const answer = await get(app, assertion(es, { _claim_names: { roles: 'unknown' } }), '/roles')
  t.match(answer, { statusCode: 500 }, 'so a decision about it fails')
})

t.test('request.person is set behind the guard only', async (t) => {
  const { app } = await setup(t)
  t.match((await get(app, assertion(es), '/open')).json(), { code: 'AUTH_NOT_GUARDED' })
})

t.test('the person may be optional', async (t) => {
  const { app } = await setup(t)
  t.strictSame((await get(app, undefined, '/maybe')).json(), { person: null })
  t.strictSame((await get(app, '', '/maybe')).json(), { person: null }, 'where anyone may pass')
  t.strictSame((await get(app, assertion(es), '/maybe')).json(), { person: '42' })
  t.equal((await get(app, 'x.y.z', '/maybe')).statusCode, 401, 'but not wrong')
})

t.test('without the option assertion', async (t) => {
  const { app } = await setup(t, machines)
  t.throws(() => app.requirePerson(), { code: 'AUTH_OPTIONS_INVALID' }, 'no guard can be made')
  const forged = await get(app, 'x.y.z', '/maybe')
  t.strictSame(forged.json(), { person: null }, 'and the header means nothing')
  app.callers.reload(trusted)
  t.strictSame((await get(app, assertion(es), '/maybe')).json(), { person: '42' }, 'until a reload')
})

t.test('an app that only has people needs neither keys nor tokens', async (t) => {
  const { app, lines } = await setup(t)
  app.get('/machines', { onRequest: app.requireCaller() }, ({ caller }) => caller)
  const bearer = { authorization: `Bearer ${issue(rs)}` }
  t.equal((await app.inject({ url: '/machines', headers: bearer })).statusCode, 401)
  t.strictSame(app.callers.methods(), [])
  t.strictSame(app.callers.status(), { degraded: [] })
  t.ok(lines.some(({ code }) => code === 'AUTH_SCHEME_UNSUPPORTED'))
})

t.test('the header may have another name', async (t) => {
  const { app } = await setup(t, { assertion: { ...trusted.assertion!, header: 'X-Who' } })
  t.equal((await get(app, assertion(es), '/', 'x-who')).statusCode, 200)
  t.match((await get(app, assertion(es))).json(), { code: 'AUTH_ASSERTION_MISSING' })
})

t.test('an app may have several origins', async (t) => {
  const audience = [ORIGIN, 'https://www.example.com']
  const { app } = await setup(t, { assertion: { ...trusted.assertion!, audience } })
  for (const aud of audience) t.equal((await get(app, assertion(es, { aud }))).statusCode, 200, aud)
})

const time = NOW / 1_000
const none = (claims: object = {}) =>
  `${encode({ alg: 'none', typ: 'gatehouse-assertion+jwt' })}.${encode({ ...assertionClaims(), ...claims })}.`
const symmetric = (secret: string) =>
  token(
    { alg: 'HS256', typ: 'gatehouse-assertion+jwt', kid: 'es' },
    assertionClaims(),
    'HS256',
    secret,
  )
const stranger = signingKey('ES256', 'es')
const good = assertion(es)
const [head, body, signature] = good.split('.')

const refused: [what: string, value: string, reason: string][] = [
  ['text', 'ada', 'the assertion is not a well-formed JWT: not three parts'],
  ['more than anybody reads', 'a'.repeat(16_385), 'the assertion is too large: 16385 characters'],
  ['no signature', none(), 'the assertion is signed with another algorithm'],
  ['the signature cut off', `${head}.${body}.`, 'the assertion has a wrong signature'],
  [
    'a secret that is the public key',
    symmetric(JSON.stringify(es.jwk)),
    'the assertion is signed with another algorithm',
  ],
  [
    'an algorithm of another key of the portal',
    assertion(signingKey('EdDSA', 'es')),
    'the assertion is signed with another algorithm',
  ],
  [
    'a key of the portal for something else',
    assertion(ed),
    'the assertion is signed with another algorithm',
  ],
  ['a key of somebody else', assertion(stranger), 'the assertion has a wrong signature'],
  [
    'a key that is not published',
    assertion(signingKey('ES256', 'x')),
    'the assertion is signed with a key that the portal does not publish',
  ],
  [
    'another person in it',
    `${head}.${encode({ ...assertionClaims(), sub: '1' })}.${signature}`,
    'the assertion has a wrong signature',
  ],
  ['crit', assertion(es, {}, { crit: ['exp'] }), 'the assertion demands an extension'],
  ['no typ', assertion(es, {}, { typ: undefined }), 'the token is not an assertion'],
  [
    'the typ of an access token',
    assertion(es, {}, { typ: 'at+jwt' }),
    'the token is not an assertion',
  ],
  ['the typ of any JWT', assertion(es, {}, { typ: 'JWT' }), 'the token is not an assertion'],
  [
    'a session token of the portal',
    assertion(es, { exp: time + 3_600, nbf: time }, { typ: 'JWT' }),
    'the token is not an assertion',
  ],
  [
    'an ID token',
    assertion(es, { nonce: 'n' }, { typ: undefined }),
    'the token is not an assertion',
  ],
  ['an access token', issue(rs), 'the assertion is from another portal: iss is'],
  [
    'another origin',
    assertion(es, { aud: 'https://other.example.com' }),
    'the assertion is for another origin: aud is',
  ],
  [
    'its origin with a slash',
    assertion(es, { aud: `${ORIGIN}/` }),
    'the assertion is for another origin: aud is',
  ],
  [
    'its origin without TLS',
    assertion(es, { aud: 'http://app.example.com' }),
    'the assertion is for another origin: aud is',
  ],
  ['no origin', assertion(es, { aud: undefined }), 'the assertion lacks a claim'],
  [
    'another portal',
    assertion(es, { iss: `${PORTAL}2` }),
    'the assertion is from another portal: iss is',
  ],
  ['no end', assertion(es, { exp: undefined }), 'the assertion lacks a claim'],
  [
    'its end 30 s ago',
    assertion(es, { iat: time - 90, exp: time - 30 }),
    'the assertion has expired',
  ],
  [
    'the future',
    assertion(es, { iat: time + 31, exp: time + 91 }),
    'the assertion is not valid yet',
  ],
  ['a program with a key', assertion(es, { method: 'psk' }), 'its subject is a program'],
  ['a program with a token', assertion(es, { method: 'jwt' }), 'its subject is a program'],
  ['no method', assertion(es, { method: undefined }), 'its subject is a program'],
  ['no provider', assertion(es, { provider: undefined }), 'the assertion lacks a claim'],
  [
    'a key that nobody proves',
    assertion(es, { cnf: { jkt: 'AAAA' } }),
    'the token is not an assertion',
  ],
  ['no person', assertion(es, { sub: undefined }), 'the claim "sub"'],
  ['more claims than anybody has', assertion(es, manyClaims()), 'more than 200 claims'],
]

function manyClaims(): object {
  return Object.fromEntries(Array.from({ length: 201 }, (_, i) => [`c${i}`, 1]))
}

t.test('what is refused', async (t) => {
  const { app, lines, portal } = await setup(t)
  t.equal((await get(app, good)).statusCode, 200)
  for (const [what, value, reason] of refused) {
    lines.length = 0
    const answer = await get(app, value)
    t.match(
      answer,
      {
        statusCode: 401,
        headers: { 'www-authenticate': `Gatehouse realm="${PORTAL}"` },
        body: /"code":"AUTH_ASSERTION_INVALID"/,
      },
      what,
    )
    const line = lines.find(({ msg }) => msg === 'caller refused')
    t.match(
      line,
      { code: 'AUTH_ASSERTION_INVALID', detail: RegExp(quoted(reason)) },
      `${what}: log`,
    )
    t.notMatch(JSON.stringify(lines), value, `${what}: without the assertion`)
    t.notMatch(
      JSON.stringify([lines, answer.body]),
      /access token|AUTH_TOKEN/i,
      `${what}: its name`,
    )
  }
  t.equal(portal.readings(), 1, 'an unknown key id makes nobody ask again at once')
})

function quoted(text: string): string {
  return text.replace(/[^\w ]/g, '\\$&')
}

t.test('an assertion counts in its header alone, once', async (t) => {
  const { app } = await setup(t)
  const missing = { statusCode: 401, body: /AUTH_ASSERTION_MISSING/ }
  t.match(await get(app), missing)
  t.match(await get(app, ''), missing, 'where anyone may pass')
  for (const name of ['x_gatehouse_assertion', 'x-gatehouse-assertion-', 'authorization', 'cookie'])
    t.match(await get(app, good, '/', name), missing, name)
  t.match(await get(app, undefined, `/?x-gatehouse-assertion=${good}`), missing)
  t.match(await get(app, `${good}, ${good}`), { body: /AUTH_ASSERTION_INVALID/ }, 'twice')
})

t.test('after 60 seconds and the skew of clocks it counts no longer', async (t) => {
  const { app, clock } = await setup(t)
  const statuses: number[] = []
  for (const at of [0, 60_000, 89_999, 90_000]) {
    clock.set(at - (clock.time - NOW))
    statuses.push((await get(app, good)).statusCode)
  }
  t.strictSame(statuses, [200, 200, 200, 401], 'also if it was known')
  clock.set(-120_001)
  t.equal((await get(app, good)).statusCode, 401, 'nor when the clock is set back before it')
})

t.test('a withdrawn key counts no longer', async (t) => {
  const { app, clock, portal } = await setup(t)
  t.equal((await get(app, good)).statusCode, 200)
  portal.keys = [next.jwk]
  clock.uptime += 600_000
  t.match(await get(app, good), { statusCode: 401 })
})

t.test('while the portal is unreachable nobody is admitted', async (t) => {
  const { app, portal, clock } = await setup(t)
  portal.isDown = true
  const answer = await get(app, good)
  t.match(answer, { statusCode: 503, body: /AUTH_ISSUER_UNREACHABLE/ })
  t.ok(Number(answer.headers['retry-after']) > 0)
  t.equal(answer.headers['www-authenticate'], undefined)
  t.strictSame(app.callers.status(), { degraded: [PORTAL] })
  portal.isDown = false
  clock.pass(60_000)
  t.equal((await get(app, good)).statusCode, 200)
})

t.test('of replays none is accepted', async (t) => {
  const { app } = await setup(t, { ...trusted, ...machines })
  const bearer = (value: string) => ({ url: '/api', headers: { authorization: `Bearer ${value}` } })
  const here = (value: string) => ({ url: '/', headers: { 'x-gatehouse-assertion': value } })
  t.equal((await app.inject(here(good))).statusCode, 200)
  t.equal((await app.inject(bearer(issue(rs)))).statusCode, 200)

  const key = fc.constantFrom(es, next)
  const subject = fc.string({ minLength: 1, maxLength: 20 })
  const replays = fc.oneof(
    // As an access token: of the portal, and of an issuer whose tokens are accepted.
    fc
      .tuple(key, subject, fc.constantFrom(PORTAL, ISSUER), fc.boolean())
      .map(([key, sub, iss, raw]) =>
        bearer(assertion(key, { iss, sub, ...(raw && { scope: 'a b', aud: AUDIENCE }) })),
      ),
    // At another origin.
    fc
      .tuple(key, fc.webUrl({ validSchemes: ['http', 'https'] }))
      .filter(([, aud]) => aud !== ORIGIN)
      .map(([key, aud]) => here(assertion(key, { aud }))),
    // Too late, and too early.
    fc
      .tuple(key, fc.integer({ min: 90, max: 1e9 }))
      .map(([key, age]) => here(assertion(key, { iat: time - age, exp: time - age + 60 }))),
    fc
      .tuple(key, fc.integer({ min: 31, max: 1e9 }))
      .map(([key, ahead]) => here(assertion(key, { iat: time + ahead, exp: time + ahead + 60 }))),
    // Altered: one character of it is another one.
    fc
      .tuple(fc.nat(good.length - 1), fc.constantFrom(...'AZaz09-_.=, '))
      .filter(([at, char]) => good[at] !== char)
      .map(([at, char]) => here(good.slice(0, at) + char + good.slice(at + 1))),
    // Other claims under the same signature.
    fc
      .tuple(subject, fc.array(fc.string()))
      .map(([sub, groups]) =>
        here(`${head}.${encode({ ...assertionClaims(), sub, groups })}.${signature}`),
      ),
    // A token of another kind, signed with the same key.
    fc
      .tuple(key, fc.constantFrom('JWT', 'at+jwt', 'logout+jwt', undefined, ''))
      .map(([key, typ]) => here(assertion(key, {}, { typ }))),
    // That of a program.
    fc.tuple(key, subject).map(([key, method]) => here(assertion(key, { method: `${method}-` }))),
  )
  const admitted: unknown[] = []
  await fc.assert(
    fc.asyncProperty(replays, async (request) => {
      const { statusCode } = await app.inject(request)
      if (statusCode !== 401) admitted.push([request, statusCode])
    }),
    { numRuns: 1_000 },
  )
  t.strictSame(admitted, [])
})

t.test('beside API keys in @fastify/auth', async (t) => {
  const { app } = await setup(t, { ...trusted, ...machines })
  const { default: fastifyAuth } = await import('@fastify/auth')
  await app.register(fastifyAuth)
  const either = app.auth([app.requirePerson(), app.requireCaller()])
  app.get('/either', { onRequest: either }, (request) => ({
    person: request.optionalPerson?.id,
    caller: request.optionalCaller?.subject,
  }))
  await app.ready()
  t.strictSame((await get(app, good, '/either')).json(), { person: '42' })
  const key = { authorization: 'APIKey correct-horse-battery-staple' }
  const byKey = await app.inject({ url: '/either', headers: key })
  t.strictSame(byKey.json(), { caller: 'default' })
  t.equal(byKey.headers['www-authenticate'], undefined, 'the refusal of the first is taken back')
  t.match(await get(app, undefined, '/either'), { statusCode: 401 })
})
