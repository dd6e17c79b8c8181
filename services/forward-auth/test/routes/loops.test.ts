import type { SeamlessProvider } from '@gatehouse/identity-providers'
import { fromClaims } from '@gatehouse/profile'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { ERRORS } from '../../src/errors.ts'
import { CORP, portalOf, yamlOf } from '../app.ts'
import { createFakeProvider } from '../fake-provider.ts'
import { BROWSER, SHAPES } from '../shapes.ts'
import type { Visitor } from '../visitor.ts'
import { MAIN, SCRIPT, signIn, signInUrl, start, WANTED, whoIs } from './kit.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_COOKIE_DUPLICATE', 'FWA_SIGN_IN_LOOP')

const NAME = '__Secure-gatehouse.main'
const TRAEFIK = SHAPES[0]!
type Started = Awaited<ReturnType<typeof start>>

interface Way {
  /** The Cookie header that reaches the check of the app. */
  readonly atApp: (cookies: string) => string
  /** And the sign-in host. */
  readonly atAuth?: (cookies: string) => string
}

/**
 * A browser that opens an app behind a proxy and follows every redirect, at most 20 of them, as
 * browsers do. Gives where it ended and how often it was at the provider.
 */
async function follow({ check, corp }: Started, visitor: Visitor, way: Way) {
  const { pathname, search } = new URL(WANTED)
  let visits = 0
  let url = WANTED
  for (let redirects = 0; redirects < 20; redirects++) {
    const cookies = visitor.cookies()
    const isApp = new URL(url).host === 'app.example.com'
    const isProvider = new URL(url).host === 'corp.test'
    if (isProvider) {
      visits += 1
      url = corp.authorize(url, 'ada').href
      continue
    }
    const answer = isApp
      ? await check(TRAEFIK, {
          ...BROWSER,
          'X-Forwarded-Method': 'GET',
          'X-Forwarded-Uri': `${pathname}${search}`,
          cookie: way.atApp(cookies),
        })
      : await visitor.open(url, { headers: { cookie: way.atAuth?.(cookies) ?? cookies } })
    const { location } = answer.headers
    if (location === undefined) return { answer, visits, redirects }
    url = String(location)
  }
  throw new Error('ERR_TOO_MANY_REDIRECTS')
}

const whole = (cookies: string) => cookies
const withJunk = (cookies: string) => `${NAME}=junk; ${cookies}`
const withoutSession = (cookies: string) =>
  cookies
    .split('; ')
    .filter((each) => !each.startsWith('__Secure-'))
    .join('; ')

t.test('without a fault a person is in after one visit at the provider', async (t) => {
  const test = await start(t)
  const { answer, visits } = await follow(test, test.visitor(), { atApp: whole })
  t.match([answer.statusCode, visits], [200, 1])
})

t.test(
  'a second cookie of the name ends at a page that names it, before the provider',
  async (t) => {
    const test = await start(t)
    const ada = test.visitor()
    await signIn(ada, test.corp, 'ada')
    const { answer, visits } = await follow(test, ada, { atApp: withJunk, atAuth: withJunk })
    t.match(answer, { statusCode: 400, body: ERRORS.FWA_COOKIE_DUPLICATE.title })
    t.match(answer.body, NAME)
    t.match(answer.body, 'Delete the cookies of example.com')
    t.match(answer.body, signInUrl().replaceAll('&', '&amp;'), 'with a way to try again')
    t.equal(visits, 0)
    t.match(
      test.log.filter(({ msg }) => String(msg).startsWith('a browser sends')),
      [{ level: 40, code: 'FWA_COOKIE_DUPLICATE', portal: 'main', msg: `${NAME} twice` }],
    )
  },
)

t.test(
  'a second cookie that comes while somebody signs in is noticed at the callback',
  async (t) => {
    const test = await start(t)
    const ada = test.visitor()
    const begun = await ada.open(signInUrl())
    const callback = test.corp.authorize(begun.headers.location, 'ada')
    const cookie = `${NAME}=one; ${NAME}=two; ${ada.cookies()}`
    const answer = await ada.open(callback, { headers: { cookie } })
    t.match(answer, { statusCode: 400, body: ERRORS.FWA_COOKIE_DUPLICATE.title })
    t.notOk(ada.jar.has(NAME), 'nobody is signed in by it')
  },
)

t.test('programs are told of a second cookie too', async (t) => {
  const { visitor } = await start(t)
  const headers = { ...SCRIPT, cookie: `${NAME}=one; ${NAME}=two` }
  for (const path of ['signin', 'providers/corp'])
    t.match((await visitor().open(`${MAIN}/${path}`, { headers })).json(), {
      status: 400,
      code: 'FWA_COOKIE_DUPLICATE',
      loginUrl: `${MAIN}/signin`,
    })
})

t.test('a second cookie that only the app gets ends at a page', async (t) => {
  const test = await start(t)
  const { answer, visits } = await follow(test, test.visitor(), { atApp: withJunk })
  t.match(answer, { statusCode: 400, body: ERRORS.FWA_SIGN_IN_LOOP.title })
  t.match(answer.body, 'app.example.com does not receive your session cookie')
  t.match(answer.body, 'Delete the cookies of example.com')
  t.equal(visits, 1)
})

t.test('a proxy that drops Cookie from the check is named on a page and in the log', async (t) => {
  const test = await start(t)
  const ada = test.visitor()
  const drop: Way = { atApp: () => '' }
  const { answer, redirects } = await follow(test, ada, drop)
  t.match(answer, { statusCode: 400, body: 'app.example.com does not receive your session cookie' })
  t.ok(redirects < 20, `${redirects} redirects`)
  const told = test.log.filter(({ msg }) => String(msg).startsWith('sign-in loop'))
  t.match(told, [{ level: 40, portal: 'main', host: 'app.example.com', msg: /authRequestHeaders/ }])
  t.equal(await whoIs(ada), 'ada', 'the session stays')

  const again = await follow(test, ada, drop)
  t.equal(again.answer.statusCode, 400, 'trying again is counted anew')
  t.ok(again.redirects > 4)
  t.equal((await follow(test, ada, { atApp: whole })).answer.statusCode, 200, 'once it is mended')
})

t.test('a browser that does not keep the session ends at a page', async (t) => {
  const test = await start(t)
  const { answer, visits, redirects } = await follow(test, test.visitor(), {
    atApp: withoutSession,
    atAuth: withoutSession,
  })
  t.match(answer, { statusCode: 400, body: 'your browser does not keep the session cookie' })
  t.ok(visits <= 3 && redirects < 16, `${visits} visits, ${redirects} redirects`)
})

t.test('many tabs, and several accounts in turn, are no loop', async (t) => {
  const test = await start(t)
  const ada = test.visitor()
  for (let tab = 0; tab < 30; tab++) {
    const rd = `https://app.example.com/${tab}`
    const answer = tab === 0 ? await signIn(ada, test.corp, 'ada', signInUrl({ rd })) : undefined
    const { location } = (answer ?? (await ada.open(signInUrl({ rd })))).headers
    t.equal(location, rd)
  }
  for (let i = 0; i < 8; i++) {
    const url = signInUrl({ rd: WANTED, switch: '1' })
    t.equal((await signIn(ada, test.corp, `person-${i}`, url)).headers.location, WANTED)
  }
})

t.test('a program that asks over and over is redirected each time', async (t) => {
  const test = await start(t)
  const ada = test.visitor()
  await signIn(ada, test.corp, 'ada')
  for (let i = 0; i < 20; i++) {
    const answer = await ada.open(signInUrl(), { headers: SCRIPT })
    t.match(answer, { statusCode: 303, headers: { location: WANTED } })
  }
})

t.test('a session that another site has planted counts as the one it is', async (t) => {
  const { visitor, signIn: cookieOf } = await start(t)
  const cookie = cookieOf('main', { sub: 'mallory' })
  const answer = await visitor().open(`${MAIN}/profile.json`, { headers: { ...SCRIPT, cookie } })
  t.equal(answer.json().id, 'mallory')
})

t.test('one account cannot fill the list of ended sessions', async (t) => {
  const test = await start(t, { yaml: yamlOf(portalOf('main')) })
  const signInOnce = (sub: string, number: number) => {
    const rd = `https://app.example.com/${number}`
    return signIn(test.visitor(), test.corp, sub, signInUrl({ rd }))
  }
  for (let i = 0; i < 60; i++) t.equal((await signInOnce('ada', i)).statusCode, 303)
  const refused = await signInOnce('ada', 60)
  t.match(refused, { statusCode: 429, headers: { 'retry-after': '5' } })
  t.match(refused.body, ERRORS.FWA_SIGN_IN_RATE.title)
  t.match(refused.body, 'Try again in 5 seconds')
  t.notMatch(refused.headers['set-cookie'], /__Secure-/)
  t.equal((await signInOnce('bob', 0)).statusCode, 303, 'others are not held up')
  await test.clock.advance(5_000)
  t.equal((await signInOnce('ada', 61)).statusCode, 303)
  t.equal((await signInOnce('ada', 62)).statusCode, 429)
})

t.test('nor can a device that needs no page to sign in', async (t) => {
  const tailnet: SeamlessProvider = {
    ...createFakeProvider('tailnet').provider,
    type: 'seamless',
    identify: async () => fromClaims('tailnet', { sub: 'node-7' }),
    fits: () => true,
  }
  const provider = CORP.replace('corp', 'tailnet')
  const yaml = yamlOf(portalOf('main').replace(CORP, `${CORP}, ${provider}`))
  const { visitor } = await start(t, { yaml, others: [tailnet] })
  const headers = { 'x-forwarded-for': '100.64.0.7' }
  const open = async () => (await visitor().open(signInUrl(), { headers })).statusCode
  for (let i = 0; i < 60; i++) t.equal(await open(), 303)
  t.equal(await open(), 429)
})
