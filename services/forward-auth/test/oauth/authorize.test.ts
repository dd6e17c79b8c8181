import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type { ConsentRow } from '../../src/store/store.ts'
import { attribute, named, text } from '../pages/read.ts'
import { AUTH, MAIN, signInUrl } from '../portal/kit.ts'
import {
  answerIn,
  CHALLENGE,
  CLIENT,
  claimsOf,
  DOCUMENT,
  linkIn,
  NOTES,
  OTHER,
  REDIRECT,
  startIssuer,
} from './kit.ts'

expectWarnings(t, 'FWA_')

t.test('a person allows a client that nobody has registered', async (t) => {
  const { visitor, corp, authorizeUrl, decide, redeem, call, fetched } = await startIssuer(t)
  const browser = visitor()
  const begun = await browser.open(authorizeUrl())
  t.equal(begun.statusCode, 303)
  t.match(begun.headers.location, `${MAIN}/signin?rd=`)
  t.strictSame(fetched, [], 'nothing is read for a stranger')
  const atProvider = await browser.open(String(begun.headers.location))
  const back = await browser.open(corp.authorize(atProvider.headers.location, 'ada'))
  t.equal(back.headers.location, authorizeUrl(), 'after the sign-in, the question')

  const page = await browser.open(String(back.headers.location))
  t.equal(page.statusCode, 200)
  t.strictSame(fetched, [CLIENT])
  const words = named(page.body, 'main').map(text).join(' ').replace(/\s+/g, ' ')
  for (const word of [
    'assistant.test',
    'Assistant',
    'app.example.com/mcp',
    'Read your notes',
    'Name of ada',
  ])
    t.match(words, word)
  t.ok(words.indexOf('assistant.test') < words.indexOf('Assistant'), 'first what is proven')
  t.match(page.headers['content-security-policy'], "frame-ancestors 'none'")

  const answer = answerIn(await decide(browser, page))
  t.match(answer, { to: REDIRECT, state: 'state-of-the-client', iss: MAIN, code: /^[\w-]{100,}$/ })
  const redeemed = await redeem(answer.code)
  t.match(redeemed.headers, { 'cache-control': 'no-store', 'access-control-allow-origin': '*' })
  const tokens = redeemed.json()
  t.match(tokens, {
    token_type: 'Bearer',
    expires_in: 600,
    scope: 'notes:read',
    refresh_token: /^[\w-]{50,}$/,
  })
  t.match(claimsOf(tokens.access_token), {
    iss: MAIN,
    aud: NOTES,
    sub: 'corp:ada',
    client_id: CLIENT,
    scope: 'notes:read',
  })
  const passed = await call(tokens.access_token)
  t.equal(passed.statusCode, 200)
  t.equal(passed.headers['x-forwarded-user'], 'ada', 'the app knows the person')
})

t.test('what a person has allowed is remembered', async (t) => {
  const { person, authorizeUrl, decide, allow, documents } = await startIssuer(t)
  const browser = await person()
  const isAsked = async (changes: Record<string, string> = {}, by = browser) =>
    (await by.open(authorizeUrl(changes))).statusCode === 200
  t.equal(await isAsked(), true)
  await decide(browser, await browser.open(authorizeUrl()), 'deny')
  t.equal(await isAsked(), true, 'after a no')
  await allow(browser)
  t.equal(await isAsked(), false)
  t.equal(await isAsked({ state: 'another' }), false, 'another state')
  t.equal(await isAsked({ nonce: 'n', prompt: 'none' }), false, 'parameters that are not known')
  t.equal(await isAsked({ scope: 'notes:read notes:write' }), true, 'another scope')
  t.equal(await isAsked({ resource: OTHER, scope: 'other' }), true, 'another resource')
  t.equal(await isAsked({}, await person('bob')), true, 'another person')
  documents.set(CLIENT, { ...DOCUMENT, redirect_uris: [REDIRECT, `${REDIRECT}/2`] })
  t.equal(await isAsked(), false, 'the document was read a moment ago')
})

t.test('a writer of the store allows nothing, and for no longer', async (t) => {
  const { person, authorizeUrl, allow, app } = await startIssuer(t)
  const { authStore } = app
  const [ada, bob] = [await person(), await person('bob')]
  const isAsked = async (by: typeof ada) => (await by.open(authorizeUrl())).statusCode === 200
  await allow(ada)
  t.equal(await isAsked(ada), false)
  const findConsent = authStore.findConsent.bind(authStore)
  let given: ConsentRow | undefined
  authStore.findConsent = async (key) => (given = await findConsent(key))
  await isAsked(ada)
  const real = given!
  const rows: [what: string, by: typeof ada, row: object][] = [
    ['for longer', ada, { until: real.until + 1 }],
    ['by nobody', ada, { mac: '' }],
    ['what somebody else has allowed', bob, {}],
  ]
  for (const [what, by, changed] of rows) {
    authStore.findConsent = async (key) => ({ ...real, key, ...changed })
    t.equal(await isAsked(by), true, what)
  }
})

t.test('a changed document, another redirect URI and loopback ask again', async (t) => {
  const { person, authorizeUrl, allow, documents, clock } = await startIssuer(t)
  const local = 'http://127.0.0.1:4711/callback'
  documents.set(CLIENT, {
    ...DOCUMENT,
    redirect_uris: [REDIRECT, `${REDIRECT}/2`, 'http://127.0.0.1/callback'],
  })
  const browser = await person()
  const isAsked = async (changes: Record<string, string> = {}) =>
    (await browser.open(authorizeUrl(changes))).statusCode === 200
  await allow(browser)
  t.equal(await isAsked({ redirect_uri: `${REDIRECT}/2` }), true, 'another redirect URI')
  t.match(await allow(browser, { redirect_uri: local }), { to: local, code: /./ })
  t.equal(
    await isAsked({ redirect_uri: local }),
    true,
    'any program of the device may listen there',
  )
  const app = 'cursor://anysphere/callback'
  documents.set(CLIENT, { ...DOCUMENT, client_name: 'Other', redirect_uris: [REDIRECT, app] })
  await clock.advance(600_000)
  t.equal(await isAsked(), true, 'another document')
  t.match(await allow(browser, { redirect_uri: app }), { code: /./ })
  t.equal(await isAsked({ redirect_uri: app }), true, 'any app of the device may take the scheme')
})

t.test('a client that is on this device over https is one of this device, too', async (t) => {
  const { person, authorizeUrl, allow, documents } = await startIssuer(t)
  const uris = ['localhost:8443', '127.0.0.1', '[::1]:1', 'app.localhost', '127.1.2.3']
  const redirect_uris = uris.map((host) => `https://${host}/callback`)
  documents.set(CLIENT, { ...DOCUMENT, redirect_uris })
  const browser = await person()
  for (const redirect_uri of redirect_uris) {
    t.match(await allow(browser, { redirect_uri }), { code: /./ }, redirect_uri)
    const again = await browser.open(authorizeUrl({ redirect_uri }))
    t.equal(again.statusCode, 200, 'any program of the device may listen there')
    t.match(again.body, 'class="notice"', 'which the page says')
    t.match(again.headers['content-security-policy'], /form-action 'self' http:/)
  }
  const other = { redirect_uri: redirect_uris[1]?.replace('/callback', ':99/callback') }
  t.equal((await browser.open(authorizeUrl(other))).statusCode, 400, 'but its port counts')
})

t.test(
  'a parameter without a value is as if it were not there (RFC 6749 section 3.1)',
  async (t) => {
    const { person, authorizeUrl, allow } = await startIssuer(t)
    const browser = await person()
    const empty = { scope: '', response_mode: '', request: '', request_uri: '', state: '' }
    const answer = await allow(browser, empty)
    t.match(answer, { to: REDIRECT, code: /./ })
    t.notOk('state' in answer)
    for (const name of ['client_id', 'redirect_uri', 'resource', 'code_challenge'])
      t.equal((await browser.open(authorizeUrl({ [name]: '' }))).statusCode, 400, name)
  },
)

t.test('scheme and host of a resource may be in capitals, and a slash at its end', async (t) => {
  const { person, allow, redeem } = await startIssuer(t)
  const browser = await person()
  const table: readonly [string, string | undefined][] = [
    ['HTTPS://APP.Example.com/mcp', undefined],
    ['https://app.example.com:443/mcp', undefined],
    [`${NOTES}/`, undefined],
    [`${NOTES}//`, 'invalid_target'],
    ['https://app.example.com/MCP', 'invalid_target'],
    [`${NOTES}#x`, 'invalid_target'],
    [`${NOTES}?x`, 'invalid_target'],
    ['https://ada@app.example.com/mcp', 'invalid_target'],
    ['http://app.example.com/mcp', 'invalid_target'],
    ['app.example.com/mcp', 'invalid_target'],
  ]
  for (const [resource, error] of table) {
    const { code } = await allow(browser, error ? {} : { resource })
    const answer = (await redeem(code, { resource })).json()
    t.equal(answer.error, error, resource)
    if (!error) t.equal(claimsOf(answer.access_token).aud, NOTES)
  }
})

t.test('a parameter that comes twice is refused, and nobody is sent on', async (t) => {
  const { person, authorizeUrl } = await startIssuer(t)
  const browser = await person()
  for (const [name, value] of new URL(authorizeUrl()).searchParams) {
    const answer = await browser.open(`${authorizeUrl()}&${new URLSearchParams({ [name]: value })}`)
    t.match(answer, { statusCode: 400, headers: { location: undefined } }, name)
  }
})

t.test('what a person allows is stored at a bounded rate', async (t) => {
  const { person, authorizeUrl, decide, app } = await startIssuer(t)
  const { authStore } = app
  const given: string[] = []
  const { giveConsent } = authStore
  authStore.giveConsent = (consent) => {
    given.push(consent.key)
    return giveConsent.call(authStore, consent)
  }
  const browser = await person()
  const pages = []
  for (let i = 0; i < 70; i++) pages.push(await browser.open(authorizeUrl({ state: `${i}` })))
  const statuses: number[] = []
  for (const page of pages) statuses.push((await decide(browser, page)).statusCode)
  t.equal(statuses.filter((status) => status === 429).length, 10)
  t.equal(given.length, 60)
})

t.test('the form of a page is good once', async (t) => {
  const { person, authorizeUrl, decide } = await startIssuer(t)
  const browser = await person()
  for (const [first, second] of [
    ['deny', 'allow'],
    ['allow', 'allow'],
  ] as const) {
    const page = await browser.open(authorizeUrl())
    t.equal((await decide(browser, page, first)).statusCode, 303)
    t.equal((await decide(browser, page, second)).statusCode, 400, `${first}, then ${second}`)
  }
})

t.test('a client is told what is wrong by a person who goes back to it', async (t) => {
  const { person, authorizeUrl } = await startIssuer(t)
  const browser = await person()
  const table: readonly [string, Record<string, string | undefined>, string][] = [
    ['no response type', { response_type: undefined }, 'invalid_request'],
    ['the implicit grant', { response_type: 'token' }, 'unsupported_response_type'],
    ['an ID token', { response_type: 'code id_token' }, 'unsupported_response_type'],
    ['a fragment', { response_mode: 'fragment' }, 'invalid_request'],
    ['no PKCE', { code_challenge: undefined }, 'invalid_request'],
    ['plain PKCE', { code_challenge_method: 'plain' }, 'invalid_request'],
    ['PKCE without a method', { code_challenge_method: undefined }, 'invalid_request'],
    ['a short challenge', { code_challenge: CHALLENGE.slice(1) }, 'invalid_request'],
    ['no resource', { resource: undefined }, 'invalid_target'],
    ['another resource', { resource: 'https://app.example.com/' }, 'invalid_target'],
    ['a resource of another spelling', { resource: `${NOTES}//` }, 'invalid_target'],
    ['a request object', { request: 'e30.e30.' }, 'request_not_supported'],
    ['a request URI', { request_uri: 'https://assistant.test/r' }, 'request_not_supported'],
  ]
  for (const [title, changes, error] of table) {
    const page = await browser.open(authorizeUrl(changes))
    t.match(page, { statusCode: 400, headers: { location: undefined } }, title)
    const answer = linkIn(page)
    t.match(answer, { to: REDIRECT, error, iss: MAIN, state: 'state-of-the-client' }, title)
    t.notOk('code' in answer, title)
  }
})

t.test('nobody is sent to what is not registered', async (t) => {
  const { person, authorizeUrl, documents, visitor } = await startIssuer(t)
  documents.set(CLIENT, { ...DOCUMENT, redirect_uris: [REDIRECT, 'cursor://anysphere/callback'] })
  const browser = await person()
  const table: readonly [string, Record<string, string | undefined>, number, string][] = [
    ['no client', { client_id: undefined }, 400, 'FWA_OAUTH_INVALID'],
    ['no redirect URI', { redirect_uri: undefined }, 400, 'FWA_OAUTH_INVALID'],
    ['another redirect URI', { redirect_uri: 'https://evil.test/' }, 400, 'FWA_OAUTH_INVALID'],
    ['one below', { redirect_uri: `${REDIRECT}/x` }, 400, 'FWA_OAUTH_INVALID'],
    ['a query more', { redirect_uri: `${REDIRECT}?x=1` }, 400, 'FWA_OAUTH_INVALID'],
    [
      'another port',
      { redirect_uri: 'https://assistant.test:444/callback' },
      400,
      'FWA_OAUTH_INVALID',
    ],
    [
      'a user name',
      { redirect_uri: 'https://assistant.test@evil.test/callback' },
      400,
      'FWA_OAUTH_INVALID',
    ],
    ['dots', { redirect_uri: 'https://assistant.test/x/../callback' }, 400, 'FWA_OAUTH_INVALID'],
    ['another case', { redirect_uri: 'https://assistant.test/Callback' }, 400, 'FWA_OAUTH_INVALID'],
    [
      'loopback that is not registered',
      { redirect_uri: 'http://127.0.0.1:1/callback' },
      400,
      'FWA_OAUTH_INVALID',
    ],
    ['another scheme', { redirect_uri: 'javascript:alert(1)' }, 400, 'FWA_OAUTH_INVALID'],
    ['a client that is no URL', { client_id: 'assistant' }, 400, 'FWA_CLIENT_INVALID'],
    ['plain http', { client_id: CLIENT.replace('https', 'http') }, 400, 'FWA_CLIENT_INVALID'],
    [
      'a host of ours',
      { client_id: 'https://app.example.com/client.json' },
      400,
      'FWA_CLIENT_INVALID',
    ],
    ['the sign-in host', { client_id: `${AUTH}/client.json` }, 400, 'FWA_CLIENT_INVALID'],
    ['a client without a document', { client_id: `${CLIENT}2` }, 502, 'FWA_CLIENT_UNREACHABLE'],
    ['a registered one', { client_id: 'registered.abc' }, 400, 'FWA_CLIENT_INVALID'],
  ]
  for (const [title, changes, status, code] of table) {
    const answer = await browser.open(authorizeUrl(changes))
    t.equal(answer.statusCode, status, title)
    t.match(answer.body, code, title)
    t.equal(answer.headers.location, undefined, title)
  }
  const twice = await browser.open(`${authorizeUrl()}&redirect_uri=https://evil.test/`)
  t.match(twice, { statusCode: 400, headers: { location: undefined } }, 'a parameter twice')
  const app = await browser.open(authorizeUrl({ redirect_uri: 'cursor://anysphere/callback' }))
  t.equal(app.statusCode, 200, 'an app of the device')
  t.match(app.headers['content-security-policy'], /form-action 'self' cursor:;/)
  t.equal(
    (await visitor().open(authorizeUrl({ client_id: undefined }))).statusCode,
    400,
    'before a sign-in',
  )
})

t.test('whom the portal does not admit, nobody acts for', async (t) => {
  const { person, authorizeUrl, fetched } = await startIssuer(t, {
    options: `allow: 'Group("staff")'`,
  })
  const browser = await person('eve', { groups: ['staff'] })
  t.equal((await browser.open(authorizeUrl())).statusCode, 200)
  t.equal(fetched.length, 1)
})

t.test('a person can change the account before they answer', async (t) => {
  const { person, authorizeUrl } = await startIssuer(t)
  const browser = await person()
  const { body } = await browser.open(authorizeUrl())
  const links = named(body, 'a').map((each) => attribute(each, 'href') ?? '')
  const change = links.find((href) => href.includes('switch=1')) ?? ''
  t.equal(new URL(change).searchParams.get('rd'), authorizeUrl())
})

t.test('a portal without resources of its own asks nobody', async (t) => {
  const { person, app } = await startIssuer(t)
  const browser = await person()
  const answer = await browser.open(
    `${AUTH}/portals/elsewhere/authorize?client_id=${CLIENT}&redirect_uri=${REDIRECT}`,
  )
  t.equal(answer.statusCode, 400)
  const metadata = (portal: string) =>
    app.inject({
      url: `/.well-known/oauth-authorization-server/portals/${portal}`,
      headers: { host: 'auth.example.com' },
    })
  t.equal((await metadata('elsewhere')).statusCode, 404)
  t.ok(signInUrl())
})
