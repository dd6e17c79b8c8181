import { NetError } from '@gatehouse/net'
import t from 'tap'
import type { ProviderConfig } from '../src/kinds.ts'
import type { AuthorizationOptions } from '../src/provider.ts'
import { newLogin, open, reachCallback, refusal, signIn, testDeps } from './kit.ts'
import { createBrowser } from './stand-ins/browser.ts'
import type { Hostility } from './stand-ins/hostility.ts'
import { CLIENT, startOpenIdProvider } from './stand-ins/openid-provider.ts'
import { signingKey } from './stand-ins/tokens.ts'

const INVALID = /^FWA_PROVIDER_INVALID: corp sent an invalid response; /
const UNREACHABLE = /^FWA_PROVIDER_UNREACHABLE: corp cannot be reached; /
const REFUSED = /^FWA_LOGIN_REFUSED: corp did not sign you in; /

/** Makes `Date.now` go ahead of the true time, for what does not take a clock. */
function advanceDate(ms: number): () => void {
  const { now } = Date
  Date.now = () => now() + ms
  return () => {
    Date.now = now
  }
}

t.test('a login, from the authorization request to the profile', async (t) => {
  const idp = await startOpenIdProvider(t)
  const provider = open(t, idp.options)
  const login = newLogin()
  const { searchParams } = await provider.authorizationUrl(login)
  t.match(Object.fromEntries(searchParams), {
    client_id: 'gatehouse',
    response_type: 'code',
    redirect_uri: login.redirectUri,
    scope: 'openid profile email groups',
    state: login.state,
    nonce: login.nonce,
    code_challenge: /^[\w-]{43}$/,
    code_challenge_method: 'S256',
  })
  t.notOk(searchParams.has('prompt'))

  const { claims, ...profile } = await signIn(provider)
  t.strictSame(profile, {
    provider: 'corp',
    id: 'alice',
    name: { full: 'Alice Arden', first: 'Alice', last: 'Arden' },
    email: { address: 'alice@example.com', verified: true },
    groups: ['admin', 'staff'],
  })
  t.equal((await signIn(provider, 'bob')).id, 'bob')
  t.match(idp.asked, { discovery: 1, keys: 1 }, 'what does not change is asked for once')
  t.match(provider, {
    name: 'corp',
    title: 'corp',
    icon: 'openid',
  })
  t.notOk(provider.failing())
})

t.test(
  'without scopes in the configuration, groups are asked for where they are offered',
  async (t) => {
    const idp = await startOpenIdProvider(t)
    const { scopes: _, ...options } = idp.options
    const scopeWith = async (supported: unknown, config: ProviderConfig = options) => {
      idp.hostility.discovery = (answer) => ({ ...answer, scopes_supported: supported })
      const url = await open(t, config).authorizationUrl(newLogin())
      return url.searchParams.get('scope')
    }
    t.equal(
      await scopeWith(['openid', 'email', 'groups', 'profile']),
      'openid profile email groups',
    )
    for (const supported of [['openid', 'email', 'profile'], undefined, 'groups', {}])
      t.equal(await scopeWith(supported), 'openid profile email')
    const chosen = { ...options, scopes: ['email'] }
    t.equal(
      await scopeWith(['openid', 'groups'], chosen),
      'openid email',
      'what is configured counts',
    )

    idp.hostility.discovery = (answer) => answer
    t.strictSame((await signIn(open(t, options))).groups, ['admin', 'staff'])
  },
)

t.test('signing in as somebody else', async (t) => {
  const idp = await startOpenIdProvider(t)
  const promptOf = async () => {
    const url = await open(t, idp.options).authorizationUrl({ ...newLogin(), chooseAccount: true })
    return url.searchParams.get('prompt')
  }
  t.equal(await promptOf(), 'login', 'which every OpenID provider has')
  idp.hostility.discovery = (answer) => ({ ...answer, prompt_values_supported: ['select_account'] })
  t.equal(await promptOf(), 'select_account', 'where it is offered')
})

t.test('a token that outlives the session at the provider', async (t) => {
  const idp = await startOpenIdProvider(t)
  const parametersOf = async (offlinePrompt?: 'none' | 'consent') => {
    const url = await open(t, idp.options).authorizationUrl({ ...newLogin(), offlinePrompt })
    return Object.fromEntries(url.searchParams)
  }
  const scope = /^openid profile email .*offline_access$/
  for (const prompt of ['none', 'consent'] as const)
    t.match(await parametersOf(prompt), { prompt, scope })
  t.match(await parametersOf(), { prompt: undefined, scope: /email(?!.*offline)/ })
  idp.hostility.discovery = (answer) => ({ ...answer, scopes_supported: ['openid'] })
  const scopes = { prompt: 'none', scope: 'openid profile email' }
  t.match(await parametersOf('none'), scopes, 'where there is no scope for it')
})

t.test('parameters of the configuration are sent, but never in place of our own', async (t) => {
  const idp = await startOpenIdProvider(t)
  const authorizationParameters = {
    ...{ login_hint: 'bob', acr_values: 'phr mfa', prompt: 'consent' },
    ...{ resource: 'https://api.example.com/', state: 'forged', scope: 'forged', nonce: 'forged' },
  }
  const provider = open(t, { ...idp.options, authorizationParameters })
  const login = newLogin()
  const parametersOf = async (rest: object = {}) =>
    Object.fromEntries((await provider.authorizationUrl({ ...login, ...rest })).searchParams)
  t.match(await parametersOf(), {
    ...authorizationParameters,
    state: login.state,
    nonce: login.nonce,
    scope: 'openid profile email groups',
  })
  t.match(await parametersOf({ chooseAccount: true }), { prompt: 'login' })

  const hinted = open(t, { ...idp.options, authorizationParameters: { login_hint: 'bob' } })
  t.equal((await signIn(hinted)).id, 'bob')
})

t.test('a step-up asks for an authentication, and the claims say which there was', async (t) => {
  const idp = await startOpenIdProvider(t)
  const authorizationParameters = { acr_values: 'pwd', ui_locales: 'de' }
  const provider = open(t, { ...idp.options, authorizationParameters })
  t.equal(provider.stepsUp, true)
  const parametersOf = async (stepUp?: AuthorizationOptions['stepUp']) =>
    Object.fromEntries((await provider.authorizationUrl({ ...newLogin(), stepUp })).searchParams)
  t.match(await parametersOf(), { acr_values: 'pwd', max_age: undefined })
  t.match(await parametersOf({ acr: ['phr', 'mfa'], maxAge: 90_500 }), {
    acr_values: 'phr mfa',
    max_age: '90',
    ui_locales: 'de',
  })
  t.match(await parametersOf({ acr: [], maxAge: 0 }), { acr_values: 'pwd', max_age: '0' })

  const browser = createBrowser()
  const claimsOf = async (stepUp?: AuthorizationOptions['stepUp']) => {
    const login = newLogin()
    const callback = await browser.signIn(await provider.authorizationUrl({ ...login, stepUp }))
    return (await provider.finish(callback, login)).profile.claims
  }
  t.match(await claimsOf(), { acr: 'pwd', auth_time: undefined })
  t.match(await claimsOf({ acr: ['mfa'], maxAge: 3_600_000 }), {
    acr: 'mfa',
    auth_time: Number,
  })
})

t.test('groups and roles come from where the configuration says', async (t) => {
  const idp = await startOpenIdProvider(t)
  const options = { ...idp.options, groupsClaim: 'memberOf', rolesClaim: 'realm_access.roles' }
  const provider = open(t, options)
  const person = { name: 'Alice', email: 'alice@example.com', email_verified: true }
  idp.forge({ ...person, memberOf: ['ops'], realm_access: { roles: ['admin'] } })
  t.match(await signIn(provider), { groups: ['ops'], roles: ['admin'] })
  t.equal(idp.asked.userInfo, undefined, 'the ID token has both')
  idp.forge({ memberOf: ['ops'] })
  idp.hostility.userInfo = ({ sub }) => ({ sub, realm_access: { roles: ['viewer'] }, acr: 'mfa' })
  const { claims, ...profile } = await signIn(provider)
  t.match(profile, { groups: ['ops'], roles: ['viewer'] })
  t.notOk('acr' in claims, 'which UserInfo cannot say')
})

t.test('logout at the provider, by client_id and without an ID token', async (t) => {
  const idp = await startOpenIdProvider(t)
  const [target = ''] = CLIENT.postLogoutRedirectUris ?? []
  const url = await open(t, idp.options).logoutUrl(target)
  t.equal(url?.origin, idp.issuer)
  t.strictSame(Object.fromEntries(url?.searchParams ?? []), {
    post_logout_redirect_uri: target,
    client_id: 'gatehouse',
  })
  t.equal((await fetch(url ?? '')).status, 200)

  idp.hostility.discovery = ({ end_session_endpoint: _, ...answer }) => answer
  t.equal(await open(t, idp.options).logoutUrl(target), undefined, 'not offered')
  await idp.stop()
  t.equal(await open(t, idp.options).logoutUrl(target), undefined, 'down')
})

t.test('discovery documents that are refused', async (t) => {
  const idp = await startOpenIdProvider(t)
  const changed =
    (change: object): Hostility =>
    (answer) => ({ ...answer, ...change })
  const table: Record<string, [Hostility, RegExp]> = {
    'of another issuer': [
      changed({ issuer: 'https://evil.example' }),
      /names the issuer "https:\/\/evil.example", not "http:/,
    ],
    'of the issuer with a slash': [changed({ issuer: `${idp.issuer}/` }), INVALID],
    'of the issuer in capitals': [changed({ issuer: idp.issuer.replace('http', 'HTTP') }), INVALID],
    'of 5 MB': ['huge', /INVALID.*over 1048576 bytes/],
    'of plain http elsewhere: token': [
      changed({ token_endpoint: 'http://idp.example/token' }),
      /plain http is refused for idp.example/,
    ],
    'of plain http elsewhere: authorization': [
      changed({ authorization_endpoint: 'http://idp.example/auth' }),
      /plain http is refused for idp.example/,
    ],
    'of a metadata service: keys': [
      changed({ jwks_uri: 'https://169.254.169.254/keys' }),
      /INVALID.*names a metadata service: 169.254.169.254/,
    ],
    'of a metadata service: UserInfo': [
      changed({ userinfo_endpoint: 'https://metadata.google.internal/userinfo' }),
      /INVALID.*names a metadata service/,
    ],
    'of a script': [changed({ authorization_endpoint: 'javascript:alert(1)' }), INVALID],
    'without keys': [changed({ jwks_uri: undefined }), /INVALID.*sent an unexpected response/],
    HTML: ['html', /INVALID.*openid-configuration sent an unexpected response/],
    'no JSON': ['not json', INVALID],
    'a redirect': ['redirect', /INVALID.*openid-configuration responded with status 302/],
    'an error': ['error', UNREACHABLE],
    'too many requests': ['limited', UNREACHABLE],
    'half an answer': ['torn', UNREACHABLE],
    'no answer in time': ['silent', /UNREACHABLE.*took too long/],
  }
  for (const [what, [hostility, expected]] of Object.entries(table))
    await t.test(what, async (t) => {
      idp.hostility.discovery = hostility
      const provider = open(t, { ...idp.options, timeout: timeoutFor(hostility) })
      t.match(await refusal(signIn(provider)), expected)
    })
})

t.test('token answers that are refused', async (t) => {
  const idp = await startOpenIdProvider(t)
  const table: Record<string, [Hostility, RegExp]> = {
    '5 MB': ['huge', /INVALID.*over 1048576 bytes/],
    'no ID token': [({ id_token: _, ...answer }) => answer, /INVALID.*id_token/],
    'no access token': [({ access_token: _, ...answer }) => answer, INVALID],
    'an ID token that is none': [(answer) => ({ ...answer, id_token: 'a.b' }), INVALID],
    HTML: ['html', INVALID],
    'no JSON': ['not json', INVALID],
    'a redirect': ['redirect', /INVALID.*token responded with status 302/],
    'an error': ['error', UNREACHABLE],
    'half an answer': ['torn', UNREACHABLE],
    'no answer in time': ['silent', /UNREACHABLE.*took too long/],
  }
  for (const [what, [hostility, expected]] of Object.entries(table))
    await t.test(what, async (t) => {
      idp.hostility.token = hostility
      const provider = open(t, { ...idp.options, timeout: timeoutFor(hostility) })
      t.match(await refusal(signIn(provider)), expected)
      t.equal(provider.failing(), expected === UNREACHABLE || /UNREACH/.test(expected.source))
    })
})

t.test('keys that are refused', async (t) => {
  const idp = await startOpenIdProvider(t)
  const table: Record<string, [Hostility, RegExp]> = {
    'none of this name': [() => ({ keys: [signingKey('other').publicJwk] }), INVALID],
    'another under the same name': [() => ({ keys: [signingKey('first').publicJwk] }), INVALID],
    'for encryption only': [
      (answer) => ({ keys: (answer.keys as object[]).map((key) => ({ ...key, use: 'enc' })) }),
      INVALID,
    ],
    'no list': [() => ({ keys: 'first' }), INVALID],
    '5 MB': ['huge', INVALID],
    HTML: ['html', INVALID],
    'no answer in time': ['silent', UNREACHABLE],
  }
  for (const [what, [hostility, expected]] of Object.entries(table))
    await t.test(what, async (t) => {
      idp.hostility.keys = hostility
      const provider = open(t, { ...idp.options, timeout: timeoutFor(hostility) })
      t.match(await refusal(signIn(provider)), expected)
    })
})

t.test('ID tokens that are refused', async (t) => {
  const idp = await startOpenIdProvider(t)
  const provider = open(t, idp.options)
  const now = Math.floor(Date.now() / 1_000)
  const table: Record<string, [claims: object, header?: Record<string, unknown>]> = {
    'another nonce': [{ nonce: 'of-another-login' }],
    'no nonce': [{ nonce: undefined }],
    'another issuer': [{ iss: 'https://evil.example' }],
    'no issuer': [{ iss: undefined }],
    'for another client': [{ aud: 'another-client' }],
    'for others too, without azp': [{ aud: ['gatehouse', 'another-client'], azp: undefined }],
    'for others too, and another is the party': [
      { aud: ['gatehouse', 'another-client'], azp: 'another-client' },
    ],
    'for us alone, and another is the party': [{ azp: 'another-client' }],
    'for us alone, and the party is no text': [{ azp: ['gatehouse'] }],
    'for nobody': [{ aud: undefined }],
    'from the future': [{ iat: now + 120 }],
    expired: [{ exp: now - 120 }],
    'without an end': [{ exp: undefined }],
    'not valid yet': [{ nbf: now + 120 }],
    'no subject': [{ sub: undefined }],
    'a subject that is a number': [{ sub: 1 }],
    'a subject of control characters': [{ sub: 'alice\nadmin', groups: [] }],
    'no signature': [{}, { alg: 'none' }],
    'HS256 with the public key': [{}, { alg: 'HS256' }],
    'the algorithm of another key type': [{}, { alg: 'RS256' }],
    'an unknown algorithm': [{}, { alg: 'XS256' }],
    'an unknown critical header': [{}, { crit: ['exp'] }],
    'a key that is unknown': [{}, { kid: 'unknown' }],
  }
  for (const [what, [claims, header]] of Object.entries(table))
    await t.test(what, async (t) => {
      idp.forge(claims, header)
      t.match(await refusal(signIn(provider)), INVALID)
    })
  await t.test('signed by another key of the same name', async (t) => {
    idp.forge({}, {}, signingKey('first'))
    t.match(await refusal(signIn(provider)), INVALID)
  })
  await t.test('symmetric algorithms even if the provider announces them', async (t) => {
    idp.hostility.discovery = (answer) => ({
      ...answer,
      id_token_signing_alg_values_supported: ['HS256', 'none'],
    })
    for (const alg of ['HS256', 'none']) {
      idp.forge({}, { alg })
      t.match(await refusal(signIn(open(t, idp.options))), /INVALID.*"alg" header/)
    }
  })
  await t.test('and what is not wrong passes', async (t) => {
    delete idp.hostility.discovery
    idp.forge({ aud: ['gatehouse', 'another-client'], azp: 'gatehouse' })
    t.equal((await signIn(provider)).id, 'alice')
    idp.forge({ azp: 'gatehouse', iat: Math.floor(Date.now() / 1_000) + 10 })
    t.equal((await signIn(provider)).id, 'alice', 'its clock may be a little ahead')
  })
})

t.test('callbacks that are refused', async (t) => {
  const idp = await startOpenIdProvider(t)
  const provider = open(t, idp.options)
  const table: Record<string, [change: (callback: URL) => void, expected: RegExp]> = {
    'another state': [({ searchParams }) => searchParams.set('state', 'x'), INVALID],
    'no state': [({ searchParams }) => searchParams.delete('state'), INVALID],
    'two states': [({ searchParams }) => searchParams.append('state', 'x'), INVALID],
    'from another provider (RFC 9207)': [
      ({ searchParams }) => searchParams.set('iss', 'https://evil.example'),
      INVALID,
    ],
    'without iss, although the provider announces it': [
      ({ searchParams }) => searchParams.delete('iss'),
      INVALID,
    ],
    'no code': [({ searchParams }) => searchParams.delete('code'), INVALID],
    'two codes': [({ searchParams }) => searchParams.append('code', 'x'), INVALID],
    'a made-up code': [({ searchParams }) => searchParams.set('code', 'x'), REFUSED],
    'a token instead': [({ searchParams }) => searchParams.set('id_token', 'x'), INVALID],
    'the person said no': [
      ({ searchParams }) => searchParams.set('error', 'access_denied'),
      /^FWA_LOGIN_REFUSED: corp did not sign you in; .*access_denied/,
    ],
    'the provider is in trouble': [
      ({ searchParams }) => searchParams.set('error', 'temporarily_unavailable'),
      UNREACHABLE,
    ],
    'the provider does not like the request': [
      ({ searchParams }) => searchParams.set('error', 'invalid_scope'),
      /^FWA_REQUEST_REFUSED: corp .*; invalid_scope/,
    ],
    'the provider cannot do what a policy demands': [
      ({ searchParams }) => searchParams.set('error', 'unmet_authentication_requirements'),
      /^FWA_STEP_UP_UNMET: corp could not .*; unmet_authentication_requirements/,
    ],
    'the provider does not know the client': [
      ({ searchParams }) => searchParams.set('error', 'unauthorized_client'),
      /^FWA_CLIENT_REFUSED: corp .*; unauthorized_client/,
    ],
  }
  for (const [what, [change, expected]] of Object.entries(table))
    await t.test(what, async (t) => {
      const provider = open(t, idp.options)
      const { callback, finish } = await reachCallback(provider)
      change(callback)
      t.match(await refusal(finish()), expected)
      t.notOk(provider.failing(), 'anybody can make up a callback')
    })

  await t.test('a callback that is used twice', async (t) => {
    const { finish } = await reachCallback(provider)
    t.equal((await finish()).id, 'alice')
    t.match(await refusal(finish()), REFUSED)
  })
  await t.test('the code of another browser', async (t) => {
    const { callback } = await reachCallback(provider, 'bob')
    const own = newLogin()
    callback.searchParams.set('state', own.state)
    t.match(await refusal(provider.finish(callback, own)), REFUSED, 'PKCE')
  })
  await t.test('the callback of another provider', async (t) => {
    const other = await startOpenIdProvider(t)
    const { token: asked } = idp.asked
    const { callback, login } = await reachCallback(open(t, other.options))
    t.match(await refusal(provider.finish(callback, login)), INVALID)
    t.equal(idp.asked.token, asked, 'which never sees its code')
  })
})

t.test('UserInfo adds the claims that the ID token leaves out', async (t) => {
  const idp = await startOpenIdProvider(t)
  const provider = open(t, idp.options)
  const table: Record<string, [idToken: object, userInfo: object, expected: object]> = {
    groups: [{ email: 'a@b.example' }, { groups: ['admin'] }, { groups: ['admin'] }],
    'what the ID token says stays': [
      { name: 'Signed' },
      { name: 'Unsigned', groups: ['admin'] },
      { name: { full: 'Signed' }, groups: ['admin'] },
    ],
    'email_verified of UserInfo does not verify the address of the ID token': [
      { email: 'victim@b.example' },
      { email: 'mallory@b.example', email_verified: true },
      { email: { address: 'victim@b.example', verified: false } },
    ],
    'email_verified of UserInfo verifies the same address, as with the thin ID token of Okta': [
      { email: 'a@b.example' },
      { email: 'a@b.example', email_verified: true },
      { email: { address: 'a@b.example', verified: true } },
    ],
    'but not against the ID token': [
      { email: 'a@b.example', email_verified: false },
      { email: 'a@b.example', email_verified: true, groups: ['admin'] },
      { email: { address: 'a@b.example', verified: false } },
    ],
    'an address and a name beside groups of the ID token': [
      { groups: ['ops'] },
      { email: 'a@b.example', email_verified: 'true', name: 'Ada' },
      {
        groups: ['ops'],
        email: { address: 'a@b.example', verified: true },
        name: { full: 'Ada' },
      },
    ],
    'email_verified of the ID token does not verify the address of UserInfo': [
      { email_verified: true },
      { email: 'victim@b.example' },
      { email: { address: 'victim@b.example', verified: false } },
    ],
  }
  for (const [what, [idToken, userInfo, expected]] of Object.entries(table))
    await t.test(what, async (t) => {
      idp.forge(idToken)
      idp.hostility.userInfo = ({ sub }) => ({ sub, ...userInfo })
      t.match(await signIn(provider), expected)
    })

  await t.test('it is not asked when the ID token has all that is wanted', async (t) => {
    idp.forge({ groups: ['ops'], name: 'Ada', email: 'a@b.example', email_verified: true })
    const { userInfo } = idp.asked
    t.strictSame((await signIn(provider)).groups, ['ops'])
    t.equal(idp.asked.userInfo, userInfo)
  })
  const refusals: Record<string, [Hostility, RegExp]> = {
    'of somebody else': [(answer) => ({ ...answer, sub: 'bob' }), /INVALID.*sub/],
    'of nobody': [({ sub: _, ...answer }) => answer, INVALID],
    HTML: ['html', INVALID],
    '5 MB': ['huge', INVALID],
    'an error': ['error', UNREACHABLE],
  }
  for (const [what, [hostility, expected]] of Object.entries(refusals))
    await t.test(`refused: ${what}`, async (t) => {
      delete idp.hostility.token
      idp.hostility.userInfo = hostility
      t.match(await refusal(signIn(open(t, idp.options))), expected)
    })
})

t.test('e-mail addresses', async (t) => {
  const idp = await startOpenIdProvider(t)
  const emailOf = async (claims: object, trustEmail = false) => {
    idp.forge({ groups: [], ...claims })
    return (await signIn(open(t, { ...idp.options, trustEmail }))).email
  }
  // Not the one that UserInfo verifies.
  const address = 'ada@example.com'
  const table: Record<string, [claims: object, expected: unknown, trustEmail?: boolean]> = {
    'an address with two @ is dropped': [
      { email: 'alice@evil.example@example.com', email_verified: true },
      undefined,
    ],
    'an address without email_verified is not verified': [
      { email: address },
      { address, verified: false },
    ],
    'verified by the text "true"': [
      { email: address, email_verified: 'true' },
      { address, verified: true },
    ],
    'not by another text': [
      { email: address, email_verified: 'yes' },
      { address, verified: false },
    ],
    verified: [
      { email: address, email_verified: true },
      { address, verified: true },
    ],
    'trusted by configuration': [
      { email: address, email_verified: false },
      { address, verified: true },
      true,
    ],
  }
  for (const [what, [claims, expected, trust]] of Object.entries(table))
    t.strictSame(await emailOf(claims, trust), expected, what)
})

t.test('starts without the provider, and recovers when the provider does', async (t) => {
  const idp = await startOpenIdProvider(t)
  await idp.stop()
  const { lines, ...deps } = testDeps()
  let answersAgain = Promise.withResolvers<string>()
  const { warn } = deps.log
  const provider = open(t, idp.options, {
    ...deps,
    log: { warn, info: (_fields, message) => answersAgain.resolve(message) },
  })
  t.notOk(provider.failing(), 'not asked yet')
  t.match(await refusal(signIn(provider)), UNREACHABLE)
  t.ok(provider.failing())
  t.match(lines, [{ fields: { provider: 'corp' }, message: 'provider cannot be used' }])

  await idp.restart()
  const refused = await provider.authorizationUrl(newLogin()).catch((error) => error)
  t.match(refused, { code: 'FWA_PROVIDER_UNREACHABLE', retryAfter: 1 }, 'nobody waits meanwhile')
  await deps.clock.advance(1_000)
  await provider.authorizationUrl(newLogin())
  t.notOk(provider.failing())
  t.equal(await answersAgain.promise, 'provider is reachable again')
  t.equal((await signIn(provider)).id, 'alice')

  const callbacks = await Promise.all(Array.from({ length: 8 }, () => reachCallback(provider)))
  await idp.stop()
  for (const { finish } of callbacks) t.match(await refusal(finish()), UNREACHABLE)
  t.ok(provider.failing())
  await idp.restart()
  answersAgain = Promise.withResolvers<string>()
  await deps.clock.advance(1_000)
  await answersAgain.promise
  t.notOk(provider.failing(), 'without anybody trying, and however many logins had failed')
  t.equal((await signIn(provider)).id, 'alice')

  await idp.stop()
  t.notOk(provider.failing(), 'nobody has noticed')
  await deps.clock.advance(60_000)
  t.notOk(provider.failing(), 'nobody waits for another look')
  await t.resolves(
    (async () => {
      while (!provider.failing()) {
        await new Promise(setImmediate)
        await deps.clock.advance(100)
      }
    })(),
    'that it brings about, and one more, though nobody signs in',
  )
})

t.test('one read that fails takes no good document away, and two in a row do', async (t) => {
  const idp = await startOpenIdProvider(t)
  const deps = testDeps()
  let isDown = false
  let refused = 0
  const createFetch: typeof deps.createFetch = (options) => {
    const fetch = deps.createFetch(options)
    const fail = () => Promise.reject(new NetError('NET_FETCH_FAILED', `down ${++refused}`))
    return Object.assign((...of: Parameters<typeof fetch>) => (isDown ? fail() : fetch(...of)), {
      close: () => fetch.close(),
    })
  }
  // A provider for each case: a read that is still on its way would end the outage of the next.
  const start = async () => {
    const provider = open(t, idp.options, { ...deps, createFetch })
    const { finish } = await reachCallback(provider)
    const origin = () => provider.authorizationUrl(newLogin()).then((url) => url.origin)
    return { provider, finish, origin, known: await origin() }
  }

  for (const [name, isOutage] of [
    ['a read', false],
    ['a login, and a read after it', true],
  ] as const) {
    const { provider, finish, origin, known } = await start()
    isDown = true
    const before = refused
    if (isOutage) t.match(await refusal(finish()), UNREACHABLE)
    else await deps.clock.advance(60_000)
    t.equal(await origin(), known, name)
    if (isOutage) await deps.clock.advance(1_000)
    for (let i = 0; i < 10; i++) await new Promise(setImmediate)
    t.equal(await origin(), known, name)
    t.equal(refused - before, isOutage ? 2 : 1, 'nobody who comes asks sooner')
    t.equal(provider.failing(), isOutage, 'the page and /readyz say what is so')
    isDown = false
    await deps.clock.advance(2_000)
    while (provider.failing()) await new Promise(setImmediate)
    t.equal(await origin(), known)
    await provider.close()
  }
  t.equal(deps.lines.filter(({ message }) => message === 'provider cannot be used').length, 1)

  const { provider, origin } = await start()
  isDown = true
  await deps.clock.advance(60_000)
  while (!provider.failing()) {
    await new Promise(setImmediate)
    await deps.clock.advance(100)
  }
  t.match(await refusal(origin()), UNREACHABLE)
})

t.test('a document that is an hour old is taken away by the first read that fails', async (t) => {
  const idp = await startOpenIdProvider(t)
  const deps = testDeps()
  const provider = open(t, idp.options, deps)
  await provider.authorizationUrl(newLogin())
  await idp.stop()
  await deps.clock.advance(3_600_000)
  t.match(await refusal(provider.authorizationUrl(newLogin())), UNREACHABLE)
  t.ok(provider.failing())
})

t.test('a provider is tried by itself, ever more seldom, until it is closed', async (t) => {
  const deps = testDeps()
  let tries = 0
  const createFetch = () =>
    Object.assign(async () => Promise.reject(new Error(++tries < 9 ? 'ECONNREFUSED' : 'EPROTO')), {
      close: async () => {},
    })
  const idp = await startOpenIdProvider(t)
  const provider = open(t, idp.options, { ...deps, createFetch })
  const triesWithin = async (seconds: number) => {
    const before = tries
    for (let passed = 0; passed < seconds; passed++) await deps.clock.advance(1_000)
    return tries - before
  }
  await deps.clock.advance(0)
  t.equal(tries, 1, 'at once')
  t.ok(provider.failing())
  const first = await triesWithin(60)
  t.ok(first >= 4 && first <= 8, `${first} within the first minute`)
  const later = await triesWithin(120)
  t.ok(later >= 4 && later <= 8, `${later} within two more minutes`)
  t.equal(deps.lines.length, 2, 'logged when it happens and when the reason changes')
  await provider.close()
  t.equal(await triesWithin(120), 0)
})

t.test(
  'what a provider says about itself is asked for again after an hour, and behind it after a minute',
  async (t) => {
    const idp = await startOpenIdProvider(t)
    const deps = testDeps()
    const provider = open(t, idp.options, deps)
    await provider.authorizationUrl(newLogin())
    await deps.clock.advance(3_600_000)
    await provider.authorizationUrl(newLogin())
    t.equal(idp.asked.discovery, 2)
    await deps.clock.advance(59_999)
    await provider.authorizationUrl(newLogin())
    t.equal(idp.asked.discovery, 2)
    await deps.clock.advance(1)
    await provider.authorizationUrl(newLogin())
    while (idp.asked.discovery === 2) await new Promise(setImmediate)
    t.equal(idp.asked.discovery, 3, 'after a minute nobody waits for it')
  },
)

t.test('what a provider says about itself is old when the clock was set back', async (t) => {
  const idp = await startOpenIdProvider(t)
  const deps = testDeps()
  let ahead = 45 * 86_400_000
  const clock = { ...deps.clock, now: () => deps.clock.now() + ahead }
  const provider = open(t, idp.options, { ...deps, clock })
  await provider.authorizationUrl(newLogin())
  t.equal(idp.asked.discovery, 1)
  ahead = 0
  await provider.authorizationUrl(newLogin())
  t.equal(idp.asked.discovery, 2)
})

t.test('errors of the token endpoint are told by what has to be done', async (t) => {
  const idp = await startOpenIdProvider(t)
  const table: [error: string, expected: RegExp][] = [
    ['invalid_client', /^FWA_CLIENT_REFUSED: corp .*; invalid_client why/],
    ['unauthorized_client', /^FWA_CLIENT_REFUSED/],
    ['invalid_scope', /^FWA_REQUEST_REFUSED: corp .*; invalid_scope why/],
    ['redirect_uri_mismatch', /^FWA_REQUEST_REFUSED/],
    ['invalid_request', /^FWA_REQUEST_REFUSED/],
    ['invalid_grant', /^FWA_LOGIN_REFUSED/],
    ['temporarily_unavailable', UNREACHABLE],
    ['something_else', INVALID],
  ]
  for (const [error, expected] of table)
    for (const status of [400, 401]) {
      idp.hostility.token = { status, json: { error, error_description: 'why' } }
      t.match(await refusal(signIn(open(t, idp.options))), expected, `${status} ${error}`)
    }
  idp.hostility.token = { status: 401, json: 'Unauthorized' }
  t.match(await refusal(signIn(open(t, idp.options))), /^FWA_CLIENT_REFUSED/, '401 says it all')
})

t.test('a wrong client secret is told as such', async (t) => {
  const idp = await startOpenIdProvider(t)
  const provider = open(t, { ...idp.options, clientSecret: 'wrong' })
  t.match(await refusal(signIn(provider)), /^FWA_CLIENT_REFUSED: corp .*; invalid_client/)
  t.notOk(provider.failing(), 'it does answer')
})

t.test('keys that the provider has just rotated are read once more', async (t) => {
  const idp = await startOpenIdProvider(t)
  const deps = testDeps()
  const provider = open(t, idp.options, deps)
  t.equal((await signIn(provider)).id, 'alice')
  idp.rotate('second')
  const callbacks = await Promise.all([1, 2, 3].map(() => reachCallback(provider)))
  const profiles = await Promise.all(callbacks.map(({ finish }) => finish()))
  t.strictSame(
    profiles.map(({ id }) => id),
    ['alice', 'alice', 'alice'],
  )
  t.match(idp.asked, { keys: 2, token: 4 }, 'the keys once for all, and no code twice')

  idp.rotate('third')
  t.match(await refusal(signIn(provider)), INVALID, 'not again at once')
  t.equal(idp.asked.keys, 2)
  await deps.clock.advance(10_000)
  t.equal((await signIn(provider)).id, 'alice')
  t.equal(idp.asked.keys, 3)

  idp.rotate('third')
  await deps.clock.advance(10_000)
  t.equal((await signIn(provider)).id, 'alice', 'another key of the same name')
})

t.test('a provider that signs with keys of no name has them read once per cooldown', async (t) => {
  const idp = await startOpenIdProvider(t)
  const deps = testDeps()
  const provider = open(t, idp.options, deps)
  for (let i = 0; i < 20; i++) {
    idp.forge({}, { kid: `unknown-${i}` })
    t.match(await refusal(signIn(provider)), INVALID)
  }
  t.equal(idp.asked.keys, 2, 'the first reading and one more')
})

t.test('a withdrawn key is refused after five minutes', async (t) => {
  const idp = await startOpenIdProvider(t)
  const stolen = signingKey('stolen')
  const provider = open(t, idp.options)
  idp.hostility.keys = (answer) => ({ keys: [...(answer.keys as object[]), stolen.publicJwk] })
  idp.forge({}, {}, stolen)
  t.equal((await signIn(provider)).id, 'alice')
  delete idp.hostility.keys
  t.teardown(advanceDate(300_000))
  t.match(await refusal(signIn(provider)), INVALID)
})

t.test('interleaved logins do not mix up people', async (t) => {
  const names = Array.from({ length: 40 }, (_, index) => `person${index}`)
  const person = (name: string) => ({
    name,
    given_name: name,
    family_name: '',
    email: `${name}@example.com`,
    email_verified: true,
    groups: [`only-${name}`],
  })
  const people = new Map(names.map((name) => [name, person(name)]))
  const idp = await startOpenIdProvider(t, { people })
  const provider = open(t, { ...idp.options, timeout: 20_000 })
  const callbacks = await Promise.all(
    names.map(async (name) => ({ name, ...(await reachCallback(provider, name)) })),
  )
  const profiles = await Promise.all(
    callbacks.toReversed().map(async ({ name, finish }) => ({ name, profile: await finish() })),
  )
  for (const { name, profile } of profiles)
    if (profile.id !== name || profile.groups?.[0] !== `only-${name}`)
      t.fail(`${name}: ${profile.id}`)
  t.equal(profiles.length, names.length)
})

t.test('its certificates and time limit reach every request', async (t) => {
  const idp = await startOpenIdProvider(t)
  const { createFetch, ...deps } = testDeps()
  const asked: unknown[] = []
  open(
    t,
    { ...idp.options, ca: 'PEM', timeout: 1_234 },
    {
      ...deps,
      createFetch: (options) => {
        asked.push(options)
        return createFetch({})
      },
    },
  )
  t.strictSame(asked, [{ ca: 'PEM', timeoutMs: 1_234 }])
})

t.test('no secret is in what is logged or told', async (t) => {
  const idp = await startOpenIdProvider(t)
  const { lines, ...deps } = testDeps()
  const provider = open(t, idp.options, deps)
  const texts: string[] = []
  for (const hostility of ['error', 'html', 'silent', 'torn'] as const) {
    idp.hostility.token = hostility
    const { login, callback } = await reachCallback(open(t, idp.options))
    const impatient = open(t, { ...idp.options, timeout: timeoutFor(hostility) })
    const error = await impatient.finish(callback, login).catch((reason) => reason)
    const secrets = [
      login.state,
      login.nonce,
      login.codeVerifier,
      callback.searchParams.get('code'),
    ]
    const text = JSON.stringify([
      error.message,
      error.stack,
      error.cause?.stack,
      error.cause,
      lines,
    ])
    for (const secret of [...secrets, CLIENT.clientSecret]) t.notOk(text.includes(String(secret)))
    texts.push(text)
  }
  t.equal(texts.length, 4)
  await provider.close()
})

/** Short where there will be no answer, long enough for any machine where there is one. */
function timeoutFor(hostility: Hostility): number {
  return hostility === 'silent' ? 300 : 20_000
}

t.test('an address is trusted unless the provider says that it is not verified', async (t) => {
  const idp = await startOpenIdProvider(t)
  // Not the one of UserInfo, which is verified.
  const email = 'alice@elsewhere.example'
  const table: [claims: object, isVerified: boolean][] = [
    [{}, true],
    [{ email_verified: true }, true],
    [{ email_verified: false }, false],
    [{ email_verified: 'false' }, false],
    [{ verified_email: false }, false],
  ]
  for (const [claims, isVerified] of table) {
    idp.forge({ groups: [], email, ...claims })
    const provider = open(t, { ...idp.options, trustEmail: 'unlessFalse' })
    t.match(await signIn(provider), { email: { verified: isVerified } }, JSON.stringify(claims))
  }
})
