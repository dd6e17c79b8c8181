import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { withOther } from '../../../../scripts/test/with-other.ts'
import { ERRORS } from '../../src/errors.ts'
import { textsIn } from '../../src/pages/languages.ts'
import { TICKET } from '../../src/session/hop.ts'
import { CORP, DOMAINS, portalOf, yamlOf } from '../app.ts'
import { createFakeProvider } from '../fake-provider.ts'
import {
  AUTH,
  arrive,
  imageOf,
  loadImage,
  MAIN,
  readPage,
  SCRIPT,
  SHARED,
  signInUrl,
  start,
  ticketIn,
  WANTED,
  WHOLE_WAY,
  whoIs,
} from '../portal/kit.ts'
import { BROWSER, type RequestHeaders, SHAPES } from '../shapes.ts'
import type { Visitor } from '../visitor.ts'

const en = textsIn('en')

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_APP_INSECURE', 'FWA_COOKIES_BLOCKED', 'FWA_HEADER_INVALID')

const [APP, WIKI] = ['app.example.com', 'wiki.example.com']
const APP_COOKIE = '__Host-gatehouse-app.main'
const TRAEFIK = SHAPES[0]!
/** Of somebody who is signed in, but not at this host yet. */
const silent = (host: string) => [host, 'signin', `${host} with a ticket`, host]

type Started = Awaited<ReturnType<typeof start>>

/** Follows redirects to the URL with a ticket, which nobody has opened then. */
async function ticketUrl(visitor: Visitor, { corp }: Started, url = WANTED, sub = 'ada') {
  let at = url
  while (ticketIn(at) === undefined) {
    if (at.startsWith('https://corp.test/')) at = corp.authorize(at, sub).href
    else at = (await visitor.visit(at)).headers.location ?? 'none'
  }
  return at
}

t.test('each host of an app gets a cookie of its own', async (t) => {
  const { corp, visitor } = await start(t)
  const ada = visitor()
  const visits: [what: string, url: string, places: readonly string[]][] = [
    ['the first visit', WANTED, WHOLE_WAY],
    ['the same page again', WANTED, [APP]],
    ['another page', `https://${APP}/?a=b&c`, [APP]],
    ['the port of the scheme', `https://${APP}:443/`, [APP]],
    ['a second app of the domain', `https://${WIKI}/a?b=%C3%A4+c&`, silent(WIKI)],
    ['a third one, with an empty query', 'https://x.y.example.com/a?', silent('x.y.example.com')],
    ['the domain itself', 'https://example.com/', silent('example.com')],
  ]
  for (const [what, url, places] of visits) {
    const way = await arrive(ada, corp, url)
    t.match(way.answer, { statusCode: 200, headers: { 'x-forwarded-user': 'ada' } }, what)
    t.strictSame(way.places, places, what)
    t.equal(way.urls.at(-1), url, 'byte by byte')
    t.equal(way.answer.headers['set-cookie'], undefined)
    t.match(
      ada.cookies(new URL(url).hostname),
      /^__Host-gatehouse-app\.main=[\w.-]+$/,
      'no hop left',
    )
  }
  t.match([...ada.jar.keys()].sort(), [
    '__Host-gatehouse-login.main.',
    '__Host-gatehouse-rounds.main',
    '__Host-gatehouse.main',
  ])
})

t.test(
  'each port of a host has a cookie of its own, which is worth nothing at another port',
  async (t) => {
    const { corp, visitor } = await start(t)
    const ada = visitor()
    const ports = ['', ':8443', ':9443']
    for (const port of ports) {
      const way = await arrive(ada, corp, `https://${APP}${port}/`)
      t.match([way.answer.statusCode, way.places], [200, port === '' ? WHOLE_WAY : silent(APP)])
    }
    const held = ada.jarOf(APP)
    const names = ports.map((port) => `${APP_COOKIE}${port.replace(':', '.')}`)
    t.strictSame([...held.keys()], names, 'side by side')
    for (const port of ports) {
      t.strictSame((await arrive(ada, corp, `https://${APP}${port}/`)).places, [APP], 'all stay')
      // What the app at one port reads of its Cookie header, with each name.
      for (const [of, own] of names.entries())
        for (const name of names) {
          const cookie = `${name}=${held.get(own)}`
          const headers = { ...SCRIPT, cookie }
          const { statusCode } = await visitor().visit(`https://${APP}${port}/`, { headers })
          const isOwn = ports[of] === port && name === own
          t.equal(statusCode, isOwn ? 200 : 401, `${own} as ${name} at ${port}`)
        }
    }
    const profile = `https://${APP}:8443/portals/main/profile.json`
    for (const [index, name] of names.entries()) {
      const headers = { ...SCRIPT, cookie: `${name}=${held.get(name)}` }
      const answer = await visitor().open(profile, { headers })
      t.equal(answer.statusCode, index === 1 ? 200 : 401, `the profile at :8443 with ${name}`)
    }
  },
)

t.test('a ticket that a CDN has sorted to another place counts', async (t) => {
  const test = await start(t)
  const ada = test.visitor()
  const url = new URL(await ticketUrl(ada, test, `https://${APP}/?a=1&z=2`))
  url.searchParams.sort()
  t.match(url.search, /^\?a=1&gatehouse-ticket=[\w-]+&z=2$/)
  const { answer, places } = await arrive(ada, test.corp, url.href)
  t.match([answer.statusCode, places.length], [200, 2])
})

t.test('the answers on the way are of one use and tell nobody', async (t) => {
  const test = await start(t)
  const ada = test.visitor()
  const asked = await ada.visit(WANTED)
  const url = await ticketUrl(ada, test)
  const told = await ada.visit(url)
  const signIn = await ada.visit(signInUrl())
  for (const { headers } of [asked, told, signIn])
    t.match(headers, { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' })
  t.match(told, { statusCode: 302, headers: { location: WANTED }, body: '' })
  t.match(told.headers['set-cookie'], [
    /^__Host-gatehouse-app\.main=[\w.-]+; Max-Age=28800; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
    /^__Host-gatehouse-hop\.main\.[0-9a-f]{8}=; Max-Age=0; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
  ])
  t.equal(ticketIn(signIn.headers.location), undefined, 'without a hop there is no ticket')
})

t.test('an app cookie has at most 400 characters', async (t) => {
  const { corp, visitor } = await start(t)
  const ada = visitor()
  corp.state.claims = { department: 'engines '.repeat(80) }
  for (const host of [APP, `${'a-host-name'.repeat(4)}.department.example.com`]) {
    await arrive(ada, corp, `https://${host}/`)
    const token = ada.jarOf(host).get(APP_COOKIE) ?? ''
    const [, claims = ''] = token.split('.')
    t.ok(token.length <= 400, `${host}: ${token.length} characters`)
    t.match(JSON.parse(Buffer.from(claims, 'base64url').toString()), { iss: MAIN, aud: host })
  }
})

t.test('several domains may have one sign-in host', async (t) => {
  const rows = ['com', 'org', 'net'].map(
    (suffix) => `{ domain: example.${suffix}, authHost: auth.example.com }`,
  )
  const yaml = yamlOf(portalOf('main')).replace(DOMAINS, `domains: [${rows}]`)
  const { corp, visitor } = await start(t, { yaml })
  const ada = visitor()
  const places = []
  for (const suffix of ['org', 'com', 'net']) {
    const way = await arrive(ada, corp, `https://app.example.${suffix}/`)
    t.equal(way.answer.headers['x-forwarded-user'], 'ada', suffix)
    places.push(way.places)
  }
  const whole = WHOLE_WAY.map((place) => place.replace('app.example.com', 'app.example.org'))
  t.strictSame(places, [whole, silent(APP), silent('app.example.net')])
  const elsewhere = await ada.open(signInUrl({ rd: 'https://app.example.test/' }))
  t.equal(elsewhere.headers.location, `${MAIN}/signin`, 'a domain that is none of them')
})

t.test('a step-up is a hop, too', async (t) => {
  const yaml = yamlOf(portalOf('main', 'policies: { mfa: { acr: [mfa] } }'))
  const test = await start(t, { yaml })
  const { corp } = test
  const ada = test.visitor()
  corp.state.claims = { acr: 'pwd' }
  await arrive(ada, corp, WANTED)
  corp.state.claims = { acr: 'mfa' }
  const claimsOf = (cookie: string) =>
    JSON.parse(Buffer.from(cookie.split('=')[1]?.split('.')[1] ?? '', 'base64url').toString())
  const before = claimsOf(ada.cookies(APP))
  const strong = await arrive(ada, corp, WANTED, { query: '?policy=mfa' })
  t.match([strong.answer.statusCode, strong.places], [200, WHOLE_WAY])
  t.strictSame(claimsOf(ada.cookies(APP)), { ...before, rev: 2 }, 'the session is the same')

  const wiki = await arrive(ada, corp, `https://${WIKI}/`, { query: '?policy=mfa' })
  t.match([wiki.answer.statusCode, wiki.places], [200, silent(WIKI)], 'enough for the next app')

  corp.state.claims = { acr: 'pwd' }
  const bob = test.visitor()
  const twice = await arrive(bob, test.corp, WANTED, { sub: 'bob' }).then(() => {
    corp.state.claims = { acr: 'mfa' }
    return arrive(bob, corp, `https://${WIKI}/`, { query: '?policy=mfa', sub: 'bob' })
  })
  t.match([twice.answer.statusCode, twice.answer.headers['x-forwarded-user']], [200, 'bob'])
})

/** Where each of some tabs is; each of the given numbers has one take its next step, all of a round at once. */
async function openTabs(
  ada: Visitor,
  { corp, clock }: Started,
  sub: string,
  urls: string[],
  rounds: number[][],
) {
  const tabs = urls.map((url) => ({ url, steps: 0, status: 0 }))
  for (const round of rounds) {
    await clock.advance(1)
    await Promise.all(
      round.map(async (number) => {
        const tab = tabs[number]!
        if (tab.status > 0 || ++tab.steps > 20) return
        if (tab.url.startsWith('https://corp.test/')) {
          tab.url = corp.authorize(tab.url, sub).href
          return
        }
        const { statusCode, headers } = await ada.visit(tab.url)
        if (headers.location === undefined) tab.status = statusCode
        else tab.url = headers.location
      }),
    )
  }
  return tabs
}

t.test('any number of tabs at once all end well', async (t) => {
  const STEPS = 20
  const ways: Record<string, (count: number) => number[][]> = {
    'all at once': (count) => Array(STEPS).fill([...Array(count).keys()]),
    'one after another': (count) =>
      [...Array(count).keys()].flatMap((tab) => Array(STEPS).fill([tab])),
    'in turns': (count) =>
      Array(STEPS)
        .fill([...Array(count).keys()].map((tab) => [tab]))
        .flat(),
    'each a step later': (count) =>
      [...Array(STEPS + count).keys()].map((round) =>
        [...Array(count).keys()].filter((tab) => tab <= round),
      ),
  }
  const test = await start(t)
  for (const [count, pages] of [
    [1, 1],
    [2, 2],
    [4, 1],
    [18, 1],
    [18, 18],
  ] as const)
    for (const [way, roundsOf] of Object.entries(ways)) {
      const ada = test.visitor()
      const urls = [...Array(count).keys()].map((tab) => `https://${APP}/tab/${tab % pages}`)
      const tabs = await openTabs(ada, test, `${count} ${pages} ${way}`, urls, roundsOf(count))
      t.strictSame(
        tabs.map(({ url, status }) => [url, status]),
        urls.map((url) => [url, 200]),
        `${count} tabs of ${pages} pages, ${way}`,
      )
      const hops = [...ada.jarOf(APP).keys()].filter((name) => name.includes('-hop.'))
      t.ok(hops.length <= 16, `${hops.length} cookies of hops are left`)
    }
})

interface Tried {
  readonly who: Visitor
  readonly url: string
  readonly portal?: string
}

/** What may become of a ticket, by whom it is opened then, and whether it is burnt after that. */
const MISFITS: Readonly<
  Record<
    string,
    { isBurnt: boolean; by(test: Started, ada: Visitor, url: string): Tried | Promise<Tried> }
  >
> = {
  'a character changed': {
    isBurnt: false,
    by: (_, who, url) => ({ who, url: withOther(url, -9) }),
  },
  'made up': { isBurnt: false, by: (_, who) => ({ who, url: `${WANTED}&${TICKET}=made-up` }) },
  empty: { isBurnt: false, by: (_, who) => ({ who, url: `${WANTED}&${TICKET}=` }) },
  'a name alone': { isBurnt: false, by: (_, who) => ({ who, url: `${WANTED}&${TICKET}` }) },
  twice: {
    isBurnt: false,
    by: (_, who, url) => ({ who, url: `${url}&${TICKET}=${ticketIn(url)}` }),
  },
  'half a minute old': {
    isBurnt: true,
    by: async ({ clock }, who, url) => {
      await clock.advance(30_000)
      return { who, url }
    },
  },
  'leaked to another browser': {
    isBurnt: true,
    by: ({ visitor }, _, url) => ({ who: visitor(), url }),
  },
  'leaked to one with a hop of its own': {
    isBurnt: true,
    by: async ({ visitor }, _, url) => {
      const who = visitor()
      await who.visit(WANTED)
      return { who, url }
    },
  },
  'at another host': {
    isBurnt: true,
    by: async (_, who, url) => {
      await who.visit(`https://${WIKI}/`)
      return { who, url: url.replace(APP, WIKI) }
    },
  },
  'at another portal': { isBurnt: false, by: (_, who, url) => ({ who, url, portal: 'other' }) },
  'in a browser that has lost its hop': {
    isBurnt: true,
    by: (_, who, url) => {
      who.jarOf(APP).clear()
      return { who, url }
    },
  },
  'of a session that has ended': {
    isBurnt: true,
    by: async (_, who, url) => {
      await who.open(`${MAIN}/logout`, { method: 'POST', headers: { origin: AUTH } })
      return { who, url }
    },
  },
}

t.test('a ticket that does not fit is refused, and is none any more', async (t) => {
  const test = await start(t)
  for (const [what, { isBurnt, by }] of Object.entries(MISFITS)) {
    const ada = test.visitor()
    const url = await ticketUrl(ada, test)
    const kept = new Map(ada.jarOf(APP))
    const { who, portal = 'main', ...tried } = await by(test, ada, url)
    const { host } = new URL(tried.url)
    const refused = await who.visit(tried.url, { portal })
    t.match(refused, { statusCode: 302, headers: { 'cache-control': 'no-store' } }, what)
    t.match(refused.headers.location, `${AUTH}/portals/${portal}/signin?rd=`, what)
    t.equal(ticketIn(decodeURIComponent(refused.headers.location ?? '')), undefined, what)
    t.notMatch(who.cookies(host), APP_COOKIE, `${what}: no session`)

    const way = await arrive(who, test.corp, tried.url, { portal, sub: 'somebody' })
    t.equal(way.answer.statusCode, 200, `${what}: a new hop ends well`)

    for (const [name, value] of kept) ada.jarOf(APP).set(name, value)
    ada.jarOf(APP).delete(APP_COOKIE)
    const late = await ada.visit(url)
    const isTaken = ada.cookies(APP).includes(APP_COOKIE)
    t.equal(
      isTaken,
      !isBurnt,
      `${what}: ${isBurnt ? 'worth nothing' : 'the right one is still good'}`,
    )
    if (isBurnt) t.match(late.headers.location, `${MAIN}/signin?rd=`, what)
  }
})

/** The sign-in host makes a ticket only in the browser that has begun the hop. */
t.test('who begins a hop and has another person finish it becomes nobody', async (t) => {
  const test = await start(t)
  for (const isAtApp of [false, true]) {
    const [ada, mallory] = [test.visitor(), test.visitor()]
    await arrive(ada, test.corp, isAtApp ? WANTED : `https://${WIKI}/`)
    const { location: lure = '' } = (await mallory.visit(WANTED)).headers
    for (const headers of [BROWSER, SCRIPT, imageOf('same-site'), imageOf('cross-site')]) {
      const answer = await ada.open(lure, { headers })
      t.notOk(ticketIn(answer.headers.location), 'no ticket is made')
      t.equal(ticketIn(readPage(answer.body).image) || '', '', 'nor on a page')
    }
    const way = await arrive(ada, test.corp, lure)
    t.equal(way.answer.headers['x-forwarded-user'], 'ada', 'she gets on, for herself')
    t.notMatch(mallory.cookies(APP), APP_COOKIE)
  }
})

t.test('the sign-in link of somebody else, opened with a session or to sign in', async (t) => {
  const test = await start(t)
  for (const isSignedIn of [true, false]) {
    const [ada, mallory] = [test.visitor(), test.visitor()]
    const { location: link = '' } = (await ada.visit(WANTED)).headers
    if (isSignedIn) await arrive(mallory, test.corp, `https://${WIKI}/`, { sub: 'mallory' })
    const way = await arrive(mallory, test.corp, link, { sub: 'mallory' })
    t.equal(way.answer.headers['x-forwarded-user'], 'mallory')
    for (const url of way.urls) t.notOk(ticketIn(url), 'no ticket for the browser of Ada')
    const own = await arrive(ada, test.corp, link)
    t.equal(own.answer.headers['x-forwarded-user'], 'ada', 'Ada goes on with her link')
    t.ok(own.urls.some(ticketIn))
  }
})

const place = (cookie: string) => `${cookie}; Max-Age=3600; Domain=example.com; Path=/portals/main`

t.test('the sign-in binding goes to the pages of its portal, and to no app', async (t) => {
  const { corp, visitor } = await start(t)
  const ada = visitor()
  const { headers } = await ada.visit(WANTED)
  const [hop = '', binding = ''] = [headers['set-cookie'] ?? []].flat()
  t.match(hop, /^__Host-gatehouse-hop\.main\.[0-9a-f]{8}=[\w-]{22}; Max-Age=600; Path=\//)
  const [pair = '', name = '', value = ''] = /^([^=]+)=([^;]+)/.exec(binding) ?? []
  t.equal(binding, `${place(pair)}; HttpOnly; Secure; SameSite=Lax`)
  t.match(name, /^__Secure-gatehouse-binding\.main\.[0-9a-f]{8}$/)
  t.equal(name.slice(-8), hop.split('=')[0]?.slice(-8))
  t.notMatch(hop, value)
  t.notMatch(headers.location, value, 'the link does not tell it')
  t.match(ada.cookies('auth.example.com', '/portals/main/signin'), pair)
  for (const [host, path] of [
    ['auth.example.com', '/portals/main-1/signin'],
    ['auth.example.com', '/'],
    [APP, '/'],
  ])
    t.notMatch(ada.cookies(host, path), name)
  t.equal((await arrive(ada, corp, WANTED)).answer.statusCode, 200)
})

t.test('a sibling that tosses sign-in bindings gets nothing, and Ada still arrives', async (t) => {
  const ways: Record<string, (name: string, value: string) => string> = {
    'a second value of hers': (name) => `${name}=${'a'.repeat(22)}`,
    'the same twice': (name, value) => `${name}=${value}`,
    'an empty one': (name) => `${name}=`,
    'many of other names': () =>
      [...Array(40).keys()]
        .map((i) => `__Secure-gatehouse-binding.main.${i.toString(16).padStart(8, '0')}=x`)
        .join('; '),
  }
  const test = await start(t)
  for (const isSignedIn of [true, false])
    for (const [what, tossed] of Object.entries(ways)) {
      const ada = test.visitor()
      if (isSignedIn) await arrive(ada, test.corp, `https://${WIKI}/`)
      await ada.visit(WANTED)
      const jar = ada.jarOf('.example.com/portals/main')
      const [name = '', value = ''] = [...jar].at(-1) ?? []
      const arriving = (cookies: string, host: string) =>
        host === APP ? cookies : `${tossed(name, value)}; ${cookies}`
      const way = await arrive(ada, test.corp, WANTED, { arriving })
      t.match([way.answer.statusCode, way.answer.headers['x-forwarded-user']], [200, 'ada'], what)
    }
})

t.test('a browser keeps 16 sign-in bindings', async (t) => {
  const { corp, visitor } = await start(t)
  const ada = visitor()
  await arrive(ada, corp, WANTED)
  const jar = ada.jarOf('.example.com/portals/main')
  for (let i = 0; i < 40; i++) {
    await arrive(ada, corp, `https://app-${i}.example.com/`)
    t.ok(jar.size <= 17, `${jar.size}`)
  }
})

t.test('login CSRF: whoever opens the ticket of somebody else does not become them', async (t) => {
  const test = await start(t)
  const [ada, mallory] = [test.visitor(), test.visitor()]
  const url = await ticketUrl(mallory, test, WANTED, 'mallory')
  const way = await arrive(ada, test.corp, url)
  t.equal(way.answer.headers['x-forwarded-user'], 'ada')
})

t.test('the account of the sign-in host is the one that a step-up brings to an app', async (t) => {
  const test = await start(t, {
    yaml: yamlOf(portalOf('main', 'policies: { mfa: { acr: [mfa] } }')),
  })
  const browser = test.visitor()
  await arrive(browser, test.corp, WANTED)
  browser.jar.clear()
  test.corp.state.claims = { acr: 'mfa' }
  await arrive(browser, test.corp, `https://${WIKI}/`, { sub: 'bob' })
  const { answer } = await arrive(browser, test.corp, WANTED, { query: '?policy=mfa' })
  t.match([answer.statusCode, answer.headers['x-forwarded-user']], [200, 'bob'])
  t.match(browser.cookies(APP), /^__Host-gatehouse-app\.main=[\w.-]+$/, 'no hop is left')
})

t.test('a hop for another origin, or that is too old, gives no ticket', async (t) => {
  const test = await start(t)
  const ada = test.visitor()
  await arrive(ada, test.corp, `https://${WIKI}/`)
  const { location = '' } = (await ada.visit(WANTED)).headers
  const changed = (name: string, value: string) => {
    const url = new URL(location)
    url.searchParams.set(name, value)
    return url.href
  }
  const ticketAt = async (url: string) => ticketIn((await ada.open(url)).headers.location)
  t.ok(await ticketAt(location))
  t.ok(await ticketAt(changed('rd', `https://${APP}/#/other`)), 'any page of the origin')
  for (const url of [
    changed('rd', WANTED.replace('.com', '.com:8443')),
    changed('rd', `https://${WIKI}/reports?year=2030`),
    changed('rd', 'https://evil.test/'),
    changed('hop', 'x'),
    location.replace('/main/', '/other/'),
  ])
    t.equal(await ticketAt(url), undefined, url)
  await test.clock.advance(3_600_000)
  t.equal(await ticketAt(location), undefined, 'an hour later')
})

t.test('a browser that keeps no cookies of an app ends at a page, at the third try', async (t) => {
  const test = await start(t)
  const ada = test.visitor()
  const arriving = (cookies: string, host: string) => (host === APP ? '' : cookies)
  const { answer, places } = await arrive(ada, test.corp, WANTED, { arriving })
  t.match(answer, { statusCode: 400, body: ERRORS.FWA_COOKIES_BLOCKED.title })
  t.match(answer.headers, { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' })
  t.notMatch(answer.body, TICKET)
  t.match(answer.body, `href="${WANTED}"`, 'with a way to try again')
  t.equal(places.filter((place) => place.endsWith('with a ticket')).length, 3)
  t.equal(places.filter((place) => place === 'corp.test').length, 1)
  t.equal(await whoIs(ada), 'ada')

  await test.clock.advance(30_000)
  const wiki = await arrive(ada, test.corp, `https://${WIKI}/`, { arriving })
  t.strictSame(wiki.places, silent(WIKI), 'another host is no part of it')
  const url = await ticketUrl(ada, test)
  await test.clock.advance(600_000)
  const kept = await ada.visit(url, { arriving })
  t.match(kept.headers.location, `${MAIN}/signin?rd=`, 'nor is a ticket in a bookmark')
})

t.test('a target with a ticket never gets through', async (t) => {
  const key = 'correct-horse-battery-staple'
  const options = `preflight: true, rules: [{ paths: [/open/*], require: anyone }],
    callers: { keys: [{ name: ci, key: ${key}, hosts: ["*.example.com"] }] }`
  const test = await start(t, { yaml: yamlOf(portalOf('main', options.replace(/\s+/g, ' '))) })
  const ada = test.visitor()
  const [closed, open] = [`https://${APP}/closed?x=1`, `https://${APP}/open/x`]
  await arrive(ada, test.corp, `https://${WIKI}/`)
  const preflight = { Origin: `https://${WIKI}`, 'Access-Control-Request-Method': 'PUT' }
  const kinds: [what: string, method: string, headers: RequestHeaders, isLet: readonly string[]][] =
    [
      ['a page', 'GET', BROWSER, [open]],
      ['a page, only its head', 'HEAD', BROWSER, [open]],
      ['a form', 'POST', BROWSER, [open]],
      ['a script', 'GET', SCRIPT, [open]],
      ['a script that posts', 'POST', SCRIPT, [open]],
      ['a program', 'GET', { ...SCRIPT, Authorization: `APIKey ${key}` }, [open, closed]],
      [
        'a program that looks like a page',
        'GET',
        { ...BROWSER, Authorization: `APIKey ${key}` },
        [open, closed],
      ],
      ['a preflight', 'OPTIONS', preflight, [open, closed]],
      ['a WebSocket', 'GET', { Upgrade: 'websocket', 'Sec-Fetch-Mode': 'websocket' }, [open]],
    ]
  const cookieOf: Record<string, () => string> = {
    'of its browser': () => ada.cookies(APP),
    'with a session': () => signedIn,
    'without a cookie': () => '',
  }
  const signedIn = await test.signIn('main')
  for (const [i, [what, method, headers, isLet]] of kinds.entries())
    for (const target of [closed, open]) {
      const url = await ticketUrl(ada, test, `${closed}&${i}${target === open ? 'a' : 'b'}`)
      const fitting = `${TICKET}=${ticketIn(url)}`
      const ask = (asked: string, cookie = '') => {
        const { pathname, search } = new URL(asked)
        const told = { 'X-Forwarded-Method': method, 'X-Forwarded-Uri': `${pathname}${search}` }
        return test.check(TRAEFIK, { ...headers, ...told, ...(cookie && { cookie }) })
      }
      const { statusCode } = await ask(target)
      t.equal(statusCode === 200, isLet.includes(target), `${what} at ${target}, without a ticket`)
      const query = target.includes('?') ? '&' : '?'
      const taken = await ask(`${target}${query}${fitting}`, ada.cookies(APP))
      t.match(String(taken.headers['set-cookie']), APP_COOKIE, `${what} at ${target}, with its own`)
      for (const each of [fitting, `${TICKET}=x`, `${TICKET}=`, TICKET])
        for (const [whose, cookie] of Object.entries(cookieOf))
          for (const added of [each, `${each}&${each}`, `a=b&${each}&c`]) {
            const asked = `${target}${query}${added}`
            const answer = await ask(asked, cookie())
            const { location = '' } = answer.headers
            const isPassedOn = decodeURIComponent(location).includes(TICKET)
            if (answer.statusCode < 300 || isPassedOn)
              t.fail(`${what} ${whose} at ${asked}: ${answer.statusCode} ${location}`)
          }
    }
})

t.test('only what a person opens begins a hop', async (t) => {
  const { corp, visitor } = await start(t)
  const cases: [what: string, headers: RequestHeaders][] = [
    ['a prefetch', { 'sec-purpose': 'prefetch' }],
    ['a page that is rendered before the click', { 'sec-purpose': 'prefetch;prerender' }],
    ['a script', SCRIPT],
    ['a WebSocket', { upgrade: 'websocket', connection: 'Upgrade' }],
    ['a WebSocket as browsers say', { 'sec-fetch-mode': 'websocket' }],
    ['an image', { 'sec-fetch-mode': 'no-cors', accept: 'image/*' }],
  ]
  for (const [what, headers] of cases) {
    const ada = visitor()
    const answer = await ada.visit(WANTED, { headers })
    t.match(answer, { statusCode: 401, headers: { 'cache-control': 'no-store' } }, what)
    t.match(answer.headers, { location: undefined, 'set-cookie': undefined }, what)
    t.equal((await arrive(ada, corp, WANTED)).answer.statusCode, 200)
    t.equal((await ada.visit(WANTED, { headers })).statusCode, 200, `${what}, signed in`)
  }
})

t.test('a form that was sent without a session is never silently a page', async (t) => {
  const yaml = yamlOf(portalOf('main', 'policies: { mfa: { acr: [mfa] } }'))
  for (const options of [{ yaml }, { yaml: SHARED }]) {
    const test = await start(t, options)
    const { corp } = test
    const ada = test.visitor()
    const url = `https://${APP}/orders?id=1`
    const form = { origin: `https://${APP}`, 'sec-fetch-site': 'same-origin' }
    const send = (site = 'same-origin', headers = {}, query = '') =>
      ada.visit(url, {
        method: 'POST',
        headers: { ...form, 'sec-fetch-site': site, ...headers },
        query,
      })
    await arrive(ada, corp, `https://${WIKI}/`)
    if (options.yaml === SHARED) ada.jarOf('.example.com').clear()

    const unsent = await send()
    t.match(unsent, { statusCode: 403, headers: { 'cache-control': 'no-store' } })
    t.match(unsent.body, en.unsent.title)
    t.match(unsent.body, en.unsent.reload)
    t.ok(unsent.body.length < 4_000, `${unsent.body.length} characters`)
    t.match(
      unsent.headers['content-security-policy'],
      `img-src data: https://${APP} ${AUTH}; form-action`,
    )
    const image = new URL(readPage(unsent.body).image ?? '', url).href
    t.equal(image, `https://${APP}/orders?${TICKET}`)
    await loadImage(ada, image)
    t.equal((await send()).statusCode, 200, 'loaded again, the page arrives')

    const bob = test.visitor()
    const page = (await bob.visit(url, { method: 'POST', headers: form })).body
    const link = /class="main" href="([^"]+)" target="_blank"/.exec(page)?.[1] ?? ''
    const way = await arrive(bob, corp, link.replaceAll('&amp;', '&'), { sub: 'bob' })
    t.equal(way.answer.headers['x-forwarded-user'], 'bob', 'signed in in a new tab')
    t.equal((await bob.visit(url, { method: 'POST', headers: form })).statusCode, 200)
  }
})

t.test('a form from another site is not sent again, which would not help', async (t) => {
  const test = await start(t)
  const headers = { origin: 'https://idp.test', 'sec-fetch-site': 'cross-site' }
  const answer = await test.visitor().visit(WANTED, { method: 'POST', headers })
  t.match(answer, { statusCode: 403, body: en.unsent.title })
  t.notMatch(answer.body, en.unsent.reload)
  t.equal(readPage(answer.body).image, undefined)
})

t.test('a form of a page whose address has kept a ticket is not lost either', async (t) => {
  const test = await start(t)
  const [ada, bob] = [test.visitor(), test.visitor()]
  await arrive(ada, test.corp, WANTED)
  const own = { origin: `https://${APP}`, 'sec-fetch-site': 'same-origin' }
  const old = { origin: `https://${APP}`, 'sec-fetch-site': '' }
  const url = `https://${APP}/form?${TICKET}=kept`
  for (const [who, headers] of [
    [ada, own],
    [ada, old],
    [bob, own],
  ] as const) {
    const answer = await who.visit(url, { method: 'POST', headers })
    t.match(answer, { statusCode: 403, body: en.unsent.title })
    t.notMatch(answer.body, en.unsent.reload, 'loading it again sends the ticket again')
    t.equal(answer.headers.location, undefined)
    t.notMatch(answer.body, 'kept')
  }
})

t.test('who is refused and signs in as somebody else is no more the first', async (t) => {
  const test = await start(t, {
    yaml: yamlOf(portalOf('main', 'policies: { bob: \'Group("b")\' }')),
  })
  const ada = test.visitor()
  await arrive(ada, test.corp, WANTED)
  // The sign-in pages do not know the session any more, so its end is no part of the switch.
  ada.jarOf('auth.example.com').clear()
  const refused = await ada.visit(WANTED, { query: '?policy=bob' })
  t.equal(refused.statusCode, 403)
  const [, href = ''] = /href="([^"]+switch=1[^"]*)"/.exec(refused.body) ?? []
  test.corp.state.claims = { groups: ['b'] }
  const way = await arrive(ada, test.corp, href.replaceAll('&amp;', '&'), { sub: 'bob' })
  t.match(way.answer, { statusCode: 200, headers: { 'x-forwarded-user': 'bob' } })
})

t.test('a form that needs a step-up is not sent either', async (t) => {
  const yaml = yamlOf(portalOf('main', 'policies: { mfa: { acr: [mfa] } }'))
  const { corp, visitor } = await start(t, { yaml })
  const ada = visitor()
  corp.state.claims = { acr: 'pwd' }
  await arrive(ada, corp, WANTED)
  const post = { method: 'POST', query: '?policy=mfa' } as const
  const answer = await ada.visit(WANTED, post)
  t.match(answer, { statusCode: 403, body: en.unsent.title })
  t.match(answer.body, 'policy=mfa')
  corp.state.claims = { acr: 'mfa' }
  const link = /class="main" href="([^"]+)" target="_blank"/.exec(answer.body)?.[1] ?? ''
  await arrive(ada, corp, link.replaceAll('&amp;', '&'))
  t.equal((await ada.visit(WANTED, post)).statusCode, 200)
})

/** A page of an app whose shell is in the cache of a worker, or open to anyone: no check sees it opened. */
const SHELL = `https://${APP}/shell#/orders`
const API = `https://${APP}/api/orders?page=2`
const CALL = {
  ...SCRIPT,
  'sec-fetch-site': 'same-origin',
  'sec-fetch-dest': 'empty',
  referer: `https://${APP}/shell`,
}

t.test('every way in ends at the cookie of the app', async (t) => {
  const callUrl = async (ada: Visitor) => (await ada.visit(API, { headers: CALL })).json().loginUrl
  const starts: Record<string, (ada: Visitor) => string | Promise<string>> = {
    'a link of a public page': () => signInUrl({ rd: SHELL }),
    'loginUrl of a call': callUrl,
    'loginUrl of a call, with rd of its own': async (ada) => {
      const url = new URL(await callUrl(ada))
      url.searchParams.set('rd', SHELL)
      return url.href
    },
    'an old link': async (ada) => {
      const { location = '' } = (await ada.visit(WANTED)).headers
      ada.jarOf(APP).clear()
      ada.jarOf('.example.com/portals/main').clear()
      return location
    },
  }
  const test = await start(t)
  for (const isSignedIn of [true, false])
    for (const [what, from] of Object.entries(starts)) {
      const ada = test.visitor()
      if (isSignedIn) await arrive(ada, test.corp, `https://${WIKI}/`)
      const way = await arrive(ada, test.corp, await from(ada))
      t.match([way.answer.statusCode, way.answer.headers['x-forwarded-user']], [200, 'ada'], what)
      // Whose browser shows no cookie is sent round once, with one.
      const toCorp = ['corp.test', 'callback', APP]
      const places = [...(what === 'an old link' ? ['signin'] : []), 'signin', ...toCorp]
      t.strictSame(way.places, isSignedIn ? ['signin', APP] : places, what)
      t.match(ada.cookies(APP), APP_COOKIE, what)
      t.equal((await ada.visit(API, { headers: CALL })).statusCode, 200)
    }
})

t.test('the page on the way', async (t) => {
  const test = await start(t)
  const ada = test.visitor()
  await arrive(ada, test.corp, `https://${WIKI}/`)
  const opened = await ada.open(signInUrl({ rd: SHELL }))
  t.match(opened, { statusCode: 200, headers: { 'referrer-policy': 'no-referrer' } })
  t.match(opened.headers['content-security-policy'], `img-src data: https://${APP} ${AUTH}; `)
  t.match(opened.headers['content-security-policy'], "frame-ancestors 'none'")
  t.match(readPage(opened.body), { image: `https://${APP}/shell?${TICKET}=#/orders`, next: SHELL })
  t.match(opened.body, `<a class="main" href="${SHELL}">`)

  const { loginUrl } = (await ada.visit(API, { headers: CALL })).json()
  const called = readPage((await ada.open(loginUrl)).body)
  t.equal(called.next, `https://${APP}/shell`)
  t.match(called.image, `https://${APP}/api/orders?${TICKET}=`, 'at what the check guards')
  const { statusCode, headers, body } = await ada.visit(called.image ?? '', {
    headers: imageOf('same-site'),
  })
  t.match({ statusCode, body }, { statusCode: 403, body: '' }, 'never 2xx')
  t.match(String(headers['set-cookie']), APP_COOKIE)

  const script = await ada.open(signInUrl({ rd: SHELL }), { headers: SCRIPT })
  t.match(script, { statusCode: 303, headers: { location: SHELL } }, 'programs get no page')
  for (const rd of [`${MAIN}/account`, 'https://evil.test/'])
    t.equal((await ada.open(signInUrl({ rd }))).statusCode, 303, 'nor who goes to our own pages')
})

t.test(
  'a frame whose session is over gets a page that it can show, and signs nobody in',
  async (t) => {
    const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
    const asked = (dest: string, site = 'same-origin') => ({
      ...{ accept, 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': dest, 'sec-fetch-site': site },
    })
    const upgrade = { 'upgrade-insecure-requests': '1' }
    const engines: Record<string, RequestHeaders> = {
      Chromium: { ...asked('iframe'), ...upgrade },
      'Chromium, object': { ...asked('object'), ...upgrade },
      'Chromium, of a sibling': { ...asked('iframe', 'same-site'), ...upgrade },
      Firefox: { ...asked('iframe'), ...upgrade },
      'Firefox, embed': { ...asked('embed'), accept: '*/*' },
      'Firefox, frame': { ...asked('frame'), ...upgrade },
      WebKit: asked('iframe'),
    }
    const several = yamlOf(
      portalOf('main').replace(CORP, `${CORP}, ${CORP.replace('corp', 'two')}`),
    )
    const tests = [
      await start(t),
      await start(t, { yaml: SHARED }),
      await start(t, { yaml: several, others: [createFakeProvider('two').provider] }),
    ]
    for (const test of tests)
      for (const [engine, headers] of Object.entries(engines)) {
        const nobody = test.visitor()
        const { location } = (await nobody.visit(WANTED, { headers })).headers
        const before = nobody.cookies()
        const { statusCode, headers: got, body } = await nobody.open(location ?? '', { headers })
        t.match(
          { statusCode, location: got.location },
          { statusCode: 403, location: undefined },
          engine,
        )
        const policy = String(got['content-security-policy'])
        t.match(
          policy,
          /; frame-ancestors example\.com:\* \*\.example\.com:\*; base-uri 'none'$/,
          engine,
        )
        t.match(policy, "default-src 'none'", 'without a script')
        t.strictSame([got['set-cookie'], nobody.cookies()], [undefined, before], engine)
        const links = [...body.matchAll(/<(?:a|form|img|input)[^>]*>/g)].map(String)
        t.strictSame(links, [`<a class="main" href="${WANTED}" target="_blank" rel="noopener">`])
        t.notMatch(body, 'hop=')

        const ada = test.visitor()
        await arrive(ada, test.corp, `${MAIN}/providers/corp`)
        const way = await arrive(ada, test.corp, WANTED, { headers })
        t.match([way.answer.statusCode, way.places.includes('corp.test')], [200, false], engine)
      }
    const [{ visitor } = tests[0]!] = tests
    const top = await visitor().open(signInUrl())
    t.equal(top.statusCode, 303, 'a page of its own goes on to the provider')
    const away = await visitor().open(signInUrl({ rd: 'https://evil.test/' }), {
      headers: asked('iframe'),
    })
    t.notMatch(String(away.headers['content-security-policy']) + away.body, 'evil.test')
  },
)

t.test('images fetch a cookie for our pages only', async (t) => {
  const test = await start(t)
  const [ada, nobody] = [test.visitor(), test.visitor()]
  await arrive(ada, test.corp, `https://${WIKI}/`)
  const url = `https://${APP}/?${TICKET}`
  for (const site of ['cross-site', 'none', ''])
    for (const who of [ada, nobody]) {
      const { statusCode, headers } = await who.visit(url, { headers: imageOf(site) })
      t.equal(statusCode, 401, site)
      t.equal(headers['set-cookie'], undefined, site)
    }
  t.equal((await loadImage(nobody, url)).statusCode, 401)
  t.notMatch(nobody.cookies(APP), APP_COOKIE)
  t.equal((await loadImage(ada, url)).statusCode, 403, 'a sibling can have her own cookie set')
  t.equal((await ada.visit(WANTED)).headers['x-forwarded-user'], 'ada')
  t.equal((await loadImage(ada, url)).statusCode, 403, 'and again')
})

t.test('no call of a program begins a hop', async (t) => {
  const { visitor } = await start(t)
  const rows: [what: string, headers: RequestHeaders][] = [
    ['a program', SCRIPT],
    ['a script of another host', { ...CALL, 'sec-fetch-site': 'same-site' }],
    ['a script of another site', { ...CALL, 'sec-fetch-site': 'cross-site' }],
    ['an image', { ...CALL, 'sec-fetch-dest': 'image' }],
    ['a prefetch', { ...CALL, 'sec-purpose': 'prefetch' }],
    ['credentials', { ...CALL, authorization: 'Basic YTpi' }],
  ]
  for (const [what, headers] of rows) {
    const answer = await visitor().visit(API, { headers })
    t.match([answer.statusCode, answer.headers['set-cookie']], [401, undefined], what)
    if (what !== 'credentials') t.equal(answer.json().loginUrl, `${MAIN}/signin`, what)
  }
})

t.test('an app that asks over and over keeps its hop', async (t) => {
  const { visitor } = await start(t)
  const ada = visitor()
  await ada.visit(API, { headers: CALL })
  const before = ada.cookies(APP)
  for (let i = 0; i < 20; i++) await ada.visit(API, { headers: CALL })
  t.equal(ada.cookies(APP), before)
  t.equal(ada.jarOf('.example.com/portals/main').size, 1)
})

t.test('where a call comes from is a page of its app', async (t) => {
  const { visitor } = await start(t)
  for (const [referer, rd] of [
    [`https://${APP}/a?b=c`, `https://${APP}/a?b=c`],
    ['', `https://${APP}/`],
    ['https://evil.test/', `https://${APP}/`],
    [`https://${WIKI}/`, `https://${APP}/`],
    [`https://${APP}:8443/`, `https://${APP}/`],
    [`https://${APP}/?${'a'.repeat(400)}`, `https://${APP}/`],
  ] as const) {
    const answer = await visitor().visit(API, { headers: { ...CALL, referer } })
    t.equal(new URL(answer.json().loginUrl).searchParams.get('rd'), rd, referer)
  }
})

t.test('other domains: half a minute without a binding, and a click for a worker', async (t) => {
  const rows = ['com', 'org'].map(
    (suffix) => `{ domain: example.${suffix}, authHost: auth.example.com }`,
  )
  const yaml = yamlOf(portalOf('main')).replace(DOMAINS, `domains: [${rows}]`)
  const test = await start(t, { yaml })
  const ada = test.visitor()
  const [url, host] = ['https://app.example.org/', 'app.example.org']
  const { headers } = await ada.visit(url)
  t.match(headers['set-cookie'], /^__Host-gatehouse-hop\.main.*; SameSite=None$/, 'no binding')
  await arrive(ada, test.corp, WANTED)
  t.ok(ticketIn((await ada.open(headers.location ?? '')).headers.location))
  await test.clock.advance(30_000)
  const anew = await ada.open(headers.location ?? '')
  t.match(anew, { statusCode: 303, headers: { location: `${url}?${TICKET}=` } }, 'a new one begins')
  t.equal((await arrive(ada, test.corp, signInUrl({ rd: url }))).answer.statusCode, 200)

  const bob = test.visitor()
  const call = { ...CALL, referer: `${url}shell` }
  async function pageOnTheWay(who: typeof bob, sub: string) {
    const { loginUrl } = (await who.visit(`${url}api`, { headers: call })).json()
    const begun = await who.open(loginUrl)
    await test.clock.advance(60_000)
    const page = await who.open(test.corp.authorize(begun.headers.location, sub))
    const { action = '', next } = readPage(page.body)
    return { action, next, page }
  }
  const { action, next, page } = await pageOnTheWay(bob, 'bob')
  t.match(page.headers['content-security-policy'], "form-action 'self' https:; ")
  t.match([action, next], [`${url}api?${TICKET}=`, undefined], 'the login has kept the hop')
  const posted = await bob.visit(action, {
    method: 'POST',
    headers: { 'sec-fetch-site': 'cross-site' },
  })
  t.match(posted, { statusCode: 303, headers: { location: `${url}shell` } })
  t.match(bob.cookies(host), APP_COOKIE)
  t.equal((await bob.visit(`${url}api`, { headers: call })).headers['x-forwarded-user'], 'bob')

  const eve = test.visitor()
  const late = await pageOnTheWay(eve, 'eve')
  let button = late.action
  const post = { method: 'POST', headers: { 'sec-fetch-site': 'cross-site' } } as const
  for (let click = 0; click < 4; click++) {
    await test.clock.advance(31_000)
    const { statusCode, headers } = await eve.visit(button, post)
    t.equal(statusCode, 303)
    button = readPage((await eve.open(headers.location ?? '')).body).action ?? ''
    t.match(button, `${url}api?${TICKET}=`, `a late click leads to the button again: ${click}`)
  }
  const clicked = await eve.visit(button, post)
  t.match(clicked, { statusCode: 303, headers: { location: `${url}shell` } })
})

t.test('an app on plain http is refused, as its cookie would never be sent', async (t) => {
  const ada = (await start(t)).visitor()
  const answer = await ada.visit(WANTED.replace('https:', 'http:'))
  t.match(answer, { statusCode: 403, body: /FWA_APP_INSECURE/ })
  t.match(answer.headers, { location: undefined, 'set-cookie': undefined })
})

t.test('long URLs come back whole, or without their query', async (t) => {
  const { corp, visitor } = await start(t)
  const ada = visitor()
  for (const length of [1_000, 2_000, 4_000, 6_000, 7_000, 7_500, 7_900, 8_100]) {
    ada.jarOf(APP).clear()
    const url = `https://${APP}/explore?panes=`.padEnd(length, 'a(b)')
    const { answer, urls } = await arrive(ada, corp, url)
    t.match(
      [answer.statusCode, urls.at(-1)],
      [200, length <= 7_000 ? url : `https://${APP}/explore`],
    )
    // The first one is not ours.
    for (const each of urls.slice(1)) t.ok(each.length <= 8_000, `${length}: ${each.length}`)
  }
})

t.test('what an app has read of a cookie is worth nothing elsewhere', async (t) => {
  const options = `callers: { keys: [{ name: ci, key: ${'k'.repeat(32)}, hosts: ["*.example.com"] }] }`
  const yaml = yamlOf(portalOf('main', options) + portalOf('other'))
  const test = await start(t, { yaml })
  const { corp, visitor } = test
  const ada = visitor()
  await arrive(ada, corp, WANTED)
  const token = ada.jarOf(APP).get(APP_COOKIE) ?? ''
  const session = '__Host-gatehouse.main'
  const mallory = visitor()
  const asScript = (headers: RequestHeaders) => ({ headers: { ...SCRIPT, ...headers } })
  const cookie = (name: string) => asScript({ cookie: `${name}=${token}` })
  const both = asScript({ cookie: `${APP_COOKIE}=${token}; ${session}=${token}` })
  const bearer = asScript({ authorization: `Bearer ${token}` })
  const places: Record<string, (number: number) => ReturnType<Visitor['visit']>> = {
    'another app': (i) => mallory.visit(`https://b${i}.example.com/`, cookie(APP_COOKIE)),
    'below the app': (i) => mallory.visit(`https://b${i}.${APP}/`, cookie(APP_COOKIE)),
    'the domain': () => mallory.visit('https://example.com/', cookie(APP_COOKIE)),
    'another portal': () => mallory.visit(WANTED, { ...cookie(APP_COOKIE), portal: 'other' }),
    'another portal, by its name': () =>
      mallory.visit(WANTED, { ...cookie('__Host-gatehouse-app.other'), portal: 'other' }),
    'the app, by the name of the session': () => mallory.visit(WANTED, cookie(session)),
    'the app, by the name for a domain': () =>
      mallory.visit(WANTED, cookie('__Secure-gatehouse-app.main')),
    'the app, in Authorization': () => mallory.visit(WANTED, bearer),
    'the app, as a key': () =>
      mallory.visit(WANTED, asScript({ authorization: `APIKey ${token}` })),
    'the app, twice': () =>
      mallory.visit(WANTED, asScript({ cookie: `${APP_COOKIE}=${token}; ${APP_COOKIE}=${token}` })),
    'the sign-in host': () => mallory.open(`${MAIN}/profile.json`, both),
    'the sign-in page': () => mallory.open(`${MAIN}/signin?rd=${WANTED}`, both),
    'the account': async () => {
      const answer = await mallory.open(`${MAIN}/account`, both)
      t.match(answer.headers.location, /\/signin/)
      return answer
    },
    verify: () => mallory.open(`${AUTH}/api/portals/main/verify`, bearer),
    'verify, for its host': () =>
      mallory.open(`${AUTH}/api/portals/main/verify?aud=https://${APP}`, bearer),
  }
  const all = Object.entries(places)
  const wrong: string[] = []
  for (let i = 0; i < 300; i++) {
    const [what, ask] = all[i % all.length]!
    const { statusCode, headers } = await ask(i)
    if (statusCode < 300 || String(headers['set-cookie']).includes('=ey')) wrong.push(what)
  }
  t.strictSame(wrong, [])
  t.equal(
    (await mallory.visit(WANTED, cookie(APP_COOKIE))).statusCode,
    200,
    'but at the app itself',
  )
  await ada.open(`${MAIN}/logout`, { method: 'POST', headers: { origin: AUTH } })
  t.equal(
    (await mallory.visit(WANTED, cookie(APP_COOKIE))).statusCode,
    401,
    'while the session lives',
  )
})

t.test('the cookie of the sign-in host is worth nothing at an app', async (t) => {
  const { corp, visitor } = await start(t)
  const ada = visitor()
  await arrive(ada, corp, WANTED)
  const token = ada.jar.get('__Host-gatehouse.main') ?? ''
  for (const name of ['__Host-gatehouse.main', APP_COOKIE, '__Secure-gatehouse-app.main'])
    for (const host of [APP, WIKI, 'example.com']) {
      const headers = { ...SCRIPT, cookie: `${name}=${token}` }
      t.equal((await visitor().visit(`https://${host}/`, { headers })).statusCode, 401, name)
    }
})

t.test('with scope: domain, one cookie is for all hosts', async (t) => {
  const { corp, visitor } = await start(t, { yaml: SHARED })
  const ada = visitor()
  const first = await arrive(ada, corp, WANTED)
  t.strictSame(first.places, [APP, 'signin', 'corp.test', 'callback', APP])
  t.match([...ada.jarOf('.example.com').keys()], ['__Secure-gatehouse-app.main'])
  t.equal(ada.jarOf(APP).size, 0, 'without a hop')
  const wiki = await arrive(ada, corp, `https://${WIKI}/`)
  t.match([wiki.answer.statusCode, wiki.places], [200, [WIKI]])

  ada.jarOf('.example.com').clear()
  const again = await arrive(ada, corp, WANTED)
  t.match([again.answer.statusCode, again.places], [200, [APP, 'signin', APP]], 'set at /signin')
  t.equal(ada.jarOf('.example.com').size, 1)
  const [line] = [(await ada.open(signInUrl())).headers['set-cookie']].flat()
  t.match(
    line,
    /^__Secure-gatehouse-app\.main=[\w.-]+; Max-Age=28800; Domain=example\.com; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
  )
  const token = ada.jarOf('.example.com').get('__Secure-gatehouse-app.main') ?? ''
  const renamed = { ...SCRIPT, cookie: `${APP_COOKIE}=${token}` }
  t.equal((await visitor().visit(WANTED, { headers: renamed })).statusCode, 401)
  t.equal(await whoIs(ada), 'ada')
})

t.test('one sign-in host for a domain of one cookie and one of many', async (t) => {
  const rows = `{ domain: example.com, authHost: auth.example.com, session: { scope: domain } }, { domain: example.org, authHost: auth.example.com }`
  const yaml = yamlOf(portalOf('main')).replace(DOMAINS, `domains: [${rows}]`)
  const { corp, visitor } = await start(t, { yaml })
  const ada = visitor()
  t.match((await arrive(ada, corp, 'https://app.example.org/')).answer, { statusCode: 200 })
  const com = await arrive(ada, corp, WANTED)
  t.match([com.answer.statusCode, com.places], [200, [APP]], 'set when she signed in')
  const token = ada.jarOf('.example.com').get('__Secure-gatehouse-app.main') ?? ''
  for (const name of [APP_COOKIE, '__Secure-gatehouse-app.main']) {
    const headers = { ...SCRIPT, cookie: `${name}=${token}` }
    t.equal((await visitor().visit('https://app.example.org/', { headers })).statusCode, 401)
  }
})
