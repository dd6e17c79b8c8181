import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import type { TokenCaller } from '../../src/caller.ts'
import type { AuthError } from '../../src/errors.ts'
import { accessTokensOf } from '../../src/jwt/access-token.ts'
import { createVerifier } from '../../src/jwt/verify.ts'
import { IssuerKeys } from '../../src/oidc/issuer-keys.ts'
import {
  AUDIENCE,
  caught,
  encode,
  fakeIssuer,
  frozenClock,
  goodClaims,
  ISSUER,
  issue,
  signingKey,
  silent,
} from '../kit.ts'

const MINUTE = 60_000
const rs = signingKey('RS256', 'key-1')
const es = signingKey('ES256', 'key-1')

interface Setup {
  keys?: unknown[]
  issuer?: string
  requiredScopes?: string[]
  maxTokenLifetime?: number
}

function setup(options: Setup = {}) {
  const issuer = fakeIssuer({ keys: [rs.jwk], ...options })
  const clock = frozenClock()
  const deps = { dispatcher: issuer.dispatcher, elapsed: clock.elapsed, log: silent }
  const keys = new IssuerKeys({ issuerUrl: issuer.issuer }, deps)
  const { requiredScopes = [] } = options
  const demands = {
    audience: [AUDIENCE],
    requiredScopes,
    requireAccessTokenType: false,
    maxTokenLifetime: options.maxTokenLifetime,
  }
  const source = accessTokensOf(keys, demands)
  return { issuer, clock, keys, demands, source, ...createVerifier([source], clock.now) }
}

t.test('a verified token', async (t) => {
  const { issuer, clock, verify } = setup()
  const good = issue(rs)
  const first = await verify(good)
  t.strictSame(first, {
    method: 'jwt',
    issuer: ISSUER,
    subject: 'machine-1',
    scopes: ['a', 'b'],
    claims: goodClaims(),
  })
  t.equal(verify(good), first, 'is known the next time, without a promise')
  t.ok(Object.isFrozen(first) && Object.isFrozen(first.scopes) && Object.isFrozen(first.claims))

  const [header, , signature] = good.split('.')
  const forged = `${header}.${encode({ ...goodClaims(), sub: 'admin' })}.${signature}`
  t.match(await caught(() => verify(forged)), { code: 'AUTH_TOKEN_SIGNATURE' }, 'and no other')

  clock.pass(330_000)
  t.match(await caught(() => verify(good)), { code: 'AUTH_TOKEN_EXPIRED' }, 'but not past its end')
  t.equal(issuer.readings(), 1)
})

for (const claim of ['nbf', 'iat'])
  t.test(`a known token is refused when the clock is set back before its ${claim}`, async (t) => {
    const { clock, verify } = setup()
    const good = issue(rs, { [claim]: goodClaims().iat })
    const first = await verify(good)
    clock.set(-30_000)
    t.equal(verify(good), first, 'within the skew')
    clock.set(-1)
    t.match(await caught(() => verify(good)), { code: 'AUTH_TOKEN_NOT_YET_VALID' })
    clock.set(30_001)
    t.strictSame(await verify(good), first, 'and accepted when the clock is right again')
  })

t.test('a known token counts from the later one of its times', async (t) => {
  const { clock, verify } = setup()
  const later = goodClaims().iat + 60
  for (const [claim, other] of [
    ['nbf', 'iat'],
    ['iat', 'nbf'],
  ] as const) {
    const good = issue(rs, { [claim]: later, [other]: later - 60 })
    clock.set(60_000)
    await verify(good)
    clock.set(-60_000)
    t.match(await caught(() => verify(good)), { code: 'AUTH_TOKEN_NOT_YET_VALID' }, claim)
  }
})

t.test('a key id that no text can hold makes nobody ask for keys', async (t) => {
  const { issuer, verify } = setup()
  const odd = issue(rs, {}, { kid: '\ud800' })
  t.match(await caught(() => verify(odd)), { code: 'AUTH_TOKEN_KEY_UNKNOWN', detail: /kid/ })
  t.equal(issuer.requests.length, 0)
})

t.test('a source may require the type of access tokens', async (t) => {
  const { keys, demands, clock } = setup()
  const strict = accessTokensOf(keys, { ...demands, requireAccessTokenType: true })
  const { verify } = createVerifier([strict], clock.now)
  for (const typ of ['at+jwt', 'AT+JWT', 'application/at+jwt'])
    t.match(await verify(issue(rs, {}, { typ })), { subject: 'machine-1' }, typ)
  for (const typ of ['JWT', 'jwt', undefined, 'application/jwt', ''])
    t.match(
      await caught(() => verify(issue(rs, {}, { typ }))),
      { code: 'AUTH_TOKEN_TYPE' },
      `${typ}`,
    )
})

t.test('a token without a key id', async (t) => {
  const { issuer, clock, verify } = setup({ keys: [es.jwk] })
  const anonymous = issue(es, { exp: goodClaims().exp + 3_600 }, { kid: undefined })
  t.match(await verify(anonymous), { subject: 'machine-1' }, 'of an issuer with one key')
  const forged = issue(signingKey('ES256', 'key-1'), {}, { kid: undefined })
  t.match(await caught(() => verify(forged)), { code: 'AUTH_TOKEN_SIGNATURE' }, 'signed with it')
  issuer.keys = [rs.jwk, es.jwk]
  clock.pass(10 * MINUTE)
  t.match(
    await caught(() => verify(anonymous)),
    { code: 'AUTH_TOKEN_KEY_UNKNOWN', detail: /no kid, and its issuer has 2 keys/ },
    'of one with several it is refused, also if only one fits',
  )
})

t.test('a known token is refused once its key is withdrawn', async (t) => {
  const { issuer, clock, verify } = setup()
  const good = issue(rs, { exp: goodClaims().exp + 3_600 })
  await verify(good)
  issuer.keys = [{ ...es.jwk, kid: 'key-2' }]
  clock.pass(10 * MINUTE)
  t.match(await caught(() => verify(good)), { code: 'AUTH_TOKEN_KEY_UNKNOWN' })
})

/** The verifier of an issuer with a server of its own, which counts how often its keys are read. */
async function setupServer(t: Test, keys: unknown[]) {
  const published = { keys, readings: 0 }
  const server = createServer((_request, response) => {
    published.readings++
    response.end(JSON.stringify({ keys: published.keys }))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const clock = frozenClock()
  const jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const deps = { elapsed: clock.elapsed, log: silent }
  const issuerKeys = new IssuerKeys({ issuerUrl: ISSUER, jwksUrl }, deps)
  t.teardown(async () => {
    await issuerKeys.close()
    server.closeAllConnections()
    server.close()
  })
  const { verify } = createVerifier([accessTokensOf(issuerKeys, setup().demands)], clock.now)
  const answerTo = async (token: string) => {
    try {
      return (await verify(token)).subject
    } catch (error) {
      return (error as AuthError).code
    }
  }
  return { published, clock, verify, answerTo }
}

const noId = { kid: undefined }
const later = { exp: goodClaims().exp + 3_600 }
const others = ['ES256', 'ES256'].map((alg) => signingKey(alg, 'key-1')) as [typeof es, typeof es]
const replaced: [what: string, before: unknown[], after: unknown[], token: string][] = [
  ['a key of the same type, no key id', [es.jwk], [others[0].jwk], issue(others[0], later, noId)],
  ['a key of the same id and type', [es.jwk], [others[0].jwk], issue(others[0], later)],
  ['a key of another type, no key id', [es.jwk], [rs.jwk], issue(rs, later, noId)],
  ['a key of the same id and another type', [es.jwk], [rs.jwk], issue(rs, later)],
  [
    'the first of two keys, no key id',
    [es.jwk, { ...others[0].jwk, kid: 'key-2' }],
    [others[0].jwk],
    issue(others[0], later, noId),
  ],
]
for (const [what, before, after, token] of replaced)
  t.test(`a key in place of another is accepted in 30 seconds: ${what}`, async (t) => {
    const { published, clock, answerTo } = await setupServer(t, before)
    const forged = issue(others[1], later, noId)
    t.match(await answerTo(forged), /AUTH_TOKEN_(SIGNATURE|KEY_UNKNOWN)/)
    clock.pass(1_000)
    t.match(await answerTo(forged), /AUTH_TOKEN_/, 'which takes the reading of this cooldown')
    published.keys = after
    clock.pass(29_999)
    t.match(await answerTo(token), /AUTH_TOKEN_/)
    t.equal(published.readings, 2)
    clock.pass(1)
    t.equal(await answerTo(token), 'machine-1')
    t.equal(published.readings, 3)
  })

t.test('forged tokens cost one reading per cooldown, and take no key away', async (t) => {
  const { published, clock, verify, answerTo } = await setupServer(t, [es.jwk])
  const good = issue(es, later, noId)
  const known = await verify(good)
  const forged = [issue(others[0], later, noId), issue(others[1], later), issue(rs, later, noId)]
  clock.pass(1_000)
  for (let i = 0; i < 1_000; i++) {
    t.match(await answerTo(forged[i % 3] ?? ''), /^AUTH_TOKEN_(SIGNATURE|ALGORITHM)$/)
    clock.pass(29)
  }
  t.equal(published.readings, 2)
  clock.pass(1_000)
  t.strictSame(new Set(await Promise.all(forged.map(answerTo))).size, 2, 'at once')
  t.equal(published.readings, 3)
  t.equal(verify(good), known, 'the good token is still known, without a promise')
  t.equal(await answerTo(issue(es, { ...later, jti: '2' }, noId)), 'machine-1')
})

t.test('a known token stays known if the keys have not changed', async (t) => {
  const { issuer, clock, verify } = setup()
  const good = issue(rs, { exp: goodClaims().exp + 3_600 })
  const first = await verify(good)
  clock.pass(5 * MINUTE)
  t.equal(verify(good), first, 'while the keys are read again')
  await caught(() => verify(issue({ ...rs, kid: 'waits for the reading' })))
  t.equal(issuer.readings(), 2)
  t.equal(verify(good), first, 'and after')
})

t.test('a token must grant the scopes that its source requires', async (t) => {
  const { verify } = setup({ requiredScopes: ['a', 'c'] })
  t.match(await caught(() => verify(issue(rs))), {
    code: 'AUTH_SCOPE_MISSING',
    message: 'Scope is missing: c',
  })
  t.match(await verify(issue(rs, { scope: 'c a' })), { scopes: ['c', 'a'] })
})

t.test('a token may be valid for so long', async (t) => {
  const { clock, verify } = setup({ maxTokenLifetime: 10 * MINUTE })
  const { iat } = goodClaims()
  const cases: [what: string, claims: object, admitted: boolean][] = [
    ['shorter', { exp: iat + 599 }, true],
    ['just that', { exp: iat + 600 }, true],
    ['longer', { exp: iat + 601 }, false],
    ['longer, of which little is left', { iat: iat - 600, exp: iat + 60 }, false],
    ['without iat, by what is left', { iat: undefined, exp: iat + 600 }, true],
    ['without iat, of which more is left', { iat: undefined, exp: iat + 601 }, false],
    ['for ever', { exp: 8.64e12 }, false],
  ]
  for (const [what, claims, admitted] of cases) {
    const result = await Promise.resolve(caught(() => verify(issue(rs, claims))))
    t.match(result, admitted ? undefined : { code: 'AUTH_TOKEN_LIFETIME', statusCode: 401 }, what)
  }
  const long = issue(rs, { iat: undefined, exp: iat + 660 })
  t.match(await caught(() => verify(long)), { detail: 'valid for 660000 ms, not 600000' })
  clock.pass(MINUTE)
  t.match(await verify(long), { subject: 'machine-1' }, 'and later less is left')
})

t.test('which tokens are found, and which are those of somebody else', async (t) => {
  const { issuer, find } = setup()
  const [header, claims] = issue(rs).split('.')
  const twice = `{"iss":"${ISSUER}","iss":"${ISSUER}"}`
  const theirs: [what: string, token: string][] = [
    ['one of another issuer', issue(rs, { iss: `${ISSUER}/` })],
    ['one without an issuer', issue(rs, { iss: undefined })],
    ['one that names two issuers', issue(rs, { iss: [ISSUER] })],
    ['one that names its issuer twice', `${header}.${encode(twice)}.AAAA`],
    ['one that is too large', issue(rs, { pad: 'x'.repeat(16_384) })],
    ['an opaque one', 'ya29.a0AfH6SMBx'],
    ['none', ''],
  ]
  for (const [what, token] of theirs) t.equal(find(token), undefined, what)
  t.equal(issuer.requests.length, 0, 'and nobody is asked')
  const refused: [code: string, token: string][] = [
    ['AUTH_TOKEN_EXPIRED', issue(rs, { exp: 1 })],
    ['AUTH_TOKEN_SIGNATURE', `${header}.${claims}.AAAA`],
  ]
  for (const [code, token] of refused) t.match(await caught(() => find(token)), { code })
  const good = issue(rs)
  const first = await find(good)
  t.match(first, { subject: 'machine-1' })
  t.equal(find(good), first, 'is known the next time, without a promise')
})

t.test('two issuers with the same subject, key id and audience', async (t) => {
  const a = setup({ keys: [rs.jwk], issuer: 'https://a.example', requiredScopes: ['admin'] })
  const b = setup({ keys: [es.jwk], issuer: 'https://b.example' })
  const { verify } = createVerifier([a.source, b.source], a.clock.now)
  const fromA = await verify(issue(rs, { iss: 'https://a.example', scope: 'admin' }))
  const fromB = await verify(issue(es, { iss: 'https://b.example', scope: 'read' }))
  t.match(
    [fromA, fromB],
    [
      { issuer: 'https://a.example', subject: 'machine-1', scopes: ['admin'] },
      { issuer: 'https://b.example', subject: 'machine-1', scopes: ['read'] },
    ],
  )
  const crossed: [why: string, code: string, token: string][] = [
    ["B's key under A's name", 'AUTH_TOKEN_ALGORITHM', issue(es, { iss: 'https://a.example' })],
    ["A's key under B's name", 'AUTH_TOKEN_ALGORITHM', issue(rs, { iss: 'https://b.example' })],
    ["A's name without A's scope", 'AUTH_SCOPE_MISSING', issue(rs, { iss: 'https://a.example' })],
  ]
  for (const [why, code, token] of crossed)
    t.match(await caught(() => verify(token)), { code }, why)
})

/** Claims as the platforms make them, and what a caller then is. */
const platforms: [name: string, issuer: string, claims: object, expected: Partial<TokenCaller>][] =
  [
    [
      'Entra ID managed identity',
      'https://login.microsoftonline.com/8f3c0f3e-0000-4000-8000-1d2f3a4b5c6d/v2.0',
      {
        aud: AUDIENCE,
        sub: '0b0a7c5e-0000-4000-8000-3a4b5c6d7e8f',
        oid: '0b0a7c5e-0000-4000-8000-3a4b5c6d7e8f',
        azp: '5d1f0a3b-0000-4000-8000-4b5c6d7e8f90',
        idtyp: 'app',
        roles: ['Certificates.Issue'],
        scope: undefined,
        ver: '2.0',
      },
      { subject: '0b0a7c5e-0000-4000-8000-3a4b5c6d7e8f', scopes: ['Certificates.Issue'] },
    ],
    [
      'Okta',
      'https://dev-1.okta.com/oauth2/default',
      {
        aud: [AUDIENCE],
        sub: '0oa1',
        cid: '0oa1',
        scp: ['certs:issue', 'certs:read'],
        scope: undefined,
      },
      { subject: '0oa1', scopes: ['certs:issue', 'certs:read'] },
    ],
    [
      'Auth0, whose issuer ends in a slash',
      'https://tenant.eu.auth0.com/',
      {
        sub: 'abc@clients',
        azp: 'abc',
        gty: 'client-credentials',
        scope: 'certs:issue certs:read',
      },
      { issuer: 'https://tenant.eu.auth0.com/', scopes: ['certs:issue', 'certs:read'] },
    ],
    [
      'Auth0 with permissions of its roles',
      'https://tenant.eu.auth0.com/',
      { sub: 'abc@clients', scope: undefined, permissions: ['certs:issue', 'certs:read'] },
      { subject: 'abc@clients', scopes: ['certs:issue', 'certs:read'] },
    ],
    [
      'Duende IdentityServer, whose clients have no subject',
      'https://id.example',
      { sub: undefined, client_id: 'builder', scope: ['certs:issue'] },
      { subject: 'client_id=builder', scopes: ['certs:issue'] },
    ],
    [
      'Keycloak service account',
      'https://id.example/realms/machines',
      { typ: 'Bearer', azp: 'builder', client_id: 'builder', acr: '1', scope: 'email profile' },
      { subject: 'machine-1', scopes: ['email', 'profile'] },
    ],
    [
      'Amazon Cognito, with an audience',
      'https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_x',
      { sub: 'app', client_id: 'app', token_use: 'access', scope: 'certs/issue' },
      { subject: 'app', scopes: ['certs/issue'] },
    ],
    [
      'Kubernetes service account',
      'https://kubernetes.default.svc.cluster.local',
      {
        aud: [AUDIENCE, 'https://kubernetes.default.svc'],
        sub: 'system:serviceaccount:default:deployer',
        scope: undefined,
        'kubernetes.io': { namespace: 'default', serviceaccount: { name: 'deployer', uid: '1' } },
      },
      { subject: 'system:serviceaccount:default:deployer', scopes: [] },
    ],
    [
      'Google workload identity',
      'https://accounts.google.com',
      {
        sub: '113774264463038321964',
        azp: '113774264463038321964',
        email: 'x@y.iam.gserviceaccount.com',
        email_verified: true,
        scope: undefined,
      },
      { subject: '113774264463038321964', scopes: [] },
    ],
    [
      'a workload issuer of a private network',
      'https://issuer.corp.internal:8443/realms/machines',
      { sub: 'spiffe://corp.internal/ns/build/sa/runner', scopes: 'certs:issue', scope: undefined },
      { subject: 'spiffe://corp.internal/ns/build/sa/runner', scopes: ['certs:issue'] },
    ],
    [
      'scopes under several names',
      ISSUER,
      { scope: 'a  b', scp: ['b', 'c', 7, ''], roles: 'd', scopes: { e: true } },
      { scopes: ['a', 'b', 'c', 'd'] },
    ],
  ]
for (const [name, iss, claims, expected] of platforms)
  t.test(`tokens of ${name}`, async (t) => {
    const { issuer, verify } = setup({ issuer: iss })
    const caller = await verify(issue(rs, { iss, ...claims }, { typ: 'JWT' }))
    t.match(caller, expected)
    t.equal(caller.scopes.length, expected.scopes!.length)
    t.match(issuer.requests[0]!.url, /[^/]\/\.well-known\/openid-configuration$/, 'one slash')
  })
