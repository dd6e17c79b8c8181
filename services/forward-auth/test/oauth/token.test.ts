import { randomBytes } from 'node:crypto'
import { StoreError } from '@gatehouse/store'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, yamlOf } from '../app.ts'
import { AUTH } from '../portal/kit.ts'
import { CLIENT, claimsOf, portalWith, startIssuer } from './kit.ts'

expectWarnings(t, 'FWA_', 'tokens could not be issued')

/** A path that does not compress. */
const noise = (length: number) => randomBytes(length).toString('base64url').slice(0, length)

t.test('tokens are renewed for as long as the session lasts', async (t) => {
  const { person, connect, refresh, call, clock } = await startIssuer(t)
  let tokens = await connect(await person())
  for (let hour = 0; hour < 7; hour++) {
    await clock.advance(3_600_000)
    t.equal((await call(tokens.access_token)).statusCode, 401, 'the old one has expired')
    tokens = (await refresh(tokens.refresh_token)).json()
    t.equal((await call(tokens.access_token)).statusCode, 200)
  }
  await clock.advance(3_600_000)
  t.match((await refresh(tokens.refresh_token)).json(), { error: 'invalid_grant' })
})

t.test('a renewed token may have fewer scopes, and never more', async (t) => {
  const { person, connect, refresh, call } = await startIssuer(t)
  const all = await connect(await person(), { scope: 'notes:read notes:write' })
  t.equal((await call(all.access_token, { tool: 'delete_note' })).statusCode, 200)
  const less = (await refresh(all.refresh_token, { scope: 'notes:read' })).json()
  t.equal(claimsOf(less.access_token).scope, 'notes:read')
  t.equal((await call(less.access_token, { tool: 'delete_note' })).statusCode, 403)
  const back = (await refresh(less.refresh_token)).json()
  t.equal(back.scope, 'notes:read notes:write', 'what the person has allowed stays')
  const twice = (await refresh(back.refresh_token, { scope: 'notes:write notes:write' })).json()
  t.equal(twice.scope, 'notes:write', 'each once')
  const more = await connect(await person('bob'))
  t.match((await refresh(more.refresh_token, { scope: 'notes:read notes:write' })).json(), {
    error: 'invalid_scope',
  })
  const offline = await refresh(more.refresh_token, { scope: 'notes:read offline_access' })
  t.equal(offline.json().scope, 'notes:read', 'what there is not is left out')
  const nothing = await refresh(offline.json().refresh_token, { scope: 'offline_access' })
  t.equal(nothing.json().scope, 'notes:read', 'and never more for it')
})

t.test(
  'a parameter without a value is as if it were not there (RFC 6749 section 3.2)',
  async (t) => {
    const { person, connect, refresh, redeem, allow, post } = await startIssuer(t)
    const browser = await person()
    const first = await connect(browser)
    const second = (await refresh(first.refresh_token, { scope: '', resource: '' })).json()
    t.equal(second.scope, 'notes:read')
    const { code } = await allow(browser)
    t.equal((await redeem(code, { resource: '' })).statusCode, 200)
    t.equal((await post('/revoke', { token: '', client_id: CLIENT })).statusCode, 400)
  },
)

t.test('what a client must not send', async (t) => {
  const { post, person, allow, app } = await startIssuer(t)
  const { code = '' } = await allow(await person())
  const table: readonly [string, Record<string, string>, string][] = [
    ['nothing', {}, 'invalid_request'],
    ['no grant', { client_id: CLIENT }, 'unsupported_grant_type'],
    [
      'a password',
      { grant_type: 'password', client_id: CLIENT, username: 'a', password: 'b' },
      'unsupported_grant_type',
    ],
    [
      'client credentials',
      { grant_type: 'client_credentials', client_id: CLIENT },
      'unsupported_grant_type',
    ],
    ['no client', { grant_type: 'authorization_code', code }, 'invalid_request'],
    ['no code', { grant_type: 'authorization_code', client_id: CLIENT }, 'invalid_request'],
    ['no refresh token', { grant_type: 'refresh_token', client_id: CLIENT }, 'invalid_request'],
    [
      'a refresh token that is none',
      { grant_type: 'refresh_token', client_id: CLIENT, refresh_token: 'x' },
      'invalid_grant',
    ],
  ]
  for (const [title, fields, error] of table) {
    const answer = await post('/token', fields)
    t.match([answer.statusCode, answer.json().error], [400, error], title)
    t.equal(answer.headers['cache-control'], 'no-store', title)
  }
  const send = (payload: string, type: string) =>
    app.inject({
      method: 'POST',
      url: '/portals/main/token',
      headers: { host: 'auth.example.com', 'content-type': type },
      payload,
    })
  const form = 'application/x-www-form-urlencoded'
  t.match((await send('client_id=a&client_id=b', form)).json(), { error: 'invalid_request' })
  t.equal((await send('{}', 'text/plain')).statusCode, 400)
  t.equal((await send('a'.repeat(20_000), form)).statusCode, 413)
  t.match((await send('{"client_id":1}', 'application/json')).json(), { error: 'invalid_request' })
})

t.test('pages of any origin may call the token endpoint, without cookies', async (t) => {
  const { app } = await startIssuer(t)
  for (const path of ['/token', '/revoke', '/register']) {
    const answer = await app.inject({
      method: 'OPTIONS',
      url: `/portals/main${path}`,
      headers: {
        host: 'auth.example.com',
        origin: 'https://a.test',
        'access-control-request-method': 'POST',
      },
    })
    t.match(answer, {
      statusCode: 204,
      headers: { 'access-control-allow-origin': '*', 'access-control-allow-methods': 'POST' },
    })
    t.notOk('access-control-allow-credentials' in answer.headers)
  }
})

t.test('a client ends what it has', async (t) => {
  const { person, connect, post, call, refresh, log } = await startIssuer(t)
  const browser = await person()
  for (const which of ['access_token', 'refresh_token'] as const) {
    const tokens = await connect(browser)
    const token = tokens[which]
    t.equal((await post('/revoke', { token, client_id: `${CLIENT}2` })).statusCode, 200)
    t.equal((await call(tokens.access_token)).statusCode, 200, 'of another client')
    t.equal((await post('/revoke', { token, client_id: CLIENT })).statusCode, 200)
    t.equal((await call(tokens.access_token)).statusCode, 401)
    t.match((await refresh(tokens.refresh_token)).json(), { error: 'invalid_grant' })
    t.equal((await post('/revoke', { token, client_id: CLIENT })).statusCode, 200, 'once more')
  }
  const { access_token: token } = await connect(browser)
  const elsewhere = await post('/../elsewhere/revoke', { token, client_id: CLIENT })
  t.equal(elsewhere.statusCode, 200)
  t.equal((await call(token)).statusCode, 200, 'at another portal')
  t.equal((await post('/revoke', { token: 'x', client_id: CLIENT })).statusCode, 200)
  t.equal((await post('/revoke', { client_id: CLIENT })).statusCode, 400)
  t.equal(log.filter(({ event }) => event === 'session-ended').length, 2)
})

t.test('a client that renews again and again has to wait', async (t) => {
  const { person, connect, refresh, clock } = await startIssuer(t)
  let { refresh_token: token } = await connect(await person())
  for (let i = 0; i < 60; i++) token = (await refresh(token)).json().refresh_token
  const answer = await refresh(token)
  t.match([answer.statusCode, answer.json().error], [429, 'temporarily_unavailable'])
  await clock.advance(Number(answer.headers['retry-after']) * 1_000)
  t.equal((await refresh(token)).statusCode, 200, 'and has lost nothing')
})

t.test('what is not configured any more is in no new token', async (t) => {
  const yaml = yamlOf(portalWith() + portalOf('elsewhere'))
  const { person, connect, allow, redeem, refresh, reload } = await startIssuer(t, { yaml })
  const browser = await person()
  const first = await connect(browser, { scope: 'notes:read notes:write' })
  const { code } = await allow(browser, { scope: 'notes:read notes:write' })
  const { code: late } = await allow(browser)
  await reload(
    yaml
      .replace('notes:write", text', 'notes:change", text')
      .replace(/writes: '[^']+'/, "writes: 'true'"),
  )
  const second = (await refresh(first.refresh_token)).json()
  t.equal(second.scope, 'notes:read')
  t.equal((await redeem(code)).json().scope, 'notes:read', 'nor for a code from before')
  await reload(
    yaml.replace('url: "https://app.example.com/mcp"', 'url: "https://app.example.com/mcp2"'),
  )
  t.match((await refresh(second.refresh_token)).json(), { error: 'invalid_grant' })
  t.match((await redeem(late)).json(), { error: 'invalid_grant' })
})

t.test('the store is away', async (t) => {
  const { person, allow, redeem, app } = await startIssuer(t)
  const { code } = await allow(await person())
  const { authStore } = app
  const { beginAgent } = authStore
  authStore.beginAgent = async () => {
    throw new StoreError('STORE_UNAVAILABLE', 'away', { retryAfter: 5 })
  }
  const answer = await redeem(code)
  t.match(answer, { statusCode: 503, headers: { 'retry-after': '5' } })
  t.match(answer.json(), { error: 'temporarily_unavailable' })
  authStore.beginAgent = beginAgent
  t.equal((await redeem(code)).statusCode, 200, 'nothing is lost')
})

t.test('a client registers itself where that is configured', async (t) => {
  const { app, person, authorizeUrl, decide, redeem, call } = await startIssuer(t, {
    options: 'authorizationServer: { registration: true }',
  })
  const register = (body: object, portal = 'main') =>
    app.inject({
      ...{ method: 'POST', url: `/portals/${portal}/register` },
      headers: { host: 'auth.example.com', 'content-type': 'application/json' },
      payload: JSON.stringify(body),
    })
  const redirect = 'http://localhost:3334/callback'
  const answer = await register({
    client_name: 'Inspector',
    redirect_uris: [redirect],
    token_endpoint_auth_method: 'none',
  })
  t.equal(answer.statusCode, 201)
  const { client_id: id } = answer.json()
  t.match(answer.json(), {
    client_name: 'Inspector',
    redirect_uris: [redirect],
    token_endpoint_auth_method: 'none',
  })
  const browser = await person()
  const changes = { client_id: id, redirect_uri: redirect }
  const page = await browser.open(authorizeUrl(changes))
  t.equal(page.statusCode, 200)
  const { code } = (await import('./kit.ts')).answerIn(await decide(browser, page))
  const tokens = (await redeem(code, changes)).json()
  t.equal((await call(tokens.access_token)).statusCode, 200)

  const table: readonly [string, object, string][] = [
    ['no redirect URI', {}, 'invalid_redirect_uri'],
    ['none of them', { redirect_uris: [] }, 'invalid_redirect_uri'],
    ['plain http', { redirect_uris: ['http://a.test/'] }, 'invalid_redirect_uri'],
    ['a script', { redirect_uris: ['javascript:alert(1)'] }, 'invalid_redirect_uri'],
    ['too many', { redirect_uris: Array(6).fill(redirect) }, 'invalid_redirect_uri'],
    [
      'too long',
      {
        redirect_uris: ['a', 'b', 'c', 'd', 'e'].map(
          (host) => `https://${host}.test/${noise(1_500)}`,
        ),
      },
      'invalid_client_metadata',
    ],
    [
      'a hidden name',
      { redirect_uris: [redirect], client_name: 'a\u202eb' },
      'invalid_client_metadata',
    ],
    ['a list as a name', { redirect_uris: [redirect], client_name: [] }, 'invalid_request'],
  ]
  for (const [title, body, error] of table) {
    const refused = await register(body)
    t.match([refused.statusCode, refused.json().error], [400, error], title)
  }
  t.equal(
    (await register({ redirect_uris: [redirect] }, 'elsewhere')).statusCode,
    404,
    'not configured',
  )
  const other = await browser.open(
    `${AUTH}/portals/elsewhere/authorize?client_id=${id}&redirect_uri=${redirect}`,
  )
  t.equal(other.statusCode, 400, 'at another portal')
})
