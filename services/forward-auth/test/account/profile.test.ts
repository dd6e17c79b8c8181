import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import type { SeamlessProvider } from '@gatehouse/identity-providers'
import { fromClaims } from '@gatehouse/profile'
import t, { type Test } from 'tap'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { createFakeProvider } from '../fake-provider.ts'
import { named, text, waysIn } from '../pages/read.ts'
import { AUTH, arrive, MAIN, SCRIPT, signIn, start } from '../portal/kit.ts'

const ADA = {
  sub: '5f0c2c1e',
  name: 'Ada Lovelace',
  given_name: 'Ada',
  family_name: 'Lovelace',
  email: 'ada@example.com',
  email_verified: true,
  picture: 'https://example.com/ada.png',
  groups: ['admin', 'ops'],
  department: 'engines',
}

/** Somebody with these claims, signed in. */
async function startAs(t: Test, claims: Record<string, unknown> = ADA) {
  const corp = createFakeProvider()
  const finish = async () => ({ profile: fromClaims('corp', claims), tokens: {} })
  const test = await start(t, { corp: { ...corp, provider: { ...corp.provider, finish } } })
  const ada = test.visitor()
  const done = await signIn(ada, corp, 'ada')
  t.equal(done.statusCode, 200, done.body)
  const verify = (headers: Record<string, string>, url = `${AUTH}/api/portals/main/verify`) =>
    test.visitor().open(url, { headers: { ...SCRIPT, ...headers } })
  return { ...test, ada, token: ada.jar.get('__Host-gatehouse.main') ?? '', verify }
}

t.test('the profile as text, as JSON, and by both spellings of the path', async (t) => {
  const { ada, corp } = await startAs(t)
  for (const path of [`${MAIN}/profile`, `${AUTH}/portal/main/profile`]) {
    const { statusCode, headers, body } = await ada.open(path, { headers: SCRIPT })
    t.equal(statusCode, 200)
    t.match(headers, {
      'content-type': 'text/plain; charset=utf-8',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    })
    t.equal(
      body,
      `Authenticated

ID: 5f0c2c1e
Provider: corp
Name:
   Full Name: Ada Lovelace
   First: Ada
   Last: Lovelace
Email:
   Address: ada@example.com
   Verified: true
Picture: https://example.com/ada.png
Groups:
  - admin
  - ops
`,
    )
    const page = await ada.open(path)
    t.match(page, { statusCode: 200, headers: { 'content-type': 'text/html; charset=utf-8' } })
    t.equal(text(named(page.body, 'pre')[0]!), body, 'people see the same text on a page')
    t.strictSame(waysIn(page.body), [`${MAIN}/account`, `${MAIN}/logout`])
  }
  const json = await ada.open(`${MAIN}/profile.json`)
  t.match(json.headers, { 'content-type': /^application\/json/, 'cache-control': 'no-store' })
  t.strictSame(json.json(), {
    authenticated: true,
    provider: 'corp',
    id: '5f0c2c1e',
    name: { full: 'Ada Lovelace', first: 'Ada', last: 'Lovelace' },
    email: { address: 'ada@example.com', verified: true },
    picture: 'https://example.com/ada.png',
    groups: ['admin', 'ops'],
  })
  t.equal((await arrive(ada, corp, 'https://app.example.com/')).answer.statusCode, 200)
  t.equal((await ada.open('https://app.example.com/portal/main/profile')).statusCode, 200)
  t.equal((await ada.open('https://wiki.example.com/portal/main/profile')).statusCode, 303)
  t.equal((await ada.open('https://evil.test/portal/main/profile')).statusCode, 403)
  t.equal((await ada.open(`${AUTH}/portal/nobody/profile`)).statusCode, 404)
})

t.test('what the provider did not share is not there', async (t) => {
  const { ada } = await startAs(t, { sub: 'x' })
  const asText = await ada.open(`${MAIN}/profile`, { headers: SCRIPT })
  t.equal(asText.body, 'Authenticated\n\nID: x\nProvider: corp\n')
  t.strictSame((await ada.open(`${MAIN}/profile.json`)).json(), {
    authenticated: true,
    provider: 'corp',
    id: 'x',
  })
})

t.test('who is not signed in: people sign in and come back, programs are told', async (t) => {
  const { visitor } = await start(t)
  for (const path of ['profile', 'profile.json']) {
    const sent = await visitor().open(`${MAIN}/${path}`)
    const rd = encodeURIComponent(`${MAIN}/${path}`)
    t.match(sent, { statusCode: 303, headers: { location: `${MAIN}/signin?rd=${rd}` } })
    const told = await visitor().open(`${MAIN}/${path}`, { headers: SCRIPT })
    t.match(told, { statusCode: 401, headers: { 'www-authenticate': 'Cookie realm="main"' } })
    t.match(told.json(), { code: 'FWA_NO_SESSION', loginUrl: `${MAIN}/signin` })
    t.match(told.headers, { 'cache-control': 'no-store' })
  }
})

t.test('whom the portal does not allow any more has no profile', async (t) => {
  const test = await startApp(t, yamlOf(portalOf('main')))
  const own = await test.signIn('main', {}, { host: 'auth.example.com' })
  const atApp = await test.signIn('main')
  const statuses = async () => {
    const asked = [
      ['auth.example.com', own],
      ['app.example.com', atApp],
    ].flatMap(([host, cookie]) =>
      ['profile', 'profile.json'].map((page) =>
        test.app.inject({ url: `/portal/main/${page}`, headers: { host, cookie, ...SCRIPT } }),
      ),
    )
    return (await Promise.all(asked)).map(({ statusCode }) => statusCode)
  }
  t.strictSame(await statuses(), [200, 200, 200, 200])
  await test.reload(yamlOf(portalOf('main', `allow: 'Group("board")'`)))
  t.strictSame(await statuses(), [403, 403, 403, 403])
})

t.test('no page and no answer about a person contains a token', async (t) => {
  const { ada, token, verify } = await startAs(t)
  const answers = [
    ...(await Promise.all(
      ['profile', 'profile.json', 'account', 'logout'].map((path) => ada.open(`${MAIN}/${path}`)),
    )),
    await verify({ authorization: `Bearer ${token}` }),
  ]
  const [, claims = '', signature = ''] = token.split('.')
  for (const { statusCode, headers, body } of answers) {
    t.equal(statusCode, 200)
    t.equal(headers['cache-control'], 'no-store')
    for (const secret of [signature, claims, 'gatehouse_provider'])
      t.notOk(body.includes(secret), body.slice(0, 80))
  }
})

t.test('verify', async (t) => {
  const { verify, token, clock, app } = await startAs(t)
  const login = new Date(clock.now()).toISOString().replace('.000', '')
  const end = new Date(clock.now() + 8 * 3_600_000).toISOString().replace('.000', '')
  for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
    const answer = await verify({ authorization: `${scheme} ${token}` })
    t.equal(answer.statusCode, 200, scheme)
    t.strictSame(answer.json(), {
      valid: true,
      portal: 'main',
      provider: 'corp',
      claims: {
        aud: ['auth.example.com'],
        department: 'engines',
        email: 'ada@example.com',
        email_verified: true,
        exp: end,
        family_name: 'Lovelace',
        given_name: 'Ada',
        groups: ['admin', 'ops'],
        iat: login,
        iss: MAIN,
        name: 'Ada Lovelace',
        nbf: login,
        picture: 'https://example.com/ada.png',
        sub: '5f0c2c1e',
      },
    })
  }
  const rows: [what: string, headers: Record<string, string>, code: string][] = [
    ['no token', {}, 'FWA_TOKEN_INVALID'],
    ['its cookie', { cookie: `__Host-gatehouse.main=${token}` }, 'FWA_TOKEN_INVALID'],
    ['another scheme', { authorization: `APIKey ${token}` }, 'FWA_TOKEN_INVALID'],
    ['no scheme', { authorization: token }, 'FWA_TOKEN_INVALID'],
    ['an empty token', { authorization: 'Bearer ' }, 'FWA_TOKEN_INVALID'],
    ['two tokens', { authorization: `Bearer ${token} ${token}` }, 'FWA_TOKEN_INVALID'],
    ['half a token', { authorization: `Bearer ${token.slice(0, -20)}` }, 'FWA_TOKEN_INVALID'],
    ['junk', { authorization: 'Bearer junk' }, 'FWA_TOKEN_INVALID'],
  ]
  for (const [what, headers, code] of rows) {
    const answer = await verify(headers)
    t.equal(answer.statusCode, 401, what)
    t.match(answer.json(), { status: 401, code, valid: false, portal: 'main' }, what)
    t.match(answer.headers, {
      'content-type': /^application\/problem\+json/,
      'cache-control': 'no-store',
      'www-authenticate': `Bearer realm="main"${code === 'FWA_TOKEN_INVALID' ? '' : ', error="invalid_token"'}`,
    })
    t.notOk(answer.body.includes(token.slice(0, 40)))
  }
  const authorization = `Bearer ${token}`
  const nobody = await verify({ authorization }, `${AUTH}/api/portals/nobody/verify`)
  t.match(nobody.json(), { status: 404, code: 'FWA_NOT_FOUND' })
  const other = await verify({ authorization }, `${AUTH}/api/portals/other/verify`)
  t.match(other.json(), { status: 401, code: 'FWA_TOKEN_INVALID', portal: 'other' })
  t.equal(
    (await verify({ authorization }, 'http://127.0.0.1:4181/api/portals/main/verify')).statusCode,
    200,
  )

  await clock.advance(8 * 3_600_000)
  t.equal((await verify({ authorization })).statusCode, 401, 'expired')
  t.ok(app.readiness().ready)
})

t.test('verify tells all that the token holds of the person', async (t) => {
  const further = {
    roles: ['dev'],
    preferred_username: 'ada',
    nickname: 'Ada',
    locale: 'en-GB',
    zoneinfo: 'Europe/London',
    'https://acme.com/teams': [{ id: 1, name: 'engines' }],
  }
  const { verify, token } = await startAs(t, { ...ADA, ...further, sid: 'of the provider' })
  const { claims } = (await verify({ authorization: `Bearer ${token}` })).json()
  t.match(claims, { ...ADA, ...further })
  for (const internal of ['sid', 'gatehouse_provider', 'gatehouse_generation', '_claim_names'])
    t.notOk(internal in claims, internal)
})

t.test('verify takes a session of an address only from there', async (t) => {
  const tailscale: SeamlessProvider = {
    ...{ name: 'corp', kind: 'tailscaleWhois', title: 'corp' },
    ...{ icon: undefined, color: undefined, stepsUp: false },
    ...{ type: 'seamless', failing: () => false, close: async () => {} },
    identify: async () => undefined,
    fits: ({ claims }, clientIp) => claims.ip === clientIp,
  }
  const { visitor, signIn: cookieOf } = await start(t, { others: [tailscale] })
  const claims = { sub: 'ada', ip: '100.64.0.7' }
  const cookie = await cookieOf('main', claims, { host: 'auth.example.com' })
  const authorization = `Bearer ${cookie.split('=')[1]}`
  const statusOf = async (forwardedFor: string | undefined, remoteAddress: string) => {
    const headers = {
      authorization,
      ...(forwardedFor !== undefined && { 'x-forwarded-for': forwardedFor }),
    }
    const url = `${AUTH}/api/portals/main/verify`
    return (await visitor().open(url, { headers, remoteAddress })).statusCode
  }
  t.equal(await statusOf('100.64.0.7', '127.0.0.1'), 200, 'told by a trusted proxy')
  t.equal(await statusOf('100.64.0.8', '127.0.0.1'), 401, 'another address')
  t.equal(await statusOf(undefined, '127.0.0.1'), 401, 'no address')
  t.equal(await statusOf('100.64.0.7', '192.0.2.1'), 401, 'told by anybody')
  t.equal(await statusOf(undefined, '100.64.0.7'), 200, 'from the address itself')
})

t.test('verify takes no token of two, as somebody before it may have read the other', async (t) => {
  const { app, token } = await startAs(t)
  const origin = await app.listen({ host: '127.0.0.1', port: 0 })
  const statusOf = async (...tokens: string[]) => {
    const sent = tokens.flatMap((each) => ['Authorization', `Bearer ${each}`])
    const headers = ['Host', 'auth.example.com', ...sent]
    const asked = request(`${origin}/api/portals/main/verify`, { headers }).end()
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    answer.resume()
    return answer.statusCode
  }
  t.equal(await statusOf(token), 200)
  t.equal(await statusOf(token, 'another'), 401)
  t.equal(await statusOf(token, token), 401)
})

t.test('verify tells the groups that a token has no room for, and asks who may in', async (t) => {
  const groups = ['admin', ...Array.from({ length: 400 }, (_, i) => `group ${i}`)]
  const { token, verify } = await startAs(t, { ...ADA, groups })
  t.ok(token.length <= 3_800, `${token.length} characters`)
  t.notMatch(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString(), 'group 7')
  t.match((await verify({ authorization: `Bearer ${token}` })).json(), { claims: { groups } })

  const { visitor, signIn: cookieOf } = await start(t, { admits: () => false })
  const cookie = await cookieOf('main', {}, { host: 'auth.example.com' })
  const headers = { authorization: `Bearer ${cookie.split('=')[1]}` }
  const refused = await visitor().open(`${AUTH}/api/portals/main/verify`, { headers })
  t.equal(refused.statusCode, 401)
})

t.test('with a base path everything is below it, and verify at the root too', async (t) => {
  const yaml = yamlOf(portalOf('main'), 'server: { basePath: /gate }')
  const { visitor, corp } = await start(t, { yaml })
  const ada = visitor()
  const done = await signIn(ada, corp, 'ada', `${AUTH}/gate/portals/main/signin`)
  t.equal(done.headers.location, `${AUTH}/gate/portals/main/account`)
  t.equal((await ada.open(`${AUTH}/gate/portal/main/profile`)).statusCode, 200)
  t.equal((await ada.open(`${AUTH}/portal/main/profile`)).statusCode, 404)
  const authorization = `Bearer ${ada.jar.get('__Host-gatehouse.main')}`
  for (const path of ['/gate/api/portals/main/verify', '/api/portals/main/verify'])
    t.equal((await ada.open(`${AUTH}${path}`, { headers: { authorization } })).statusCode, 200)
})
