import { createPublicKey, type JsonWebKey, verify } from 'node:crypto'
import { fromClaims } from '@gatehouse/profile'
import fc from 'fast-check'
import { createLocalJWKSet, jwtVerify } from 'jose'
import t from 'tap'
import {
  signingKey,
  signToken,
} from '../../../../packages/identity-providers/test/stand-ins/tokens.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { DOMAINS, portalOf, SHARED_DOMAIN, startApp, type TestApp, yamlOf } from '../app.ts'
import { BROWSER, SHAPES, type Shape } from '../shapes.ts'

const RUNS = Number(process.env.GATEHOUSE_FUZZ ?? 20_000) / 100
const TRAEFIK = SHAPES.find(({ proxy }) => proxy.startsWith('traefik')) as Shape
const HEADER = 'x-gatehouse-assertion'
const MAIN = 'https://auth.example.com/portals/main'
const CLAIMS = {
  name: 'Ada Lovelace',
  given_name: 'Ada',
  preferred_username: 'ada.l',
  email: 'ada@example.com',
  email_verified: true,
  groups: ['staff', 'ops'],
  roles: ['oncall'],
  department: 'R&D',
  salary: 7,
  acr: 'mfa',
  amr: ['pwd', 'otp'],
  auth_time: 1_893_450_000,
}

const YAML = yamlOf(
  portalOf('main', 'assertion: { hosts: ["*.example.com"], claims: [department] }') +
    portalOf('other', 'assertion: { hosts: [app.example.com] }') +
    portalOf('none') +
    portalOf(
      'renamed',
      'assertion: { hosts: [app.example.com], header: X-Who }, preflight: true, rules: [{ paths: [/open], require: anyone }]',
    ),
)

/** The same, with one cookie for all hosts. */
const SHARED_YAML = YAML.replace(DOMAINS, SHARED_DOMAIN)

interface Decoded {
  readonly header: Record<string, unknown>
  readonly claims: Record<string, unknown>
}

function decode(token: unknown): Decoded {
  const [header, claims] = String(token)
    .split('.')
    .slice(0, 2)
    .map((part) => JSON.parse(Buffer.from(part, 'base64url').toString()))
  return { header, claims }
}

const headersFor = (cookie: string, host = 'app.example.com') => ({
  Cookie: cookie,
  Accept: 'application/json',
  'X-Forwarded-Method': 'GET',
  'X-Forwarded-Host': host,
})

async function assertionOf(
  { check }: TestApp,
  cookie: string,
  { portal = 'main', host }: { portal?: string; host?: string } = {},
): Promise<string> {
  const { headers } = await check(TRAEFIK, headersFor(cookie, host), { portal })
  return String(headers[HEADER])
}

async function keysOf({ app }: TestApp): Promise<(JsonWebKey & { kid: string })[]> {
  const { body } = await app.inject('/portals/main/.well-known/jwks.json')
  return JSON.parse(body).keys
}

/** A clock that is set, and has no timers: those of a month would take long. */
function settableClock(now = Date.UTC(2030, 0, 1)) {
  return {
    now: () => now,
    set(time: number) {
      now = time
    },
    setTimer: () => ({ cancel() {} }),
  }
}

/** As any JWT library verifies a signature. */
function isSigned(token: string, jwk: JsonWebKey | undefined): boolean {
  const [header, claims, signature = ''] = token.split('.')
  if (!jwk) return false
  const key = createPublicKey({ key: jwk, format: 'jwk' })
  const bytes = Buffer.from(signature, 'base64url')
  return verify(
    'sha256',
    Buffer.from(`${header}.${claims}`),
    { key, dsaEncoding: 'ieee-p1363' },
    bytes,
  )
}

t.test('an assertion says who sends a request, to one app, for a minute', async (t) => {
  const test = await startApp(t, YAML)
  const token = await assertionOf(test, await test.signIn('main', CLAIMS))
  const { header, claims } = decode(token)
  const iat = Math.floor(test.clock.now() / 1_000)
  const { sid, ...rest } = claims
  t.strictSame(rest, {
    iss: MAIN,
    aud: 'https://app.example.com',
    sub: 'ada',
    iat,
    exp: iat + 60,
    method: 'session',
    provider: 'corp',
    name: 'Ada Lovelace',
    given_name: 'Ada',
    preferred_username: 'ada.l',
    email: 'ada@example.com',
    email_verified: true,
    groups: ['staff', 'ops'],
    roles: ['oncall'],
    department: 'R&D',
    acr: 'mfa',
    amr: ['pwd', 'otp'],
    auth_time: 1_893_450_000,
  })
  t.match(sid, /^[\w-]{22}$/)
  const keys = await keysOf(test)
  t.match(header, { alg: 'ES256', typ: 'gatehouse-assertion+jwt', kid: keys[0]?.kid })
  t.ok(isSigned(token, keys[0]))
  const profile = fromClaims('corp', claims)
  t.match(profile, { id: 'ada', groups: ['staff', 'ops'], email: { verified: true } })
})

t.test('each proxy gets it, and a preflight or open path an empty one', async (t) => {
  const { check, signIn } = await startApp(t, YAML)
  const cookie = await signIn('renamed', CLAIMS)
  for (const shape of SHAPES) {
    const { headers } = await check(
      shape,
      { Cookie: cookie, 'X-Who': 'root' },
      { portal: 'renamed' },
    )
    t.equal(decode(headers['x-who']).claims.aud, 'https://app.example.com', shape.proxy)
  }
  const preflight = {
    'X-Forwarded-Method': 'OPTIONS',
    Origin: 'https://x.example.com',
    'Access-Control-Request-Method': 'PUT',
  }
  const bare = await check(TRAEFIK, preflight, { portal: 'renamed' })
  t.match([bare.statusCode, bare.headers['x-who']], [200, ''])
  const open = await check(TRAEFIK, { 'X-Forwarded-Uri': '/open' }, { portal: 'renamed' })
  t.match([open.statusCode, open.headers['x-who'], open.headers['x-forwarded-user']], [200, '', ''])
  for (const [query, status] of [
    ['?policy=any', 200],
    ['?if=true', 403],
  ] as const) {
    const answer = await check(
      TRAEFIK,
      { ...BROWSER, 'X-Forwarded-Uri': '/open' },
      { portal: 'renamed', query },
    )
    t.equal(answer.statusCode, status, `${query}: any is no policy, and a condition is one`)
  }
  const known = await check(
    TRAEFIK,
    { 'X-Forwarded-Uri': '/open', Cookie: cookie },
    { portal: 'renamed' },
  )
  t.match(known.headers['x-forwarded-user'], 'ada', 'who is known there is named')
  const none = await check(TRAEFIK, headersFor(await signIn('none', CLAIMS)), { portal: 'none' })
  t.match([none.statusCode, none.headers[HEADER]], [200, undefined], 'none by default')
})

t.test('only the apps whose hosts are named get an assertion', async (t) => {
  const hosts = 'assertion: { hosts: [app.example.com, "*.in.example.com"] }'
  const yaml = yamlOf(portalOf('main', hosts)).replace(DOMAINS, SHARED_DOMAIN)
  const { check, signIn } = await startApp(t, yaml)
  const cookie = await signIn('main')
  const rows: [host: string, isFor: boolean][] = [
    ['app.example.com', true],
    ['APP.example.com:8443', true],
    ['a.in.example.com', true],
    ['b.a.in.example.com', true],
    ['in.example.com', false],
    ['other.example.com', false],
    ['app.example.com.in.example.com', true],
    ['notapp.example.com', false],
  ]
  for (const [host, isFor] of rows)
    for (const client of [{}, { 'X-Gatehouse-Assertion': 'a.b.c' }]) {
      const { statusCode, headers } = await check(TRAEFIK, {
        ...headersFor(cookie, host),
        ...client,
      })
      t.equal(statusCode, 200, host)
      // Empty, so that a proxy takes off what the client sent.
      t.match(headers[HEADER], isFor ? /^ey[\w-]+\.[\w-]+\.[\w-]+$/ : /^$/, host)
    }
})

t.test('the audience is the origin of the app', async (t) => {
  const test = await startApp(t, YAML)
  const rows: [headers: Record<string, string>, aud: string][] = [
    [{ 'X-Forwarded-Host': 'APP.example.com.' }, 'https://app.example.com'],
    [{ 'X-Forwarded-Host': 'app.example.com:443' }, 'https://app.example.com'],
    [{ 'X-Forwarded-Host': 'app.example.com:8443' }, 'https://app.example.com:8443'],
    [{ 'X-Forwarded-Host': 'app.example.com:80' }, 'https://app.example.com:80'],
    [{ 'X-Forwarded-Proto': 'http' }, 'http://app.example.com'],
    [{ 'X-Forwarded-Proto': 'wss' }, 'https://app.example.com'],
  ]
  for (const [headers, aud] of rows) {
    const cookie = await test.signIn('main', {}, { host: new URL(aud).host })
    const answer = await test.check(TRAEFIK, { ...headersFor(cookie), ...headers })
    t.equal(decode(answer.headers[HEADER]).claims.aud, aud, JSON.stringify(headers))
  }
})

t.test('apps cannot join what they know of a session', async (t) => {
  const test = await startApp(t, SHARED_YAML)
  const cookie = await test.signIn('main')
  const sidAt = async (host: string, of = cookie) =>
    decode(await assertionOf(test, of, { host })).claims.sid
  const [a, again, b] = [
    await sidAt('a.example.com'),
    await sidAt('a.example.com'),
    await sidAt('b.example.com'),
  ]
  t.equal(a, again)
  t.not(a, b)
  t.not(a, await sidAt('a.example.com', await test.signIn('main')), 'another session of the person')
  const { sid } = decode(cookie.split('=')[1]).claims
  t.notOk([a, b].includes(sid as string))
})

t.test('the same one is sent for half a minute', async (t) => {
  const test = await startApp(t, SHARED_YAML)
  const cookie = await test.signIn('main')
  const first = await assertionOf(test, cookie)
  await test.clock.advance(29_999)
  t.equal(await assertionOf(test, cookie), first)
  const other = decode(await assertionOf(test, cookie, { host: 'b.example.com' }))
  t.equal(other.claims.aud, 'https://b.example.com')
  await test.clock.advance(1)
  const second = await assertionOf(test, cookie)
  t.not(second, first)
  t.equal(Number(decode(second).claims.exp), Math.floor(test.clock.now() / 1_000) + 60)
})

t.test('it ends with the session', async (t) => {
  const clock = settableClock()
  const test = await startApp(t, YAML, () => {}, { clock })
  const cookie = await test.signIn('main')
  const { exp } = decode(cookie.split('=')[1]).claims
  clock.set(Number(exp) * 1_000 - 10_000)
  t.equal(decode(await assertionOf(test, cookie)).claims.exp, exp)
})

t.test('long claims are left out, and named', async (t) => {
  expectWarnings(t, 'more groups than fit into headers')
  const test = await startApp(t, YAML)
  const groups = Array.from({ length: 150 }, (_, i) => `group-${i}-of-the-firm`)
  const roles = ['oncall']
  const token = await assertionOf(test, await test.signIn('main', { ...CLAIMS, groups, roles }))
  const { claims } = decode(token)
  t.ok(token.length <= 4_096)
  t.match(claims, { roles, groups: undefined, _claim_names: { groups: 'unknown' } })
  t.throws(() => fromClaims('corp', claims).claims.groups, { code: 'PROFILE_CLAIM_UNKNOWN' })
  const both = await assertionOf(
    test,
    await test.signIn('main', { ...CLAIMS, groups, roles: groups }),
  )
  t.match(decode(both).claims._claim_names, { groups: 'unknown', roles: 'unknown' })
  const unknown = await assertionOf(
    test,
    await test.signIn('main', { _claim_names: { groups: 'x' } }),
  )
  t.match(decode(unknown).claims._claim_names, { groups: 'unknown' }, 'as at the provider')
})

t.test('keys change by the clock, and are published before and after', async (t) => {
  const MONTH = 30 * 24 * 3_600_000
  const begin = 100 * MONTH
  const clock = settableClock(begin + MONTH / 2)
  const test = await startApp(t, YAML, () => {}, { clock })
  const [present, next, ...others] = await keysOf(test)
  t.strictSame(others, [])
  t.strictSame(Object.keys(present!).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'])
  clock.set(begin + MONTH - 1_000)
  const last = await assertionOf(test, await test.signIn('main'))
  t.ok(isSigned(last, present))
  clock.set(begin + MONTH)
  const [now, later, former] = await keysOf(test)
  t.strictSame(
    [now, former],
    [next, present],
    'with the last one, whose assertions are valid still',
  )
  t.ok(isSigned(await assertionOf(test, await test.signIn('main')), now))
  clock.set(begin + MONTH + 3_600_000)
  t.strictSame(await keysOf(test), [now, later])
})

t.test('libraries find the keys by the URL of the portal', async (t) => {
  const { app } = await startApp(t, YAML)
  const url = '/portals/main/.well-known/openid-configuration'
  const found = await app.inject({ url, headers: { host: 'auth.example.com' } })
  t.match(found.headers['cache-control'], 'max-age=3600')
  t.match(found.json(), {
    issuer: MAIN,
    jwks_uri: `${MAIN}/.well-known/jwks.json`,
    id_token_signing_alg_values_supported: ['ES256'],
  })
  const elsewhere = await app.inject({ url, headers: { host: 'app.example.com' } })
  t.equal(elsewhere.json().code, 'FWA_HOST_UNKNOWN')
  for (const path of ['openid-configuration', 'jwks.json']) {
    const missing = await app.inject({
      url: `/portals/nope/.well-known/${path}`,
      headers: { host: 'auth.example.com' },
    })
    t.match([missing.statusCode, missing.json().code], [404, 'FWA_NOT_FOUND'])
  }
})

t.test('jose verifies an assertion by what the portal publishes', async (t) => {
  const test = await startApp(t, YAML)
  const token = await assertionOf(test, await test.signIn('main', CLAIMS))
  const jwks = (await test.app.inject('/portals/main/.well-known/jwks.json')).json()
  const expected = {
    issuer: MAIN,
    audience: 'https://app.example.com',
    typ: 'gatehouse-assertion+jwt',
    algorithms: ['ES256'],
    currentDate: new Date(test.clock.now()),
  }
  const { payload } = await jwtVerify(token, createLocalJWKSet(jwks), expected)
  t.match(payload, { sub: 'ada', method: 'session', groups: ['staff', 'ops'] })
  const elsewhere = { ...expected, audience: 'https://b.example.com' }
  await t.rejects(jwtVerify(token, createLocalJWKSet(jwks), elsewhere), {
    code: 'ERR_JWT_CLAIM_VALIDATION_FAILED',
  })
})

t.test('verify takes assertions of the portal', async (t) => {
  const test = await startApp(t, YAML)
  const APP = 'https://app.example.com'
  const verifyAt = async (token: string, portal = 'main', query = `?aud=${APP}`) => {
    const url = `/api/portals/${portal}/verify${query}`
    const answer = await test.app.inject({ url, headers: { authorization: `Bearer ${token}` } })
    return { status: answer.statusCode, ...answer.json() }
  }
  const token = await assertionOf(test, await test.signIn('main', CLAIMS))
  const valid = await verifyAt(token)
  t.match(valid, {
    status: 200,
    valid: true,
    portal: 'main',
    provider: 'corp',
    claims: { sub: 'ada', iss: MAIN, aud: ['https://app.example.com'], groups: ['staff', 'ops'] },
  })
  t.equal(valid.claims.method, 'session')
  const queries = [
    '',
    '?aud=',
    '?aud=https://b.example.com',
    `?aud=${APP}/`,
    `?aud=${APP}&aud=${APP}`,
  ]
  for (const query of queries)
    t.match((await verifyAt(token, 'main', query)).status, /^40[01]$/, `for another app: ${query}`)
  t.match(await verifyAt(token, 'other'), { status: 401, code: 'FWA_TOKEN_INVALID' })
  const forged = signToken(signingKey('x'), decode(token).claims, {
    typ: 'gatehouse-assertion+jwt',
    kid: String(decode(token).header.kid),
  })
  t.match(await verifyAt(forged), { status: 401, code: 'FWA_TOKEN_INVALID' })
  await test.clock.advance(89_000)
  t.equal((await verifyAt(token)).status, 200, 'within the difference of clocks')
  await test.clock.advance(2_000)
  t.equal((await verifyAt(token)).status, 401)
})

t.test('verify refuses an assertion whose session has ended', async (t) => {
  const test = await startApp(t, YAML)
  const status = async (token: string) => {
    const url = '/api/portals/main/verify?aud=https://app.example.com'
    const answer = await test.app.inject({ url, headers: { authorization: `Bearer ${token}` } })
    return answer.statusCode
  }
  const [first, second] = [await test.signIn('main', CLAIMS), await test.signIn('main', CLAIMS)]
  const [ended, going] = [await assertionOf(test, first), await assertionOf(test, second)]
  t.equal(await status(ended), 200)
  const sid = String(decode(first.split('=')[1]).claims.sid)
  await test.app.sessions.records.end({ sid })
  t.equal(await status(ended), 401, 'signed out')
  t.equal(await status(going), 200, 'another session of the person')
  await test.reload(YAML.replace('assertion:', `allow: 'Group("board")', assertion:`))
  t.equal(await status(going), 401, 'somebody whom the portal does not allow any more')
})

t.test('it says what the session does by now', async (t) => {
  const test = await startApp(t, YAML)
  const cookie = await test.signIn('main', CLAIMS)
  const { sessions, portals, sites } = test.app
  const first = await assertionOf(test, cookie)
  const sid = String(decode(cookie.split('=')[1]).claims.sid)
  const at = { portal: portals.get('main')!, site: sites.list[0]! }
  const { session } = (await sessions.find(sid, at))!
  const profile = fromClaims('corp', { sub: 'ada', ...CLAIMS, groups: ['ops'] })
  const browser = { userAgent: '', address: undefined }
  await sessions.begin({ ...at, signedIn: { profile, tokens: {} }, browser }, session)
  const second = await assertionOf(test, cookie)
  t.strictSame(decode(first).claims.groups, ['staff', 'ops'])
  t.strictSame(decode(second).claims.groups, ['ops'], 'at once, though the first one is fresh')
  t.equal(decode(second).claims.sid, decode(first).claims.sid)
})

t.test('no replay of an assertion is a session', async (t) => {
  const test = await startApp(t, YAML)
  const tokens = await Promise.all(
    ['a', 'b', 'app'].map(async (name) => {
      const host = `${name}.example.com`
      return assertionOf(test, await test.signIn('main', CLAIMS, { host }), { host })
    }),
  )
  const [session = '', app = ''] = await Promise.all(
    ['auth.example.com', 'app.example.com'].map(async (host) => {
      const cookie = await test.signIn('main', {}, { host })
      return cookie.split('=')[1]
    }),
  )
  const parts = [...tokens, session, app].flatMap((token) => token.split('.'))
  const replay = fc.oneof(
    fc.constantFrom(...tokens),
    fc
      .array(fc.constantFrom(...parts), { minLength: 3, maxLength: 3 })
      .map((three) => three.join('.')),
  )
  const name = fc.constantFrom(
    ...['__Host-gatehouse-app.main', '__Host-gatehouse-app.other', '__Host-gatehouse.main'],
  )
  const portal = fc.constantFrom('main', 'other', 'renamed')
  const host = fc.constantFrom('app.example.com', 'a.example.com', 'b.example.com')
  let tried = 0
  await fc.assert(
    fc.asyncProperty(replay, name, portal, host, async (token, cookie, at, where) => {
      if (token === app || token === session) return
      const headers = {
        ...headersFor(`${cookie}=${token}`, where),
        Authorization: `Bearer ${token}`,
        [HEADER]: token,
      }
      const { statusCode } = await test.check(TRAEFIK, headers, { portal: at })
      tried += 1
      t.equal(statusCode, 401)
    }),
    { numRuns: RUNS },
  )
  t.ok(tried > RUNS * 0.8, `${tried} replays`)
})
