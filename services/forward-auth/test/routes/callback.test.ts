import { fromClaims } from '@gatehouse/profile'
import t, { type Test } from 'tap'
import { FWA_ERRORS, FwaError } from '../../src/errors.ts'
import { startApp, yamlOf } from '../app.ts'
import { createFakeProvider } from '../fake-provider.ts'
import { sent as hostCookie } from '../login/kit.ts'
import { createBrowser } from '../stand-ins/browser.ts'
import { CLIENT, type OpenIdProvider, startOpenIdProvider } from '../stand-ins/openid-provider.ts'
import { createVisitor } from '../visitor.ts'
import { MAIN, signIn, signInUrl, start, WANTED, whoIs } from './kit.ts'

const SHARED = `${MAIN}/oauth2/callback`
const callbackOf = (provider: string) => `${MAIN}/providers/${provider}/callback`
const [SESSION_COOKIE, MINUTE] = ['__Secure-gatehouse.main', 60_000]

/** A portal with an honest and a hostile provider, both real, each with the redirect URIs it needs. */
async function startTwo(t: Test) {
  const providerAt = (...redirectUris: string[]) =>
    startOpenIdProvider(t, { clients: [{ ...CLIENT, redirectUris }] })
  const honest = await providerAt(callbackOf('honest'), SHARED)
  const hostile = await providerAt(callbackOf('hostile'))
  const row = (name: string, { issuer, options }: OpenIdProvider) =>
    `{ type: openIDConnect, name: ${name}, issuerUrl: "${issuer}", clientId: ${options.clientId}, clientSecret: "${options.clientSecret}" }`
  const providers = `${row('honest', honest)}, ${row('hostile', hostile)}`
  const test = await startApp(t, yamlOf(`  - { name: main, providers: [${providers}] }\n`))
  return { ...test, honest, hostile, visitor: () => createVisitor(test.app) }
}

t.test('a provider that sends a victim on to another one never gets the code', async (t) => {
  const { honest, hostile, visitor, log } = await startTwo(t)
  for (const redirectUri of [callbackOf('honest'), SHARED]) {
    const victim = visitor()
    const begun = await victim.open(`${MAIN}/providers/hostile?rd=${WANTED}`)
    const { searchParams } = new URL(begun.headers.location ?? '')
    const attacker = visitor()
    const own = await attacker.open(`${MAIN}/providers/honest`)
    const onward = new URL(own.headers.location ?? '')
    onward.searchParams.set('redirect_uri', redirectUri)
    onward.searchParams.set('state', searchParams.get('state') ?? '')
    const callback = await createBrowser().signIn(onward, 'alice')
    t.ok(callback.searchParams.get('code'), 'the honest provider gave out a code')

    const answer = await victim.open(callback)
    t.equal(answer.statusCode, 400, redirectUri)
    t.strictSame([honest.asked.token, hostile.asked.token], [undefined, undefined], 'sent nowhere')
    t.notOk(victim.jar.has(SESSION_COOKIE))
    t.match(answer.body, 'signin', 'with a way to begin again')
  }
  t.match(
    log.filter(({ level }) => level === 40),
    [
      { code: 'FWA_CALLBACK_FOREIGN', provider: 'honest', begunAt: 'hostile' },
      { code: 'FWA_CALLBACK_SHARED', portal: 'main' },
    ],
  )
})

t.test('at each of two providers people sign in by a redirect URI of its own', async (t) => {
  const { visitor } = await startTwo(t)
  for (const name of ['honest', 'hostile']) {
    const alice = visitor()
    const begun = await alice.open(`${MAIN}/providers/${name}?rd=${encodeURIComponent(WANTED)}`)
    const back = await createBrowser().signIn(begun.headers.location ?? '', 'alice')
    t.equal(`${back.origin}${back.pathname}`, callbackOf(name))
    t.match(await alice.open(back), { statusCode: 303, headers: { location: WANTED } })
    t.equal(await whoIs(alice), 'alice')
  }
})

t.test('a login that started before providers had their own redirect URI completes', async (t) => {
  const { corp, visitor, app } = await start(t)
  const [portal, site] = [app.portals.get('main')!, app.sites.all[0]!]
  const state = { provider: 'corp', returnTo: WANTED, isRetry: false }
  const { secrets, cookies } = app.logins.begin(portal, site, state, undefined)
  let sent: string | undefined
  const { finish } = corp.provider
  Object.assign(corp.provider, {
    finish: (callback: URL, login: Parameters<typeof finish>[1]) => {
      sent = login.redirectUri
      return finish(callback, login)
    },
  })
  const url = await corp.provider.authorizationUrl({ ...secrets, redirectUri: SHARED })
  const headers = { cookie: hostCookie(cookies[0]!) }
  const done = await visitor().open(corp.authorize(url.href, 'ada'), { headers })
  t.match(done, { statusCode: 303, headers: { location: WANTED } })
  t.equal(sent, SHARED, 'the one that the provider knows the code by')
})

t.test('a portal of one provider can keep to the shared redirect URI', async (t) => {
  const { corp, visitor } = await start(t, { sharedCallback: true })
  const ada = visitor()
  const begun = await ada.open(signInUrl())
  t.equal(new URL(begun.headers.location ?? '').searchParams.get('redirect_uri'), SHARED)
  t.equal((await ada.open(corp.authorize(begun.headers.location, 'ada'))).headers.location, WANTED)
  t.equal(await whoIs(ada), 'ada')
})

t.test('callbacks of no provider', async (t) => {
  const { visitor } = await start(t)
  for (const [path, title] of [
    ['providers/corp/callback', FWA_ERRORS.FWA_LOGIN_UNKNOWN.title],
    ['providers/nobody/callback', FWA_ERRORS.FWA_LOGIN_UNKNOWN.title],
    ['oauth2/callback', FWA_ERRORS.FWA_LOGIN_UNKNOWN.title],
  ] as const)
    t.match(await visitor().open(`${MAIN}/${path}?code=x`), { statusCode: 400, body: title }, path)
})

t.test('a sign-in page that was left open goes on to where the person wanted', async (t) => {
  const { corp, visitor, clock } = await start(t)
  const ada = visitor()
  const begun = await ada.open(signInUrl())
  await clock.advance(11 * MINUTE)
  const late = await ada.open(corp.authorize(begun.headers.location, 'ada'))
  t.match(late, { statusCode: 303, headers: { location: /^https:\/\/corp\.test\/authorize/ } })
  t.notOk(ada.jar.has(SESSION_COOKIE), 'the late code is not taken')
  const done = await ada.open(corp.authorize(late.headers.location, 'ada'))
  t.equal(done.headers.location, WANTED)

  const bob = visitor()
  const first = await bob.open(signInUrl())
  await clock.advance(11 * MINUTE)
  const second = await bob.open(corp.authorize(first.headers.location, 'bob'))
  await clock.advance(11 * MINUTE)
  const end = await bob.open(corp.authorize(second.headers.location, 'bob'))
  t.equal(end.statusCode, 400, 'begun anew once only')
  t.match(end.body, signInUrl().replaceAll('&', '&amp;'), 'and Try again leads there still')
})

t.test('what an old login was for is read again before anybody goes there', async (t) => {
  const { visitor, app, clock, signIn: cookieOf } = await start(t)
  const [portal, site] = [app.portals.get('main')!, app.sites.all[0]!]
  const state = { provider: 'corp', returnTo: 'https://removed.test/', isRetry: true }
  const { secrets } = app.logins.begin(portal, site, state, undefined)
  await clock.advance(11 * MINUTE)
  const url = `${callbackOf('corp')}?state=${secrets.state}&code=x`
  const signedIn = await visitor().open(url, { headers: { cookie: cookieOf('main') } })
  t.equal(signedIn.headers.location, `${MAIN}/signin`)
  t.notMatch((await visitor().open(url)).body, 'href="https://removed.test')
})

t.test('a login of another portal does not say where to go', async (t) => {
  const { corp, visitor } = await start(t)
  const begun = await visitor().open(signInUrl().replace('/main/', '/other/'))
  const { search } = corp.authorize(begun.headers.location, 'ada')
  const answer = await visitor().open(`${callbackOf('corp')}${search}`)
  t.equal(answer.statusCode, 400)
  t.notMatch(answer.body, 'rd=')
})

t.test('a person who says no at the provider can try again to go where they wanted', async (t) => {
  const { corp, visitor } = await start(t)
  const ada = visitor()
  const begun = await ada.open(signInUrl())
  corp.state.failure = 'FWA_LOGIN_REFUSED'
  const callback = corp.authorize(begun.headers.location, 'ada')
  callback.searchParams.set('error', 'access_denied')
  const refused = await ada.open(callback)
  t.match(refused, { statusCode: 403, body: signInUrl().replaceAll('&', '&amp;') })
  corp.state.failure = undefined
  t.equal((await signIn(ada, corp, 'ada')).headers.location, WANTED)
})

t.test(
  'a wrong client secret is told to the person, and to the operator with the cure',
  async (t) => {
    const { issuer, options } = await startOpenIdProvider(t)
    const corp = `{ type: openIDConnect, name: corp, title: Corp, issuerUrl: "${issuer}", clientId: ${options.clientId}, clientSecret: not-it }`
    const { app, log } = await startApp(t, yamlOf(`  - { name: main, providers: [${corp}] }\n`))
    const alice = createVisitor(app)
    for (const attempt of ['once', 'twice']) {
      const begun = await alice.open(signInUrl())
      const page = await alice.open(await createBrowser().signIn(begun.headers.location ?? ''))
      t.equal(page.statusCode, 502, attempt)
      t.match(page.body, FWA_ERRORS.FWA_CLIENT_REFUSED.title)
      t.match(
        page.body,
        'Corp rejected the client ID or secret of this site. Contact its administrator.',
      )
      t.match(page.body, signInUrl().replaceAll('&', '&amp;'), 'with a way to try again')
    }
    const told = log.filter(({ msg }) => String(msg).startsWith('nobody can sign in at corp'))
    t.match(told, [{ code: 'FWA_CLIENT_REFUSED', portal: 'main', reason: /^invalid_client/ }])
    t.match(told[0]?.msg, 'Compare `clientId` and `clientSecret`')
    t.notMatch(JSON.stringify(log), 'not-it')
  },
)

t.test('a session that cannot be made keeps where the person wanted to go', async (t) => {
  const corp = createFakeProvider()
  const groups = Array.from({ length: 1_000 }, (_, i) => `a group with the number ${i}`)
  const finish = async () => fromClaims('corp', { sub: 'ada', groups })
  const { visitor } = await start(t, { corp: { ...corp, provider: { ...corp.provider, finish } } })
  const done = await signIn(visitor(), corp, 'ada')
  t.match(done, { statusCode: 403, body: FWA_ERRORS.FWA_SESSION_TOO_LARGE.title })
  t.match(done.body, signInUrl().replaceAll('&', '&amp;'))
})

t.test('a session that cannot be replaced is told without the folder of the list', async (t) => {
  const { corp, visitor, app, log } = await start(t)
  const ada = visitor()
  await signIn(ada, corp, 'ada')
  const failure = new FwaError('FWA_STORE_UNAVAILABLE', 'the list in /var/lib/secret: ENOSPC')
  Object.assign(app.sessions, { revoke: async () => Promise.reject(failure) })
  const page = await signIn(ada, corp, 'bob', signInUrl({ rd: WANTED, switch: '1' }))
  t.match(page, { statusCode: 503, body: FWA_ERRORS.FWA_STORE_UNAVAILABLE.title })
  t.match(page.body, signInUrl().replaceAll('&', '&amp;'), 'with a way to try again')
  t.notMatch(page.body, '/var/lib')
  t.match(JSON.stringify(log), 'ENOSPC', 'which the operator finds in the log')
  t.equal(await whoIs(ada), 'ada')
})
