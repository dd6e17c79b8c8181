import type { RedirectProvider } from '@gatehouse/identity-providers'
import { fromClaims } from '@gatehouse/profile'
import { manualClock } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { createBrowser } from '../../../../packages/identity-providers/test/stand-ins/browser.ts'
import { startOpenIdProvider } from '../../../../packages/identity-providers/test/stand-ins/openid-provider.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { ERRORS } from '../../src/errors.ts'
import { CORP, portalOf, startApp, yamlOf } from '../app.ts'
import { createFakeProvider } from '../fake-provider.ts'
import { arrive, goalOf, MAIN, signIn, signInUrl, start, WANTED, whoIs } from '../portal/kit.ts'
import { createVisitor } from '../visitor.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_SIGN_IN_LOOP', 'FWA_STEP_UP_UNMET', 'sessions are not refreshed')

const CHECKED = 'https://app.example.com/a/b?q=1'
const SESSION_COOKIE = '__Host-gatehouse.main'
const MINUTE = 60_000
const NOW = Date.UTC(2030, 0, 1) / 1_000

const POLICIES = `policies: { mfa: { acr: [mfa, phr] }, recent: { maxAge: 15m },
      both: { acr: [mfa], maxAge: 15m }, staff: 'Group("staff")' }`
const YAML = yamlOf(portalOf('main', POLICIES))

const startHere = (t: Test, settings: Parameters<typeof start>[1] = {}) =>
  start(t, { yaml: YAML, ...settings })

const urlFor = (policy: string) => signInUrl({ rd: WANTED, policy })

t.test('a sign-in for a policy asks the provider for what the policy demands', async (t) => {
  const { visitor } = await startHere(t)
  const table: [policy: string, expected: object | undefined][] = [
    ['mfa', { acr_values: 'mfa phr' }],
    ['recent', { max_age: String(15 * MINUTE) }],
    ['both', { acr_values: 'mfa', max_age: String(15 * MINUTE) }],
    ['mfa,staff,recent', { acr_values: 'mfa phr', max_age: String(15 * MINUTE) }],
    ['mfa,both', { acr_values: 'mfa', max_age: String(15 * MINUTE) }],
  ]
  for (const [policy, expected] of table)
    for (const url of [urlFor(policy), urlFor(policy).replace('/signin', '/providers/corp')]) {
      const begun = await visitor().open(url)
      t.equal(begun.statusCode, 303)
      t.match(Object.fromEntries(new URL(begun.headers.location ?? '').searchParams), expected)
    }
  const plain = await visitor().open(urlFor('staff'))
  t.notMatch(plain.headers.location, /acr_values|max_age/)
})

t.test('a signed-in person is sent to their provider, unless the session is enough', async (t) => {
  const github = createFakeProvider('github')
  const { corp, visitor } = await startHere(t, { others: [github.provider] })
  const ada = visitor()
  corp.state.claims = { acr: 'pwd', auth_time: NOW - 20 * 60 }
  await signIn(ada, corp, 'ada', `${MAIN}/providers/corp`)
  const placesOf = async (...policies: string[]) =>
    Promise.all(policies.map(async (name) => goalOf(await ada.open(urlFor(name)))))
  const atCorp = /^https:\/\/corp\.test\/authorize/
  t.match(await placesOf('mfa', 'recent', 'both', 'staff'), [atCorp, atCorp, atCorp, WANTED])

  corp.state.claims = { acr: 'phr', amr: ['hwk'], auth_time: NOW }
  const session = ada.jar.get(SESSION_COOKIE)
  const done = await signIn(ada, corp, 'ada', urlFor('mfa'))
  t.equal(goalOf(done), WANTED)
  t.not(ada.jar.get(SESSION_COOKIE), session, 'a session that says so')
  t.match(await placesOf('mfa', 'recent', 'both'), [WANTED, WANTED, atCorp])
})

t.test('an authentication for one policy takes nothing from another one', async (t) => {
  const { corp, visitor, clock } = await startHere(t)
  corp.state.signedIn = { tokens: { access: 'a' } }
  const ada = visitor()
  const isAsked = async (policy: string) => goalOf(await ada.open(urlFor(policy))) !== WANTED
  const claimsOf = (acr: string, ago = 0) => {
    return { acr, auth_time: Math.floor(clock.now() / 1_000) - ago }
  }
  const authenticate = async (policy: string, claims: object) => {
    corp.state.claims = claims
    t.ok(await isAsked(policy), `${policy} asks`)
    t.equal(goalOf(await signIn(ada, corp, 'ada', urlFor(policy))), WANTED)
  }
  await authenticate('mfa', claimsOf('mfa', 60 * 60))
  await authenticate('recent', claimsOf('pwd'))
  t.equal((await arrive(ada, corp, WANTED)).answer.statusCode, 200)
  for (const policy of ['mfa', 'recent']) t.notOk(await isAsked(policy), policy)
  for (const policy of ['mfa', 'recent', 'mfa', 'recent']) {
    const { statusCode } = await ada.visit(WANTED, { query: `?policy=${policy}` })
    t.equal(statusCode, 200, `${policy} at the app`)
  }
  t.ok(await isAsked('both'), 'which needs one that was both')

  const profile = fromClaims('corp', { sub: 'ada', ...claimsOf('0') })
  corp.state.reRead = { kind: 'read', signedIn: { tokens: { access: 'a' }, profile } }
  await clock.advance(16 * MINUTE)
  t.notOk(await isAsked('mfa'), 'nor does the provider when it is asked again')
  t.ok(await isAsked('recent'), 'too long ago by then')

  corp.state.claims = claimsOf('pwd')
  await signIn(ada, corp, 'bob', signInUrl({ rd: WANTED, switch: '1' }))
  t.equal(await whoIs(ada), 'bob')
  t.ok(await isAsked('mfa'), 'nobody inherits one')
})

t.test('an answer of the provider that does not meet the demand makes no session', async (t) => {
  const { corp, visitor, log } = await startHere(t)
  const elsewhere = { _claim_names: { acr: 'src1' } }
  const table: [what: string, policy: string, claims: object, isMet: boolean][] = [
    ['one of several', 'mfa', { acr: 'phr' }, true],
    ['another one', 'mfa', { acr: 'pwd' }, false],
    ['one in capitals', 'mfa', { acr: 'MFA' }, false],
    ['a list', 'mfa', { acr: ['mfa'] }, false],
    ['all of them in one text', 'mfa', { acr: 'mfa phr' }, false],
    ['none', 'mfa', {}, false],
    ['one that is not known', 'mfa', elsewhere, false],
    ['no time', 'recent', {}, false],
    ['a time as text', 'recent', { auth_time: String(NOW) }, false],
    ['now', 'recent', { auth_time: NOW }, true],
    ['as old as it may be, and half a minute', 'recent', { auth_time: NOW - 930 }, true],
    ['a second older', 'recent', { auth_time: NOW - 931 }, false],
    ['the right way, but long ago', 'both', { acr: 'mfa', auth_time: NOW - 3_600 }, false],
    ['lately, but another way', 'both', { acr: 'pwd', auth_time: NOW }, false],
    ['both', 'both', { acr: 'mfa', auth_time: NOW }, true],
  ]
  for (const [what, policy, claims, isMet] of table) {
    const ada = visitor()
    corp.state.claims = claims
    const done = await signIn(ada, corp, 'ada', urlFor(policy))
    t.equal(done.statusCode, isMet ? 200 : 403, `${policy}: ${what}`)
    t.equal(ada.jar.has(SESSION_COOKIE), isMet)
    if (isMet) continue
    t.match(done.body, ERRORS.FWA_STEP_UP_UNMET.title)
    t.match(done.body, urlFor(policy).replaceAll('&', '&amp;'), 'with a way to try again')
  }
  const warnings = log.filter(({ code, level }) => code === 'FWA_STEP_UP_UNMET' && level === 40)
  t.match(warnings, [
    { policy: 'mfa', provider: 'corp', acrDemanded: ['mfa', 'phr'], acr: 'pwd' },
    { policy: 'recent', maxAge: 900, age: 'auth_time missing' },
    { policy: 'both', acr: 'mfa', age: 3_600 },
  ])
})

t.test('a step-up that fails leaves the session as it is', async (t) => {
  const { corp, visitor } = await startHere(t)
  const ada = visitor()
  await signIn(ada, corp, 'ada')
  const session = ada.jar.get(SESSION_COOKIE)
  for (const sub of ['ada', 'bob'])
    t.equal((await signIn(ada, corp, sub, urlFor('mfa'))).statusCode, 403)
  t.equal(ada.jar.get(SESSION_COOKIE), session)
  t.equal(await whoIs(ada), 'ada')

  corp.state.claims = { acr: 'mfa' }
  t.equal(goalOf(await signIn(ada, corp, 'bob', urlFor('mfa'))), WANTED)
  t.equal(await whoIs(ada), 'bob', 'somebody else may sign in instead')
})

t.test('a login that is begun anew demands the same', async (t) => {
  const { corp, visitor, clock } = await startHere(t)
  const ada = visitor()
  await signIn(ada, corp, 'ada')
  const begun = await ada.open(urlFor('mfa'))
  await clock.advance(11 * MINUTE)
  const again = await ada.open(corp.authorize(begun.headers.location, 'ada'))
  t.match(again.headers.location, /acr_values=mfa/, 'though there is a session')
  const refused = await ada.open(corp.authorize(again.headers.location, 'ada'))
  t.equal(refused.statusCode, 403)

  const other = visitor()
  const lost = corp.authorize((await visitor().open(urlFor('mfa'))).headers.location, 'eve')
  t.match((await other.open(lost)).headers.location, /acr_values=mfa/, 'in another browser')
})

t.test('a browser that comes back for the same policy again and again is in a loop', async (t) => {
  const { corp, visitor } = await startHere(t)
  const ada = visitor()
  corp.state.claims = { acr: 'mfa' }
  const places = []
  for (let i = 0; i < 5; i++) {
    places.push((await signIn(ada, corp, 'ada', urlFor('mfa'))).statusCode)
    ada.jar.delete(SESSION_COOKIE)
  }
  t.same(places, [200, 200, 200, 200, 400])
})

t.test('refuses a policy that the portal does not have', async (t) => {
  const { visitor } = await startHere(t)
  for (const path of ['signin', 'providers/corp'])
    for (const name of ['nobody', '', 'any%00', 'mfa,', 'mfa,nobody', 'x'.repeat(2_000)]) {
      const answer = await visitor().open(`${MAIN}/${path}?policy=${name}`)
      t.equal(answer.statusCode, 400, `${path}: ${name.slice(0, 20)}`)
      t.match(answer.body, ERRORS.FWA_SIGN_IN_POLICY.title)
      t.notOk(answer.headers['set-cookie'])
      t.match(answer.body, `href="${MAIN}/signin"`, 'with a way to begin without it')
    }
})

t.test('only providers that can ask for more are offered', async (t) => {
  const [plain, other] = [createFakeProvider('github'), createFakeProvider('other')]
  const unable: RedirectProvider = { ...plain.provider, stepsUp: false }
  const { visitor } = await startHere(t, { others: [unable, other.provider] })
  const page = await visitor().open(urlFor('mfa'))
  t.equal(page.statusCode, 200)
  for (const name of ['corp', 'other']) {
    const link = `/providers/${name}?${new URLSearchParams({ rd: WANTED, policy: 'mfa' })}`
    t.match(page.body, link.replaceAll('&', '&amp;'))
  }
  t.notMatch(page.body, 'providers/github')
  t.match((await visitor().open(urlFor('staff'))).body, 'providers/github', 'for other policies')

  const asked = await visitor().open(urlFor('mfa').replace('/signin', '/providers/github'))
  t.equal(asked.statusCode, 403)
  t.match(asked.body, 'github cannot sign you in the way this page requires')

  const alone = createFakeProvider()
  const none = { ...alone, provider: { ...alone.provider, stepsUp: false } }
  const { visitor: visitorThere } = await startHere(t, { corp: none })
  const answer = await visitorThere().open(urlFor('mfa'))
  t.match(answer, { statusCode: 403, body: ERRORS.FWA_STEP_UP_UNMET.title })
})

t.test('the whole way with a real OpenID provider, from a check to the next', async (t) => {
  const idp = await startOpenIdProvider(t)
  const { issuer, options } = idp
  const provider = `{ type: openIDConnect, name: corp, issuerUrl: "${issuer}", clientId: ${options.clientId}, clientSecret: "${options.clientSecret}" }`
  const policies = 'policies: { admin: { acr: [mfa], maxAge: 15m } }'
  const yaml = yamlOf(portalOf('main', policies).replace(CORP, provider))
  // As late as it is for the provider.
  const clock = manualClock(Date.now())
  const { app } = await startApp(t, yaml, () => {}, { clock })
  const [alice, browser] = [createVisitor(app), createBrowser()]
  /** Opens the page and follows redirects to the end. */
  const open = async () => {
    let [url, visits] = [CHECKED, 0]
    for (;;) {
      const answer = await alice.visit(url, { query: '?policy=admin' })
      const { location } = answer.headers
      if (location === undefined) return [answer.statusCode, visits]
      const isAway = location.startsWith(issuer)
      url = isAway ? (await browser.signIn(location)).href : location
      if (isAway) visits += 1
    }
  }
  t.strictSame(
    await open(),
    [200, 2],
    'at first by any sign-in, then by one as the policy wants it',
  )
  t.strictSame(await open(), [200, 0], 'the session is enough now')
  const stepUp = `${MAIN}/signin?${new URLSearchParams({ policy: 'admin', rd: CHECKED })}`
  t.equal(goalOf(await alice.open(stepUp)), CHECKED, 'also for a link')
  t.equal(await whoIs(alice), 'alice')

  await clock.advance(15 * MINUTE)
  t.strictSame(await open(), [200, 0], 'half a minute of skew')
  await clock.advance(MINUTE)
  t.strictSame(await open(), [403, 1], 'too long ago, as the provider, whose clock stood, says')
  idp.forge({ acr: 'pwd', auth_time: clock.now() / 1_000 })
  t.strictSame(await open(), [403, 1])
  idp.forge({ acr: 'mfa', auth_time: clock.now() / 1_000 })
  t.strictSame(await open(), [200, 1])
})
