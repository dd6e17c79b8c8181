import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { open, refusal, signInWhole, testDeps } from './kit.ts'
import { startSessionProvider } from './stand-ins/session-provider.ts'
import { readToken, signingKey, signToken } from './stand-ins/tokens.ts'

// The provider and the library that reads its tokens go by the system's clock.
mock.timers.enable({ apis: ['Date'], now: Math.floor(Date.now() / 1_000) * 1_000 })
t.teardown(() => mock.timers.reset())

const EVENT = 'http://schemas.openid.net/event/backchannel-logout'

/** A provider, and what it takes to make its logout tokens. */
async function start(t: Test) {
  const idp = await startSessionProvider(t)
  const provider = open(t, idp.options)
  const now = Math.floor(Date.now() / 1_000)
  const claims = {
    ...{ iss: idp.issuer, aud: 'gatehouse', iat: now, exp: now + 120, jti: 'j1' },
    ...{ sub: 'alice', sid: 's1', events: { [EVENT]: {} } },
  }
  const make = (changes: object = {}, header: Record<string, unknown> = {}, key = idp.key) =>
    signToken(key, { ...claims, ...changes }, { typ: 'logout+jwt', ...header })
  const read = async (token: string) => provider.readLogoutToken?.(token)
  return { idp, provider, now, make, read }
}

t.test('the logout token that a provider sends', async (t) => {
  const { idp, provider, read } = await start(t)
  const { sid = '', profile } = await signInWhole(provider)
  const sent = await read(await idp.endSession(profile.id, sid))
  t.match(sent, { sid, issuedAt: Number, jti: /./ })
  t.strictSame(provider.relation, { issuer: idp.issuer, clientId: 'gatehouse' })
})

t.test('logout tokens that are good', async (t) => {
  const { now, make, read } = await start(t)
  const table: Record<string, [claims: object, header?: Record<string, unknown>]> = {
    'with all claims': [{}],
    'of a session alone': [{ sub: undefined }],
    'of a person alone': [{ sid: undefined }],
    'for several clients': [{ aud: ['other', 'gatehouse'] }],
    'without a type': [{}, { typ: undefined }],
    'with the type of an application': [{}, { typ: 'application/logout+jwt' }],
    'of Keycloak, with a second event and a claim of its own': [
      { events: { [EVENT]: {}, revoke_offline_access: true }, typ: 'Logout' },
    ],
    'of a clock that is a little ahead': [{ iat: now + 30 }],
    'that came late': [{ iat: now - 600, exp: now - 29 }],
    'with a long subject': [{ sub: 'x'.repeat(255) }],
  }
  for (const [what, [claims, header]] of Object.entries(table))
    t.match(await read(make(claims, header)), { jti: 'j1' }, what)
  t.strictSame(await read(make()), { sid: 's1', sub: 'alice', issuedAt: now, jti: 'j1' })
})

t.test('logout tokens that are refused', async (t) => {
  const { idp, provider, now, make, read } = await start(t)
  const { tokens } = await signInWhole(provider)
  const idToken = readToken(tokens.id ?? '')
  const of = (text: string) =>
    new RegExp(`^FWA_LOGOUT_TOKEN: the logout token is refused: .*${text}`)
  const table: Record<string, [token: string, expected: RegExp]> = {
    nothing: ['', of('no signed token')],
    'no token': ['a.b.c', of('no signed token')],
    'an encrypted one': ['a.b.c.d.e', of('no signed token')],
    '1 MB': [make({ pad: 'x'.repeat(1_048_576) }), of('16384 characters')],
    'an ID token': [tokens.id ?? '', of('"jti"')],
    'a token of no kind of its own': [make({}, { typ: 'JWT' }), of('"typ"')],
    'an ID token with what a logout token has': [
      make({ ...idToken, jti: 'j', nonce: 'n', sid: 's' }, { typ: undefined }),
      of('"nonce"'),
    ],
    'an access token': [make({}, { typ: 'at+jwt' }), of('"typ"')],
    'of another issuer': [make({ iss: 'https://evil.example' }), of('"iss"')],
    'of the issuer with a slash': [make({ iss: `${idp.issuer}/` }), of('"iss"')],
    'without an issuer': [make({ iss: undefined }), of('"iss"')],
    'for another client': [make({ aud: 'other' }), of('"aud"')],
    'for other clients': [make({ aud: ['other', 'another'] }), of('"aud"')],
    'for nobody': [make({ aud: undefined }), of('"aud"')],
    'for a part of our name': [make({ aud: 'gate' }), of('"aud"')],
    'of no time': [make({ iat: undefined }), of('"iat"')],
    'of a time that is text': [make({ iat: String(now) }), of('"iat"')],
    'from the future': [make({ iat: now + 60 }), of('"iat"')],
    old: [make({ iat: now - 660 }), of('"iat"')],
    expired: [make({ exp: now - 60 }), of('"exp"')],
    'without an end': [make({ exp: undefined }), of('"exp"')],
    'without an ID': [make({ jti: undefined }), of('"jti"')],
    'with an empty ID': [make({ jti: '' }), of('"jti"')],
    'with a number as its ID': [make({ jti: 1 }), of('"jti"')],
    'with a nonce': [make({ nonce: 'n' }), of('"nonce"')],
    'with a nonce of null': [make({ nonce: null }), of('"nonce"')],
    'about nobody': [make({ sub: undefined, sid: undefined }), of('"sub"')],
    'about a number': [make({ sub: 1 }), of('"sub"')],
    'about an empty name': [make({ sub: '' }), of('"sub"')],
    'about a session of 256 characters': [make({ sid: 's'.repeat(256) }), of('"sid"')],
    'about a list of sessions': [make({ sid: ['s1'] }), of('"sid"')],
    'without events': [make({ events: undefined }), of('"events"')],
    'with a list of events': [make({ events: [EVENT] }), of('"events"')],
    'with an event as text': [make({ events: EVENT }), of('"events"')],
    'with another event': [make({ events: { 'https://evil.example': {} } }), of('"events"')],
    'with an event that is true': [make({ events: { [EVENT]: true } }), of('"events"')],
    'with an event that is null': [make({ events: { [EVENT]: null } }), of('"events"')],
    'with an event that is a list': [make({ events: { [EVENT]: [] } }), of('"events"')],
    'without a signature': [make({}, { alg: 'none' }), of('"alg"')],
    'with the public key as a secret': [make({}, { alg: 'HS256' }), of('"alg"')],
    'with the algorithm of another key type': [make({}, { alg: 'RS256' }), of('"alg"')],
    'with an unknown critical header': [make({}, { crit: ['exp'], exp: 1 }), of('Extension')],
    'signed by another key of the same name': [
      make({}, {}, signingKey('first')),
      of('signature verification failed'),
    ],
    'with a signature of another token': [
      `${make({ sub: 'bob' }).split('.').slice(0, 2).join('.')}.${make().split('.')[2]}`,
      of('signature verification failed'),
    ],
    'with an unknown key': [make({}, { kid: 'unknown' }), of('no applicable key')],
  }
  for (const [what, [token, expected]] of Object.entries(table))
    t.match(await refusal(read(token)), expected, what)
})

t.test('no key is asked for before the claims are good', async (t) => {
  const { idp, make, read } = await start(t)
  for (const claims of [{ aud: 'other' }, { events: {} }, { iat: 1 }])
    await refusal(read(make(claims)))
  t.equal(idp.asked['/jwks'], undefined)
  await Promise.all(Array.from({ length: 20 }, () => read(make())))
  t.equal(idp.asked['/jwks'], 1, 'once for all')
})

t.test('a new key is read once per cooldown', async (t) => {
  const { idp, make } = await start(t)
  const deps = testDeps()
  const provider = open(t, idp.options, deps)
  const read = async (token: string) => provider.readLogoutToken?.(token)
  await read(make())
  const key = signingKey('second')
  idp.hostility['/jwks'] = () => ({ keys: [key.publicJwk] })
  t.match(await read(make({}, {}, key)), { sid: 's1' })
  t.equal(idp.asked['/jwks'], 2)
  for (let count = 0; count < 20; count++) await refusal(read(make({}, { kid: `k${count}` }, key)))
  t.equal(idp.asked['/jwks'], 2)
  await deps.clock.advance(10_000)
  await refusal(read(make({}, { kid: 'unknown' }, key)))
  t.equal(idp.asked['/jwks'], 3)
})

t.test('without the keys of the provider nothing is known of the token', async (t) => {
  const { idp, make } = await start(t)
  for (const [hostility, expected] of [
    ['error', /^FWA_PROVIDER_UNREACHABLE/],
    ['html', /^FWA_PROVIDER_INVALID/],
  ] as const) {
    idp.hostility['/jwks'] = hostility
    const provider = open(t, idp.options)
    t.match(await refusal(Promise.resolve(provider.readLogoutToken?.(make()))), expected)
  }
})
