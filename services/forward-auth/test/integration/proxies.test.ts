import { once } from 'node:events'
import { connect } from 'node:http2'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import type { TestApp } from '../app.ts'
import { issueCertificate } from '../helpers/certificates.ts'
import { type Answered, type Ask, createClient } from '../helpers/client.ts'
import { type Echo, startEcho } from '../helpers/echo.ts'
import { startGatehouse } from '../helpers/gatehouse.ts'
import { freePort } from '../helpers/process.ts'
import { PROXIES, readExample, type Surroundings } from '../helpers/proxies.ts'
import { SHAPES } from '../shapes.ts'

type Proxy = keyof typeof PROXIES

const CONFIG = readExample('forward-auth.yaml', [
  ['clientSecretFile: /etc/gatehouse/forward-auth/client-secret', 'clientSecret: not-used-here'],
])
const WITH_PREFLIGHT = CONFIG.replace('providers:', 'preflight: true\n    providers:')
const HOSTS = ['app.example.com', 'admin.example.com', 'auth.example.com']

const SIGN_IN = 'https://auth.example.com/portals/main/signin'
const signInFor = (url: string) => `${SIGN_IN}?${new URLSearchParams({ rd: url })}`
const signIn = signInFor('https://app.example.com/')

const navigation = { accept: 'text/html,*/*;q=0.8', 'sec-fetch-mode': 'navigate' }
const program = { accept: 'application/json' }
const webSocket = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
}
const preflight = { origin: 'https://other.example.com', 'access-control-request-method': 'PUT' }
const FORGED_REQUEST = {
  'X-Forwarded-For': '192.0.2.66',
  'X-Forwarded-Host': 'evil.example',
  'X-Forwarded-Method': 'OPTIONS',
  'X-Forwarded-Prefix': '/evil',
  'X-Forwarded-Proto': 'http',
  'X-Forwarded-Uri': '/evil',
  'X-Original-Method': 'OPTIONS',
  'X-Original-URL': 'https://evil.example/evil',
}

/** Who sends the cookies of a request; `large` has a session of 12 kB, `admin` meets the policy. */
type Who = 'ada' | 'admin' | 'large'

interface Case extends Ask {
  readonly who?: Who | undefined
  /** Of the answer: where proxies differ, by proxy. */
  readonly status: number | Readonly<Record<Proxy, number>>
  readonly location?: string
  /** What the body has to hold. */
  readonly holds?: string
  /** Whom the app takes the client for, '' being nobody; absent: it must hear nothing at all. */
  readonly user?: string
  /** For proxies that refuse what others clean. */
  readonly refusedBy?: readonly Proxy[]
}

const admin = { host: 'admin.example.com' }

const CASES: Readonly<Record<string, Case>> = {
  'anonymous navigation: to the sign-in page, and back': {
    path: '/a/b?c=d&e',
    headers: navigation,
    status: 302,
    location: signInFor('https://app.example.com/a/b?c=d&e'),
  },
  'anonymous navigation of an old browser': {
    headers: { accept: 'text/html' },
    status: 302,
    location: signIn,
  },
  'anonymous HEAD': { method: 'HEAD', headers: navigation, status: 302, location: signIn },
  'anonymous form': {
    method: 'POST',
    headers: navigation,
    body: 'a=b',
    status: 303,
    location: signIn,
  },
  'anonymous XHR: 401 with the URL of the sign-in page': {
    headers: program,
    status: 401,
    holds: `"loginUrl":"${SIGN_IN}"`,
  },
  'anonymous XHR by its X-Requested-With': {
    headers: { accept: 'text/html', 'x-requested-with': 'XMLHttpRequest' },
    status: 401,
    holds: 'FWA_NO_SESSION',
  },
  'anonymous POST of a program': {
    method: 'POST',
    headers: program,
    body: '{}',
    status: 401,
    holds: 'FWA_NO_SESSION',
  },
  'anonymous WebSocket': { headers: webSocket, status: 401, holds: 'FWA_NO_SESSION' },
  'anonymous client that asks for a check itself': {
    host: 'auth.example.com',
    path: '/portals/main',
    headers: { ...navigation, ...FORGED_REQUEST, 'X-Forwarded-Host': 'app.example.com' },
    // Envoy removes the URI of the client, so that there is nothing to check.
    status: { nginx: 403, caddy: 403, haproxy: 403, envoy: 400 },
  },

  'signed in': { who: 'ada', path: '/a?b', headers: navigation, status: 200, user: 'ada' },
  'signed in, HEAD': { who: 'ada', method: 'HEAD', status: 200 },
  'signed in, POST: the body arrives': {
    who: 'ada',
    method: 'POST',
    body: 'hello',
    status: 200,
    holds: '"body":"hello"',
    user: 'ada',
  },
  'signed in, PUT of unknown length': {
    who: 'ada',
    method: 'PUT',
    headers: { 'transfer-encoding': 'chunked' },
    body: 'hello',
    status: 200,
    holds: '"body":"hello"',
    user: 'ada',
  },
  'signed in, WebSocket': { who: 'ada', headers: webSocket, status: 101, user: 'ada' },
  'signed in, with cookies of 12 kB': { who: 'large', status: 200, user: 'ada' },
  'signed in, and meets the condition': { ...admin, who: 'admin', status: 200, user: 'grace' },
  'forbidden by the condition: a page that offers another account': {
    ...admin,
    who: 'ada',
    headers: navigation,
    status: 403,
    holds: 'Sign in as someone else',
  },
  'forbidden by the condition: a program is told': {
    ...admin,
    who: 'ada',
    headers: program,
    status: 403,
    holds: 'FWA_FORBIDDEN',
  },
  'forbidden by the condition: a WebSocket': {
    ...admin,
    who: 'ada',
    headers: webSocket,
    status: 403,
    holds: 'FWA_FORBIDDEN',
  },
  'preflight, where they may not pass': { method: 'OPTIONS', headers: preflight, status: 401 },

  'forged X-Forwarded- and X-Original- headers, anonymous': {
    headers: { ...navigation, ...FORGED_REQUEST },
    status: 302,
    location: signIn,
  },
  'forged X-Forwarded- and X-Original- headers, not an admin': {
    ...admin,
    who: 'ada',
    headers: { ...FORGED_REQUEST, 'X-Forwarded-Host': 'app.example.com' },
    status: 403,
  },
  'forged X-Forwarded- and X-Original- headers, signed in': {
    who: 'ada',
    headers: FORGED_REQUEST,
    status: 200,
    user: 'ada',
  },
  'the host of the admins in capitals': {
    ...admin,
    who: 'ada',
    headers: { Host: 'ADMIN.example.com' },
    status: 403,
  },
  'a host that the configuration does not name': {
    who: 'ada',
    headers: { Host: 'other.example.com' },
    // Caddy answers with nothing where it has no site.
    status: { nginx: 403, caddy: 200, haproxy: 403, envoy: 404 },
  },
  'Connection takes headers of the check away, anonymous': {
    headers: { ...navigation, Connection: 'close, X-Forwarded-Host, X-Forwarded-Uri' },
    status: { nginx: 302, caddy: 302, haproxy: 400, envoy: 400 },
  },
  'Connection takes headers of the check away, not an admin': {
    ...admin,
    who: 'ada',
    headers: { Connection: 'close, X-Forwarded-Host, X-Forwarded-Uri' },
    status: { nginx: 403, caddy: 403, haproxy: 400, envoy: 400 },
  },
  'Connection takes the identity away': {
    who: 'ada',
    headers: { Connection: 'close, X-Forwarded-User', 'X-Forwarded-User': 'eve' },
    status: { nginx: 200, caddy: 400, haproxy: 400, envoy: 200 },
    user: 'ada',
    refusedBy: ['caddy', 'haproxy'],
  },
  'identity headers with underscores': {
    who: 'ada',
    headers: { X_Forwarded_User: 'eve', 'X-Authenticated_User': 'eve' },
    status: { nginx: 200, caddy: 400, haproxy: 200, envoy: 400 },
    user: 'ada',
    refusedBy: ['caddy', 'envoy'],
  },
  'identity headers with dots': {
    who: 'ada',
    headers: { 'X.Forwarded.User': 'eve', 'X-Forwarded.Displayname': 'eve' },
    status: { nginx: 200, caddy: 400, haproxy: 200, envoy: 400 },
    user: 'ada',
    refusedBy: ['caddy', 'envoy'],
  },
  'identity headers of the client': {
    who: 'ada',
    headers: {
      'X-Forwarded-User': 'eve',
      'x-forwarded-displayname': 'eve',
      'X-AUTHENTICATED-USER': 'eve',
    },
    status: 200,
    user: 'ada',
  },
  'a condition of the client in X-Forward-Auth-If, anonymous': {
    headers: { ...program, 'X-Forward-Auth-If': 'true' },
    status: 401,
  },
  'a condition of the client in X-Forward-Auth-If, not an admin': {
    ...admin,
    who: 'ada',
    headers: { 'X-Forward-Auth-If': 'true' },
    status: 403,
  },
  'a condition of the client in the query, anonymous': {
    path: '/?if=true&policy=any',
    headers: program,
    status: 401,
  },
  'a condition of the client in the query, not an admin': {
    ...admin,
    who: 'ada',
    path: '/?if=true&policy=any',
    status: 403,
  },
  'a condition of the client in the query is the business of the app': {
    who: 'ada',
    path: '/?if=true&policy=any',
    status: 200,
    holds: '"url":"/?if=true&policy=any"',
    user: 'ada',
  },
  'the absolute URL of the host of the admins, not an admin': {
    who: 'ada',
    path: 'https://admin.example.com/',
    status: { nginx: 403, caddy: 403, haproxy: 400, envoy: 403 },
  },
}

/** Where preflights may pass. */
const PREFLIGHT_CASES: Readonly<Record<string, Case>> = {
  'preflight, where they may pass': {
    method: 'OPTIONS',
    headers: preflight,
    status: 200,
    user: '',
  },
  'preflight with a forged identity': {
    method: 'OPTIONS',
    headers: { ...preflight, 'X-Forwarded-User': 'eve', 'X-Authenticated-User': 'eve' },
    status: 200,
    user: '',
  },
  'preflight with credentials': {
    method: 'OPTIONS',
    headers: { ...preflight, authorization: 'Basic YTpi' },
    status: 401,
  },
  'a GET that calls itself a preflight': {
    headers: { ...preflight, ...FORGED_REQUEST, ...program },
    status: 401,
  },
}

/** Paths that proxies and apps may read in different ways. */
const PATHS = [
  '/a%2fb',
  '/a%2f..%2fb',
  '/a/../b',
  '/a/%2e%2e/b',
  '/a/..;/b',
  '/a/./b',
  '/a//b',
  '//evil.example/b',
  '/\\evil.example/b',
  '/a\\b',
  '/a%5cb',
  '/a;b=c',
  '/a#b',
  '/a%23b',
  '/a?b=#c',
  '/a%3fb',
  '/%00',
  '/%zz',
  '/ä',
  '*',
  'https://evil.example/b',
] as const

async function start(t: Test, proxy: Proxy, changes: Surroundings['changes'] = {}) {
  const folder = t.testdir({})
  const gatehouse = await startGatehouse(t, CONFIG)
  const echo = await startEcho(t)
  const certificate = await issueCertificate(folder, HOSTS)
  const port = await freePort()
  const ports = { port, gatehousePort: gatehouse.port, appPort: echo.port }
  await PROXIES[proxy](t, { folder, certificate, changes, ...ports })
  return { gatehouse, echo, port, certificate, ask: createClient(port, certificate.rootPem) }
}

type Started = Awaited<ReturnType<typeof start>>

/** The cookies of somebody's browser: some of an app before and after those of the session. */
function cookiesOf({ signIn }: TestApp, who: Who): string {
  const claims = Array.from({ length: 17 }, (_, i) => [`claim${i}`, 'x'.repeat(500)])
  const people = {
    ada: { sub: 'ada', name: 'Ada' },
    admin: { sub: 'grace', name: 'Grace', groups: ['admins'] },
    large: { sub: 'ada', name: 'Ada', ...Object.fromEntries(claims) },
  }
  return `own=1; ${signIn('main', people[who])}; too=a,b`
}

async function hold(t: Test, proxy: Proxy, { gatehouse, echo, ask }: Started, expected: Case) {
  const { who, status, location, holds, refusedBy } = expected
  const cookie = who && cookiesOf(gatehouse, who)
  const before = echo.count()
  const answer = await ask({ ...expected, headers: { ...expected.headers, cookie } })

  t.equal(answer.status, typeof status === 'number' ? status : status[proxy], 'status')
  if (answer.status === 401)
    t.equal(answer.headers['www-authenticate'], 'Cookie realm="main"', 'one challenge')
  if (location !== undefined) t.equal(answer.headers.location, location, 'location')
  if (holds !== undefined && !refusedBy?.includes(proxy)) t.match(answer.body, holds)
  const user = refusedBy?.includes(proxy) ? undefined : expected.user
  const isReached = user !== undefined || (expected.method === 'HEAD' && status === 200)
  t.equal(echo.count() - before, isReached ? 1 : 0, 'whether the app hears of it')
  if (user !== undefined) await holdIdentity(t, answer, expected)
}

async function holdIdentity(t: Test, { socket, headers, body }: Answered, expected: Case) {
  const { user, who, host = 'app.example.com' } = expected
  const { cgi } = JSON.parse(socket ? String(headers['x-echo']) : body) as Echo
  if (socket) {
    socket.write('there and back')
    t.equal(String((await once(socket, 'data'))[0]), 'there and back', 'the socket')
    socket.destroy()
  }
  t.same(cgi.HTTP_X_FORWARDED_USER ?? [''], [user], 'the user')
  t.match(cgi.HTTP_X_AUTHENTICATED_USER ?? [''], [user], 'the person')
  t.notMatch(JSON.stringify(cgi), /\beve\b|__Secure-gatehouse/)
  t.same(cgi.HTTP_X_FORWARDED_FOR, ['127.0.0.1'], 'the client')
  t.same(cgi.HTTP_X_FORWARDED_HOST, [host], 'the host')
  t.same(cgi.HTTP_X_FORWARDED_PROTO, ['https'], 'the scheme')
  if (who) t.match(cgi.HTTP_COOKIE?.join('; '), /^own=1; +too=a,b$/, 'the cookies of the app')
}

/** Orders of cookies that a browser sends: `session` are those of Gatehouse, and `own` what of the app's must arrive. */
const COOKIE_ORDERS: Readonly<
  Record<string, { who: Who; order(session: readonly string[]): readonly string[]; own: string }>
> = {
  'the session alone': { who: 'ada', order: (session) => session, own: '' },
  'the session first': { who: 'ada', order: (session) => [...session, 'own=1'], own: 'own=1' },
  'the session last': { who: 'ada', order: (session) => ['own=1', ...session], own: 'own=1' },
  'a cookie of another portal before it, and one of the app between them': {
    who: 'ada',
    order: (session) => ['__Secure-gatehouse.zz=1', 'own=1', ...session],
    own: 'own=1',
  },
  'a cookie of the app between the chunks of a large session': {
    who: 'large',
    order: ([first = '', ...rest]) => ['one=1', first, 'two=2', ...rest],
    own: 'one=1; two=2',
  },
  'a cookie of the app whose name ends like that of the session': {
    who: 'ada',
    order: (session) => ['x__Secure-gatehouse.main=1', ...session],
    own: '',
  },
}

/** An app that is hostile can have any number of cookies put between those of the session. */
const MANY_PLANTED = Array.from({ length: 12 }, (_, i) => [`__Secure-gatehouse.z${i}=1`, `x${i}=1`])

for (const proxy of Object.keys(PROXIES) as Proxy[]) {
  const skip = proxy === 'envoy' && !process.env.ENVOY && 'ENVOY does not name its program'
  t.test(proxy, { skip }, async (t) => {
    const started = await start(t, proxy)
    const { gatehouse, echo, ask } = started

    for (const [name, expected] of Object.entries(CASES))
      await t.test(name, (t) => hold(t, proxy, started, expected))

    await t.test('no cookie of the session reaches the app, whatever the order', async (t) => {
      const cookiesOfApp = async (cookies: readonly string[]) => {
        const { status, body } = await ask({ path: '/', headers: { cookie: cookies.join('; ') } })
        t.equal(status, 200)
        t.notMatch(body, '__Secure-gatehouse.main=')
        return (JSON.parse(body) as Echo).cgi.HTTP_COOKIE?.join('; ') ?? ''
      }
      const sessionOf = (who: Who) =>
        cookiesOf(gatehouse, who)
          .split('; ')
          .filter((cookie) => cookie.startsWith('__Secure-gatehouse'))
      for (const [name, { who, order, own }] of Object.entries(COOKIE_ORDERS)) {
        const arrived = await cookiesOfApp(order(sessionOf(who)))
        const readable = arrived.split(/; */).filter((cookie) => /^\w+=\d$/.test(cookie))
        t.equal(readable.join('; '), own, name)
      }
      await cookiesOfApp([...MANY_PLANTED.flat(), ...sessionOf('ada')])
      await cookiesOfApp([...sessionOf('ada'), ...MANY_PLANTED.flat()])
    })

    await t.test('the app receives the URL that was checked', async (t) => {
      const cookie = cookiesOf(gatehouse, 'ada')
      let passed = 0
      for (const path of PATHS) {
        const before = echo.count()
        const anonymous = await ask({ path, headers: navigation })
        t.equal(echo.count(), before, `${path}: nobody passes without a session`)
        const { location } = anonymous.headers
        const checked = location && new URL(location).searchParams.get('rd')
        if (location !== undefined) t.ok(location.startsWith(signInFor('https://app.example.com/')))

        const { body } = await ask({ path, headers: { ...navigation, cookie } })
        if (echo.count() === before) continue
        passed += 1
        const { url } = JSON.parse(body) as Echo
        t.equal(new URL(`https://app.example.com${url}`).href, checked, `${path}: arrives as asked`)
      }
      t.ok(passed > 5, 'ordinary paths pass')
    })

    await t.test('HTTP/2', async (t) => {
      const { port, certificate } = started
      const session = connect(`https://app.example.com:${port}`, {
        ca: certificate.rootPem,
        servername: 'app.example.com',
        lookup: (_host, _options, done) => done(null, [{ address: '127.0.0.1', family: 4 }]),
      })
      t.teardown(() => session.close())
      const open = async (headers: object) => {
        const stream = session.request({
          ':path': '/a?b',
          ':authority': 'app.example.com',
          ...navigation,
          ...headers,
        })
        const [answer] = await once(stream, 'response')
        return { ...answer, body: await text(stream) }
      }
      const location = signInFor('https://app.example.com/a?b')
      t.match(await open({}), { ':status': 302, location })
      const cookie = cookiesOf(gatehouse, 'ada').split('; ')
      t.match(await open({ cookie }), { ':status': 200, body: '"HTTP_X_FORWARDED_USER":["ada"]' })
    })

    await t.test('with preflight', async (t) => {
      await gatehouse.reload(WITH_PREFLIGHT)
      for (const [name, expected] of Object.entries(PREFLIGHT_CASES))
        await t.test(name, (t) => hold(t, proxy, started, expected))
    })

    await t.test('nobody passes while Gatehouse is down', async (t) => {
      const cookie = cookiesOf(gatehouse, 'admin')
      await gatehouse.app.close()
      const status = { nginx: 500, caddy: 502, haproxy: 503, envoy: 503 }
      for (const headers of [{}, { cookie }, { ...preflight }])
        await hold(t, proxy, started, { headers, status })
    })
  })
}

t.test('haproxy: nobody passes when Lua fails', async (t) => {
  const changes = { 'haproxy.lua': [['= ask(txn, address)', '= nil']] } as const
  const started = await start(t, 'haproxy', changes)
  for (const who of ['ada', undefined] as const)
    await hold(t, 'haproxy', started, { who, status: 503 })
})

t.test('haproxy: nobody passes while Gatehouse does not answer', async (t) => {
  const changes = { 'haproxy.lua': [['TIMEOUT = 2000', 'TIMEOUT = 100']] } as const
  const started = await start(t, 'haproxy', changes)
  started.gatehouse.app.server.removeAllListeners('request')
  await hold(t, 'haproxy', started, { who: 'ada', status: 504 })
})

t.test('traefik: every check that is asked for is answered, with the headers listed', async (t) => {
  const { app, ...gatehouse } = await startGatehouse(t, CONFIG)
  const { http } = parse(readExample('traefik.yaml', []))
  const cookie = cookiesOf({ app, ...gatehouse }, 'admin')
  for (const [name, { forwardAuth }] of Object.entries<Middleware>(http.middlewares)) {
    const { pathname, search } = new URL(forwardAuth.address)
    for (const { proxy, headers } of SHAPES.filter(({ proxy }) => proxy.startsWith('traefik'))) {
      const ask = (more: object) =>
        app.inject({ url: pathname + search, headers: { ...headers, ...more } })
      t.equal((await ask(navigation)).statusCode, 303, `${name}, ${proxy}, anonymous`)
      const passed = await ask({ cookie })
      t.equal(passed.statusCode, 200, `${name}, ${proxy}, signed in`)
      const sent = Object.keys(passed.headers).filter((header) => /user|displayname/.test(header))
      t.same(forwardAuth.authResponseHeaders.map(toLowerCase).sort(), sent.sort())
    }
  }
  const open = Object.entries<Router>(http.routers).filter(([, { middlewares }]) => !middlewares)
  t.same(
    open.map(([name]) => name),
    ['auth'],
    'only the sign-in pages are open',
  )
})

interface Middleware {
  readonly forwardAuth: { readonly address: string; readonly authResponseHeaders: string[] }
}
interface Router {
  readonly middlewares?: readonly string[]
}

function toLowerCase(text: string): string {
  return text.toLowerCase()
}
