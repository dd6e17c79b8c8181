import type { SeamlessProvider } from '@gatehouse/identity-providers'
import { fromClaims } from '@gatehouse/profile'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { ERRORS } from '../../src/errors.ts'
import { CORP, DOMAINS, portalOf, yamlOf } from '../app.ts'
import { createFakeProvider } from '../fake-provider.ts'
import {
  arrive,
  goalOf,
  MAIN,
  SCRIPT,
  SHARED,
  signIn,
  signInUrl,
  start,
  WANTED,
  WHOLE_WAY,
  whoIs,
} from '../portal/kit.ts'
import type { Visit } from '../visitor.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_COOKIE_DUPLICATE', 'FWA_COOKIES_BLOCKED', 'FWA_SIGN_IN_LOOP')

const APP = 'app.example.com'
/** The cookie that all hosts of a domain share, and that of one host. */
const [SHARED_COOKIE, APP_COOKIE] = [
  '__Secure-gatehouse-app.main',
  '__Host-gatehouse-app.main',
] as const

type Arriving = NonNullable<Visit['arriving']>
type Started = Awaited<ReturnType<typeof start>>

const startShared = (t: Test) => start(t, { yaml: SHARED })

/** Follows every redirect, at most 20 of them, as browsers do. */
async function follow(test: Started, visitor = test.visitor(), arriving?: Arriving) {
  const { answer, places } = await arrive(visitor, test.corp, WANTED, {
    arriving,
    maxRedirects: 20,
  })
  return { answer, places, visits: places.filter((place) => place === 'corp.test').length }
}

const withJunk =
  (name: string, at?: string): Arriving =>
  (cookies, host) =>
    at === undefined || host === at ? `${name}=junk; ${cookies}` : cookies
const atAppNone: Arriving = (cookies, host) => (host === APP ? '' : cookies)
const withoutSession: Arriving = (cookies) =>
  cookies
    .split('; ')
    .filter((each) => !/^__\w+-gatehouse(-app)?\.main=/.test(each))
    .join('; ')

t.test('without a fault a person is in after one visit at the provider', async (t) => {
  const { answer, places } = await follow(await start(t))
  t.match([answer.statusCode, places], [200, WHOLE_WAY])
})

t.test(
  'a second cookie of the name ends at a page that names it, before the provider',
  async (t) => {
    const test = await startShared(t)
    const ada = test.visitor()
    await signIn(ada, test.corp, 'ada')
    const { answer, visits } = await follow(test, ada, withJunk(SHARED_COOKIE))
    t.match(answer, { statusCode: 400, body: ERRORS.FWA_COOKIE_DUPLICATE.title })
    t.match(answer.body, SHARED_COOKIE)
    t.match(answer.body, 'Delete the cookies of example.com')
    t.match(answer.body, signInUrl().replaceAll('&', '&amp;'), 'with a way to try again')
    t.equal(visits, 0)
    t.match(
      test.log.filter(({ msg }) => String(msg).startsWith('a browser sends')),
      [{ level: 40, code: 'FWA_COOKIE_DUPLICATE', portal: 'main', msg: `${SHARED_COOKIE} twice` }],
    )
  },
)

t.test(
  'a second cookie that comes while somebody signs in is noticed at the callback',
  async (t) => {
    const test = await startShared(t)
    const ada = test.visitor()
    const begun = await ada.open(signInUrl())
    const callback = test.corp.authorize(begun.headers.location, 'ada')
    const cookie = `${SHARED_COOKIE}=one; ${SHARED_COOKIE}=two; ${ada.cookies()}`
    const answer = await ada.open(callback, { headers: { cookie } })
    t.match(answer, { statusCode: 400, body: ERRORS.FWA_COOKIE_DUPLICATE.title })
    t.notMatch(ada.cookies(), /gatehouse(-app)?\.main=/, 'nobody is signed in by it')
  },
)

t.test(
  'of several domains with one sign-in host, that of the app decides, in any order',
  async (t) => {
    const rows = [
      '{ domain: example.com, authHost: auth.example.com, session: { scope: domain } }',
      '{ domain: example.org, authHost: auth.example.com }',
      '{ domain: example.net, authHost: auth.example.com }',
    ]
    const three = [
      [0, 1, 2],
      [0, 2, 1],
      [1, 0, 2],
      [1, 2, 0],
      [2, 0, 1],
      [2, 1, 0],
    ]
    const orders = [[0], [0, 1], [1, 0], ...three]
    for (const order of orders) {
      const domains = order.map((index) => rows[index])
      const yaml = yamlOf(portalOf('main')).replace(DOMAINS, `domains: [${domains.join(', ')}]`)
      const test = await start(t, { yaml })
      for (const index of order) {
        const domain = ['example.com', 'example.org', 'example.net'][index]
        const wanted = `https://app.${domain}/`
        const ada = test.visitor()
        const known = await arrive(ada, test.corp, wanted)
        t.equal(known.answer.statusCode, 200, `${order}: ${domain}`)
        const headers = { cookie: `${ada.cookies()}; ${SHARED_COOKIE}=one; ${SHARED_COOKIE}=two` }
        const doubled = await ada.open(signInUrl({ rd: wanted }), { headers })
        t.equal(doubled.statusCode, domain === 'example.com' ? 400 : 303, `${order}: ${domain}`)
        const { answer } = await arrive(test.visitor(), test.corp, wanted, {
          arriving: withoutSession,
          maxRedirects: 20,
        })
        t.match(answer.body, `Allow cookies for ${domain}, or`, `${order}: ${domain}`)
      }
    }
  },
)

t.test('programs are told of a second cookie too', async (t) => {
  const { visitor } = await startShared(t)
  const headers = { ...SCRIPT, cookie: `${SHARED_COOKIE}=one; ${SHARED_COOKIE}=two` }
  for (const path of ['signin', 'providers/corp'])
    t.match((await visitor().open(`${MAIN}/${path}`, { headers })).json(), {
      status: 400,
      code: 'FWA_COOKIE_DUPLICATE',
      loginUrl: `${MAIN}/signin`,
    })
})

t.test('a second cookie that only the app gets ends at a page', async (t) => {
  for (const [test, name] of [
    [await startShared(t), SHARED_COOKIE],
    [await start(t), APP_COOKIE],
  ] as const) {
    const { answer, visits } = await follow(test, test.visitor(), withJunk(name, APP))
    t.match(answer, { statusCode: 400, body: ERRORS.FWA_SIGN_IN_LOOP.title }, name)
    t.match(answer.body, 'app.example.com does not receive your session cookie')
    t.match(answer.body, 'Delete the cookies of example.com')
    t.equal(visits, 1)
  }
})

t.test('a proxy that drops Cookie from the check is named on a page and in the log', async (t) => {
  for (const [test, page, line, wait] of [
    [
      await startShared(t),
      'app.example.com does not receive your session cookie',
      'sign-in loop',
      0,
    ],
    [await start(t), 'app.example.com gets no cookies', 'check refused', 30_000],
  ] as const) {
    const ada = test.visitor()
    const { answer, places } = await follow(test, ada, atAppNone)
    t.match(answer, { statusCode: 400, body: page })
    t.ok(places.length < 20, `${places.length} places`)
    const told = test.log.filter(({ msg }) => String(msg).startsWith(line))
    t.match(told, [{ level: 40, portal: 'main', msg: /app\.example\.com/ }])
    t.match(told[0]?.msg, /authRequestHeaders/)
    t.equal(await whoIs(ada), 'ada', 'the session stays')

    await test.clock.advance(wait)
    const again = await follow(test, ada, atAppNone)
    t.equal(again.answer.statusCode, 400, 'trying again is counted anew')
    t.ok(again.places.length > 4, `${again.places.length} places`)
    t.equal((await follow(test, ada)).answer.statusCode, 200, 'once it is mended')
  }
})

t.test('a browser that keeps no cookies of a hop ends at a page', async (t) => {
  const withoutHop: Arriving = (cookies) =>
    cookies
      .split('; ')
      .filter((each) => !/^__\w+-gatehouse-(hop|binding)\./.test(each))
      .join('; ')
  const test = await start(t)
  const ada = test.visitor()
  const { answer, visits, places } = await follow(test, ada, withoutHop)
  t.match(answer, { statusCode: 400, body: ERRORS.FWA_SIGN_IN_LOOP.title })
  t.ok(visits === 1 && places.length < 20, `${visits} visits, ${places.length} places`)
  const shown = await arrive(test.visitor(), test.corp, signInUrl(), { arriving: atAppNone })
  t.equal(shown.answer.statusCode, 400, 'also by a link to the sign-in page')
})

t.test(
  'a browser that keeps no cookies is told to allow them as soon as that is known',
  async (t) => {
    const AUTH_HOST = 'auth.example.com'
    const none: Arriving = () => ''
    const atAuthNone: Arriving = (cookies, host) => (host === AUTH_HOST ? '' : cookies)
    const link = signInUrl()
    const early = [APP, 'signin', 'signin']
    const late = ['signin', 'corp.test', 'callback', 'corp.test', 'callback']
    const round = [`${APP} with a ticket`, 'signin']
    const table = [
      ['none at all', WANTED, none, early],
      ['none at the sign-in host', WANTED, atAuthNone, early],
      ['none at all, by a link to the sign-in page', link, none, late],
      [
        'none at the app',
        WANTED,
        atAppNone,
        [...WHOLE_WAY.slice(0, 4), ...round, ...round, `${APP} with a ticket`],
      ],
    ] as const
    const test = await start(t)
    for (const [name, url, arriving, expected] of table) {
      const way = { arriving, maxRedirects: 20 }
      const { answer, places } = await arrive(test.visitor(), test.corp, url, way)
      t.match(answer, { statusCode: 400, body: ERRORS.FWA_COOKIES_BLOCKED.title }, name)
      t.match(
        answer.body,
        `href="${url === link || expected === early ? WANTED : 'https://app'}`,
        name,
      )
      t.strictSame(places, expected, name)
    }
    const shared = await startShared(t)
    const way = { arriving: none, maxRedirects: 20 }
    const { answer, places } = await arrive(shared.visitor(), shared.corp, WANTED, way)
    t.match(answer, { statusCode: 400, body: ERRORS.FWA_COOKIES_BLOCKED.title })
    t.strictSame(places, [APP, ...late], 'the cookie of a domain')

    const refused = await test.visitor().visit(WANTED)
    const by = await arrive(test.visitor(), test.corp, refused.headers.location ?? '')
    const [first, second] = by.places
    t.strictSame(
      [by.answer.statusCode, first, second],
      [200, 'signin', 'signin'],
      'of another browser',
    )
  },
)

t.test(
  'the address of the sign-in page, kept and loaded later, says nothing of cookies',
  async (t) => {
    const test = await start(t)
    const { location = '' } = (await test.visitor().visit(WANTED)).headers
    const { location: tried = '' } = (await test.visitor().open(location)).headers
    t.match(tried, `${MAIN}/signin?rd=`, 'sent round with a cookie')
    t.equal((await test.visitor().open(tried)).statusCode, 400, 'at once without it')
    for (const wait of [31_000, 24 * 3_600_000]) {
      await test.clock.advance(wait)
      const again = await arrive(test.visitor(), test.corp, tried)
      t.equal(again.answer.statusCode, 200, `${wait} ms later`)
    }
  },
)

t.test('a browser that does not keep the session ends at a page', async (t) => {
  for (const test of [await start(t), await startShared(t)]) {
    const { answer, visits, places } = await follow(test, test.visitor(), withoutSession)
    t.match(answer, { statusCode: 400, body: 'your browser does not keep the session cookie' })
    t.ok(visits <= 3 && places.length < 16, `${visits} visits, ${places.length} places`)
  }
})

t.test('many tabs, and several accounts in turn, are no loop', async (t) => {
  const test = await start(t)
  const ada = test.visitor()
  for (let tab = 0; tab < 30; tab++) {
    const rd = `https://app.example.com/${tab}`
    const answer = tab === 0 ? await signIn(ada, test.corp, 'ada', signInUrl({ rd })) : undefined
    t.equal(goalOf(answer ?? (await ada.open(signInUrl({ rd })))), rd)
  }
  for (let i = 0; i < 8; i++) {
    const url = signInUrl({ rd: WANTED, switch: '1' })
    t.equal(goalOf(await signIn(ada, test.corp, `person-${i}`, url)), WANTED)
  }
})

t.test('a program that asks over and over is redirected each time', async (t) => {
  const test = await start(t)
  const ada = test.visitor()
  await signIn(ada, test.corp, 'ada')
  for (let i = 0; i < 20; i++) {
    const answer = await ada.open(signInUrl(), { headers: SCRIPT })
    t.equal(goalOf(answer), WANTED)
  }
})

t.test('a session that another site has planted counts as the one it is', async (t) => {
  const { visitor, signIn: cookieOf } = await startShared(t)
  const headers = { cookie: await cookieOf('main', { sub: 'mallory' }) }
  const answer = await visitor().visit(WANTED, { headers })
  t.equal(answer.headers['x-forwarded-user'], 'mallory')
  const page = await visitor().open(`${MAIN}/profile.json`, { headers: { ...SCRIPT, ...headers } })
  t.equal(page.statusCode, 401, 'and never at the sign-in host')
})

t.test('one account cannot fill the store of sessions', async (t) => {
  const test = await start(t, { yaml: yamlOf(portalOf('main')) })
  const signInOnce = (sub: string, number: number) => {
    const rd = `https://app.example.com/${number}`
    return signIn(test.visitor(), test.corp, sub, signInUrl({ rd }))
  }
  for (let i = 0; i < 60; i++) t.equal((await signInOnce('ada', i)).statusCode, 200)
  const refused = await signInOnce('ada', 60)
  t.match(refused, { statusCode: 429, headers: { 'retry-after': '5' } })
  t.match(refused.body, ERRORS.FWA_RATE_LIMITED.title)
  t.match(refused.body, 'Try again in 5 seconds')
  t.notMatch(String(refused.headers['set-cookie']), /gatehouse(-app)?\.main=/)
  t.equal((await signInOnce('bob', 0)).statusCode, 200, 'others are not held up')
  await test.clock.advance(5_000)
  t.equal((await signInOnce('ada', 61)).statusCode, 200)
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
  for (let i = 0; i < 60; i++) t.equal(await open(), 200)
  t.equal(await open(), 429)
})
