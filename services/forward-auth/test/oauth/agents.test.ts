import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type {} from '../../src/oauth/clients.ts'
import { personOf } from '../../src/session/session.ts'
import { portalOf, yamlOf } from '../app.ts'
import { attribute, named, text } from '../pages/read.ts'
import { MAIN } from '../portal/kit.ts'
import type { Visitor } from '../visitor.ts'
import { CLIENT, NOTES, OTHER, portalWith, sendForm, startIssuer } from './kit.ts'

expectWarnings(t, 'FWA_', 'AUTH_')

type Issuer = Awaited<ReturnType<typeof startIssuer>>

/** The agents on a page: their texts, and what their forms send. */
const agentsOn = (body: string) =>
  named(body, 'li')
    .map((item) => ({ text: text(item).replace(/\s+/g, ' '), item }))
    .filter((one) => one.text.includes('assistant.test'))

t.test('what ends the session ends its agents', async (t) => {
  const issuer = await startIssuer(t)
  const { person, connect, call, refresh, app, clock } = issuer
  const table: readonly [string, (browser: Visitor) => Promise<unknown>][] = [
    ['the person signs out', (browser) => sendForm(issuer, browser, '/logout')],
    ['the person signs out everywhere', (browser) => sendForm(issuer, browser, '/account/end-all')],
    [
      'an administrator',
      async () =>
        sendForm(issuer, await person('root', { groups: ['admin'] }), '/sessions/end', {
          person: 'ada',
        }),
    ],
    [
      'a script',
      async () =>
        app.sessions.records.end({
          person: personOf('main', { provider: 'corp', id: 'ada' }),
        }),
    ],
    ['another person signs in there', (browser) => signInAs(issuer, browser, 'eve')],
    ['its time', () => clock.advance(8 * 3_600_000)],
  ]
  for (const [title, end] of table) {
    const browser = await person()
    const tokens = await connect(browser)
    t.equal((await call(tokens.access_token)).statusCode, 200, title)
    await end(browser)
    t.equal((await call(tokens.access_token)).statusCode, 401, title)
    t.match((await refresh(tokens.refresh_token)).json(), { error: 'invalid_grant' }, title)
  }
})

async function signInAs({ corp }: Issuer, browser: Visitor, sub: string) {
  const begun = await browser.open(`${MAIN}/providers/corp?switch=1`)
  return browser.open(corp.authorize(begun.headers.location, sub))
}

t.test('a session that goes on keeps its agents', async (t) => {
  const issuer = await startIssuer(t)
  const { person, connect, call, authorizeUrl } = issuer
  const browser = await person()
  const { access_token: token } = await connect(browser)
  await signInAs(issuer, browser, 'ada')
  t.equal((await call(token)).statusCode, 200, 'the same person signs in once more')
  await person('ada')
  t.equal((await call(token)).statusCode, 200, 'and in another browser')
  await sendForm(issuer, browser, '/account/end-others')
  t.equal((await call(token)).statusCode, 200, 'and ends all others')
  t.equal((await browser.open(authorizeUrl())).statusCode, 303, 'which withdraws no consent')
})

t.test('an agent has what its person has now', async (t) => {
  const { person, connect, call, corp, clock } = await startIssuer(t)
  corp.state.signedIn = { tokens: { refresh: 'r' } } as never
  const browser = await person('ada', { groups: ['staff'] })
  const tokens = await connect(browser)
  const at = { path: '/mcp/staff' }
  t.equal((await call(tokens.access_token, at)).statusCode, 200)
  corp.state.reRead = (before) => ({
    kind: 'read',
    signedIn: {
      tokens: { refresh: 'r' },
      profile: { ...before, groups: [], claims: { sub: 'ada' } },
    } as never,
  })
  await clock.advance(599_000)
  await call(tokens.access_token, at)
  await clock.advance(15_000)
  t.equal(
    (await call(tokens.access_token, at)).statusCode,
    403,
    'the provider has changed its mind',
  )
})

t.test('an agent passes a demand on the sign-in for as long as its person does', async (t) => {
  const issuer = await startIssuer(t)
  const { person, connect, call, refresh, clock, corp } = issuer
  const signedIn = () => ({ auth_time: Math.floor(clock.now() / 1_000) })
  const browser = await person('ada', signedIn())
  const tokens = await connect(browser)
  const at = { path: '/mcp/lately' }
  t.equal((await call(tokens.access_token, at)).statusCode, 200)
  await clock.advance(3_600_000)
  const { access_token: token } = (await refresh(tokens.refresh_token)).json()
  const refused = await call(token, at)
  t.equal(refused.statusCode, 401)
  t.match(
    refused.headers['www-authenticate'],
    /scope="notes:read", resource_metadata="[^"]+", error="insufficient_user_authentication", .*max_age="900"/,
  )
  corp.state.claims = signedIn()
  await signInAs(issuer, browser, 'ada')
  t.equal((await call(token, at)).statusCode, 200, 'the person has signed in anew')
})

t.test('a client has its person sign in anew as the challenge says (RFC 9470)', async (t) => {
  const { person, authorizeUrl, clock } = await startIssuer(t)
  const now = () => Math.floor(clock.now() / 1_000)
  const browser = await person('ada', { auth_time: now() })
  for (const max_age of [undefined, '900', '1000', 'x', '-1', ''])
    t.equal((await browser.open(authorizeUrl({ max_age }))).statusCode, 200, `${max_age}`)
  await clock.advance(3_600_000)
  for (const [changes, isAsked] of [
    [{}, false],
    [{ max_age: '900' }, true],
    [{ max_age: '60' }, true],
    [{ max_age: '86400' }, false],
    [{ acr_values: 'nothing-that-is-here' }, false],
  ] as const) {
    const { statusCode, headers } = await browser.open(authorizeUrl(changes))
    t.equal(statusCode, isAsked ? 303 : 200, JSON.stringify(changes))
    if (isAsked) t.match(headers.location, /\/signin\?rd=.*max_age.*&policy=lately$/)
  }
})

t.test('one grant for a person, client, resource and redirect URI', async (t) => {
  const { person, connect, call, refresh, clock } = await startIssuer(t)
  const browser = await person()
  const first = await connect(browser)
  await clock.advance(1)
  const other = await connect(browser, { resource: OTHER, scope: 'other' })
  const second = await connect(browser)
  t.equal((await call(second.access_token)).statusCode, 200)
  t.equal((await call(first.access_token)).statusCode, 401, 'replaced')
  t.equal((await refresh(first.refresh_token)).statusCode, 400)
  t.equal((await refresh(other.refresh_token)).statusCode, 200, 'that of another resource stays')
  const bob = await connect(await person('bob'))
  t.equal((await call(bob.access_token)).statusCode, 200)
  t.equal((await refresh(second.refresh_token)).statusCode, 200, 'and that of other people')
})

t.test('of two codes that a client redeems at once, one brings an agent that stays', async (t) => {
  const { person, allow, redeem, call } = await startIssuer(t)
  const browser = await person()
  const codes = [(await allow(browser)).code, (await allow(browser)).code]
  const answers = await Promise.all(codes.map((code) => redeem(code)))
  const calls = answers.map(async (each) => (await call(each.json().access_token)).statusCode)
  t.strictSame((await Promise.all(calls)).sort(), [200, 401])
})

t.test('a renewal that takes long ends nobody’s agent', async (t) => {
  const { person, connect, refresh, app } = await startIssuer(t)
  const tokens = await connect(await person())
  const isReleased = Promise.withResolvers<void>()
  const isHeld = Promise.withResolvers<void>()
  const { clients } = app
  const authenticate = clients.authenticate.bind(clients)
  let isFirst = true
  t.capture(clients, 'authenticate', async (...sent: Parameters<typeof authenticate>) => {
    if (isFirst) {
      isFirst = false
      isHeld.resolve()
      await isReleased.promise
    }
    return authenticate(...sent)
  })
  const slow = refresh(tokens.refresh_token)
  await isHeld.promise
  const first = (await refresh(tokens.refresh_token)).json()
  const second = (await refresh(first.refresh_token)).json()
  isReleased.resolve()
  t.match((await slow).json(), { access_token: /./, refresh_token: undefined })
  t.equal((await refresh(second.refresh_token)).statusCode, 200)
})

t.test('each process of a client has a refresh token, and goes on', async (t) => {
  const { person, connect, call, refresh, clock } = await startIssuer(t)
  const tokens = [(await connect(await person())).refresh_token]
  for (let n = 0; n < 4; n += 1) {
    await clock.advance(20_000)
    tokens.push((await refresh(tokens.at(-1) ?? '')).json().refresh_token)
  }
  await clock.advance(33_000)
  for (const [n, isLate] of [
    [4, false],
    [3, true],
    [2, true],
    [1, true],
  ] as const) {
    const answer = (await refresh(tokens[n] ?? '')).json()
    t.equal(answer.refresh_token === undefined, isLate, `${n}`)
    t.equal((await call(answer.access_token)).statusCode, 200, `${n}`)
  }
})

t.test('a call that needs another scope says which', async (t) => {
  const { person, connect, call } = await startIssuer(t)
  const { access_token: token } = await connect(await person())
  const answer = await call(token, { tool: 'delete_note' })
  t.equal(answer.statusCode, 403)
  t.match(
    answer.headers['www-authenticate'],
    /error="insufficient_scope", .*scope="notes:read notes:write", resource_metadata=/,
  )
})

t.test('the app is told who calls, and by what', async (t) => {
  const { person, connect, check, call } = await startIssuer(t, {
    options: 'assertion: { hosts: [app.example.com] }, userHeader: email',
  })
  const claims = { email: 'ada@example.com', email_verified: true }
  const { access_token: token } = await connect(await person('ada', claims))
  const { headers } = await call(token, { headers: { 'mcp-method': 'tools/list' } })
  t.equal(headers['x-forwarded-user'], 'ada@example.com')
  t.equal(headers['x-gatehouse-tools'], 'read_note,!delete_note,*')
  const [, body = ''] = String(headers['x-gatehouse-assertion']).split('.')
  t.match(JSON.parse(Buffer.from(body, 'base64url').toString()), {
    sub: 'ada',
    method: 'agent',
    client_id: CLIENT,
    scope: 'notes:read',
    email: 'ada@example.com',
    tools: ['read_note', '!delete_note', '*'],
  })
  t.ok(check)
})

t.test('people see their agents, and end them', async (t) => {
  const issuer = await startIssuer(t)
  const { person, connect, call, authorizeUrl, clock } = issuer
  const browser = await person()
  const tokens = await connect(browser)
  await clock.advance(1)
  await connect(browser, { resource: OTHER, scope: 'other' })
  const bob = await person('bob')
  await connect(bob)
  const { body } = await browser.open(`${MAIN}/account`)
  const shown = agentsOn(body)
  t.equal(shown.length, 1, 'what one client has is one')
  t.match(shown[0]?.text, /Assistant.*app\.example\.com\/other.*app\.example\.com\/mcp/)
  const idOf = (item: (typeof shown)[number]['item']) => {
    const input = named(body, 'input').find(
      (each) => attribute(each, 'name') === 'session' && text(item) !== undefined,
    )
    return input && attribute(input, 'value')
  }
  t.ok(idOf(shown[0]!.item))
  const rows = await issuer.app.authStore.listSessions({ portal: 'main', agents: true }, 10)
  t.equal(rows.length, 3)
  const notes = rows.filter(({ sid }) => body.includes(sid))
  t.equal(notes.length, 1, 'only their own')
  for (const { sid } of rows) await sendForm(issuer, bob, '/account/end', { session: sid })
  t.equal((await call(tokens.access_token)).statusCode, 200, 'nobody ends those of others')
  for (const { sid } of notes) await sendForm(issuer, browser, '/account/end', { session: sid })
  t.equal((await call(tokens.access_token)).statusCode, 401)
  t.strictSame(agentsOn((await browser.open(`${MAIN}/account`)).body), [])
  t.equal((await browser.open(authorizeUrl())).statusCode, 200, 'and are asked again')
})

t.test('who has disconnected an agent is asked again, whatever it asks for', async (t) => {
  const issuer = await startIssuer(t)
  const { person, connect, allow, authorizeUrl, app } = issuer
  const browser = await person()
  const isAsked = async (changes: Record<string, string> = {}) =>
    (await browser.open(authorizeUrl(changes))).statusCode === 200
  await allow(browser)
  await allow(browser, { resource: OTHER, scope: 'other' })
  await connect(browser, { scope: 'notes:read notes:write' })
  t.equal(await isAsked(), false)
  const [row] = await app.authStore.listSessions({ portal: 'main', agents: true }, 10)
  await sendForm(issuer, browser, '/account/end', { session: row?.sid ?? '' })
  t.equal(await isAsked({ scope: 'notes:read notes:write' }), true)
  t.equal(await isAsked(), true, 'what it was allowed before that')
  t.equal(await isAsked({ resource: OTHER, scope: 'other' }), true, 'and elsewhere')
})

t.test('who has signed out everywhere is asked again', async (t) => {
  const issuer = await startIssuer(t)
  const { person, connect, authorizeUrl } = issuer
  const browser = await person()
  await connect(browser)
  await sendForm(issuer, browser, '/account/end-all')
  t.equal((await (await person()).open(authorizeUrl())).statusCode, 200)
})

t.test('an agent lasts as long as a session that its person has prolonged', async (t) => {
  const issuer = await startIssuer(t)
  const { person, connect, call, refresh, clock, app } = issuer
  const browser = await person()
  const { refresh_token: token } = await connect(browser)
  await clock.advance(7 * 3_600_000)
  await signInAs(issuer, browser, 'ada')
  await clock.advance(2 * 3_600_000)
  await app.authStore.prune()
  t.equal(agentsOn((await browser.open(`${MAIN}/account`)).body).length, 1, 'people see it')
  const answer = await refresh(token)
  t.equal(answer.statusCode, 200)
  t.equal((await call(answer.json().access_token)).statusCode, 200)
})

t.test('an agent does not outlive the keys of the session of its person', async (t) => {
  const yaml = yamlOf(portalWith() + portalOf('elsewhere'))
  const { person, connect, call, refresh, reload } = await startIssuer(t, { yaml })
  const first = await connect(await person())
  const added = '{ secret: fedcba9876543210fedcba9876543210 }'
  await reload(yaml.replace('keys: [', `keys: [${added}, `))
  const second = (await refresh(first.refresh_token)).json()
  t.equal((await call(second.access_token)).statusCode, 200, 'both keys count')
  await reload(yaml.replace(/keys: \[[^\]]*/, `keys: [${added}`))
  t.equal((await call(second.access_token)).statusCode, 401, 'the old one counts no more')
  t.match((await refresh(second.refresh_token)).json(), { error: 'invalid_grant' })
})

t.test('administrators see all agents', async (t) => {
  const issuer = await startIssuer(t)
  const { person, connect, call } = issuer
  const { access_token: token } = await connect(await person())
  const root = await person('root', { groups: ['admin'] })
  const { body } = await root.open(`${MAIN}/sessions`)
  t.equal(agentsOn(body).length, 1)
  const [row] = await issuer.app.authStore.listSessions({ portal: 'main', agents: true }, 10)
  await sendForm(issuer, root, '/sessions/end', { session: row?.sid ?? '' })
  t.equal((await call(token)).statusCode, 401)
})

t.test('an agent is nobody’s session', async (t) => {
  const { person, connect, app } = await startIssuer(t)
  await connect(await person())
  const [row] = await app.authStore.listSessions({ portal: 'main', agents: true }, 10)
  const portal = app.portals.get('main')!
  const site = app.sites.list[0]!
  t.equal(await app.sessions.find(row!.sid, { portal, site }), undefined)
})

t.test('the metadata names the portal as the authorization server', async (t) => {
  const { app } = await startIssuer(t)
  const read = async (url: string, host: string) =>
    (await app.inject({ url, headers: { host } })).json()
  t.match(await read('/.well-known/oauth-protected-resource/mcp', 'app.example.com'), {
    resource: NOTES,
    authorization_servers: [MAIN],
    scopes_supported: ['notes:read'],
  })
  const metadata = {
    issuer: MAIN,
    authorization_endpoint: `${MAIN}/authorize`,
    token_endpoint: `${MAIN}/token`,
    revocation_endpoint: `${MAIN}/revoke`,
    registration_endpoint: undefined,
    jwks_uri: `${MAIN}/.well-known/jwks.json`,
    scopes_supported: ['notes:read', 'notes:write', 'other'],
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: ['none', 'private_key_jwt'],
    client_id_metadata_document_supported: true,
    protected_resources: undefined,
    userinfo_endpoint: undefined,
    id_token_signing_alg_values_supported: undefined,
  }
  for (const url of [
    '/.well-known/oauth-authorization-server/portals/main',
    '/portals/main/.well-known/oauth-authorization-server',
  ])
    t.match(await read(url, 'auth.example.com'), metadata, url)
  t.equal(
    (
      await app.inject({
        url: '/.well-known/oauth-authorization-server/portals/main',
        headers: { host: 'app.example.com' },
      })
    ).statusCode,
    403,
  )
})
