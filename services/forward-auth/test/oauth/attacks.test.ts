import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { withOther } from '../../../../scripts/test/with-other.ts'
import { attribute, named } from '../pages/read.ts'
import { MAIN } from '../portal/kit.ts'
import {
  answerIn,
  CHALLENGE,
  CLIENT,
  DOCUMENT,
  linkIn,
  NOTES,
  OTHER,
  REDIRECT,
  startIssuer,
  VERIFIER,
} from './kit.ts'

// The attacks of RFC 9700 at an authorization server, each by its name there.
expectWarnings(t, 'FWA_', 'a code was reused', 'a refresh token was reused')

const EVIL = 'https://evil.test/client.json'

t.test('insufficient redirect URI validation (4.1)', async (t) => {
  const { person, authorizeUrl } = await startIssuer(t)
  const browser = await person()
  for (const uri of [
    `${REDIRECT}.evil.test`,
    `${REDIRECT}#a`,
    `${REDIRECT}%2f..`,
    'https://assistant.test.evil.test/callback',
    `${REDIRECT}\\@evil.test`,
    ` ${REDIRECT}`,
  ])
    t.match(
      await browser.open(authorizeUrl({ redirect_uri: uri })),
      { statusCode: 400, headers: { location: undefined } },
      uri,
    )
})

t.test('credential leakage by the referrer (4.2)', async (t) => {
  const { person, authorizeUrl, decide } = await startIssuer(t)
  const browser = await person()
  const page = await browser.open(authorizeUrl())
  t.equal(page.headers['referrer-policy'], 'same-origin')
  t.equal((await decide(browser, page)).headers['referrer-policy'], 'no-referrer')
  t.notMatch(page.body, /(?:src|href)="https?:\/\/(?!auth\.example\.com)/, 'nothing of others')
})

t.test('mix-up (4.4): the answer names who has sent it', async (t) => {
  const { person, allow, app, authorizeUrl } = await startIssuer(t)
  const browser = await person()
  t.equal((await allow(browser)).iss, MAIN)
  t.equal(
    linkIn(await browser.open(authorizeUrl({ resource: 'https://x.test/' }))).iss,
    MAIN,
    'an error, too',
  )
  const url = '/.well-known/oauth-authorization-server/portals/main'
  const metadata = (await app.inject({ url, headers: { host: 'auth.example.com' } })).json()
  t.match(metadata, { issuer: MAIN, authorization_response_iss_parameter_supported: true })
})

t.test('authorization code injection (4.5)', async (t) => {
  const { person, allow, redeem, documents } = await startIssuer(t)
  documents.set(EVIL, { ...DOCUMENT, client_id: EVIL })
  const { code } = await allow(await person())
  const table: readonly [string, Record<string, string>, string][] = [
    ['of another sign-in of the client', { code_verifier: 'w'.repeat(43) }, 'invalid_grant'],
    ['of another client', { client_id: EVIL }, 'invalid_grant'],
    ['at another redirect URI', { redirect_uri: `${REDIRECT}/2` }, 'invalid_grant'],
    ['for another resource', { resource: OTHER }, 'invalid_target'],
    ['changed', { code: withOther(code ?? '', -3) }, 'invalid_grant'],
    ['made up', { code: 'a'.repeat(200) }, 'invalid_grant'],
  ]
  for (const [title, changes, error] of table) {
    const answer = await redeem(code, changes)
    t.match([answer.statusCode, answer.json().error], [400, error], title)
  }
  t.equal((await redeem(code)).statusCode, 200, 'none of it has used the code up')
})

t.test('authorization code replay: the second use ends what the first has brought', async (t) => {
  const { person, allow, redeem, refresh, call, log, authorizeUrl } = await startIssuer(t)
  const browser = await person()
  const { code } = await allow(browser)
  const tokens = (await redeem(code)).json()
  t.equal((await call(tokens.access_token)).statusCode, 200)
  t.match((await redeem(code)).json(), { error: 'invalid_grant' })
  t.equal((await call(tokens.access_token)).statusCode, 401)
  t.match((await refresh(tokens.refresh_token)).json(), { error: 'invalid_grant' })
  t.match((await redeem(code)).json(), { error: 'invalid_grant' }, 'and a third time')
  t.match(
    log.filter(({ event }) => event === 'session-ended'),
    [{ endedBy: 'reuse', caller: 'corp:ada', client: CLIENT }],
    'the audit trail tells of it, once',
  )
  t.equal((await browser.open(authorizeUrl())).statusCode, 200, 'and the person is asked again')
})

t.test('a code is good for a minute', async (t) => {
  const { person, allow, redeem, clock } = await startIssuer(t)
  const { code } = await allow(await person())
  await clock.advance(60_000)
  t.match((await redeem(code)).json(), { error: 'invalid_grant' })
})

t.test('PKCE downgrade (4.8.2)', async (t) => {
  const { person, authorizeUrl, allow, redeem } = await startIssuer(t)
  const browser = await person()
  for (const changes of [
    { code_challenge: undefined },
    { code_challenge_method: 'plain' },
    { code_challenge: undefined, code_challenge_method: undefined },
  ])
    t.match(linkIn(await browser.open(authorizeUrl(changes))), { error: 'invalid_request' })
  const { code } = await allow(browser)
  for (const verifier of [undefined, '', CHALLENGE, VERIFIER.slice(1), `${VERIFIER}v`])
    t.equal((await redeem(code, { code_verifier: verifier })).statusCode, 400, String(verifier))
})

t.test(
  'access token leakage at a resource server (4.9): a token is for one resource',
  async (t) => {
    const { person, connect, call, check } = await startIssuer(t)
    const browser = await person()
    const { access_token: token } = await connect(browser)
    t.equal((await call(token)).statusCode, 200)
    t.equal((await call(token, { path: '/other' })).statusCode, 401, 'another resource')
    const shape = (await import('../shapes.ts')).SHAPES[0]!
    const elsewhere = await check(shape, { authorization: `Bearer ${token}` })
    t.notOk(elsewhere.statusCode === 200, 'an app that is no resource')
  },
)

t.test('open redirection (4.11): nobody goes to a client before they decide to', async (t) => {
  const { person, authorizeUrl, documents } = await startIssuer(t)
  const redirect_uri = 'https://evil.test/callback'
  documents.set(EVIL, { ...DOCUMENT, client_id: EVIL, redirect_uris: [redirect_uri] })
  const browser = await person()
  for (const changes of [{ response_type: 'token' }, { scope: 'x' }, { resource: 'x' }, {}]) {
    const answer = await browser.open(authorizeUrl({ client_id: EVIL, redirect_uri, ...changes }))
    t.equal(answer.headers.location, undefined, JSON.stringify(changes))
  }
  const foreign = await browser.open(authorizeUrl({ redirect_uri, response_type: 'token' }))
  t.notMatch(foreign.body, 'evil.test/callback"', 'nor is there a link to what is not registered')
})

t.test('the answer of the form is a redirect by GET (4.12)', async (t) => {
  const { person, authorizeUrl, decide } = await startIssuer(t)
  const browser = await person()
  t.equal((await decide(browser, await browser.open(authorizeUrl()))).statusCode, 303)
})

t.test('refresh token replay (4.14)', async (t) => {
  const { person, connect, refresh, call, clock, log } = await startIssuer(t)
  const first = await connect(await person())
  const second = (await refresh(first.refresh_token)).json()
  t.not(second.refresh_token, first.refresh_token)
  t.equal((await call(second.access_token)).statusCode, 200)
  const again = (await refresh(first.refresh_token)).json()
  t.match(again, { refresh_token: String }, 'at once: its answer was lost')
  await clock.advance(10_000)
  const late = (await refresh(first.refresh_token)).json()
  t.equal(late.refresh_token, undefined, 'then it brings no other one')
  t.equal((await call(late.access_token)).statusCode, 200, 'but an access token')
  await clock.advance(110_000)
  t.match((await refresh(first.refresh_token)).json(), { error: 'invalid_grant' }, 'later: stolen')
  t.equal((await call(late.access_token)).statusCode, 401)
  t.equal((await call(second.access_token)).statusCode, 401, 'the family has ended')
  t.match((await refresh(second.refresh_token)).json(), { error: 'invalid_grant' })
  t.match(log.filter(({ event }) => event === 'session-ended').at(-1), {
    endedBy: 'reuse',
    caller: 'corp:ada',
    client: CLIENT,
  })
})

t.test('a clock that was set back gives a refresh token that was used no more time', async (t) => {
  const { person, connect, refresh, clock } = await startIssuer(t)
  const first = await connect(await person())
  await clock.advance(60_000)
  await refresh(first.refresh_token)
  await clock.advance(-30_000)
  t.match((await refresh(first.refresh_token)).json(), { error: 'invalid_grant' })
})

t.test('all that renew at once get the next token, and one that comes later ends it', async (t) => {
  const { person, connect, refresh, clock } = await startIssuer(t)
  const { refresh_token: token } = await connect(await person())
  const answers = await Promise.all(Array.from({ length: 8 }, () => refresh(token)))
  for (const answer of answers) t.equal(answer.statusCode, 200)
  const [first, second, ...others] = answers.map((answer) => answer.json().refresh_token)
  t.equal((await refresh(first)).statusCode, 200)
  t.equal((await refresh(second)).statusCode, 200, 'it is the same one as the first')
  await clock.advance(120_000)
  await refresh(token)
  for (const next of others) t.match((await refresh(next)).json(), { error: 'invalid_grant' })
})

t.test('a refresh token is bound to its client', async (t) => {
  const { person, connect, allow, refresh, documents } = await startIssuer(t)
  documents.set(EVIL, { ...DOCUMENT, client_id: EVIL })
  const { refresh_token: token } = await connect(await person())
  t.match((await refresh(token, { client_id: EVIL })).json(), { error: 'invalid_grant' })
  t.match(
    (await refresh(token.replace(/.{4}$/, '----'))).json(),
    { error: 'invalid_grant' },
    'made up',
  )
  const { code } = await allow(await person('eve'))
  t.match((await refresh(String(code))).json(), { error: 'invalid_grant' }, 'a code')
  t.equal((await refresh(token)).statusCode, 200, 'none of it has used it up')
})

t.test('clickjacking (4.16)', async (t) => {
  const { person, authorizeUrl } = await startIssuer(t)
  const { headers } = await (await person()).open(authorizeUrl())
  t.match(headers['content-security-policy'], /frame-ancestors 'none'/)
})

t.test('cross-site request forgery of the consent', async (t) => {
  const { person, authorizeUrl, decide, app } = await startIssuer(t)
  const [ada, eve] = [await person('ada'), await person('eve')]
  const page = await ada.open(authorizeUrl())
  const ofEve = await eve.open(authorizeUrl())
  const { statusCode: foreign } = await decide(ada, page, 'allow', { origin: 'https://evil.test' })
  t.equal(foreign, 403, 'a form of another site')
  t.equal((await decide(ada, page, 'allow', { origin: 'null' })).statusCode, 403, 'of a sandbox')
  t.match(
    await decide(ada, ofEve),
    { statusCode: 400, headers: { location: undefined } },
    'the form of somebody else',
  )
  t.equal((await decide(ada, page, 'maybe')).statusCode, 400, 'neither yes nor no')
  const get = await app.inject({
    url: `/portals/main/authorize?decision=allow`,
    headers: { host: 'auth.example.com', cookie: ada.cookies() },
  })
  t.equal(get.statusCode, 400, 'by a link')
  const field = named(page.body, 'input').find((each) => attribute(each, 'name') === 'form')
  t.notMatch(
    (field && attribute(field, 'value')) ?? '',
    'assistant',
    'what the form says is sealed',
  )
})

t.test('a form is good for ten minutes, and for its session', async (t) => {
  const { person, authorizeUrl, decide, clock } = await startIssuer(t)
  const ada = await person()
  const page = await ada.open(authorizeUrl())
  const again = await person('ada')
  t.equal((await decide(again, page)).statusCode, 400, 'another session of the person')
  await clock.advance(600_000)
  t.equal((await decide(ada, page)).statusCode, 400)
})

t.test('confused deputy: a client that says it is another one is asked about again', async (t) => {
  const { person, allow, authorizeUrl, documents } = await startIssuer(t)
  documents.set(EVIL, {
    ...DOCUMENT,
    client_id: EVIL,
    redirect_uris: ['https://evil.test/callback'],
  })
  const browser = await person()
  await allow(browser)
  const evil = { client_id: EVIL, redirect_uri: 'https://evil.test/callback' }
  const page = await browser.open(authorizeUrl(evil))
  t.equal(page.statusCode, 200)
  t.match(page.body, 'evil.test', 'with its own host')
  t.match(answerIn(await browser.open(authorizeUrl({ client_id: EVIL }))), { code: undefined })
})

t.test('other tokens of the service are no access tokens', async (t) => {
  const { person, connect, call, signIn, app } = await startIssuer(t)
  const browser = await person()
  const { access_token: token, refresh_token: refreshToken } = await connect(browser)
  const cookie = await signIn('main', {}, { host: 'auth.example.com' })
  const session = cookie.slice(cookie.indexOf('=') + 1)
  const [header = '', claims = '', signature = ''] = token.split('.')
  const changed = (part: string, change: object) =>
    Buffer.from(
      JSON.stringify({ ...JSON.parse(Buffer.from(part, 'base64url').toString()), ...change }),
    ).toString('base64url')
  const now = app.clock.now()
  const assertion = app.keys.assertion
    .present(now)
    .assertion.sign(JSON.parse(Buffer.from(claims, 'base64url').toString()))
  const table: readonly [string, string][] = [
    ['the session token', session],
    ['an assertion with the same claims', assertion],
    ['the refresh token', refreshToken],
    ['without a signature', `${changed(header, { alg: 'none' })}.${claims}.`],
    ['for another resource', `${header}.${changed(claims, { aud: OTHER })}.${signature}`],
    ['with more scopes', `${header}.${changed(claims, { scope: 'notes:write' })}.${signature}`],
    [
      'as an assertion',
      `${changed(header, { typ: 'gatehouse-assertion+jwt' })}.${claims}.${signature}`,
    ],
  ]
  t.equal((await call(token)).statusCode, 200)
  for (const [title, each] of table) {
    const answer = await call(each)
    t.equal(answer.statusCode, 401, title)
    t.match(
      answer.headers['www-authenticate'],
      /^Bearer .*error="invalid_token".*resource_metadata=/,
      title,
    )
  }
  t.equal(
    (await call(token, { headers: { authorization: `Bearer ${token}, Bearer ${token}` } }))
      .statusCode,
    400,
  )
  const verify = await app.inject({
    url: `/api/portals/main/verify?aud=${NOTES}`,
    headers: { authorization: `Bearer ${token}` },
  })
  t.equal(verify.statusCode, 401, 'nor are they assertions')
})
