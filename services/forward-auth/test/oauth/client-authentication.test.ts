import { generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, yamlOf } from '../app.ts'
import { MAIN } from '../portal/kit.ts'
import { CLIENT, DOCUMENT, portalWith, REDIRECT, startIssuer } from './kit.ts'

expectWarnings(t, 'FWA_', 'AUTH_', 'issuer returned no keys')

const ASSERTION = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
const JWKS = 'https://assistant.test/oauth/jwks.json'
const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Signs as clients do. */
function jwtOf(header: object, claims: object, key: KeyObject): string {
  const input = `${encode(header)}.${encode(claims)}`
  const signature =
    key.asymmetricKeyType === 'ed25519'
      ? sign(null, Buffer.from(input), key)
      : sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' })
  return `${input}.${signature.toString('base64url')}`
}

const basic = (id: string, secret: string) => ({
  authorization: `Basic ${Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString('base64')}`,
})

t.test('a client that registers with a secret has to have it', async (t) => {
  const { app, person, allow, post, call } = await startIssuer(t, {
    options: 'authorizationServer: { registration: true }',
  })
  const browser = await person()
  for (const method of ['client_secret_post', 'client_secret_basic']) {
    const registered = await app.inject({
      ...{ method: 'POST', url: '/portals/main/register' },
      headers: { host: 'auth.example.com', 'content-type': 'application/json' },
      payload: JSON.stringify({
        client_name: null,
        redirect_uris: [REDIRECT],
        token_endpoint_auth_method: method,
        grant_types: ['client_credentials', 'authorization_code'],
      }),
    })
    const { client_id: id, client_secret: secret, ...rest } = registered.json()
    t.match(rest, {
      client_secret_expires_at: 0,
      token_endpoint_auth_method: method,
      grant_types: ['authorization_code', 'refresh_token'],
    })
    t.match(secret, /^[\w-]{43}$/)
    const redeem = async (fields: object, headers = {}) => {
      const { code } = await allow(browser, { client_id: id })
      const request = { grant_type: 'authorization_code', redirect_uri: REDIRECT, code }
      return post('/token', { ...request, code_verifier: 'v'.repeat(43), ...fields }, headers)
    }
    for (const [why, fields, headers, status] of [
      ['none', { client_id: id }, {}, 400],
      ['another one', { client_id: id, client_secret: `${secret.slice(1)}${secret[0]}x` }, {}, 400],
      ['in Basic', {}, basic(id, 'wrong'), 401],
      ['of another client', {}, basic('registered.x', secret), 400],
      ['in two ways', { client_secret: secret }, basic(id, secret), 400],
      ['beside another ID', { client_id: CLIENT }, basic(id, secret), 400],
    ] as const) {
      const refused = await redeem(fields, headers)
      t.equal(refused.statusCode, status, why)
      if (status === 401) t.match(refused.headers['www-authenticate'], /^Basic /)
    }
    for (const [fields, headers] of [
      [{ client_id: id, client_secret: secret }, {}],
      [{}, basic(id, secret)],
    ] as const) {
      const tokens = (await redeem(fields, headers)).json()
      t.equal((await call(tokens.access_token)).statusCode, 200)
      const token = tokens.refresh_token
      const again = { grant_type: 'refresh_token', refresh_token: token }
      t.match((await post('/token', { ...again, client_id: id })).json(), {
        error: 'invalid_client',
      })
      t.equal((await post('/token', { ...again, ...fields }, headers)).statusCode, 200)
      t.match((await post('/revoke', { token, client_id: id })).json(), { error: 'invalid_client' })
      t.equal((await post('/revoke', { token, ...fields }, headers)).statusCode, 200)
      t.equal((await call(tokens.access_token)).statusCode, 401)
    }
  }
})

t.test('a client authenticates by its key (RFC 7523)', async (t) => {
  const issuer = await startIssuer(t)
  const { person, documents, connect, allow, redeem, post, call, clock } = issuer
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const ed = generateKeyPairSync('ed25519')
  const other = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const jwkOf = (key: KeyObject, kid: string) => ({ ...key.export({ format: 'jwk' }), kid })
  documents.set(JWKS, { keys: [jwkOf(publicKey, 'ec'), jwkOf(ed.publicKey, 'ed')] })
  documents.set(CLIENT, {
    ...DOCUMENT,
    token_endpoint_auth_method: 'private_key_jwt',
    token_endpoint_auth_methods_supported: ['none', 'private_key_jwt'],
    jwks_uri: JWKS,
  })
  const now = () => Math.floor(clock.now() / 1_000)
  const claims = (changes: object = {}) => ({
    ...{ iss: CLIENT, sub: CLIENT, aud: MAIN, jti: randomUUID(), iat: now(), exp: now() + 300 },
    ...changes,
  })
  const header = (changes: object = {}) => ({ alg: 'ES256', kid: 'ec', typ: 'JWT', ...changes })
  const by = (assertion: string) => ({
    client_assertion_type: ASSERTION,
    client_assertion: assertion,
    client_id: undefined,
  })
  const right = (changes: object = {}) => jwtOf(header(), claims(changes), privateKey)
  const browser = await person()
  t.match(await connect(browser), { error: 'invalid_client' }, 'not without it')

  const used = right()
  const table: readonly [string, Record<string, string | undefined>][] = [
    ['for another server', by(right({ aud: 'https://other.test' }))],
    ['for two', by(right({ aud: [MAIN, 'https://other.test'] }))],
    ['for nobody', by(right({ aud: undefined }))],
    ['expired', by(right({ iat: now() - 600, exp: now() - 60 }))],
    ['of later', by(right({ nbf: now() + 600 }))],
    ['that lasts too long', by(right({ exp: now() + 3_600 }))],
    ['without an end', by(right({ exp: undefined }))],
    ['without an ID', by(right({ jti: undefined }))],
    ['with a long ID', by(right({ jti: 'x'.repeat(257) }))],
    ['of another issuer', by(right({ iss: 'https://evil.test/client.json' }))],
    ['of another subject', by(right({ sub: 'https://evil.test/client.json' }))],
    ['by another key', by(jwtOf(header(), claims(), other.privateKey))],
    ['by no key', by(`${encode(header({ alg: 'none' }))}.${encode(claims())}.`)],
    ['by a key of another kind', by(jwtOf(header({ alg: 'EdDSA' }), claims(), privateKey))],
    ['with an extension', by(jwtOf(header({ crit: ['x'], x: 1 }), claims(), privateKey))],
    ['bound to something else', by(right({ cnf: { jkt: 'x' } }))],
    ['that is no JWT', by('x.y.z')],
    ['of another kind', { ...by(right()), client_assertion_type: 'urn:x' }],
    ['beside a secret', { ...by(right()), client_secret: 'x' }],
    ['beside another ID', { ...by(right()), client_id: 'https://evil.test/client.json' }],
    ['a secret in place of it', { client_secret: used }],
  ]
  for (const [why, fields] of table) {
    const { code } = await allow(browser)
    const { statusCode, body } = await redeem(code, fields)
    t.equal(statusCode, 400, `${why}: ${body}`)
  }

  for (const assertion of [
    right(),
    right({ aud: `${MAIN}/token` }),
    right({ aud: [MAIN] }),
    right({ iat: undefined }),
    jwtOf(header({ alg: 'EdDSA', kid: 'ed' }), claims(), ed.privateKey),
  ]) {
    const { code } = await allow(browser)
    const tokens = (await redeem(code, by(assertion))).json()
    t.equal((await call(tokens.access_token)).statusCode, 200, JSON.stringify(tokens))
    const again = { grant_type: 'refresh_token', refresh_token: tokens.refresh_token }
    t.match((await post('/token', { ...again, client_id: CLIENT })).json(), {
      error: 'invalid_client',
    })
    t.match(
      (await post('/token', { ...again, ...by(assertion) })).json(),
      { error: 'invalid_client' },
      'once',
    )
    t.equal((await post('/token', { ...again, ...by(right()) })).statusCode, 200)
  }
  const tokens = (await redeem((await allow(browser)).code, by(right()))).json()
  documents.set(CLIENT, { client_id: CLIENT })
  await clock.advance(600_000)
  const again = { grant_type: 'refresh_token', refresh_token: tokens.refresh_token }
  t.match(
    (await post('/token', { ...again, ...by(right()) })).json(),
    { error: 'invalid_client', error_description: /redirect_uris/ },
    'when its document is not valid any more',
  )
})

t.test('keys that cannot be read now lose nobody their agent', async (t) => {
  const { person, documents, allow, redeem } = await startIssuer(t)
  documents.set(CLIENT, {
    ...DOCUMENT,
    token_endpoint_auth_method: 'private_key_jwt',
    jwks_uri: JWKS,
  })
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { code } = await allow(await person())
  const assertion = jwtOf({ alg: 'ES256', kid: 'ec' }, { iss: CLIENT, sub: CLIENT }, privateKey)
  const later = await redeem(code, {
    client_assertion_type: ASSERTION,
    client_assertion: assertion,
  })
  t.match(later.json(), { error: 'temporarily_unavailable' })
  t.match(later, { statusCode: 503, headers: { 'retry-after': String } })
})

const SECRET = 'the-secret-of-the-chat'
const CHAT = `{ id: chat, name: Our chat, redirectUris: ["https://chat.example.com/callback"], secret: ${SECRET} }`

t.test('the clients of a list, and those that the operator registers', async (t) => {
  const { person, documents, authorizeUrl, allow, redeem, call, post } = await startIssuer(t, {
    options: `authorizationServer: { clients: [assistant.test, "https://other.test/oauth/*", ${CHAT}] }`,
  })
  const browser = await person()
  for (const [id, status] of [
    [CLIENT, 200],
    ['https://other.test/oauth/1/client.json', 200],
    ['https://other.test/other/client.json', 400],
    ['https://evil.test/oauth/client.json', 400],
    ['https://assistant.test.evil.test/client.json', 400],
    ['chat2', 400],
    ['registered.x', 400],
  ] as const) {
    documents.set(id, { ...DOCUMENT, client_id: id })
    const page = await browser.open(authorizeUrl({ client_id: id }))
    t.equal(page.statusCode, status, id)
    if (status === 400) t.match(page.body, /may not be used here|no client with this ID/, id)
  }
  const changes = { client_id: 'chat', redirect_uri: 'https://chat.example.com/callback' }
  const page = await browser.open(authorizeUrl(changes))
  t.match(page.body, /Our chat/)
  const { code } = await allow(browser, changes)
  t.match((await redeem(code, changes)).json(), { error: 'invalid_client' })
  const tokens = (await redeem(code, { ...changes, client_secret: SECRET })).json()
  t.equal((await call(tokens.access_token)).statusCode, 200)
  const again = { grant_type: 'refresh_token', refresh_token: tokens.refresh_token }
  t.equal((await post('/token', again, basic('chat', SECRET))).statusCode, 200)
  t.equal(
    (await browser.open(authorizeUrl({ ...changes, redirect_uri: REDIRECT }))).statusCode,
    400,
    'to its own redirect URIs only',
  )
})

t.test('a client that is taken off the list is none any more', async (t) => {
  const withClients = (clients: string) =>
    yamlOf(portalWith(`authorizationServer: { clients: [${clients}] }`) + portalOf('elsewhere'))
  const open = CHAT.replace(/, secret: [^ ]+/, '')
  const chat = { client_id: 'chat', redirect_uri: 'https://chat.example.com/callback' }
  for (const [what, entry, changes, secret] of [
    ['a document', 'assistant.test', {}, {}],
    ['registered, with a secret', CHAT, chat, { client_secret: SECRET }],
    ['registered, without one', open, chat, {}],
  ] as const) {
    const { person, allow, redeem, refresh, call, reload } = await startIssuer(t, {
      yaml: withClients(entry),
    })
    const { code } = await allow(await person(), changes)
    const tokens = (await redeem(code, { ...changes, ...secret })).json()
    t.equal((await call(tokens.access_token)).statusCode, 200, what)
    await reload(withClients('other.test'))
    t.equal((await call(tokens.access_token)).statusCode, 401, what)
    const renewed = await refresh(tokens.refresh_token, { ...changes, ...secret })
    t.match(renewed.json(), { error: 'invalid_client' }, what)
  }
})

t.test('a client that the operator gives a secret needs it from then on', async (t) => {
  const withChat = (chat: string) =>
    yamlOf(portalWith(`authorizationServer: { clients: [${chat}] }`) + portalOf('elsewhere'))
  const { person, allow, redeem, refresh, reload } = await startIssuer(t, {
    yaml: withChat(CHAT.replace(/, secret: [^ ]+/, '')),
  })
  const changes = { client_id: 'chat', redirect_uri: 'https://chat.example.com/callback' }
  const tokens = (await redeem((await allow(await person(), changes)).code, changes)).json()
  await reload(withChat(CHAT))
  const renew = (more: object) => refresh(tokens.refresh_token, { client_id: 'chat', ...more })
  t.match((await renew({})).json(), { error: 'invalid_client' })
  t.equal((await renew({ client_secret: SECRET })).statusCode, 200)
})

t.test('what clients write into Authorization beside what RFC 6749 has', async (t) => {
  const secret = 'Zm9v+YmFy/c%V4eHh4eHh4eHg='
  const { person, allow, post } = await startIssuer(t, {
    options: `authorizationServer: { clients: [assistant.test, ${CHAT.replace(SECRET, `"${secret}"`)}] }`,
  })
  const browser = await person()
  const raw = (id: string, word: string) =>
    `Basic ${Buffer.from(`${id}:${word}`).toString('base64')}`
  const chat = { redirect_uri: 'https://chat.example.com/callback' }
  for (const [what, changes, authorization, fields, status] of [
    ['a secret as it is', chat, raw('chat', secret), {}, 200],
    ['a secret as in a form', chat, basic('chat', secret).authorization, {}, 200],
    ['another secret', chat, raw('chat', `${secret}x`), {}, 401],
    ['no secret, as the SDK for Go has it', {}, basic(CLIENT, '').authorization, {}, 200],
    ['an old token', {}, 'Bearer of-before', { client_id: CLIENT }, 200],
  ] as const) {
    const of = {
      ...chat,
      client_id: 'chat',
      ...(changes === chat ? {} : { client_id: CLIENT, redirect_uri: REDIRECT }),
    }
    const { code } = await allow(browser, of)
    const sent = { grant_type: 'authorization_code', code, redirect_uri: of.redirect_uri }
    const answer = await post(
      '/token',
      { ...sent, code_verifier: 'v'.repeat(43), ...fields },
      { authorization },
    )
    t.equal(answer.statusCode, status, what)
  }
})

t.test('a key as Bearer is that key at a resource, and no app gets it', async (t) => {
  const key = 'a-key-of-a-program-that-can-send-nothing-else'
  const { call } = await startIssuer(t, {
    options: `callers: { keys: [{ name: ci, key: ${key}, hosts: [app.example.com], scopes: ["notes:read"] }] }`,
  })
  const answer = await call(key)
  t.match(answer, { statusCode: 200, headers: { authorization: '' } })
  t.match(answer.headers['x-forwarded-user'], 'psk:ci')
  t.equal((await call(`${key}x`)).statusCode, 401)
  t.equal((await call(key, { tool: 'delete_note' })).statusCode, 403, 'by its scopes')
  t.equal((await call(key, { path: '/elsewhere' })).statusCode, 400, 'elsewhere it is no key')
})
