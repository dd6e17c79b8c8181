import t, { type Test } from 'tap'
import {
  NOW,
  startTokenIssuer,
} from '../../../../packages/identity-providers/test/stand-ins/token-issuer.ts'
import { signingKey } from '../../../../packages/identity-providers/test/stand-ins/tokens.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { BROWSER, SHAPES, type Shape } from '../shapes.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_HEADER_INVALID')

const TRAEFIK = SHAPES[0] as Shape
const APP = 'https://app.example.com'
const ROOT = 'https://root.example.com'
const KEY = 'correct-horse-battery-staple'
const WELL_KNOWN = '/.well-known/oauth-protected-resource'

/** Two resources on one origin, one of them below the other, and one that is a whole origin. */
async function start(t: Test) {
  const issuer = await startTokenIssuer(t)
  const servers = `authorizationServers: ["${issuer.origin}"]`
  const options = `
    resources: [
      { url: "${APP}/mcp", ${servers}, scopes: [read] },
      { url: "${APP}/mcp/admin", ${servers}, scopes: [read, admin] },
      { url: "${ROOT}", ${servers} }, { url: "https://only.example.com/mcp", ${servers} }
    ],
    callers: { keys: [{ name: ci, key: ${KEY}, hosts: [app.example.com] }] },
    policies: {
      reads: 'Scope("read")', writes: 'Scope("read") && Scope("write")',
      acme: 'caller.claims.tenant == "acme" && Scope("acme")', strong: { acr: [mfa] }
    },
    rules: [{ paths: [/mcp/write/*], require: [reads, writes] }],
    assertion: { hosts: ["*.example.com"] }
  `.replace(/\s+/g, ' ')
  const yaml = yamlOf(portalOf('main', options) + portalOf('other'))
  return { issuer, yaml, ...(await startApp(t, yaml)) }
}
type Started = Awaited<ReturnType<typeof start>>

interface Asked {
  readonly at?: string
  readonly auth?: string
  readonly headers?: Record<string, string>
  readonly query?: string
}

async function ask({ check }: Started, { at = `${APP}/mcp`, auth, headers, query = '' }: Asked) {
  // As it is written: the URL parser removes dot segments.
  const [, host = '', uri = ''] = /^https:\/\/([^/]+)(.*)$/.exec(at) ?? []
  const answer = await check(
    TRAEFIK,
    {
      Accept: 'application/json, text/event-stream',
      'X-Forwarded-Host': host,
      'X-Forwarded-Uri': uri || '/',
      ...(auth !== undefined && { Authorization: auth }),
      ...headers,
    },
    { query },
  )
  const { statusCode: status, body, headers: answered } = answer
  return {
    status,
    code: status === 200 ? undefined : JSON.parse(body).code,
    user: answered['x-forwarded-user'],
    challenge: answered['www-authenticate'],
    headers: answered,
  }
}

const metadataOf = (path: string) => `resource_metadata="${APP}${WELL_KNOWN}${path}"`

t.test('a resource takes tokens that were issued for it, and no others', async (t) => {
  const test = await start(t)
  const { issue, origin } = test.issuer
  const tokenFor = (aud: unknown, claims: object = {}) => `Bearer ${issue({ aud, ...claims })}`
  const notes = tokenFor(`${APP}/mcp`)
  const rows: [why: string, asked: Asked, code: string | undefined][] = [
    ['a token for it', { auth: notes }, undefined],
    ['in a list', { auth: tokenFor(['x', `${APP}/mcp`]) }, undefined],
    ['with a path below', { auth: notes, at: `${APP}/mcp/messages?a=b` }, undefined],
    ['with a slash', { auth: notes, at: `${APP}/mcp/` }, undefined],
    ['for another resource', { auth: tokenFor(`${APP}/other`) }, 'AUTH_TOKEN_AUDIENCE'],
    ['for the origin', { auth: tokenFor(APP) }, 'AUTH_TOKEN_AUDIENCE'],
    ['for a path below', { auth: tokenFor(`${APP}/mcp/x`) }, 'AUTH_TOKEN_AUDIENCE'],
    ['with another spelling', { auth: tokenFor(`${APP}/mcp/`) }, 'AUTH_TOKEN_AUDIENCE'],
    ['of the one above', { auth: notes, at: `${APP}/mcp/admin` }, 'AUTH_TOKEN_AUDIENCE'],
    [
      'for the longest',
      { auth: tokenFor(`${APP}/mcp/admin`), at: `${APP}/mcp/admin/x` },
      undefined,
    ],
    ['that begins alike', { auth: notes, at: `${APP}/mcp/administration` }, undefined],
    ['for a whole origin', { auth: tokenFor(ROOT), at: `${ROOT}/any/path` }, undefined],
    ['for it with a slash', { auth: tokenFor(`${ROOT}/`), at: ROOT }, undefined],
    [
      'of a stranger',
      { auth: tokenFor(`${APP}/mcp`, { iss: 'https://x.example' }) },
      'AUTH_TOKEN_ISSUER',
    ],
    ['that has expired', { auth: tokenFor(`${APP}/mcp`, { exp: NOW - 31 }) }, 'AUTH_TOKEN_EXPIRED'],
    [
      'for two days',
      { auth: tokenFor(`${APP}/mcp`, { exp: NOW + 172_800 }) },
      'AUTH_TOKEN_LIFETIME',
    ],
    [
      'signed by another key',
      { auth: `Bearer ${issue({ aud: `${APP}/mcp` }, {}, signingKey('k1'))}` },
      'AUTH_TOKEN_SIGNATURE',
    ],
    ['that is none', { auth: 'Bearer opaque' }, 'AUTH_TOKEN_MALFORMED'],
    ['an ID token', { auth: tokenFor(`${APP}/mcp`, { nonce: 'x' }) }, 'AUTH_TOKEN_TYPE'],
    ['a key', { auth: `APIKey ${KEY}` }, undefined],
    ['nothing', {}, 'FWA_NO_SESSION'],
    ['beside it', { auth: notes, at: `${APP}/mcpx` }, 'FWA_NO_SESSION'],
    ['at another host', { auth: notes, at: 'https://b.example.com/mcp' }, 'FWA_NO_SESSION'],
  ]
  for (const [why, asked, code] of rows) {
    const answer = await ask(test, asked)
    t.match([answer.status, answer.code], [code === undefined ? 200 : 401, code], why)
    t.equal(answer.headers['x-gatehouse-assertion'] === undefined, code !== undefined, why)
    if (code?.startsWith('AUTH'))
      t.match(
        answer.challenge,
        /^Bearer realm="main", error="invalid_token".*resource_metadata=/,
        why,
      )
  }
  t.equal((await ask(test, { auth: notes })).user, `${origin}:robot`)
})

t.test('a row of callers with the same issuer names it, and says how to reach it', async (t) => {
  const test = await start(t)
  const { issue, origin } = test.issuer
  const row = `{ name: id, issuerUrl: "${origin}", audience: x, maxTokenLifetime: 72h, hosts: [b.example.com] }`
  await test.reload(test.yaml.replace('callers: {', `callers: { issuers: [${row}],`))
  const claims = { aud: `${APP}/mcp`, exp: NOW + 172_800 }
  const auth = `Bearer ${issue(claims)}`
  t.match(await ask(test, { auth }), { status: 200, user: 'id:robot' })
  const elsewhere = await ask(test, { auth, at: 'https://b.example.com/mcp' })
  t.match(elsewhere, { status: 401, code: 'AUTH_TOKEN_AUDIENCE' }, 'each has its own audience')
})

t.test('a row of callers with the same issuer limits its tokens', async (t) => {
  const test = await start(t)
  const { issue, origin } = test.issuer
  const limit = (limits: string) =>
    test.reload(
      test.yaml.replace(
        'callers: {',
        `callers: { issuers: [{ name: id, issuerUrl: "${origin}", audience: x, hosts: [b.example.com], ${limits} }],`,
      ),
    )
  const code = async (claims: object, header: Record<string, unknown> = {}) =>
    (await ask(test, { auth: `Bearer ${issue({ aud: `${APP}/mcp`, ...claims }, header)}` })).code
  await limit(`allow: 'caller.claims.tenant == "acme"'`)
  t.equal(await code({ tenant: 'acme' }), undefined)
  t.equal(await code({ tenant: 'evil' }), 'FWA_FORBIDDEN', 'allow')
  await limit('requiredScopes: [read]')
  t.equal(await code({ scope: 'read' }), undefined)
  t.equal(await code({ scope: 'write' }), 'AUTH_SCOPE_MISSING', 'requiredScopes')
  await limit('requireAccessTokenType: true')
  t.equal(await code({}, { typ: 'at+jwt' }), undefined)
  t.equal(await code({}, { typ: 'JWT' }), 'AUTH_TOKEN_TYPE', 'requireAccessTokenType')
})

t.test('a token opens no path that may belong to a longer resource', async (t) => {
  const test = await start(t)
  const auth = `Bearer ${test.issuer.issue({ aud: `${APP}/mcp` })}`
  for (const path of [
    '/mcp/Admin',
    '/mcp/ADMIN/x',
    '/mcp/admin.',
    '/mcp/adm%69n%2Fx',
    '/mcp//admin',
  ])
    t.equal((await ask(test, { auth, at: `${APP}${path}` })).code, 'FWA_NO_SESSION', path)
  const below = ['/mcp/x%2Fy', '/mcp/adminx%2Fy', '/mcp/users', '/mcp/x;y']
  for (const path of below)
    t.equal((await ask(test, { auth, at: `${APP}${path}` })).code, undefined, path)
  const moved = { auth, headers: { 'X-Forwarded-Prefix': '/mcp' } }
  t.equal((await ask(test, moved)).code, 'FWA_NO_SESSION', 'a prefix is gone')
  const root = `Bearer ${test.issuer.issue({ aud: ROOT, scope: 'read write' })}`
  t.equal((await ask(test, { auth: root, at: `${ROOT}/a/../b` })).code, undefined, 'a whole host')
})

t.test('a path that an app may see otherwise belongs to no resource', async (t) => {
  const test = await start(t)
  const auth = `Bearer ${test.issuer.issue({ aud: `${APP}/mcp` })}`
  for (const path of [
    '//mcp',
    '/mcp//x',
    '/mcp/../x',
    '/mcp%2fx',
    '/mcp;x',
    '/mcp/%2e%2e/x',
    '/mcp\\x',
  ]) {
    const { status, challenge } = await ask(test, { auth, at: `${APP}${path}` })
    t.match(status, /^40[01]$/, path)
    t.notMatch(challenge, 'resource_metadata', path)
  }
  t.equal((await ask(test, { auth, at: `${APP}/%6dcp` })).status, 200, 'decoded once')
})

t.test('people with a session may use a resource too', async (t) => {
  const test = await start(t)
  const cookie = await test.signIn('main')
  t.match(await ask(test, { headers: { Cookie: cookie } }), { status: 200, user: 'ada' })
  const auth = 'Bearer opaque'
  const both = await ask(test, { auth, headers: { Cookie: cookie } })
  t.match(both, { status: 401, code: 'AUTH_TOKEN_MALFORMED' }, 'but not with a wrong token')
  const page = await test.check(TRAEFIK, {
    ...BROWSER,
    'X-Forwarded-Method': 'GET',
    'X-Forwarded-Uri': '/mcp',
  })
  t.match(page.headers.location, /\/portals\/main\/signin\?/, 'a browser is sent to sign in')
})

t.test('a challenge leads to the metadata, and names the scopes to ask for', async (t) => {
  const test = await start(t)
  const { issue } = test.issuer
  const tokenWith = (scope: string, claims: object = {}) =>
    `Bearer ${issue({ aud: `${APP}/mcp`, scope, ...claims })}`
  const lacks = (scope: string) =>
    `Bearer realm="main", error="insufficient_scope", error_description="A scope is missing", scope="${scope}", ${metadataOf('/mcp')}, APIKey realm="api"`
  const rows: [why: string, asked: Asked, status: number, challenge: string][] = [
    [
      'nobody',
      {},
      401,
      `Bearer realm="main", scope="read", ${metadataOf('/mcp')}, APIKey realm="api", Cookie realm="main"`,
    ],
    [
      'nobody, at another resource',
      { at: `${APP}/mcp/admin` },
      401,
      `Bearer realm="main", scope="read admin", ${metadataOf('/mcp/admin')}, APIKey realm="api", Cookie realm="main"`,
    ],
    [
      'nobody, at a resource without scopes',
      { at: ROOT },
      401,
      `Bearer realm="main", resource_metadata="${ROOT}${WELL_KNOWN}", APIKey realm="api", Cookie realm="main"`,
    ],
    ['nobody, at no resource', { at: `${APP}/x` }, 401, 'APIKey realm="api", Cookie realm="main"'],
    ['no scope', { auth: tokenWith(''), query: '?policy=reads' }, 403, lacks('read')],
    [
      'a scope of the resource is kept',
      { auth: tokenWith('read x'), query: '?if=Scope(%22write%22)' },
      403,
      lacks('read write'),
    ],
    [
      'all that the policies demand',
      { auth: tokenWith(''), at: `${APP}/mcp/write` },
      403,
      lacks('read write'),
    ],
    [
      'with those that it has',
      { auth: tokenWith('write'), at: `${APP}/mcp/write` },
      403,
      lacks('read write'),
    ],
    [
      'another authentication',
      { auth: tokenWith('read', { acr: 'pwd' }), query: '?policy=strong' },
      401,
      `Bearer realm="main", scope="read", ${metadataOf('/mcp')}, error="insufficient_user_authentication", error_description="The user has to authenticate again", acr_values="mfa", APIKey realm="api"`,
    ],
  ]
  for (const [why, asked, status, challenge] of rows)
    t.match(await ask(test, asked), { status, challenge }, why)
  const refused = await ask(test, { auth: tokenWith('read'), query: '?policy=acme' })
  t.match(refused, { status: 403, code: 'FWA_FORBIDDEN' }, 'no scope would do')
  t.equal(refused.challenge, undefined)
})

t.test('scripts of any origin may read the challenge of a resource', async (t) => {
  const test = await start(t)
  const open = {
    'access-control-allow-origin': '*',
    'access-control-expose-headers': 'www-authenticate',
  }
  t.match((await ask(test, {})).headers, open)
  t.match((await ask(test, { auth: 'Bearer x' })).headers, open)
  const { headers } = await ask(test, { at: `${APP}/x` })
  t.equal(headers['access-control-allow-origin'], undefined, 'nor that of anything else')
})

t.test('each resource has metadata on its host', async (t) => {
  const { app, issuer } = await start(t)
  const metadata = (resource: string, scopes?: string[]) => ({
    resource,
    authorization_servers: [issuer.origin],
    ...(scopes && { scopes_supported: scopes }),
    bearer_methods_supported: ['header'],
  })
  const rows: [host: string, path: string, expected: object | undefined][] = [
    ['app.example.com', '/mcp', metadata(`${APP}/mcp`, ['read'])],
    ['APP.example.com:443', '/mcp', metadata(`${APP}/mcp`, ['read'])],
    ['app.example.com', '/mcp/', metadata(`${APP}/mcp`, ['read'])],
    ['app.example.com', '/mcp?a=b', metadata(`${APP}/mcp`, ['read'])],
    ['app.example.com', '/mcp/admin', metadata(`${APP}/mcp/admin`, ['read', 'admin'])],
    ['root.example.com', '', metadata(ROOT)],
    ['root.example.com', '/', metadata(ROOT)],
    ['app.example.com', '', undefined],
    ['only.example.com', '', metadata('https://only.example.com/mcp')],
    ['only.example.com', '/', metadata('https://only.example.com/mcp')],
    ['only.example.com', '/other', undefined],
    ['app.example.com', '/MCP', undefined],
    ['app.example.com', '/mcp/other', undefined],
    ['root.example.com', '/mcp', undefined],
    ['auth.example.com', '/mcp', undefined],
    ['app.example.com:8443', '/mcp', undefined],
    ['app.example.org', '/mcp', undefined],
  ]
  for (const [host, path, expected] of rows) {
    const why = `${host} ${path}`
    const answer = await app.inject({ url: `${WELL_KNOWN}${path}`, headers: { host } })
    if (!expected) {
      t.match([answer.statusCode, answer.json().code], [404, 'FWA_NOT_FOUND'], why)
      continue
    }
    t.strictSame(answer.json(), expected, why)
    t.match(answer.headers, {
      'content-type': /^application\/json/,
      'cache-control': 'public, max-age=3600',
      'access-control-allow-origin': '*',
    })
  }
  const forwarded = { host: '127.0.0.1:4181', 'x-forwarded-host': 'app.example.com' }
  const url = `${WELL_KNOWN}/mcp`
  t.equal((await app.inject({ url, headers: forwarded })).statusCode, 200, 'as the proxy says')
  const direct = await app.inject({ url, headers: forwarded, remoteAddress: '203.0.113.7' })
  t.equal(direct.statusCode, 404, 'if it is trusted')
})

t.test('metadata: HEAD, preflights and other methods', async (t) => {
  const { app } = await start(t)
  const headers = { host: 'app.example.com' }
  const url = `${WELL_KNOWN}/mcp`
  const head = await app.inject({ method: 'HEAD', url, headers })
  t.match([head.statusCode, head.body], [200, ''])
  for (const path of [url, WELL_KNOWN]) {
    const preflight = await app.inject({
      method: 'OPTIONS',
      url: path,
      headers: {
        ...headers,
        origin: 'https://client.example',
        'access-control-request-method': 'GET',
        'access-control-request-headers': 'mcp-protocol-version',
      },
    })
    t.match(preflight, {
      statusCode: 204,
      headers: {
        'access-control-allow-origin': '*',
        'access-control-allow-methods': 'GET',
        'access-control-allow-headers': '*',
      },
    })
  }
  t.match((await app.inject({ method: 'POST', url, headers })).statusCode, /^40[45]$/)
})

t.test('a reload changes the resources', async (t) => {
  const test = await start(t)
  const auth = `Bearer ${test.issuer.issue({ aud: `${APP}/mcp` })}`
  t.equal((await ask(test, { auth })).status, 200)
  await test.reload(test.yaml.replace(`${APP}/mcp"`, `${APP}/moved"`))
  t.equal((await ask(test, { auth })).status, 401)
  const headers = { host: 'app.example.com' }
  t.equal((await test.app.inject({ url: `${WELL_KNOWN}/mcp`, headers })).statusCode, 404)
  t.equal((await test.app.inject({ url: `${WELL_KNOWN}/moved`, headers })).statusCode, 200)
})
