import { hash } from 'node:crypto'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import {
  AUDIENCE,
  NOW,
  startTokenIssuer,
} from '../../../../packages/identity-providers/test/stand-ins/token-issuer.ts'
import {
  readToken,
  signingKey,
} from '../../../../packages/identity-providers/test/stand-ins/tokens.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, startApp, type TestApp, yamlOf } from '../app.ts'
import { BROWSER, SHAPES, type Shape } from '../shapes.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'AUTH_ISSUER_UNREACHABLE', 'FWA_IDENTITY_UNSENDABLE')

const shapeOf = (proxy: string) => SHAPES.find((each) => each.proxy.startsWith(proxy)) as Shape
const TRAEFIK = shapeOf('traefik')
const KEY = 'correct-horse-battery-staple'
const DEPLOY_KEY = 'deploy-horse-battery-staple'

const POLICIES = `policies: {
  staff: 'Group("staff")', deploy: 'Group("ops") || Scope("deploy")',
  acme: 'caller.claims.owner == "acme"', strong: { acr: [mfa], maxAge: 10m }
}`

async function startWithPrograms(t: Test) {
  const issuer = await startTokenIssuer(t)
  const callers = `callers: {
    keys: [
      { name: ci, key: ${KEY}, hosts: [app.example.com, "*.tools.example.com"] },
      { name: deployer, key: ${DEPLOY_KEY}, scopes: [deploy], policies: [deploy] }
    ],
    issuers: [
      { name: corp-ci, issuerUrl: "${issuer.origin}", audience: "${AUDIENCE}",
        hosts: [app.example.com], allow: 'caller.claims.blocked != true || !has(caller.claims.blocked)' }
    ]
  }`
  const flat = (text: string) => text.replace(/\s+/g, ' ')
  const yaml = yamlOf(
    portalOf(
      'main',
      flat(
        `${callers}, ${POLICIES}, headers: [default, remote-*, { name: X-Method, property: method }],
          assertion: { hosts: [app.example.com] }`,
      ),
    ) +
      portalOf('none', flat(POLICIES)) +
      portalOf(
        'open',
        flat(`${callers}, ${POLICIES}, rules: [{ paths: [/open/*], require: anyone }]`),
      ),
  )
  return { issuer, yaml, ...(await startApp(t, yaml)) }
}

const PROGRAM = { Accept: 'application/json', 'X-Forwarded-Method': 'GET' }

interface Asked {
  readonly auth?: string | undefined
  readonly cookie?: string
  readonly host?: string
  readonly query?: string
  readonly portal?: string
  readonly headers?: Record<string, string>
}

async function ask({ check }: TestApp, asked: Asked) {
  const { auth, cookie, host = 'app.example.com', query = '', portal = 'main', headers } = asked
  const answer = await check(
    TRAEFIK,
    {
      ...PROGRAM,
      'X-Forwarded-Host': host,
      ...(auth !== undefined && { Authorization: auth }),
      ...(cookie !== undefined && { Cookie: cookie }),
      ...headers,
    },
    { portal, query },
  )
  return {
    status: answer.statusCode,
    code: answer.statusCode === 200 ? undefined : JSON.parse(answer.body).code,
    user: answer.headers['x-forwarded-user'],
    headers: answer.headers,
  }
}

t.test('a key as the password of Basic, where its row says so', async (t) => {
  const withColons = ':colons:in:the:key:'
  const keys = (basic: string) => `callers: { keys: [
    { name: reader, key: ${KEY}, hosts: [app.example.com]${basic} },
    { name: hashed, keySha256: ${hash('sha256', withColons)}, hosts: [app.example.com]${basic} },
    { name: plain, key: ${DEPLOY_KEY}, hosts: [app.example.com] } ] }`
  const open = 'rules: [{ paths: [/open/*], require: anyone }]'
  const flat = (text: string) => text.replace(/\s+/g, ' ')
  const yaml = yamlOf(
    portalOf('main', flat(`${keys(', basic: true')}, ${open}`)) + portalOf('none', flat(keys(''))),
  )
  const test = { ...(await startApp(t, yaml)), yaml }
  const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`
  const key = basic(`reader:${KEY}`)
  const naming = { 'Access-Control-Request-Headers': 'authorization' }
  const others = 'APIKey realm="api", Cookie realm="main"'
  const challenge = 'Basic realm="main", charset="UTF-8"'
  const rows: [why: string, asked: Asked, status: number, code?: string, challenges?: string][] = [
    ['the key of the name', { auth: key }, 200],
    ['the same as APIKey', { auth: `APIKey ${KEY}` }, 200],
    ['a wrong key', { auth: basic(`reader:${KEY}x`) }, 401, 'AUTH_KEY_INVALID'],
    ['no key', { auth: basic('reader:') }, 401, 'AUTH_KEY_INVALID'],
    ['the key of another row', { auth: basic(`reader:${DEPLOY_KEY}`) }, 401, 'AUTH_KEY_INVALID'],
    ['another name', { auth: basic(`other:${KEY}`) }, 401, 'AUTH_KEY_INVALID'],
    ['another case', { auth: basic(`Reader:${KEY}`) }, 401, 'AUTH_KEY_INVALID'],
    ['a row without basic', { auth: basic(`plain:${DEPLOY_KEY}`) }, 401, 'AUTH_KEY_INVALID'],
    ['of the app', { auth: basic('plain:secret') }, 401, 'FWA_NO_SESSION'],
    ['no Basic', { auth: `Basic reader:${KEY}` }, 401, 'FWA_NO_SESSION'],
    ['no space', { auth: key.replace(' ', '') }, 401, 'FWA_NO_SESSION'],
    ['no user', { auth: basic(`:${KEY}`) }, 401, 'AUTH_KEY_INVALID'],
    ['a byte order mark', { auth: basic(`\ufeffreader:${KEY}`) }, 401, 'AUTH_KEY_INVALID'],
    ['an end of line', { auth: basic(`reader:${KEY}\n`) }, 401, 'AUTH_KEY_INVALID'],
    ['a long key', { auth: basic(`reader:${'x'.repeat(6_000)}`) }, 401, 'AUTH_KEY_INVALID'],
    ['lower case', { auth: key.replace('Basic', 'basic ') }, 200],
    ['a header that names it', { auth: key, headers: naming }, 200],
    ['other padding', { auth: `${key}=` }, 400, 'AUTH_HEADER_INVALID'],
    ['a tab', { auth: key.replace(' ', '\t') }, 400, 'AUTH_HEADER_INVALID'],
    ['a gap', { auth: key.replace(/.{8}$/, ' $&') }, 400, 'AUTH_HEADER_INVALID'],
    ['two in one', { auth: `${key}, ${key}` }, 400, 'AUTH_HEADER_INVALID'],
    ['an odd spelling of that of the app', { auth: `${basic('a:b')}=` }, 401, 'FWA_NO_SESSION'],
    ['elsewhere', { auth: key, host: 'other.example.com' }, 403, 'FWA_FORBIDDEN', ''],
    ['nobody', {}, 401, 'FWA_NO_SESSION'],
    ['nobody elsewhere', { host: 'other.example.com' }, 401, 'FWA_NO_SESSION', others],
    ['a script', { headers: { 'Sec-Fetch-Mode': 'cors' } }, 401, 'FWA_NO_SESSION', others],
    ['a page', { headers: { Origin: 'https://a.example' } }, 401, 'FWA_NO_SESSION', others],
    ['an old page', { headers: { 'X-Requested-With': 'x' } }, 401, 'FWA_NO_SESSION', others],
  ]
  for (const [why, asked, status, code, challenges] of rows) {
    const answer = await ask(test, asked)
    t.match(answer, { status, code, user: status === 200 ? 'psk:reader' : undefined }, why)
    const own = code === 'FWA_NO_SESSION' ? others : 'APIKey realm="api"'
    const withBasic = status === 401 ? `${own}, ${challenge}` : own
    const expected = challenges ?? (status === 200 ? '' : withBasic)
    t.equal(answer.headers['www-authenticate'] ?? '', expected, why)
  }
  const hashed = await ask(test, { auth: basic(`hashed:${withColons}`) })
  t.match(hashed, { status: 200, user: 'psk:hashed' }, 'the hash of a key with colons')
  const twice = (...rawHeaders: string[]) => {
    const headers = { authorization: key }
    const request = { headers, raw: { headers, rawHeaders } } as never
    const host = { name: 'app.example.com' }
    return test.app.portals.get('main')!.gate.checkProgram(request, host, 'any', 0)
  }
  const plain = await twice('Authorization', key, 'Access-Control-Request-Headers', 'Authorization')
  t.match(plain, { principal: { caller: 'psk:reader' } })
  await t.rejects(twice('Authorization', key, 'authorization', 'Bearer x'), {
    code: 'AUTH_HEADER_INVALID',
  })
  const none = await ask(test, { auth: key, portal: 'none' })
  t.match(none, { status: 401, code: 'AUTH_KEY_INVALID' }, 'a portal without such rows')
  const ofApp = await ask(test, { auth: basic('a:b'), portal: 'none' })
  t.match(ofApp, { status: 401, code: 'FWA_NO_SESSION' }, 'that of an app')
  t.notMatch(none.headers['www-authenticate'], 'Basic')
  const page = await test.check(TRAEFIK, { ...BROWSER, 'X-Forwarded-Method': 'GET' })
  t.match(page, { statusCode: 302, headers: { 'www-authenticate': undefined } })
  await test.reload(yaml.replace('name: reader', 'name: ereader'))
  t.match(await ask(test, { auth: key }), { status: 401, code: 'AUTH_KEY_INVALID' }, 'renamed')
  t.match(await ask(test, { auth: basic(`ereader:${KEY}`) }), { status: 200, user: 'psk:ereader' })
  await test.reload(yaml.replaceAll(', basic: true', ''))
  t.match(await ask(test, { auth: key }), { status: 401, code: 'AUTH_KEY_INVALID' }, 'taken back')
})

t.test('no key reaches an app, whichever rule lets it pass', async (t) => {
  const issuer = await startTokenIssuer(t)
  const bearer = `Bearer ${issuer.issue()}`
  const issuers = `issuers: [{ name: corp-ci, issuerUrl: "${issuer.origin}", audience: "${AUDIENCE}", hosts: [app.example.com] }]`
  const callers = `callers: { ${issuers}, keys: [{ name: reader, key: ${KEY}, hosts: [app.example.com], basic: true }] }`
  const yaml = yamlOf(
    portalOf('main', `${callers}, rules: [{ paths: [/open/*], require: anyone }]`),
  )
  const test = { ...(await startApp(t, yaml)), yaml }
  const cookie = await test.signIn('main')
  const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`
  const anyone = { 'X-Forwarded-Uri': '/open/a' }
  const key = basic(`reader:${KEY}`)
  const rows: [why: string, asked: Asked, toApp: string | undefined][] = [
    ['the key', { auth: key }, ''],
    ['the key, in another spelling', { auth: key.replace('Basic', 'bASIC') }, ''],
    ['where anyone may pass', { auth: key, headers: anyone, host: 'other.example.com' }, ''],
    ['that of the app', { auth: basic('a:b'), cookie }, basic('a:b')],
    ['that of the app, for anyone', { auth: basic('a:b'), headers: anyone }, basic('a:b')],
    ['an API key', { auth: `APIKey ${KEY}` }, ''],
    ['an API key, in another spelling', { auth: `apikey  ${KEY}` }, ''],
    ['an API key beside a session', { auth: `APIKey ${KEY}`, cookie }, ''],
    ['an API key where anyone may pass', { auth: `APIKey ${KEY}`, headers: anyone }, ''],
    [
      'the same, at a host that it does not reach',
      { auth: `APIKey ${KEY}`, headers: anyone, host: 'other.example.com' },
      '',
    ],
    ['the token of a program', { auth: bearer }, bearer],
    ['a token of the app', { auth: 'Bearer abc', cookie }, 'Bearer abc'],
    ['bytes', { auth: 'Basic \xe9', cookie }, ''],
    ['nothing', { cookie }, undefined],
  ]
  for (const [why, asked, toApp] of rows) {
    const { status, headers } = await ask(test, asked)
    t.strictSame([status, headers.authorization], [200, toApp], why)
  }
  const misplaced = [`APIKey\t${KEY}`, `ApiKey=${KEY}`, `Bearer ${KEY}`, `Token ${KEY}`, KEY]
  const wrong = [basic(`reader:${KEY}x`), `${key}=`, key.replace(' ', '\t'), `${key},${key}`]
  for (const auth of [...misplaced, ...wrong, `APIKey ${KEY}x`, basic(`a:${KEY}`)])
    for (const headers of [{}, anyone]) {
      const refused = await ask(test, { auth, headers, cookie })
      t.not(refused.status, 200, auth)
      t.equal(refused.headers.authorization, undefined)
    }
})

t.test('programs reach what their row names, and nothing else', async (t) => {
  const test = await startWithPrograms(t)
  const { issue } = test.issuer
  const key = `APIKey ${KEY}`
  const deploy = `APIKey ${DEPLOY_KEY}`
  const bearer = (claims: object = {}) => `Bearer ${issue(claims)}`
  const rows: [why: string, asked: Asked, user: string | undefined, code?: string][] = [
    ['a key', { auth: key }, 'psk:ci'],
    ['a key, in another spelling of the scheme', { auth: `apikey ${KEY}` }, 'psk:ci'],
    ['a key at a host below', { auth: key, host: 'x.tools.example.com' }, 'psk:ci'],
    ['a key elsewhere', { auth: key, host: 'other.example.com' }, undefined, 'FWA_FORBIDDEN'],
    ['a key above', { auth: key, host: 'tools.example.com' }, undefined, 'FWA_FORBIDDEN'],
    ['a wrong key', { auth: 'APIKey wrong-wrong-wrong-wrong' }, undefined, 'AUTH_KEY_INVALID'],
    ['no key', { auth: 'APIKey' }, undefined, 'AUTH_HEADER_INVALID'],
    [
      'a key where people are meant',
      { auth: key, query: '?policy=staff' },
      undefined,
      'FWA_FORBIDDEN',
    ],
    [
      'a key without the scope',
      { auth: key, query: '?policy=deploy' },
      undefined,
      'AUTH_SCOPE_MISSING',
    ],
    ['a key for its policy', { auth: deploy, query: '?policy=deploy' }, 'psk:deployer'],
    [
      'its policy at any host',
      { auth: deploy, query: '?policy=deploy', host: 'b.example.com' },
      'psk:deployer',
    ],
    ['a key without its policy', { auth: deploy }, undefined, 'FWA_FORBIDDEN'],
    ['another policy', { auth: deploy, query: '?policy=acme' }, undefined, 'FWA_FORBIDDEN'],
    ['a condition of the route', { auth: deploy, query: '?if=true' }, undefined, 'FWA_FORBIDDEN'],
    ['a condition that holds', { auth: key, query: '?if=caller.method==%22psk%22' }, 'psk:ci'],
    [
      'a key never authenticates anew',
      { auth: key, query: '?policy=strong' },
      undefined,
      'FWA_FORBIDDEN',
    ],
    ['a token', { auth: bearer() }, 'corp-ci:robot'],
    [
      'a token with a scope',
      { auth: bearer({ scope: 'x deploy' }), query: '?policy=deploy' },
      'corp-ci:robot',
    ],
    [
      'a token without',
      { auth: bearer(), query: '?policy=deploy' },
      undefined,
      'AUTH_SCOPE_MISSING',
    ],
    [
      'a token with a claim',
      { auth: bearer({ owner: 'acme' }), query: '?policy=acme' },
      'corp-ci:robot',
    ],
    [
      'a token with another',
      { auth: bearer({ owner: 'x' }), query: '?policy=acme' },
      undefined,
      'FWA_FORBIDDEN',
    ],
    [
      'groups of a token',
      { auth: bearer({ groups: ['staff'] }), query: '?policy=staff' },
      undefined,
      'FWA_FORBIDDEN',
    ],
    [
      'a token that is not allowed',
      { auth: bearer({ blocked: true }) },
      undefined,
      'FWA_FORBIDDEN',
    ],
    ['a token elsewhere', { auth: bearer(), host: 'b.example.com' }, undefined, 'FWA_FORBIDDEN'],
    [
      'a token that has expired',
      { auth: bearer({ exp: NOW - 31 }) },
      undefined,
      'AUTH_TOKEN_EXPIRED',
    ],
    ['for another audience', { auth: bearer({ aud: 'x' }) }, undefined, 'AUTH_TOKEN_AUDIENCE'],
    [
      'valid for too long',
      { auth: bearer({ exp: NOW + 90_000 }) },
      undefined,
      'AUTH_TOKEN_LIFETIME',
    ],
    ['an ID token', { auth: bearer({ nonce: 'x' }) }, undefined, 'AUTH_TOKEN_TYPE'],
    [
      'signed by another key',
      { auth: `Bearer ${issue({}, {}, signingKey('k1'))}` },
      undefined,
      'AUTH_TOKEN_SIGNATURE',
    ],
    [
      'a weak sign-in',
      { auth: bearer({ acr: 'pwd', auth_time: NOW }), query: '?policy=strong' },
      undefined,
      'FWA_STEP_UP_REQUIRED',
    ],
    [
      'a strong one',
      { auth: bearer({ acr: 'mfa', auth_time: NOW - 60 }), query: '?policy=strong' },
      'corp-ci:robot',
    ],
  ]
  for (const [why, asked, user, code] of rows) {
    const answer = await ask(test, asked)
    t.match([answer.user, answer.code], [user, code], why)
    t.equal(
      answer.status,
      user === undefined
        ? ({ FWA_FORBIDDEN: 403, AUTH_SCOPE_MISSING: 403, AUTH_HEADER_INVALID: 400 }[code ?? ''] ??
            401)
        : 200,
      why,
    )
  }
})

t.test('credentials of others are the affair of the app: the session counts', async (t) => {
  const test = await startWithPrograms(t)
  const { issue } = test.issuer
  const cookie = await test.signIn('main')
  const foreign = issue({ iss: 'https://other.example' })
  for (const auth of ['Basic dTpw', `Bearer ${foreign}`, 'Bearer opaque', 'Bearer', 'DPoP x', ''])
    for (const who of [cookie, undefined]) {
      const { status, user } = await ask(test, { auth, ...(who && { cookie: who }) })
      t.match(
        [status, user],
        who ? [200, 'ada'] : [401, undefined],
        `${auth}, ${who && 'a session'}`,
      )
    }
  const here = await test.signIn('none')
  for (const auth of [`APIKey ${KEY}`, `Bearer ${issue()}`]) {
    t.match(await ask(test, { auth, cookie: here, portal: 'none' }), { status: 200, user: 'ada' })
    t.match(await ask(test, { auth, portal: 'none' }), { status: 401, code: 'FWA_NO_SESSION' })
  }
  t.match(
    await ask(test, { auth: 'APIKey wrong-wrong-wrong-wrong', cookie }),
    { status: 401, code: 'AUTH_KEY_INVALID' },
    'a session does not make up for a wrong key',
  )
  t.match(
    await ask(test, { auth: `APIKey ${KEY}`, cookie }),
    { user: 'psk:ci' },
    'nor outranks a key',
  )
})

t.test(
  'where anyone may pass, a program that may not is nobody, and a wrong key is refused',
  async (t) => {
    const test = await startWithPrograms(t)
    const open = { portal: 'open', headers: { 'X-Forwarded-Uri': '/open/x' } }
    const rows: [asked: Asked, status: number, user: string | undefined][] = [
      [{}, 200, ''],
      [{ auth: `APIKey ${KEY}` }, 200, 'psk:ci'],
      [{ auth: `APIKey ${KEY}`, host: 'elsewhere.example.com' }, 200, ''],
      [{ auth: 'Basic dTpw' }, 200, ''],
      [{ auth: 'APIKey wrong-wrong-wrong-wrong' }, 401, undefined],
      [{ auth: `Bearer ${test.issuer.issue({ exp: 1 })}` }, 401, undefined],
    ]
    for (const [asked, status, user] of rows)
      t.match(await ask(test, { ...open, ...asked }), { status, user }, JSON.stringify(asked))
  },
)

t.test('a program is never redirected, and gets every challenge', async (t) => {
  const test = await startWithPrograms(t)
  const { issue } = test.issuer
  const challenges = async (asked: Asked) => {
    const { 'www-authenticate': challenge } = (await ask(test, asked)).headers
    t.type(challenge, 'string', 'one line, since proxies keep no more, or reorder them')
    return String(challenge).split(/, (?=Bearer |APIKey |Cookie )/)
  }
  t.strictSame(await challenges({}), [
    'Bearer realm="main"',
    'APIKey realm="api"',
    'Cookie realm="main"',
  ])
  t.strictSame(await challenges({ portal: 'none' }), ['Cookie realm="none"'])
  t.match(await challenges({ auth: `Bearer ${issue({ exp: NOW - 60 })}` }), [
    /^Bearer realm="main", error="invalid_token", error_description="[^"]+"$/,
    'APIKey realm="api"',
  ])
  t.match(await challenges({ auth: `Bearer ${issue()}`, query: '?policy=deploy' }), [
    /^Bearer realm="main", error="insufficient_scope", .*scope="deploy"$/,
    'APIKey realm="api"',
  ])
  const strong = { auth: `Bearer ${issue({ acr: 'pwd' })}`, query: '?policy=strong' }
  t.match(await challenges(strong), [
    /^Bearer realm="main", error="insufficient_user_authentication", error_description="[^"]+", acr_values="mfa", max_age="600"$/,
    'APIKey realm="api"',
  ])
  for (const shape of SHAPES)
    for (const auth of ['APIKey wrong-wrong-wrong-wrong', `Bearer ${issue({ exp: 1 })}`]) {
      const { statusCode, headers } = await test.check(shape, { ...BROWSER, Authorization: auth })
      t.match(
        [statusCode, headers.location],
        [401, undefined],
        `${shape.proxy}: ${auth.slice(0, 12)}`,
      )
      t.ok(headers['www-authenticate'], shape.proxy)
    }
})

t.test('apps get to know the program, in headers and the assertion', async (t) => {
  const test = await startWithPrograms(t)
  const { issue } = test.issuer
  const read = async (auth: string) => {
    const { headers } = await ask(test, { auth })
    const assertion = readToken(String(headers['x-gatehouse-assertion']))
    const { iss, aud, iat, exp, ...claims } = assertion
    t.match(
      [iss, aud, Number(exp) - Number(iat)],
      ['https://auth.example.com/portals/main', 'https://app.example.com', 60],
    )
    return { headers, claims }
  }
  const key = await read(`APIKey ${KEY}`)
  t.strictSame(key.claims, { sub: 'psk:ci', method: 'psk', scope: '' })
  t.match(key.headers, {
    'x-forwarded-user': 'psk:ci',
    'x-forwarded-displayname': '',
    'remote-user': 'psk:ci',
    'remote-email': '',
    'remote-groups': '',
    'x-method': 'psk',
  })
  const token = await read(
    `Bearer ${issue({ sub: 'repo:acme/x', scope: 'a b', email: 'x@example.com', groups: ['admin'] })}`,
  )
  t.strictSame(token.claims, {
    sub: 'corp-ci:repo:acme/x',
    method: 'jwt',
    provider: 'corp-ci',
    scope: 'a b',
  })
  t.match(token.headers, {
    'x-forwarded-user': 'corp-ci:repo:acme/x',
    'remote-email': '',
    'remote-groups': '',
    'x-method': 'jwt',
  })
  const evil = await ask(test, { auth: `Bearer ${issue({ sub: 'a\r\nX-Admin: 1' })}` })
  t.match([evil.status, evil.code], [403, 'FWA_IDENTITY_UNSENDABLE'])
})

t.test('no person passes for a program', async (t) => {
  const test = await startWithPrograms(t)
  await test.reload(test.yaml.replace('name: main, ', 'name: main, userHeader: username, '))
  const userOf = async (name: string) => {
    const cookie = await test.signIn('main', { preferred_username: name })
    const { status, user } = await ask(test, { cookie })
    return status === 200 ? user : status
  }
  t.equal((await ask(test, { auth: `APIKey ${KEY}` })).user, 'psk:ci')
  t.equal(await userOf('ci'), 'ci', 'the name of a key')
  t.equal(await userOf('psk:ci'), 403)
  t.equal(await userOf('corp-ci:robot'), 403)
  t.equal(await userOf('other:robot'), 'other:robot')
  t.equal(await userOf('PSK:ci'), 403, 'which some apps take for the same')
  await test.reload(
    test.yaml.replace(
      'headers: [default',
      'headers: [{ name: X-Id, property: id }, { name: X-Login, claim: login }, default',
    ),
  )
  const idOf = async (asked: Asked) => (await ask(test, asked)).headers['x-id']
  t.equal(await idOf({ auth: `APIKey ${KEY}` }), 'psk:ci')
  const signedInAs = async (claims: object) => ({ cookie: await test.signIn('main', claims) })
  t.equal(await idOf(await signedInAs({ sub: 'ci' })), 'ci')
  t.equal((await ask(test, await signedInAs({ sub: 'psk:ci' }))).status, 403)
  t.equal((await ask(test, await signedInAs({ login: 'psk:ci' }))).status, 403, 'in any header')
})

t.test('a key or token that is sent again costs no verification', async (t) => {
  const test = await startWithPrograms(t)
  const auth = `Bearer ${test.issuer.issue()}`
  t.equal((await ask(test, { auth })).status, 200)
  await test.issuer.stop()
  const headers = { authorization: auth }
  const request = { headers, raw: { headers, rawHeaders: [] } } as never
  const { gate } = test.app.portals.get('main')!
  const asked = [1, 2].map(() => gate.checkProgram(request, { name: 'app.example.com' }, 'any', 0))
  const [one, two] = await Promise.all(asked)
  t.equal(one?.principal, two?.principal, 'the same object')
  await test.clock.advance(640_000)
  t.equal((await ask(test, { auth })).code, 'AUTH_TOKEN_EXPIRED')
})

t.test('an issuer that cannot be reached denies, for now', async (t) => {
  const test = await startWithPrograms(t)
  const auth = `Bearer ${test.issuer.issue()}`
  await test.issuer.stop()
  const { status, code, headers } = await ask(test, { auth })
  t.match([status, code], [503, 'AUTH_ISSUER_UNREACHABLE'])
  t.equal(headers['www-authenticate'], undefined)
  const ofIngress = await test.check(shapeOf('ingress-nginx'), { Authorization: auth })
  t.equal(ofIngress.statusCode, 403, 'ingress-nginx makes a 500 of every other status')
})

t.test('a reload drops keys that were removed', async (t) => {
  const test = await startWithPrograms(t)
  const auth = `APIKey ${KEY}`
  t.equal((await ask(test, { auth })).status, 200)
  await test.reload(test.yaml.replaceAll(KEY, 'another-horse-battery-staple'))
  t.match(await ask(test, { auth }), { status: 401, code: 'AUTH_KEY_INVALID' })
})

t.test('the log has the program, what refused it, and no credentials', async (t) => {
  const test = await startWithPrograms(t)
  const token = test.issuer.issue({ exp: NOW - 60 })
  await ask(test, { auth: `APIKey ${KEY}`, query: '?policy=staff' })
  await ask(test, { auth: `Bearer ${token}` })
  await ask(test, { auth: 'APIKey guess-guess-guess-guess' })
  t.match(
    test.log.find(({ refusedBy }) => refusedBy),
    {
      caller: 'psk:ci',
      refusedBy: 'policy staff',
      clause: 'Group("staff")',
    },
  )
  t.match(
    test.log.find(({ msg }) => msg === 'access refused'),
    { event: 'access-refused', caller: 'psk:ci', code: 'FWA_FORBIDDEN' },
    'and the audit trail has it too',
  )
  t.match(
    test.log.filter(({ msg }) => msg === 'caller refused'),
    [{ code: 'AUTH_TOKEN_EXPIRED' }, { code: 'AUTH_KEY_INVALID' }],
  )
  const text = JSON.stringify(test.log)
  for (const secret of [KEY, token, 'guess-guess'])
    t.notOk(text.includes(secret), secret.slice(0, 10))
})

t.test('a program that passes is recorded once a minute for each host', async (t) => {
  const test = await startWithPrograms(t)
  const auth = `APIKey ${KEY}`
  const token = () => `Bearer ${test.issuer.issue({ jti: String(Math.random()) })}`
  const passed = async () => {
    await test.app.auditTrail.flush()
    const rows: string[] = []
    for await (const { event, person, host, count } of test.app.authStore.audit.rows(0))
      if (event === 'program-passed') rows.push(`${person} ${host}${count ? ` x${count}` : ''}`)
    return rows
  }
  for (let i = 0; i < 3; i++) await ask(test, { auth })
  await ask(test, { auth, host: 'x.tools.example.com' })
  await ask(test, { auth, host: 'other.example.com' })
  for (let i = 0; i < 3; i++) await ask(test, { auth: token() })
  const once = [
    'psk:ci app.example.com',
    'psk:ci x.tools.example.com',
    'jwt:corp-ci:robot app.example.com',
  ]
  t.strictSame(await passed(), once, 'not for each token')
  await test.clock.advance(60_000)
  const repeats = ['psk:ci app.example.com x2', 'jwt:corp-ci:robot app.example.com x2']
  t.strictSame(await passed(), [...once, ...repeats])
  await ask(test, { auth })
  t.strictSame(await passed(), [...once, ...repeats, 'psk:ci app.example.com'])
})

t.test('nothing but a valid credential makes a program', async (t) => {
  const test = await startWithPrograms(t)
  const good = test.issuer.issue()
  const parts = [KEY, DEPLOY_KEY, good, 'APIKey ', 'Bearer ', 'Basic ', ' ', '.', ',', 'x', '=']
  const header = fc
    .array(fc.oneof(fc.constantFrom(...parts), fc.string({ maxLength: 5 })), { maxLength: 5 })
    .map((all) => all.join('').replace(/[^ -~]/g, ''))
  const valid = new RegExp(`^(apikey +(${KEY}|${DEPLOY_KEY})|bearer +${good})$`, 'i')
  await fc.assert(
    fc.asyncProperty(header, async (auth) => {
      const { status } = await ask(test, { auth })
      if (status === 200) t.match(auth.trim(), valid)
    }),
    { numRuns: 2_000 },
  )
  t.equal((await ask(test, { auth: `Bearer ${good}` })).status, 200)
})

t.test('a program has two keys while one takes the place of the other', async (t) => {
  const next = 'another-horse-battery-staple'
  const folder = t.testdir({ next: `${next}\n`, old: `${KEY}\n` })
  const row = `{ name: ci, keyFiles: [${folder}/next, ${folder}/old], hosts: [app.example.com], basic: true }`
  const app = await startApp(t, yamlOf(portalOf('main', `callers: { keys: [${row}] }`)))
  const basic = (key: string) => `Basic ${Buffer.from(`ci:${key}`).toString('base64')}`
  for (const [key, status] of [
    [next, 200],
    [KEY, 200],
    ['yet-another-horse-battery', 401],
  ] as const)
    for (const auth of [`APIKey ${key}`, basic(key)])
      t.equal((await ask(app, { auth })).status, status, auth)
})
