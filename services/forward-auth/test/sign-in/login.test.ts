import { globSync, readFileSync } from 'node:fs'
import type { SeamlessProvider } from '@gatehouse/identity-providers'
import { fromClaims } from '@gatehouse/profile'
import t from 'tap'
import { createBrowser } from '../../../../packages/identity-providers/test/stand-ins/browser.ts'
import { startOpenIdProvider } from '../../../../packages/identity-providers/test/stand-ins/openid-provider.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { ERRORS } from '../../src/errors.ts'
import { fill, textsIn } from '../../src/pages/languages.ts'
import { CORP, DOMAINS, portalOf, SESSION_KEY, startApp, yamlOf } from '../app.ts'
import { createFakeProvider } from '../fake-provider.ts'
import {
  AUTH,
  arrive,
  goalOf,
  MAIN,
  SCRIPT,
  signIn,
  signInUrl,
  start,
  WANTED,
  whoIs,
} from '../portal/kit.ts'
import { createVisitor } from '../visitor.ts'
import { sent as hostCookie } from '../web/kit.ts'

const texts = textsIn('en')

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_CALLBACK_FOREIGN', 'FWA_PROVIDER_INVALID', 'FWA_PROVIDER_UNREACHABLE')

const SESSION_COOKIE = '__Host-gatehouse.main'
const CALLBACK = `${MAIN}/providers/corp/callback`

t.test('a person signs in and comes back to where they wanted to go', async (t) => {
  const { corp, visitor } = await start(t)
  const ada = visitor()
  const begun = await ada.open(signInUrl())
  t.equal(begun.statusCode, 303)
  t.match(begun.headers, { 'cache-control': 'no-store', location: /^https:\/\/corp\.test\// })
  t.match(
    String(begun.headers['set-cookie']),
    /^__Host-gatehouse-login\.main\.[\w-]{8}=[\w-]{43}; Max-Age=600; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
  )
  t.equal(await whoIs(ada), 401)

  const done = await ada.open(corp.authorize(begun.headers.location, 'ada'))
  t.equal(goalOf(done), WANTED)
  const setCookies = [done.headers['set-cookie'] ?? []].flat()
  t.notOk(
    setCookies.some((line) => line.includes('gatehouse-login')),
    'other tabs may need it',
  )
  t.match(
    setCookies.find((line) => line.startsWith(`${SESSION_COOKIE}=`)),
    /^__Host-gatehouse\.main=[\w.-]+; Max-Age=28800; Path=\/; HttpOnly; Secure; Priority=High; SameSite=Lax$/,
  )
  t.equal(await whoIs(ada), 'ada')
  t.equal(await whoIs(ada, 'other'), 401, 'at this portal only')
})

t.test('the whole way with a real OpenID provider', async (t) => {
  const { issuer, options } = await startOpenIdProvider(t)
  const provider = `{ type: openIDConnect, name: corp, issuerUrl: "${issuer}", clientId: ${options.clientId}, clientSecret: "${options.clientSecret}", scopes: [openid, profile, email, groups] }`
  const { app } = await startApp(t, yamlOf(portalOf('main').replace(CORP, provider)))
  const [alice, bob] = [createVisitor(app), createVisitor(app)]
  for (const [visitor, name] of [
    [alice, 'alice'],
    [bob, 'bob'],
  ] as const) {
    const begun = await visitor.open(signInUrl())
    const back = await createBrowser().signIn(String(begun.headers.location), name)
    const done = await visitor.open(back)
    t.equal(goalOf(done), WANTED)
    const twice = await visitor.open(back)
    t.equal(goalOf(twice), WANTED, 'the callback once more')
  }
  t.equal(await whoIs(alice), 'alice')
  t.equal(await whoIs(bob), 'bob')
})

t.test('500 interleaved logins do not mix up people', async (t) => {
  const { corp, visitor } = await start(t)
  const people = Array.from({ length: 500 }, (_, i) => ({ sub: `person-${i}`, browser: visitor() }))
  const shuffled = people.toSorted((a, b) => (a.sub.at(-1)! < b.sub.at(-1)! ? 1 : -1))
  const begun = await Promise.all(people.map(({ browser }) => browser.open(signInUrl())))
  await Promise.all(
    shuffled.map(({ sub, browser }) => {
      const { location } = begun[people.findIndex((each) => each.sub === sub)]!.headers
      return browser.open(corp.authorize(location, sub))
    }),
  )
  const wrong: unknown[] = []
  for (const { sub, browser } of people) if ((await whoIs(browser)) !== sub) wrong.push(sub)
  t.strictSame(wrong, [])
})

t.test('a login that began on one instance is finished on another', async (t) => {
  const corp = createFakeProvider()
  const [one, two] = await Promise.all([1, 2].map(() => start(t, { corp })))
  const begun = await one!.visitor().open(signInUrl())
  const ada = two!.visitor()
  const [cookie = ''] = String(begun.headers['set-cookie']).split(';')
  const done = await ada.open(corp.authorize(begun.headers.location, 'ada'), {
    headers: { cookie },
  })
  t.equal(goalOf(done), WANTED)
  t.equal(await whoIs(ada), 'ada')
})

t.test('a callback is accepted once, and only in the browser that began the login', async (t) => {
  const { corp, visitor } = await start(t)
  const [ada, eve] = [visitor(), visitor()]
  const begun = await eve.open(signInUrl())
  const callback = corp.authorize(begun.headers.location, 'eve')

  const lured = await ada.open(callback)
  t.match(lured, { statusCode: 303, headers: { location: /^https:\/\/corp\.test\/authorize/ } })
  t.equal(await whoIs(ada), 401, 'nobody becomes somebody else')
  let { location } = lured.headers
  const bare = await visitor().open(corp.authorize(location, 'eve'))
  t.match(bare, { statusCode: 400, body: ERRORS.FWA_COOKIES_BLOCKED.title }, 'it had just got one')
  const headers = { cookie: 'of=another' }
  for (const begunAnew of [2, 3]) {
    const other = await visitor().open(corp.authorize(location, 'eve'), { headers })
    t.match(other, { statusCode: 303, headers: { location: /^https:\/\/corp\.test\// } })
    location = other.headers.location
    t.ok(location, `begun anew ${begunAnew} times`)
  }
  const last = visitor()
  const end = await last.open(corp.authorize(location, 'eve'), { headers })
  t.equal(end.statusCode, 400, 'a browser that keeps no cookies is in no endless loop')
  t.match(end.body, ERRORS.FWA_LOGIN_UNKNOWN.title)
  t.equal(await whoIs(last), 401)

  t.equal(goalOf(await eve.open(callback)), WANTED)
  t.equal(await whoIs(eve), 'eve')
  const before = eve.cookies()
  const replayed = await eve.open(callback)
  t.equal(goalOf(replayed), WANTED)
  t.match(replayed, { statusCode: 303, headers: { 'set-cookie': undefined } })
  t.equal(eve.cookies(), before)
})

t.test('refuses a callback that mixes state, code and provider of several logins', async (t) => {
  const evil = createFakeProvider('evil')
  const { corp, visitor } = await start(t, { others: [evil.provider] })
  const cases: [what: string, change: (callback: URL, other: URL) => URL, status: number][] = [
    ['the code of another login', (callback, other) => swap(callback, other, 'code'), 502],
    ['the state of another login', (callback, other) => swap(callback, other, 'state'), 400],
  ]
  for (const [what, change, status] of cases) {
    const ada = visitor()
    const [one, two] = [
      await ada.open(`${MAIN}/providers/corp`),
      await ada.open(`${MAIN}/providers/evil`),
    ]
    const callback = corp.authorize(one.headers.location, 'ada')
    const other = evil.authorize(two.headers.location, 'ada')
    const answer = await ada.open(change(callback, other))
    t.equal(answer.statusCode, status, what)
    t.equal(await whoIs(ada), 401)
  }
})

function swap(callback: URL, other: URL, name: string): URL {
  const swapped = new URL(callback)
  swapped.searchParams.set(name, other.searchParams.get(name) ?? '')
  return swapped
}

t.test('each of several tabs returns to the page where it began', async (t) => {
  const { corp, visitor } = await start(t)
  const targets = [1, 2, 3].map((tab) => `https://app.example.com/${tab}`)
  const one = visitor()
  const begun = []
  for (const rd of targets) begun.push(await one.open(signInUrl({ rd })))
  for (const [i, { headers }] of begun.entries()) {
    const done = await one.open(corp.authorize(headers.location, 'ada'))
    t.equal(goalOf(done), targets[i], 'one after the other')
  }

  const restored = visitor()
  const atOnce = await Promise.all(targets.map((rd) => restored.open(signInUrl({ rd }))))
  for (const [i, { headers }] of atOnce.entries()) {
    let done = await restored.open(corp.authorize(headers.location, 'ada'))
    if (String(done.headers.location).startsWith('https://corp.test'))
      done = await restored.open(corp.authorize(done.headers.location, 'ada'))
    t.equal(goalOf(done), targets[i], 'all at once, as after a restart of the browser')
  }
})

t.test('a stale callback sends a signed-in person to their page', async (t) => {
  const { corp, visitor, clock } = await start(t)
  const ada = visitor()
  await signIn(ada, corp, 'ada')
  const eve = visitor()
  const other = corp.authorize((await eve.open(signInUrl())).headers.location, 'eve')
  t.equal(goalOf(await ada.open(other)), WANTED)
  t.equal((await ada.open(`${CALLBACK}?state=x&code=y`)).headers.location, `${MAIN}/signin`)
  await clock.advance(600_000)
  t.equal(goalOf(await ada.open(other)), WANTED, 'also when it is late')
  t.equal(await whoIs(ada), 'ada')
})

t.test('background requests begin no login', async (t) => {
  const { visitor } = await start(t)
  const poller = visitor()
  for (let i = 0; i < 200; i++) {
    const path = i % 2 === 0 ? 'signin' : 'providers/corp'
    const answer = await poller.open(`${MAIN}/${path}?rd=https://app.example.com/${i}`, {
      headers: SCRIPT,
    })
    if (answer.statusCode !== 401 || answer.headers['set-cookie']) t.fail(answer.body)
  }
  const answer = await poller.open(`${MAIN}/signin`, { headers: SCRIPT })
  t.match(answer.json(), { code: 'FWA_NO_SESSION', loginUrl: `${MAIN}/signin` })
  t.match(answer.headers, { 'www-authenticate': 'Cookie realm="main"' })
  t.equal(poller.jar.size, 0)
})

t.test('nor does a page that is fetched before a click', async (t) => {
  const { visitor } = await start(t)
  const ada = visitor()
  for (const purpose of ['prefetch', 'prefetch;prerender'])
    for (const path of ['signin', 'providers/corp']) {
      const headers = { 'sec-purpose': purpose }
      const answer = await ada.open(`${MAIN}/${path}?rd=https://app.example.com/`, { headers })
      t.match(answer, { statusCode: 401, headers: { 'cache-control': 'no-store' } }, path)
    }
  t.equal(ada.jar.size, 0)
})

t.test('validates the return URL before every redirect', async (t) => {
  const { corp, visitor } = await start(t)
  for (const rd of ['https://evil.test/', '//evil.test', 'https://app.example.com@evil.test', '']) {
    const ada = visitor()
    const done = await signIn(ada, corp, 'ada', signInUrl({ rd }))
    t.equal(goalOf(done), `${MAIN}/signin`, rd)
    const again = await ada.open(signInUrl({ rd }))
    t.equal(goalOf(again), `${MAIN}/signin`, `${rd}, signed in`)
  }
})

t.test('validates the return URL again when the login ends', async (t) => {
  const { corp, visitor, app } = await start(t)
  const [portal, site] = [app.portals.get('main')!, app.sites.list[0]!]
  const state = {
    provider: 'corp',
    redirectUri: CALLBACK,
    returnTo: 'https://removed.test/',
  }
  const { secrets, cookies } = app.logins.begin({ portal, site }, state, undefined)
  const redirectUri = CALLBACK
  const url = await corp.provider.authorizationUrl({ ...secrets, redirectUri })
  const callback = corp.authorize(url.href, 'ada')
  const ada = visitor()
  for (const attempt of ['finished', 'finished before']) {
    const headers = { cookie: hostCookie(cookies[0]!) }
    const done = await ada.open(callback, { headers })
    t.equal(goalOf(done), `${MAIN}/signin`, attempt)
  }
})

t.test('only the modules that validate a target write a redirect', async (t) => {
  const root = new URL('../../src/', import.meta.url)
  const writers = globSync('**/*.ts', { cwd: root }).filter((file) =>
    /\.redirect\(|header\(\s*['"`]location|\blocation['"`]?:/i.test(
      readFileSync(new URL(file, root), 'utf8'),
    ),
  )
  t.strictSame(writers.sort(), ['check/hops.ts', 'web/redirects.ts'])
})

t.test('a failed login neither ends nor creates a session', async (t) => {
  const { corp, visitor } = await start(t)
  const ada = visitor()
  const failures = [
    ['FWA_LOGIN_REFUSED', 403],
    ['FWA_PROVIDER_INVALID', 502],
    ['FWA_PROVIDER_UNREACHABLE', 503],
  ] as const
  for (const [failure, status] of failures) {
    const begun = await ada.open(signInUrl())
    corp.state.failure = failure
    const callback = corp.authorize(begun.headers.location, 'ada')
    if (status === 403) callback.searchParams.set('error', 'access_denied')
    const failed = await ada.open(callback)
    corp.state.failure = undefined
    t.equal(failed.statusCode, status, failure)
    t.match(failed.body, signInUrl().replaceAll('&', '&amp;'), 'with a way to try again')
    t.notOk(ada.jar.has(SESSION_COOKIE))
    t.equal(goalOf(await ada.open(callback)), WANTED, 'the code is not taken again')
    t.notOk(ada.jar.has(SESSION_COOKIE))
  }

  await signIn(ada, corp, 'ada')
  const [session, old] = [ada.jar.get(SESSION_COOKIE), ada.cookies()]
  await ada.open(signInUrl({ switch: '1' }))
  t.equal(ada.jar.get(SESSION_COOKIE), session, 'beginning leaves the session alone')

  const pending = corp.authorize(
    (await ada.open(signInUrl({ switch: '1' }))).headers.location,
    'ada',
  )
  await ada.open(`${MAIN}/logout`, { method: 'POST', headers: { origin: AUTH } })
  t.strictSame([...ada.jar], [])
  await ada.open(pending)
  t.notOk(ada.jar.has(SESSION_COOKIE), 'a login from before signing out')
  const replay = await visitor().open(`${MAIN}/profile.json`, {
    headers: { ...SCRIPT, cookie: old },
  })
  t.equal(replay.statusCode, 401)
})

t.test('signing in as somebody else ends the earlier session', async (t) => {
  const { corp, visitor } = await start(t)
  const browser = visitor()
  await signIn(browser, corp, 'ada')
  const old = browser.cookies()
  const begun = await browser.open(signInUrl({ switch: '1', rd: WANTED }))
  t.match(begun.headers.location, /prompt=select_account/)
  const done = await browser.open(corp.authorize(begun.headers.location, 'bob'))
  t.equal(goalOf(done), WANTED)
  t.equal(await whoIs(browser), 'bob')
  const replay = await visitor().open(`${MAIN}/profile.json`, {
    headers: { ...SCRIPT, cookie: old },
  })
  t.equal(replay.statusCode, 401, 'the session of before has ended')

  const same = browser.cookies()
  await signIn(browser, corp, 'bob', signInUrl({ switch: '1' }))
  const kept = await visitor().open(`${MAIN}/profile.json`, {
    headers: { ...SCRIPT, cookie: same },
  })
  t.equal(kept.statusCode, 200, 'of the same person it goes on')
})

t.test('who may in is asked before anybody gets a session', async (t) => {
  const provider = CORP.replace(' }', ', allow: { emailDomains: [example.com] } }')
  const people: [what: string, claims: object, status: number][] = [
    ['a verified address', { email: 'ada@example.com', email_verified: true }, 200],
    ['an unverified address', { email: 'ada@example.com' }, 403],
    ['an address verified by a text', { email: 'ada@example.com', email_verified: 'true' }, 200],
    [
      'an address verified by another text',
      { email: 'ada@example.com', email_verified: 'yes' },
      403,
    ],
    ['an address with two @', { email: 'a@evil.test@example.com', email_verified: true }, 403],
    ['another domain', { email: 'ada@example.com.evil.test', email_verified: true }, 403],
    ['no address', {}, 403],
  ]
  for (const [what, claims, status] of people) {
    const corp = createFakeProvider()
    const profile = fromClaims('corp', { sub: 'ada', ...claims })
    const finish = async () => ({ profile, tokens: {} })
    const { visitor } = await start(t, {
      yaml: yamlOf(portalOf('main').replace(CORP, provider)),
      corp: { ...corp, provider: { ...corp.provider, finish } },
    })
    const ada = visitor()
    const done = await signIn(ada, corp, 'ada')
    t.equal(done.statusCode, status, what)
    t.equal(ada.jar.has(SESSION_COOKIE), status === 200)
    if (status === 403) t.match(done.body, 'signin?rd=', 'with a way to be somebody else')
  }
})

t.test('the page to choose', async (t) => {
  const github = createFakeProvider('github')
  const { visitor, corp, clock } = await start(t, { others: [github.provider] })
  github.state.failure = 'FWA_PROVIDER_UNREACHABLE'
  const ada = visitor()
  const page = await ada.open(signInUrl())
  t.equal(page.statusCode, 200)
  t.match(page.body, `${MAIN}/providers/corp?rd=${encodeURIComponent(WANTED)}`)
  t.match(page.body, texts.signIn.away, 'marked as away')
  t.equal(ada.jar.size, 0)

  const down = await ada.open(`${MAIN}/providers/github?rd=${encodeURIComponent(WANTED)}`)
  t.match(down, { statusCode: 503, body: fill(texts.providerDown.title, { provider: 'github' }) })
  t.match(down.body, `${MAIN}/signin?rd=`, 'with a way to the others')
  const since = new Date(clock.now()).toISOString().slice(0, 19)
  t.match(down.body, `has not answered since <time datetime="${since}Z"`)
  await clock.advance(600_000)
  t.match((await ada.open(`${MAIN}/providers/github`)).body, `since <time datetime="${since}Z"`)
  github.state.failure = undefined
  t.equal((await ada.open(`${MAIN}/signin?switch=1`)).body.includes(texts.signIn.away), false)
  github.state.failure = 'FWA_PROVIDER_UNREACHABLE'
  t.notMatch((await ada.open(`${MAIN}/providers/github`)).body, since, 'another outage')
  ada.jar.clear()
  t.equal((await ada.open(`${MAIN}/providers/nobody`)).statusCode, 404)

  const begun = await ada.open(`${MAIN}/providers/corp`)
  await ada.open(corp.authorize(begun.headers.location, 'ada'))
  t.equal((await ada.open(`${MAIN}/signin`)).headers.location, `${MAIN}/account`)
  const welcome = await ada.open(`${MAIN}/account`)
  t.match(welcome, { statusCode: 200, body: texts.signedIn.title })
  t.match(welcome.body, `${MAIN}/logout`)
  t.equal(goalOf(await ada.open(signInUrl())), WANTED, 'nothing to choose any more')
})

t.test('with one provider there is no page to choose, unless the portal wants it', async (t) => {
  for (const [alwaysShowProviders, statusCode] of [
    [false, 303],
    [true, 200],
  ] as const) {
    const { visitor } = await start(t, { alwaysShowProviders })
    t.equal((await visitor().open(signInUrl())).statusCode, statusCode)
  }
})

t.test(
  'no text of a request reaches the content security policy or leaves its place in the markup',
  async (t) => {
    const { visitor } = await start(t, { others: [createFakeProvider('github').provider] })
    const rows: [path: string, query: string][] = [
      [
        'signin',
        `rd=${encodeURIComponent("https://app.example.com/';script-src*'<script>alert(1)</script>")}`,
      ],
      ['logout', `rd=${encodeURIComponent('https://app.example.com/"><script>alert(1)</script>')}`],
      ['providers/corp/callback', 'state="><script>alert(1)</script>'],
    ]
    for (const [path, query] of rows) {
      const plain = await visitor().open(`${MAIN}/${path}`)
      const page = await visitor().open(`${MAIN}/${path}?${query}`)
      t.equal(
        page.headers['content-security-policy'],
        plain.headers['content-security-policy'],
        path,
      )
      t.notMatch(page.body, '<script')
    }
  },
)

t.test('where a portal is asked for', async (t) => {
  const { visitor, corp } = await start(t)
  const trusted = { 'x-forwarded-host': 'auth.example.com' }
  const rows: [
    what: string,
    url: string,
    headers: Record<string, string>,
    status: number,
    from?: string,
  ][] = [
    ['its auth host', `${MAIN}/signin`, {}, 303],
    [
      'in capitals, with port and dot',
      'https://AUTH.Example.com.:443/portals/main/signin',
      {},
      303,
    ],
    ['in the singular', `${AUTH}/portal/main/signin`, {}, 303],
    ['by a trusted proxy', 'https://gate.internal/portals/main/signin', trusted, 303],
    ['by somebody else', 'https://gate.internal/portals/main/signin', trusted, 403, '203.0.113.7'],
    ['at the host of an app', 'https://app.example.com/portals/main/signin', {}, 403],
    ['at another port', 'https://auth.example.com:8443/portals/main/signin', {}, 403],
    ['at a foreign host', 'https://evil.test/portals/main/signin', {}, 403],
    ['two hosts', `${MAIN}/signin`, { 'x-forwarded-host': 'auth.example.com, evil.test' }, 403],
    ['a portal that is none', `${AUTH}/portals/nobody/signin`, {}, 404],
    ['a name from JavaScript', `${AUTH}/portals/__proto__/signin`, {}, 404],
    ['an unknown parameter', `${MAIN}/signin?rdd=x`, {}, 400],
    ['two return URLs', `${MAIN}/signin?rd=${WANTED}&rd=${WANTED}`, {}, 400],
  ]
  for (const [what, url, headers, status, remoteAddress] of rows) {
    const visit = { headers, ...(remoteAddress && { remoteAddress }) }
    const answer = await visitor().open(url, visit)
    t.equal(answer.statusCode, status, what)
    const redirectUri = new URL(String(answer.headers.location ?? MAIN)).searchParams.get(
      'redirect_uri',
    )
    if (status === 303) t.equal(redirectUri, CALLBACK, 'the origin is as configured')
  }
  t.equal((await signIn(visitor(), corp, 'ada', `${AUTH}/portal/main/signin`)).statusCode, 303)
})

t.test('a provider that vouches for addresses needs no page', async (t) => {
  const tailnet: SeamlessProvider = {
    ...createFakeProvider('tailnet').provider,
    type: 'seamless',
    identify: async (ip) =>
      ip === '100.64.0.7' ? fromClaims('tailnet', { sub: 'node-7' }) : undefined,
    fits: ({ id }, ip) => id === 'node-7' && ip === '100.64.0.7',
  }
  const { visitor, app } = await start(t, {
    yaml: yamlOf(portalOf('main').replace(CORP, `${CORP}, ${CORP.replace('corp', 'tailnet')}`)),
    others: [tailnet],
  })
  const from = (ip: string) => ({ headers: { 'x-forwarded-for': ip } })
  const node = visitor()
  const headers = { ...from('100.64.0.7').headers, 'sec-purpose': 'prefetch' }
  t.equal((await node.open(signInUrl(), { headers })).headers['set-cookie'], undefined, 'no click')
  const done = await node.open(signInUrl(), from('100.64.0.7'))
  t.equal(goalOf(done), WANTED)
  const profile = (ip: string) =>
    node.open(`${MAIN}/profile.json`, { headers: { ...SCRIPT, 'x-forwarded-for': ip } })
  t.equal((await profile('100.64.0.7')).json().id, 'node-7')
  t.equal((await profile('100.64.0.8')).statusCode, 401, 'its session is for its address')

  const stranger = visitor()
  t.match((await stranger.open(signInUrl(), from('100.64.0.8'))).body, `${MAIN}/providers/corp`)
  const refused = await stranger.open(`${MAIN}/providers/tailnet`, from('100.64.0.8'))
  t.match(refused, { statusCode: 403, body: /tailnet does not know your device/ })
  const forged = await createVisitor(app).open(signInUrl(), {
    ...from('100.64.0.7'),
    remoteAddress: '203.0.113.7',
  })
  t.equal(forged.statusCode, 200, 'an untrusted peer cannot choose the client address')
  t.equal(stranger.jar.size, 0)
})

t.test('several domains: each has its own auth host and sessions', async (t) => {
  const domains = `${DOMAINS.slice(0, -1)}, { domain: example.org, authHost: login.example.org }]`
  const yaml = `${domains}\n${SESSION_KEY}\nportals:\n${portalOf('main')}`
  const { corp, visitor } = await start(t, { yaml })
  const ada = visitor()
  const url = (rd: string) => `https://login.example.org/portals/main/signin?rd=${rd}`
  const done = await signIn(ada, corp, 'ada', url('https://app.example.org/'))
  t.equal(goalOf(done), 'https://app.example.org/')
  t.match(ada.cookies('login.example.org'), /__Host-gatehouse\.main=/)
  t.equal(ada.cookies(), '')
  t.equal(await whoIs(ada), 401, 'not signed in on the other domain')
  const other = await signIn(visitor(), corp, 'ada', url('https://app.example.com/'))
  t.equal(goalOf(other), 'https://login.example.org/portals/main/signin')
})

t.test('deep links of dashboards lead back whole, from the check to the app', async (t) => {
  const queries = [
    'expr=%22%5C%5C.%22&search=two%0Alines%09%7F',
    `panes=${encodeURIComponent('{"expr":"sum(rate(x{job=\\"api\\"}[5m]))"},'.repeat(60))}`,
    `_a=(query:(language:kuery,query:%27${'level:error%20or%20'.repeat(300)}%27))`,
  ]
  t.ok(queries[1]!.length > 4_000 && queries[2]!.length > 5_000)
  for (const query of queries) {
    const { corp, visitor } = await start(t)
    const url = `https://app.example.com/explore?${query}`
    const { answer, urls } = await arrive(visitor(), corp, url)
    for (const each of urls) t.ok(each.length <= 8_000, `${query.length}: ${each.length}`)
    t.match([answer.statusCode, urls.at(-1)], [200, url])
  }
})

t.test('a link that is too long for proxies leads to its page without the query', async (t) => {
  const { corp, visitor } = await start(t)
  const url = `https://app.example.com/explore?q=${'%5C'.repeat(3_000)}`
  const { answer, urls } = await arrive(visitor(), corp, url)
  t.match([answer.statusCode, urls.at(-1)], [200, 'https://app.example.com/explore'])
})
