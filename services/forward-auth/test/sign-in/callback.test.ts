import { randomBytes } from 'node:crypto'
import { ProviderError } from '@gatehouse/identity-providers'
import { StoreError } from '@gatehouse/store'
import t, { type Test } from 'tap'
import { createBrowser } from '../../../../packages/identity-providers/test/stand-ins/browser.ts'
import {
  CLIENT,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../../../../packages/identity-providers/test/stand-ins/openid-provider.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { ERRORS } from '../../src/errors.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { createFakeProvider, type FakeProvider } from '../fake-provider.ts'
import { goalOf, MAIN, signIn, signInUrl, start, WANTED, whoIs } from '../portal/kit.ts'
import { createVisitor } from '../visitor.ts'

// What is wrong in these tests, and said.
expectWarnings(
  t,
  'FWA_CALLBACK_FOREIGN',
  'FWA_CALLBACK_SHARED',
  'FWA_CLIENT_REFUSED',
  'STORE_UNAVAILABLE',
)

const SHARED = `${MAIN}/oauth2/callback`
const callbackOf = (provider: string) => `${MAIN}/providers/${provider}/callback`
const [SESSION_COOKIE, MINUTE] = ['__Host-gatehouse.main', 60_000]
const AT_SIGN_IN = { host: 'auth.example.com' }

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
    t.equal(goalOf(await alice.open(back)), WANTED)
    t.equal(await whoIs(alice), 'alice')
  }
})

t.test('a portal of one provider can keep to the shared redirect URI', async (t) => {
  const { corp, visitor } = await start(t, { sharedCallback: true })
  const ada = visitor()
  const begun = await ada.open(signInUrl())
  t.equal(new URL(begun.headers.location ?? '').searchParams.get('redirect_uri'), SHARED)
  t.equal(goalOf(await ada.open(corp.authorize(begun.headers.location, 'ada'))), WANTED)
  t.equal(await whoIs(ada), 'ada')
})

t.test('callbacks of no provider', async (t) => {
  const { visitor } = await start(t)
  for (const [path, title] of [
    ['providers/corp/callback', ERRORS.FWA_LOGIN_UNKNOWN.title],
    ['providers/nobody/callback', ERRORS.FWA_LOGIN_UNKNOWN.title],
    ['oauth2/callback', ERRORS.FWA_LOGIN_UNKNOWN.title],
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
  t.equal(goalOf(done), WANTED)

  const bob = visitor()
  let { location } = (await bob.open(signInUrl())).headers
  for (const left of ['once', 'twice', 'three times']) {
    await clock.advance(11 * MINUTE)
    const next = await bob.open(corp.authorize(location, 'bob'))
    t.match(next, { statusCode: 303, headers: { location: /^https:\/\/corp\.test\// } }, left)
    location = next.headers.location
  }
  await clock.advance(11 * MINUTE)
  const end = await bob.open(corp.authorize(location, 'bob'))
  t.equal(end.statusCode, 400)
  t.match(end.body, signInUrl().replaceAll('&', '&amp;'), 'and Try again leads there still')
})

const AT_PROVIDER = /^https:\/\/corp\.test\/authorize/
/** Long after its cookies have expired. */
const HOURS = 180

/** Where a tab gets when it comes back from the provider. */
const RETURNS: readonly {
  readonly name: string
  /** Minutes since the login began. */
  readonly after?: number
  readonly isSignedIn?: boolean
  readonly hasCookies?: boolean
  readonly policy?: string
  /** Seconds since the session authenticated, for the policy. */
  readonly age?: number
  /** What the provider says: of its own code, or in place of one. */
  readonly failure?: ProviderError['code']
  readonly error?: string
  readonly leadsTo: string | RegExp
  readonly redeems?: true
}[] = [
  { name: 'in time', leadsTo: WANTED, redeems: true },
  { name: 'in time, another tab was faster', isSignedIn: true, leadsTo: WANTED, redeems: true },
  { name: 'without its cookie', hasCookies: false, leadsTo: AT_PROVIDER },
  {
    name: 'without its cookie, another tab was faster',
    ...{ hasCookies: false, isSignedIn: true },
    leadsTo: WANTED,
  },
  { name: 'late', after: 11, leadsTo: AT_PROVIDER },
  { name: 'late, another tab was faster', after: 11, isSignedIn: true, leadsTo: WANTED },
  { name: 'hours later', after: HOURS, hasCookies: false, leadsTo: AT_PROVIDER },
  {
    name: 'hours later, another tab was faster',
    ...{ after: HOURS, hasCookies: false, isSignedIn: true },
    leadsTo: WANTED,
  },
  {
    name: 'late to a step-up, with a session from before it',
    ...{ after: 11, isSignedIn: true, policy: 'fresh', age: 3_600 },
    leadsTo: AT_PROVIDER,
  },
  {
    name: 'late to a step-up that another tab has made',
    ...{ after: 11, isSignedIn: true, policy: 'fresh', age: 5 },
    leadsTo: WANTED,
  },
  {
    name: 'with a code that the provider gave up',
    failure: 'FWA_LOGIN_REFUSED',
    leadsTo: AT_PROVIDER,
  },
  {
    name: 'with a code that the provider gave up, another tab was faster',
    ...{ failure: 'FWA_LOGIN_REFUSED', isSignedIn: true },
    leadsTo: WANTED,
  },
  {
    name: 'with what Keycloak says if another tab was faster',
    ...{ failure: 'FWA_PROVIDER_UNREACHABLE', error: 'temporarily_unavailable' },
    leadsTo: AT_PROVIDER,
  },
  {
    name: 'with what Keycloak says, and a session',
    ...{ failure: 'FWA_PROVIDER_UNREACHABLE', error: 'temporarily_unavailable', isSignedIn: true },
    leadsTo: WANTED,
  },
]

type Finish = FakeProvider['provider']['finish']

/** Fails once with a code, if there is one. */
function failingOnce(finish: Finish, code: ProviderError['code'] | undefined): Finish {
  let failure = code
  return (...login) => {
    const error = failure && new ProviderError(failure, 'gave up', { cause: new Error('once') })
    failure = undefined
    return error ? Promise.reject(error) : finish(...login)
  }
}

t.test(
  'whatever became of its login, a tab gets to its page, if need be once more by the provider',
  async (t) => {
    const yaml = yamlOf(portalOf('main', 'policies: { fresh: { maxAge: 5m } }'))
    const { corp, visitor, clock, signIn: cookieOf } = await start(t, { yaml })
    const { finish } = corp.provider
    for (const row of RETURNS) {
      const { name, after = 0, isSignedIn, hasCookies = true, policy, age = 0 } = row
      const tab = visitor()
      const url = signInUrl({ rd: WANTED, ...(policy && { policy }) })
      const begun = await tab.open(url)
      await clock.advance(after * MINUTE)
      if (!hasCookies) tab.jar.clear()
      const now = Math.floor(clock.now() / 1_000)
      corp.state.claims = { auth_time: now }
      const claims = { auth_time: now - age }
      const session = isSignedIn ? await cookieOf('main', claims, AT_SIGN_IN) : ''
      const [cookieName, value = ''] = session.split('=')
      if (cookieName) tab.jar.set(cookieName, value)
      const callback = corp.authorize(begun.headers.location, 'ada')
      if (row.error) callback.searchParams.set('error', row.error)
      Object.assign(corp.provider, { finish: failingOnce(finish, row.failure) })
      const back = await tab.open(callback)
      t.match(goalOf(back), row.leadsTo, name)
      const redeemed = [back.headers['set-cookie']]
        .flat()
        .some((line) => line?.includes(SESSION_COOKIE))
      t.equal(redeemed, row.redeems ?? false, `${name}: whether the code is redeemed`)
      if (row.leadsTo === WANTED) continue
      const end = await tab.open(corp.authorize(back.headers.location, 'ada'))
      t.equal(goalOf(end), WANTED, `${name}, in the end`)
    }
  },
)

t.test(
  'a long return URL is reached by a page of its own, also late and beside others',
  async (t) => {
    const { corp, visitor, clock } = await start(t)
    const longOf = () =>
      `https://app.example.com/saml?r=${randomBytes(4_000).toString('base64url')}`.slice(0, 3_600)
    const [one, two] = [longOf(), longOf()]
    for (const after of [0, 11]) {
      const tab = visitor()
      const begun = await Promise.all([one, two].map((rd) => tab.open(signInUrl({ rd }))))
      await clock.advance(after * MINUTE)
      for (const [i, rd] of [one, two].entries()) {
        let back = await tab.open(corp.authorize(begun[i]!.headers.location, 'ada'))
        if (AT_PROVIDER.test(back.headers.location ?? ''))
          back = await tab.open(corp.authorize(back.headers.location, 'ada'))
        const page = goalOf(back) ?? ''
        t.match(page, `${MAIN}/return/`)
        const end = await tab.open(page)
        t.equal(goalOf(end), rd, `after ${after} minutes`)
        tab.jarOf(`auth.example.com${new URL(page).pathname}`).clear()
        const lost = await tab.open(page)
        t.equal(goalOf(lost), 'https://app.example.com/saml', 'without its cookie')
      }
    }
    for (const rd of ['https://evil.test/', '//evil.test', ''])
      t.match(await visitor().open(`${MAIN}/return/x?${new URLSearchParams({ rd })}`), {
        headers: { location: `${MAIN}/signin` },
      })
  },
)

t.test('what an old login was for is read again before anybody goes there', async (t) => {
  const { visitor, app, clock, signIn: cookieOf } = await start(t)
  const [portal, site] = [app.portals.get('main')!, app.sites.list[0]!]
  const state = {
    ...{ provider: 'corp', redirectUri: callbackOf('corp') },
    ...{ returnTo: 'https://removed.test/', restarts: 3 },
  }
  const { secrets } = app.logins.begin({ portal, site }, state, undefined)
  await clock.advance(11 * MINUTE)
  const url = `${callbackOf('corp')}?state=${secrets.state}&code=x`
  const signedIn = await visitor().open(url, {
    headers: { cookie: await cookieOf('main', {}, AT_SIGN_IN) },
  })
  t.equal(goalOf(signedIn), `${MAIN}/signin`)
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
  t.equal(goalOf(await signIn(ada, corp, 'ada')), WANTED)
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
      t.match(page.body, ERRORS.FWA_CLIENT_REFUSED.title)
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
  const { visitor, app } = await start(t, { corp })
  const ada = visitor()
  const named = Array.from({ length: 150 }, (_, i) => [`https://example.com/claims/${i}`, 'x'])
  corp.state.claims = Object.fromEntries(named)
  const done = await signIn(ada, corp, 'ada')
  t.match(done, { statusCode: 403, body: ERRORS.FWA_SESSION_TOO_LARGE.title })
  t.match(done.body, signInUrl().replaceAll('&', '&amp;'))
  t.strictSame(await app.authStore.listSessions({ portal: 'main' }, 9), [], 'nothing is stored')

  corp.state.claims = { groups: Array.from({ length: 1_000 }, (_, i) => `the group ${i}`) }
  t.equal(goalOf(await signIn(ada, corp, 'ada')), WANTED)
  t.equal(await whoIs(ada), 'ada', 'whose groups are too many for a cookie is in')
})

t.test('a session that cannot be replaced is told without the folder of the store', async (t) => {
  const { corp, visitor, app, log } = await start(t)
  const ada = visitor()
  await signIn(ada, corp, 'ada')
  const failure = new StoreError('STORE_UNAVAILABLE', 'the store in /var/lib/secret: ENOSPC')
  Object.assign(app.sessions.records, { endOne: async () => Promise.reject(failure) })
  const page = await signIn(ada, corp, 'bob', signInUrl({ rd: WANTED, switch: '1' }))
  t.match(page, { statusCode: 503, body: ERRORS.STORE_UNAVAILABLE.title })
  t.match(page.body, signInUrl().replaceAll('&', '&amp;'), 'with a way to try again')
  t.notMatch(page.body, '/var/lib')
  t.match(JSON.stringify(log), 'ENOSPC', 'which the operator finds in the log')
  t.equal(await whoIs(ada), 'ada')
})

t.test('a sign-in writes twice into the store: its login, and its session', async (t) => {
  const { visitor, corp, app } = await start(t)
  const { authStore } = app
  const written: string[] = []
  const writes = [
    ...['beginSession', 'updateSession', 'endSessions', 'leaseSession', 'touchSessions'],
    ...['tell', 'completeLogin', 'prune'],
  ] as ('completeLogin' | 'beginSession')[]
  for (const name of writes) {
    const write = authStore[name].bind(authStore) as (...args: unknown[]) => Promise<boolean>
    authStore[name] = (...args: unknown[]) => {
      written.push(name)
      return write(...args)
    }
  }
  t.equal(goalOf(await signIn(visitor(), corp, 'ada')), WANTED)
  t.strictSame(written, ['completeLogin', 'beginSession'])
})
