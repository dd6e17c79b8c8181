import { createFetch, type FetchOptions, NetError } from '@gatehouse/net'
import t, { type Test } from 'tap'
import type { ProviderError } from '../src/errors.ts'
import { withTrust } from '../src/oidc.ts'
import type { ReRead, SignedIn } from '../src/provider.ts'
import { open, signInWhole, testDeps } from './kit.ts'
import type { Hostility } from './stand-ins/hostility.ts'
import { CLIENT } from './stand-ins/openid-provider.ts'
import { startSessionProvider } from './stand-ins/session-provider.ts'

/** A provider and somebody who has signed in there. */
async function start(t: Test, state: { refreshes?: boolean; rotates?: boolean } = {}) {
  const idp = await startSessionProvider(t)
  Object.assign(idp.state, state)
  const deps = testDeps()
  const provider = open(t, idp.options, deps)
  const first = await signInWhole(provider)
  const readAgain = ({ tokens, profile }: SignedIn = first) => provider.reRead(tokens, profile)
  return { idp, deps, provider, first, readAgain }
}

/** What was read; fails if nothing was. */
function readOf(answer: ReRead): SignedIn {
  if (answer.kind === 'read') return answer.signedIn
  throw new Error(JSON.stringify(answer))
}

/** The kind of an answer, and why. */
function outcome(answer: ReRead): string {
  const {
    why = '',
    error,
    isUsed,
  } = answer as { why?: string; error?: ProviderError } & {
    isUsed?: boolean
  }
  const code = error ? `${error.code} ${(error.cause as Error | undefined)?.message}` : ''
  return `${answer.kind}${isUsed ? ' used' : ''}: ${why}${code}`
}

t.test('what a sign-in gives', async (t) => {
  const began = Math.floor(Date.now() / 1_000)
  const { idp, deps, provider, first } = await start(t)
  t.match(first, {
    profile: { id: 'alice', groups: ['admin', 'staff'] },
    tokens: { refresh: /^[\w-]{20,}$/, id: /^[\w-]+\.[\w-]+\.[\w-]+$/ },
    issuedAt: Number,
    sid: /./,
  })
  const { issuedAt = 0 } = first
  t.ok(began <= issuedAt && issuedAt <= Math.floor(Date.now() / 1_000), 'the time of the provider')
  t.notOk('access' in first.tokens, 'which nobody needs')
  const giving = open(t, idp.options, { ...deps, keepsAccess: true })
  const kept = { refresh: /./, access: /./, accessUntil: deps.clock.now() + 300_000 }
  t.match((await signInWhole(giving)).tokens, kept, 'unless an app gets it')
  t.equal(provider.reReads, true)

  idp.state.refreshes = false
  const { tokens } = await signInWhole(provider)
  t.match(tokens, { access: /./, accessUntil: deps.clock.now() + 300_000, refresh: undefined })
  idp.forge({ pad: 'x'.repeat(4_096) })
  t.equal((await signInWhole(provider)).tokens.id, undefined, 'too long for a URL')
})

t.test('people are read again with their refresh token', async (t) => {
  const { idp, first, readAgain } = await start(t)
  idp.people.set('alice', { ...idp.people.get('alice'), groups: ['staff'], name: 'Alice Bell' })
  const second = readOf(await readAgain())
  t.match(second.profile, { id: 'alice', groups: ['staff'], name: { full: 'Alice Bell' } })
  t.equal(second.sid, first.sid)
  t.equal(second.tokens.refresh, first.tokens.refresh, 'kept, since no other came')
  t.not(second.tokens.id, first.tokens.id, 'the newest')

  idp.state.rotates = true
  const third = readOf(await readAgain(second))
  t.not(third.tokens.refresh, second.tokens.refresh)
  t.match(await readAgain(third), { kind: 'read' })
  t.match(outcome(await readAgain(second)), /^ended: invalid_grant/, 'used twice')
})

t.test('a person whose token is revoked, or who is gone, is read no more', async (t) => {
  const { idp, first, readAgain } = await start(t)
  await idp.revoke(first.tokens.refresh)
  t.match(outcome(await readAgain()), /^ended: invalid_grant/)
  const other = await start(t)
  other.idp.people.delete('alice')
  t.match(outcome(await other.readAgain()), /^ended: invalid_grant/)
})

t.test('without a refresh token UserInfo is asked while the access token lives', async (t) => {
  const { idp, deps, first, readAgain } = await start(t, { refreshes: false })
  idp.people.set('alice', { ...idp.people.get('alice'), groups: ['staff'] })
  const second = readOf(await readAgain())
  t.strictSame(second.profile.groups, ['staff'])
  t.equal(second.profile.claims.acr, first.profile.claims.acr, 'which UserInfo does not know')
  t.strictSame(second.tokens, first.tokens)
  t.equal(second.issuedAt, undefined)

  await idp.revoke(first.tokens.access)
  t.match(outcome(await readAgain()), /^ended: .*status 401/)
  const untold = { ...first, tokens: { access: first.tokens.access ?? '' } }
  t.match(await readAgain(untold), { kind: 'impossible' }, 'it may have expired')
  const { '/me': asked } = idp.asked
  await deps.clock.advance(290_000)
  t.match(await readAgain(), { kind: 'impossible' }, 'it may just have expired')
  await deps.clock.advance(10_000)
  t.match(await readAgain(), { kind: 'impossible' })
  t.match(await readAgain({ ...first, tokens: {} }), { kind: 'impossible' })
  t.equal(idp.asked['/me'], Number(asked) + 1)
})

t.test('an answer without an ID token', async (t) => {
  const { idp, first, readAgain } = await start(t)
  idp.hostility['/token'] = ({ id_token: _, ...answer }) => answer
  const second = readOf(await readAgain())
  t.match(second.profile, { id: 'alice', groups: ['admin', 'staff'] })
  t.equal(second.tokens.id, first.tokens.id)
  idp.hostility['/me'] = (answer) => ({ ...answer, sub: 'bob' })
  t.match(outcome(await readAgain()), /^ended: .*sub/)
})

t.test('what is missing now is unknown, and how somebody signed in stays', async (t) => {
  const { idp, first, readAgain } = await start(t)
  const { groups: _, ...rest } = idp.people.get('alice') ?? {}
  idp.people.set('alice', rest)
  idp.forge({ acr: undefined, amr: undefined })
  const { profile } = readOf(await readAgain())
  t.equal(profile.groups, undefined)
  t.throws(() => profile.claims.groups, { code: 'PROFILE_CLAIM_UNKNOWN' })
  t.equal(profile.claims.acr, first.profile.claims.acr)
  const later = readOf(await readAgain({ ...first, profile })).profile
  t.throws(() => later.claims.groups, { code: 'PROFILE_CLAIM_UNKNOWN' }, 'and stays so')
  idp.people.set('alice', { ...rest, groups: [] })
  const { profile: known } = readOf(await readAgain({ ...first, profile: later }))
  t.strictSame(known.claims.groups, [], 'until it is there again')
})

t.test('ID tokens of a refresh', async (t) => {
  const { idp, readAgain } = await start(t)
  const now = Math.floor(Date.now() / 1_000)
  const table: Record<string, [claims: object, expected: RegExp]> = {
    'of somebody else': [{ sub: 'bob' }, /^ended: /],
    'of another issuer': [{ iss: 'https://evil.example' }, /^ended: .*claim/],
    'for another client': [{ aud: 'other' }, /^ended: .*claim/],
    expired: [{ exp: now - 120 }, /^fault: FWA_PROVIDER_INVALID/],
    'from the future': [{ iat: now + 120 }, /^fault: FWA_PROVIDER_INVALID .*"iat"/],
    'with another nonce': [{ nonce: 'other' }, /^read/],
    'with a newer authentication': [{ auth_time: now }, /^read/],
  }
  for (const [what, [claims, expected]] of Object.entries(table)) {
    idp.forge(claims)
    t.match(outcome(await readAgain()), expected, what)
  }
})

t.test('a new refresh token is kept even if the rest of the answer is of no use', async (t) => {
  const { idp, deps, readAgain, first } = await start(t, { rotates: true })
  idp.hostility['/me'] = 'error'
  const answer = await readAgain()
  t.match(answer, { kind: 'fault', isUsed: false, tokens: { refresh: /./, id: first.tokens.id } })
  const { tokens = {} } = answer as { tokens?: SignedIn['tokens'] }
  t.not(tokens.refresh, first.tokens.refresh)
  delete idp.hostility['/me']
  await deps.clock.advance(5_000)
  t.match(await readAgain({ ...first, tokens }), { kind: 'read' })
})

t.test('what an answer means for the session', async (t) => {
  const { idp, deps, readAgain } = await start(t)
  const says = (status: number, error: string, error_description = 'why'): Hostility => ({
    status,
    json: { error, error_description },
  })
  const dex = 'Refresh token is invalid or has already been claimed by another client.'
  const table: Record<string, [hostility: Hostility, expected: RegExp]> = {
    'over for this token': [
      says(400, 'invalid_grant', 'Session not active'),
      /^ended: .*not active/,
    ],
    'revoked, as Dex says it': [says(400, 'invalid_request', dex), /^ended: invalid_request/],
    'another invalid request': [says(400, 'invalid_request'), /^fault: FWA_REQUEST_REFUSED/],
    'the person has to do something': [says(400, 'interaction_required'), /^ended/],
    'a wrong secret': [says(401, 'invalid_client'), /^misconfigured: FWA_CLIENT_REFUSED/],
    'a wrong secret, at Keycloak': [says(401, 'unauthorized_client'), /^misconfigured/],
    'not for this client': [says(400, 'unauthorized_client'), /^misconfigured/],
    '401 alone': [{ status: 401, json: {} }, /^misconfigured/],
    'a disabled realm': [says(403, 'access_denied'), /^fault: /],
    'an unknown realm': [says(404, 'Realm does not exist'), /^fault: .*status 404/],
    'an unknown error': [says(400, 'something_else'), /^fault: FWA_PROVIDER_INVALID/],
    'an error of the server': ['error', /^fault: FWA_PROVIDER_UNREACHABLE/],
    'too many requests': ['limited', /^fault: FWA_PROVIDER_UNREACHABLE/],
    'a page': ['html', /^fault: FWA_PROVIDER_INVALID/],
    'no JSON': ['not json', /^fault: FWA_PROVIDER_INVALID/],
    'a redirect': ['redirect', /^fault: .*status 302/],
    'half an answer': ['torn', /^fault used: FWA_PROVIDER_UNREACHABLE/],
  }
  for (const [what, [hostility, expected]] of Object.entries(table)) {
    idp.hostility['/token'] = hostility
    t.match(outcome(await readAgain()), expected, what)
    await deps.clock.advance(60_000)
  }
  delete idp.hostility['/token']
  t.match(await readAgain(), { kind: 'read' }, 'and the token was sent once each time')
  await idp.stop()
  await deps.clock.advance(0)
  t.match(outcome(await readAgain()), /^fault: FWA_PROVIDER_UNREACHABLE/, 'refused connections')
})

t.test('requests without an answer', async (t) => {
  const idp = await startSessionProvider(t)
  const failed = (code: string) =>
    new NetError('NET_FETCH_FAILED', code, { cause: Object.assign(new Error(code), { code }) })
  const table: [failure: NetError, expected: RegExp][] = [
    [new NetError('NET_FETCH_TIMEOUT', 'took too long'), /^fault used/],
    [failed('ECONNRESET'), /^fault used/],
    [failed('UND_ERR_SOCKET'), /^fault used/],
    [failed('UND_ERR_RES_CONTENT_LENGTH_MISMATCH'), /^fault used/],
    [failed('ECONNREFUSED'), /^fault: /],
    [failed('ENOTFOUND'), /^fault: /],
    [failed('UND_ERR_CONNECT_TIMEOUT'), /^fault: /],
    [failed('CERT_HAS_EXPIRED'), /^fault: /],
    [failed('DEPTH_ZERO_SELF_SIGNED_CERT'), /^fault: /],
  ]
  let failure: NetError | undefined
  const timeouts: unknown[] = []
  const deps = testDeps({
    createFetch: (options: FetchOptions) => {
      const fetch = createFetch(options)
      return Object.assign(
        async (...[url, init]: Parameters<typeof fetch>) => {
          if (init?.method === 'POST') timeouts.push(init.timeoutMs)
          if (failure && init?.method === 'POST') throw failure
          return fetch(url, init)
        },
        { close: fetch.close },
      )
    },
  })
  const provider = open(t, { ...idp.options, timeout: 9_000 }, deps)
  const { tokens, profile } = await signInWhole(provider)
  for (const [error, expected] of table) {
    failure = error
    t.match(outcome(await provider.reRead(tokens, profile)), expected, error.message)
    await deps.clock.advance(60_000)
  }
  t.strictSame(timeouts, [undefined, ...table.map(() => 30_000)], 'a refresh has time')

  idp.state.refreshes = false
  failure = undefined
  const without = await signInWhole(provider)
  idp.hostility['/me'] = 'torn'
  const { '/token': asked } = idp.asked
  t.match(outcome(await provider.reRead(without.tokens, profile)), /^fault: /, 'no token was sent')
  t.equal(idp.asked['/token'], asked)
})

t.test('keys that were rotated are read again, with one token request', async (t) => {
  const { idp, readAgain } = await start(t)
  const { '/token': tokens, '/jwks': keys } = idp.asked
  idp.rotate('second')
  t.match(await readAgain(), { kind: 'read' })
  t.match(idp.asked, { '/token': Number(tokens) + 1, '/jwks': Number(keys) + 1 })
})

t.test('the logout URL has the ID token as its hint', async (t) => {
  const { provider, first } = await start(t)
  const [target = ''] = CLIENT.postLogoutRedirectUris ?? []
  const url = await provider.logoutUrl(target, first.tokens.id)
  t.strictSame(Object.fromEntries(url?.searchParams ?? []), {
    post_logout_redirect_uri: target,
    id_token_hint: first.tokens.id,
    client_id: 'gatehouse',
  })
  t.equal((await fetch(url ?? '')).status, 200, 'which the provider takes')
})

t.test('whose address counts as verified', async (t) => {
  const email = 'ada@example.com'
  const cases: [trustEmail: Parameters<typeof withTrust>[1], said: object, verified: unknown][] = [
    [undefined, {}, undefined],
    [false, {}, undefined],
    [true, {}, true],
    [true, { email_verified: false }, true],
    ['unlessFalse', {}, true],
    ['unlessFalse', { email_verified: false }, false],
    ['unlessFalse', { verified_email: false }, undefined],
  ]
  for (const [trustEmail, said, verified] of cases)
    t.equal(
      withTrust({ email, ...said }, trustEmail).email_verified,
      verified,
      `${trustEmail}: ${JSON.stringify(said)}`,
    )
})
