import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:http2'
import { request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import type { Duplex } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { foldName, HEADER_NAMES } from '../../../../packages/gate/src/header-names.ts'
import { blockOf, codeOf, readDocument, tableRows } from '../../../../scripts/test/markdown.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf } from '../app.ts'
import type { Answered, Ask } from '../helpers/client.ts'
import type { Echo } from '../helpers/echo.ts'
import { CONFIG, type Gate, PLANTED, startGate, WITH_COOKIES } from '../helpers/gate.ts'
import { startGatehouse } from '../helpers/gatehouse.ts'
import { startLighttpd } from '../helpers/lighttpd.ts'
import { missingProgram, PROXIES, type ProxyName, readExample } from '../proxies/index.ts'
import { CHECK_PATHS } from '../proxies/routes.ts'
import { SHAPES } from '../shapes.ts'
import { ATTACKS, type Attack } from './proxy-attacks.ts'
import {
  API_KEY,
  admin,
  CASES,
  type Case,
  cookiesOf,
  FORGED_REQUEST,
  LOOK_ALIKES,
  MANY_PLANTED,
  navigation,
  OPEN_CASES,
  PLAIN_CASES,
  PREFLIGHT_CASES,
  PROGRAM_CASES,
  preflight,
  program,
  SIGN_IN,
  signInFor,
  TARGETS,
  UPGRADES,
  type Who,
} from './proxy-cases.ts'

expectWarnings(t, 'check refused')

const WITH_PREFLIGHT = CONFIG.replace('providers:', 'preflight: true\n    providers:')
const WITH_PROGRAMS = CONFIG.replace(
  'providers:',
  `callers: { keys: [{ name: ci, key: ${API_KEY}, hosts: [app.example.com] }] }\n    providers:`,
)
const WITH_BASIC = CONFIG.replace(
  'providers:',
  `callers: { keys: [{ name: reader, key: ${API_KEY}, hosts: [app.example.com], basic: true }] }
    rules: [{ paths: [/public/*], require: anyone }]\n    providers:`,
)
const WITH_OTHER_PORTAL = `${CONFIG}${portalOf('other')}`
const WITH_OPEN_PATH = CONFIG.replace(
  'providers:',
  'rules: [{ paths: [/public/*], require: anyone }]\n    providers:',
)
const WITH_CLOSED_PATH = CONFIG.replace(
  'providers:',
  'rules: [{ paths: [/closed], require: admins }]\n    providers:',
)
/** Where a rule names tools, apps get one header more. */
const WITH_TOOLS = CONFIG.replace(
  'providers:',
  'rules: [{ hosts: [mcp.example.com], tools: [read], require: signedIn }]\n    providers:',
)
/** Apps get a header whose name begins like none of the default ones. */
const WITH_REMOTE = CONFIG.replace('providers:', 'headers: [default, remote-*]\n    providers:')
/** What each proxy sends as it came; other cases have a tunnel, cookies and credentials. */
const READ = tableRows(readDocument('docs/proxies.md').prose)
  .filter(([what = '']) => / read by the check$|^Read by the check$/.test(what))
  .filter(([what = '']) => !what.startsWith('Only by a proxy'))
  .flatMap(([, names = '']) => codeOf(names).map(toLowerCase))
  .filter((name) => name !== 'upgrade')
const PROXY_NAMES = Object.keys(PROXIES) as ProxyName[]
/** The longest body that Traefik takes of a check, as the example configures it. */
const MAX_BODY = 65_536
/** A value of Set-Cookie for the browser at an app: of a way to the sign-in pages, and of the session. */
const OWN_COOKIE =
  /^__Host-gatehouse-(hop\.main\.[0-9a-f]{8}|app\.main)=[^;]*; Max-Age=\d+; Path=\/; HttpOnly; Secure; SameSite=Lax$/
const BINDING =
  /^__Secure-gatehouse-binding\.main\.[0-9a-f]{8}=[\w-]{22}; Max-Age=3600; Domain=example\.com; Path=\/portals\/main; HttpOnly; Secure; SameSite=Lax$/

async function hold(t: Test, proxy: ProxyName, { gatehouse, echo, ask }: Gate, expected: Case) {
  const { who, host, at = host, cookies, location, has, holds, lacks, situation } = expected
  const { answers, dropsSpellings = false } = PROXIES[proxy]
  const isRefused = expected.isSpelledOtherwise && !dropsSpellings
  const isCleaned = expected.isSpelledOtherwise && dropsSpellings
  const status = isCleaned ? 200 : ((situation && answers?.[situation]) ?? expected.status)
  const own = who ? await cookiesOf(gatehouse, who, at) : expected.headers?.cookie
  const cookie = cookies === undefined ? own : `${own}; ${cookies}`
  const before = echo.count()
  const answer = await ask({ ...expected, headers: { ...expected.headers, cookie } })

  t.equal(answer.status, status, 'status')
  if (answer.status === 401)
    t.match(
      answer.headers['www-authenticate'],
      expected.challenges ?? /^Cookie realm="main"$/,
      'the challenges, each once',
    )
  if (location !== undefined) holdLocation(t, answer, location)
  if (has) t.match(textOf(answer), has)
  if (holds !== undefined && !isRefused) t.match(answer.body, holds)
  if (lacks) t.notMatch(textOf(answer), lacks)
  const user = isRefused ? undefined : expected.user
  const isReached = user !== undefined || (expected.method === 'HEAD' && status === 200)
  t.equal(echo.count() - before, isReached ? 1 : 0, 'whether the app hears of it')
  if (user !== undefined) await holdIdentity(t, proxy, answer, { ...expected, sent: cookie })
  else holdRefusal(t, answer, expected)
}

/** Where the browser is sent. To sign in, with a hop and a cookie of the host that names this browser. */
function holdLocation(t: Test, { headers }: Answered, expected: string): void {
  const [location = '', hop] = headers.location?.split('&hop=') ?? []
  t.equal(location, expected, 'location')
  if (!expected.startsWith(`${SIGN_IN}?rd=`)) return
  t.match(hop, /^[\w.-]{100,400}$/, 'the hop')
  t.match([...(headers['set-cookie'] ?? [])].sort(), [OWN_COOKIE, BINDING], 'its cookies')
}

function textOf({ headers, body }: Answered): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return `${lines.join('\n')}\n\n${body}`
}

/** Whatever is refused leads nowhere but to the sign-in pages and back, and programs get no cookie. */
function holdRefusal(
  t: Test,
  { status, headers: { location, ...headers }, body }: Answered,
  expected: Case,
): void {
  t.ok(body.length < MAX_BODY, 'a small answer')
  if (status === 401) t.equal(headers['set-cookie'], undefined, 'no cookie')
  if (location === undefined || expected.location !== undefined) return
  const { origin, searchParams } = new URL(location)
  t.equal(origin, 'https://auth.example.com')
  t.match(searchParams.get('rd') ?? '', /^$|^https:\/\/(app|admin)\.example\.com\//)
}

async function holdIdentity(
  t: Test,
  proxy: ProxyName,
  { socket, headers, body }: Answered,
  { user, who, host = 'app.example.com', sent }: Case & { readonly sent: unknown },
) {
  const { cgi } = JSON.parse(socket ? String(headers['x-echo']) : body) as Echo
  if (socket) {
    socket.write('there and back')
    t.equal(String((await once(socket, 'data'))[0]), 'there and back', 'the socket')
    socket.destroy()
  }
  t.same(cgi.HTTP_X_FORWARDED_USER ?? [''], [user], 'the user')
  t.match(cgi.HTTP_X_AUTHENTICATED_USER ?? [''], [user], 'the person')
  t.notMatch(JSON.stringify(cgi), /\beve\b/)
  holdAssertion(t, cgi.HTTP_X_GATEHOUSE_ASSERTION, { user, host })
  t.same(cgi.HTTP_X_FORWARDED_FOR, ['127.0.0.1'], 'the client')
  t.same(cgi.HTTP_X_FORWARDED_HOST, [host], 'the host')
  t.match(cgi.HTTP_X_FORWARDED_PROTO, [socket ? /^(https|wss)$/ : 'https'], 'the scheme')
  if (!who) return
  const received = cgi.HTTP_COOKIE?.join('; ').replaceAll(/; +/g, '; ')
  const passed = PROXIES[proxy].isToldCookies ? withoutSession(String(sent)) : sent
  t.equal(received, passed, 'the cookies of the app')
}

const withoutSession = (cookies: string) =>
  cookies.replace(/__Host-gatehouse-app\.main=[^;]+; /, '')

/** One assertion for this app, or an empty header if nobody has asked; its signature has tests of its own. */
function holdAssertion(
  t: Test,
  sent: readonly string[] = [''],
  { user, host }: { readonly user: string | undefined; readonly host: string },
): void {
  t.equal(sent.length, 1, 'one assertion')
  const [, claims = ''] = (sent[0] ?? '').split('.')
  if (user === '') t.equal(claims, '', 'no assertion')
  else {
    const { aud, sub } = JSON.parse(Buffer.from(claims, 'base64url').toString() || '{}')
    t.same({ aud, sub }, { aud: `https://${host}`, sub: user }, 'the assertion')
  }
}

type Probe = (t: Test, proxy: ProxyName, gate: Gate) => Promise<void>

/** What one request does not show of an attack. */
const PROBES: Readonly<Record<NonNullable<Attack['probe']>, Probe>> = {
  async replay(t, _proxy, { gatehouse, echo, ask }) {
    await gatehouse.reload(WITH_OTHER_PORTAL)
    const tokenOf = async (who: Who, host?: string) =>
      (await cookiesOf(gatehouse, who, host)).split('; ')[1]?.split('=')[1] ?? ''
    const before = echo.count()
    let tried = 0
    for (const who of ['ada', 'admin', 'large', 'ada', 'admin', 'ada'] as const) {
      const token = await tokenOf(who)
      for (const replay of replaysOf(token)) {
        const { status } = await ask({ ...replay, headers: { ...program, ...replay.headers } })
        if (status !== 401) t.fail(`${status}: ${JSON.stringify(replay)}`)
        tried += 1
      }
      const cookie = `${APP_COOKIE}=${await tokenOf(who, 'auth.example.com')}`
      const { status } = await ask({ headers: { ...program, cookie } })
      t.equal(status, 401, 'nor does the token of the sign-in host count at an app')
    }
    t.equal(echo.count(), before, `of ${tried} replays no app hears`)
    t.ok(tried > 400)
    await gatehouse.reload(CONFIG)
  },

  async tossed(t, _proxy, { gatehouse, echo, ask }) {
    const [ada = '', eve = ''] = [
      await cookiesOf(gatehouse, 'ada'),
      await cookiesOf(gatehouse, 'admin'),
    ].map((cookies) => cookies.split('; ')[1])
    const token = eve.slice(eve.indexOf('=') + 1)
    const userOf = async (cookie: string) => {
      const before = echo.count()
      const { status } = await ask({ headers: { ...program, cookie } })
      const isPassed = echo.count() > before
      // HAProxy refuses some characters.
      if (!isPassed) t.match(String(status), /^40[01]$/, 'refused')
      return isPassed ? echo.last()?.cgi.HTTP_X_FORWARDED_USER?.join() : undefined
    }
    t.equal(await userOf(eve), 'grace', 'for comparison, the cookie itself')
    for (const name of LOOK_ALIKES) {
      t.equal(await userOf(`${name}=${token}`), undefined, name.slice(-40))
      for (const both of [`${name}=${token}; ${ada}`, `${ada}; ${name}=${token}`]) {
        const user = await userOf(both)
        // A proxy may refuse the whole request.
        if (user !== undefined || /^[ -~]*$/.test(name))
          t.equal(user, 'ada', `beside ${name.slice(-40)}`)
      }
    }
    for (const planted of [
      [ada],
      ['a=1', ada],
      [ada, 'a=1'],
      [...MANY_PLANTED, ada, ...MANY_PLANTED],
    ])
      t.equal(await userOf(planted.join('; ')), 'ada', `among ${planted.length}`)
    for (const doubled of [`${ada}; ${eve}`, `${eve}; ${ada}`, `${ada}; a=b; ${ada}`])
      t.equal(await userOf(doubled), undefined, 'two of the name are none')
  },

  async tickets(t, _proxy, gate) {
    const cookie = await cookiesOf(gate.gatehouse, 'ada')
    for (const [target, without] of Object.entries(TARGETS_WITH_TICKETS))
      for (const headers of [{ cookie }, {}] as const) {
        const before = gate.echo.count()
        const page = await gate.ask({ path: target, headers: { ...navigation, ...headers } })
        const own = `https://app.example.com${without}`
        if ('cookie' in headers) t.equal(page.headers.location, own, target)
        else holdLocation(t, page, signInFor(own))
        t.equal(page.status, 302)
        t.equal(page.headers['cache-control'], 'no-store')
        const more = [{ headers: { ...program } }, { method: 'POST', body: 'a=b', headers: {} }]
        for (const other of more) {
          const all = { ...other.headers, ...headers }
          const { status } = await gate.ask({ ...other, path: target, headers: all })
          t.match(String(status), 'cookie' in headers ? /^30[23]$/ : /^401$/)
        }
        t.equal(gate.echo.count(), before, 'the app hears nothing')
      }
  },

  async leaked(t, _proxy, gate) {
    const target = '/a%2Fb?c=d&e'
    const session = await gate.gatehouse.signIn('main', {}, { host: 'auth.example.com' })
    const begin = async (headers: object = {}) => {
      const { headers: answered } = await gate.ask({
        path: target,
        headers: { ...navigation, ...headers },
      })
      const [cookie = '', binding = ''] = [...(answered['set-cookie'] ?? [])]
        .sort()
        .map((line) => line.split(';', 1).join())
      return { cookie, binding, signIn: pathOf(answered.location) }
    }
    /** Where somebody who is signed in at the sign-in pages is sent back to. */
    const ticketFor = async ({ signIn: path, binding }: Awaited<ReturnType<typeof begin>>) => {
      const cookie = `${session}; ${binding}`
      const to = { host: 'auth.example.com', path, headers: { ...navigation, cookie } }
      return pathOf((await gate.ask(to)).headers.location)
    }
    const use = async (path: string, cookie?: string, ask: object = {}) => {
      const { status, headers } = await gate.ask({
        path,
        headers: { ...navigation, cookie },
        ...ask,
      })
      const got = headers['set-cookie']?.some((line) => line.startsWith(`${APP_COOKIE}=ey`))
      return { status, location: headers.location, got: got ?? false }
    }
    const before = gate.echo.count()
    const [ada, mallory] = [await begin(), await begin()]
    const own = { status: 302, location: `https://app.example.com${target}`, got: true }
    const refused = { status: 302, location: /^https:\/\/auth\..*&hop=/, got: false }
    const first = await ticketFor(ada)
    t.match(first, /&gatehouse-ticket=[\w-]+$/)
    for (const _ of [1, 2]) t.match(await use(first, ada.cookie), own, 'her browser, again too')
    const others: Readonly<Record<string, readonly [cookie?: string, ask?: object]>> = {
      'a browser without a hop': [],
      'a browser with another one': [mallory.cookie],
      'a browser that has doubled its cookie': [`${ada.cookie}; ${ada.cookie}`],
      'another host': [ada.cookie, { host: 'admin.example.com' }],
    }
    for (const [name, [cookie, ask]] of Object.entries(others)) {
      const ticket = await ticketFor(ada)
      t.match(await use(ticket, cookie, ask), refused, name)
      t.match(await use(ticket, ada.cookie), refused, `${name}: burnt, for her too`)
      const anew = await begin({ cookie: ada.cookie })
      t.equal(anew.cookie, ada.cookie)
      t.match(await use(await ticketFor(anew), ada.cookie), own, 'and she goes on')
    }
    const late = await ticketFor(ada)
    await gate.gatehouse.clock.advance(31_000)
    t.match(await use(late, ada.cookie), refused, 'after half a minute')
    t.equal(gate.echo.count(), before, 'no app hears of any')
  },

  ambiguous: holdTargets(TARGETS.ambiguous),
  malformed: holdTargets(TARGETS.malformed),

  async upgrades(t, _proxy, gate) {
    const { gatehouse, echo, ask } = gate
    const cookie = await cookiesOf(gatehouse, 'ada')
    for (const [name, headers] of Object.entries(UPGRADES))
      await t.test(name, async (t) => {
        const { socket } = await ask({ headers: { ...headers, cookie } })
        const asked = socket ? echo.last()?.cgi.HTTP_UPGRADE?.join() : undefined
        t.notOk(asked && !/^websocket$/i.test(asked), 'no other protocol begins')
        if (socket && /h2c/i.test(asked ?? '')) await goAround(t, socket)
        socket?.destroy()
      })
    // RFC 8441: the same over HTTP/2.
    const session = await openHttp2(t, gate)
    const { count } = echo
    const before = count()
    const stream = session.request({
      ...{ ':method': 'CONNECT', ':protocol': 'h2c', ':scheme': 'https', ':path': '/' },
      ...{ ':authority': 'app.example.com', cookie },
    })
    stream.on('error', () => {})
    stream.on('response', () => stream.destroy())
    await new Promise((resolve) => stream.on('close', resolve))
    const isSeen = count() > before && echo.last()?.cgi.HTTP_UPGRADE
    t.notOk(isSeen, 'nor in an extended CONNECT')
  },

  async overrides(t, _proxy, gate) {
    const cookie = await cookiesOf(gate.gatehouse, 'ada')
    for (const name of [...HEADER_NAMES.methodOverrides, ...HEADER_NAMES.pathOverrides])
      for (const spelling of spellingsOf(name)) {
        const { heard, asked } = await gate.pass('/', { [spelling]: 'eve', cookie })
        const isPassed = heard !== undefined && asCgi(name) in (gate.echo.last()?.cgi ?? {})
        const isSeen = Object.keys(asked ?? {}).some((one) => foldName(one) === name)
        t.ok(isSeen || !isPassed, `${spelling}: the check sees what the app gets`)
      }
  },

  async forwarded(t, _proxy, gate) {
    const cookie = await cookiesOf(gate.gatehouse, 'ada')
    const ownByProxy = (name: string) => !['x-forward-auth-if'].includes(name)
    for (const name of [...HEADER_NAMES.read, ...HEADER_NAMES.believed].filter(ownByProxy))
      for (const spelling of spellingsOf(name)) {
        const { heard } = await gate.pass('/', { [spelling]: 'eve', cookie })
        const received = heard === undefined ? [] : gate.echo.last()?.cgi[asCgi(name)]
        t.notMatch(received?.join(), /eve/, `${spelling}: only the proxy sets it`)
      }
  },

  async answers(t, _proxy, { gatehouse, echo, ask }) {
    await gatehouse.reload(WITH_CLOSED_PATH)
    const cookie = await cookiesOf(gatehouse, 'ada')
    const ofProxies = [...HEADER_NAMES.read, ...HEADER_NAMES.believed]
    const replacing = [...HEADER_NAMES.methodOverrides, ...HEADER_NAMES.pathOverrides]
    const leaks: string[] = []
    let passed = 0
    const asked: Ask[] = [...new Set<string>([...ofProxies, ...replacing, ANSWER])].flatMap(
      (name) => TURNING.map((value) => ({ path: '/a', headers: { [name]: value } })),
    )
    // The check itself, and what unpacks its answers, at every host.
    const ofCheck = { ...FORGED_REQUEST, 'X-Original-URL': 'https://app.example.com/' }
    const forged = ['sealed', 'x', 'A'.repeat(200)].map((value) => ({
      ...ofCheck,
      [ANSWER]: value,
    }))
    for (const host of ['app.example.com', 'admin.example.com', 'auth.example.com'])
      for (const path of ['/_gatehouse', ...CHECKS.map((path) => `/portals/main${path}`)])
        asked.push(...forged.map((headers) => ({ host, path, headers })))
    for (const { headers: more, ...to } of asked)
      for (const who of [cookie, undefined]) {
        const before = echo.count()
        const sent = { ...navigation, cookie: who, ...more }
        const { status, headers } = await ask({ ...to, headers: sent })
        const isHeard = echo.count() > before
        const told = IDENTITY.filter((one) => one in headers)
        if (isHeard) passed += 1
        if ((status < 300 && !isHeard) || told.length > 0)
          leaks.push(`${JSON.stringify({ ...to, ...more })}: ${status} ${told}`)
      }
    t.same(leaks, [], 'what a check answers to its proxy reaches no client')
    t.ok(passed > 0, `${passed} passed`)
    await gatehouse.reload(CONFIG)
  },

  async taken(t, proxy) {
    const changes = PROXIES[proxy].passesRemote
    const { gatehouse, echo, pass } = await startGate(t, proxy, { yaml: WITH_REMOTE, changes })
    const cookie = await cookiesOf(gatehouse, 'ada')
    const identity = ['HTTP_X_FORWARDED_USER', 'HTTP_REMOTE_USER']
    const others = ['Authorization', 'Cookie', 'Host', 'X-Forwarded-Host', 'Mcp-Name', 'Upgrade']
    let passed = 0
    for (const name of ['Remote-User', 'X-Forwarded-User', 'HTTP2-Settings', 'Foo', ...others])
      for (const listed of [name, `close, ${name}`, `keep-alive,${name.toUpperCase()}`])
        for (const more of [{}, { connection: 'keep-alive' }]) {
          const headers = { Connection: listed, ...more, 'HTTP2-Settings': 'AAMAAABk', cookie }
          const { heard } = await pass('/', headers)
          if (heard === undefined) continue
          passed += 1
          const { cgi = {} } = echo.last() ?? {}
          const told = [...identity.map((one) => cgi[one]), cgi.HTTP_HTTP2_SETTINGS?.join() ?? '']
          t.same(told, [['ada'], ['ada'], ''], `${listed} ${JSON.stringify(more)}`)
          t.match(cgi.HTTP_CONNECTION?.join() ?? 'close', PLAIN_CONNECTION, 'what the app reads')
        }
    t.ok(passed > 0, `${passed} passed`)
  },

  async down(t, proxy, gate) {
    const cookie = await cookiesOf(gate.gatehouse, 'admin')
    await gate.gatehouse.app.close()
    const situation = 'Gatehouse is down'
    for (const headers of [{}, { cookie }, { ...preflight }])
      await hold(t, proxy, gate, { headers, status: 503, situation })
  },
}

/** The headers of a 200 of the check, which are for an app. */
const IDENTITY = ['x-forwarded-user', 'x-authenticated-user', 'x-gatehouse-assertion']
const ANSWER = 'x-gatehouse-answer'
/** Where no policy is named in the path. */
const CHECKS = CHECK_PATHS.filter((path) => !path.includes(':'))
/** Values of a header of a client that may turn the answer of a check. */
const TURNING = [
  ...['auth.example.com', 'https://auth.example.com/', 'admin.example.com', 'evil.example', 'http'],
  ...['OPTIONS', '/closed', 'host=auth.example.com;proto=http', '192.0.2.66', 'true', '', 'sealed'],
]

/** What an app may read in Connection, where nothing is upgraded. */
const PLAIN_CONNECTION = /^(close|keep-alive|te)(, ?(close|keep-alive|te))*$/i

const APP_COOKIE = '__Host-gatehouse-app.main'
const OLD_NAMES = ['__Secure-gatehouse.main', '__Secure-gatehouse.other']
const pathOf = (url = '') => url.replace(/^https:\/\/[^/]+/, '')

/** Wherever a cookie of app.example.com might be taken for something. */
function replaysOf(token: string): readonly Pick<Ask, 'host' | 'path' | 'headers'>[] {
  const [auth, other] = [{ host: 'auth.example.com' }, { host: 'admin.example.com' }]
  const portals = ['main', 'other']
  const names = portals.flatMap((portal) =>
    ['__Host-gatehouse-app', '__Host-gatehouse', '__Secure-gatehouse-app'].map(
      (name) => `${name}.${portal}`,
    ),
  )
  const cookies = [...names, ...OLD_NAMES].map((name) => `${name}=${token}`)
  const all = cookies.filter((cookie) => !cookie.startsWith(APP_COOKIE)).join('; ')
  const authorizations = ['Bearer', 'APIKey', 'Cookie', 'Basic', 'DPoP'].map((scheme) => ({
    authorization: `${scheme} ${token}`,
  }))
  const verify = portals.map((portal) => `/api/portals/${portal}/verify`)
  const pages = portals.map((portal) => `/portals/${portal}/profile.json`)
  return [
    ...[...cookies, all].flatMap((cookie) => [
      { ...other, headers: { cookie } },
      ...[...pages, ...verify].map((path) => ({ ...auth, path, headers: { cookie } })),
    ]),
    ...[...cookies.slice(1), all].map((cookie) => ({ headers: { cookie } })),
    ...authorizations.flatMap((headers) => [
      { headers },
      { ...other, headers },
      ...[...pages, ...verify].map((path) => ({ ...auth, path, headers })),
    ]),
  ]
}

/** Targets with tickets that nobody has made, and what is left of them. */
const TARGETS_WITH_TICKETS = {
  '/?gatehouse-ticket=x': '/',
  '/a?gatehouse-ticket': '/a',
  '/a?b=c&gatehouse-ticket=x': '/a?b=c',
  '/a?gatehouse-ticket=x&b=c': '/a?b=c',
  '/a?gatehouse-ticket=x&b=c&gatehouse-ticket=y': '/a?b=c',
  '/a%2Fb?c=%20d&gatehouse-ticket=': '/a%2Fb?c=%20d',
} as const

/** A name as servers behind CGI read it too, from lighttpd on. */
const spellingsOf = (name: string) => ['-', '_', '.', '~'].map((mark) => name.replaceAll('-', mark))
const asCgi = (name: string) => `HTTP_${foldName(name).toUpperCase().replaceAll('-', '_')}`

/** Asks an app through a tunnel for what no check lets pass. */
async function goAround(t: Test, socket: Duplex): Promise<void> {
  const session = connect('http://app.example.com', { createConnection: () => socket })
  session.on('error', () => {})
  const headers = { ':path': '/admin', 'x-forwarded-user': 'root' }
  const answer = await text(session.request(headers)).catch(String)
  t.notMatch(answer, /"root"/, 'nobody goes around the check')
  session.destroy()
}

async function openHttp2(t: Test, { port, certificate }: Gate) {
  const session = connect(`https://app.example.com:${port}`, {
    ca: certificate.rootPem,
    servername: 'app.example.com',
    lookup: (_host, _options, done) => done(null, [{ address: '127.0.0.1', family: 4 }]),
  })
  t.teardown(() => session.close())
  await once(session, 'remoteSettings')
  return session
}

/** Caddy encodes what is not ASCII for the app alone. */
const inAscii = (target = '') =>
  target.replace(/[\x80-\xff]/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase()}`)

/** The app receives what the check was asked about, byte by byte. */
function holdTargets(targets: readonly string[]): Probe {
  return async (t, _proxy, { gatehouse, pass }) => {
    const cookie = await cookiesOf(gatehouse, 'ada')
    const passed: string[] = []
    for (const target of targets) {
      const anonymous = await pass(target, navigation)
      t.equal(anonymous.heard, undefined, `${target}: nobody passes without a session`)
      const { told, heard } = await pass(target, { ...navigation, cookie })
      if (heard === undefined) continue
      passed.push(target)
      // HAProxy passes on a target in absolute form as it is.
      const inOriginForm = heard.replace(/^https:\/\/app\.example\.com/, '')
      t.equal(inAscii(inOriginForm), inAscii(told), `${target}: arrives as checked`)
    }
    t.ok(passed.length > 0, `passed: ${passed.join(' ')}`)
  }
}

/** How each attack ended at each proxy. */
const results = new Map<string, Map<ProxyName, string>>()

async function tryAttack(t: Test, proxy: ProxyName, gate: Gate, name: string): Promise<void> {
  const { cases = {}, probe } = ATTACKS[name] as Attack
  const entries = Object.entries(cases)
  if (entries.length === 0 && !probe) return
  const result = await t.test(name, async (t) => {
    for (const [name, expected] of entries)
      await t.test(name, (t) => hold(t, proxy, gate, expected))
    if (probe) await PROBES[probe](t, proxy, gate)
  })
  const cell = result?.ok ? 'held' : 'FAILED'
  results.set(name, (results.get(name) ?? new Map<ProxyName, string>()).set(proxy, cell))
}

for (const proxy of PROXY_NAMES)
  t.test(proxy, { skip: missingProgram(proxy) }, async (t) => {
    const gate = await startGate(t, proxy)
    const { gatehouse } = gate

    for (const [name, expected] of Object.entries(CASES))
      await t.test(name, (t) => hold(t, proxy, gate, expected))

    await t.test('HTTP/2', async (t) => {
      const session = await openHttp2(t, gate)
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
      const location = `${signInFor('https://app.example.com/a?b')}&hop=`
      const { 'set-cookie': set = [], ...sent } = await open({})
      t.match(sent, { ':status': 302, location })
      t.match([...set].sort(), [OWN_COOKIE, BINDING])
      const cookie = (await cookiesOf(gatehouse, 'ada')).split('; ')
      t.match(await open({ cookie, te: 'trailers' }), {
        ':status': 200,
        body: '"HTTP_X_FORWARDED_USER":["ada"]',
      })
    })

    await t.test('Authorization reaches the check and the app', async (t) => {
      const authorization = 'Bearer abc'
      const cookie = await cookiesOf(gatehouse, 'ada')
      const refused = await gate.pass('/', { authorization })
      t.match(refused, { status: 401, asked: { authorization }, heard: undefined })
      t.match(await gate.pass('/', { authorization, cookie }), {
        asked: { authorization },
        heard: '/',
      })
      t.same(gate.echo.last()?.cgi.HTTP_AUTHORIZATION, [authorization])
    })

    await t.test('what the check reads of a client reaches it', async (t) => {
      const sent = Object.fromEntries(READ.map((name, i) => [name, `value-${i}`]))
      t.match(await gate.pass('/', sent), { asked: sent, heard: undefined })
    })

    await t.test('a refusal keeps every cookie', async (t) => {
      const cookie = await cookiesOf(gatehouse, 'ada', 'admin.example.com')
      const table: [Ask, status: number][] = [
        [{ headers: navigation }, 302],
        [{ headers: navigation, method: 'POST' }, 403],
        [{ headers: program }, 401],
        [{ ...admin, headers: { ...program, cookie } }, 403],
        [{ ...admin, headers: { ...navigation, cookie } }, 403],
      ]
      for (const [asked, expected] of table) {
        const { status, headers } = await gate.ask({
          ...asked,
          headers: { ...asked.headers, ...WITH_COOKIES },
        })
        t.equal(status, expected)
        const isPlanted = (line: string) => !OWN_COOKIE.test(line) && !BINDING.test(line)
        const set = headers['set-cookie']?.filter(isPlanted)
        t.same(set?.sort(), PLANTED, `${expected}`)
      }
    })

    const names = Object.keys(ATTACKS)
    const isLast = (name: string) => ATTACKS[name]?.probe === 'down'
    for (const name of names.filter((name) => !isLast(name))) await tryAttack(t, proxy, gate, name)

    await t.test('with programs', async (t) => {
      await gatehouse.reload(WITH_PROGRAMS)
      for (const [name, expected] of Object.entries(PROGRAM_CASES))
        await t.test(name, (t) => hold(t, proxy, gate, expected))
    })

    await t.test('no key reaches the app', async (t) => {
      await gatehouse.reload(WITH_BASIC)
      const pass = (text: string, more = {}) =>
        gate.pass('/', { authorization: `Basic ${btoa(text)}`, ...more })
      const asKey = { authorization: `APIKey ${API_KEY}` }
      const table: [what: string, path: string, headers: object, user: string][] = [
        ['a password', '/', {}, 'psk:reader'],
        ['a key', '/', asKey, 'psk:reader'],
        ['a key in lower case', '/', { authorization: `apikey ${API_KEY}` }, 'psk:reader'],
        ['a key where anyone may pass', '/public/a', asKey, 'psk:reader'],
      ]
      for (const [what, path, headers, user] of table) {
        const authorization = `Basic ${btoa(`reader:${API_KEY}`)}`
        t.match(await gate.pass(path, { authorization, ...headers }), { status: 200, heard: path })
        const { cgi } = gate.echo.last() ?? {}
        t.same(cgi?.HTTP_X_FORWARDED_USER, [user], what)
        t.match(cgi?.HTTP_AUTHORIZATION ?? [''], [''], `${what}: nothing, or an empty header`)
      }
      for (const scheme of ['Bearer', 'Token'])
        t.match(await gate.pass('/public/a', { authorization: `${scheme} ${API_KEY}` }), {
          heard: undefined,
        })
      t.match(await pass(`reader:${API_KEY}x`), { status: 401, heard: undefined })
      t.match(await pass(`other:${API_KEY}`), { status: 401, heard: undefined })
      const cookie = await cookiesOf(gatehouse, 'ada')
      t.match(await pass('of:the app', { cookie }), { status: 200, heard: '/' })
      t.same(gate.echo.last()?.cgi.HTTP_AUTHORIZATION, [`Basic ${btoa('of:the app')}`])
    })

    await t.test('with an open path', async (t) => {
      await gatehouse.reload(WITH_OPEN_PATH)
      for (const [name, expected] of Object.entries(OPEN_CASES))
        await t.test(name, (t) => hold(t, proxy, gate, expected))
    })

    await t.test('with preflight', async (t) => {
      await gatehouse.reload(WITH_PREFLIGHT)
      for (const [name, expected] of Object.entries(PREFLIGHT_CASES))
        await t.test(name, (t) => hold(t, proxy, gate, expected))
    })

    for (const name of names.filter(isLast)) await tryAttack(t, proxy, gate, name)
  })

t.test('each attack is tried through every proxy, or where it belongs', async (t) => {
  const present = PROXY_NAMES.filter((proxy) => !missingProgram(proxy))
  const rows = Object.entries(ATTACKS).map(([name, { elsewhere = [] }]) => {
    const cells = present.map((proxy) => results.get(name)?.get(proxy))
    t.ok(elsewhere.length > 0 || cells.every((cell) => cell !== undefined), name)
    return `| ${[name, ...cells.map((cell) => cell ?? 'elsewhere')].join(' | ')} |`
  })
  // For reports.
  t.comment(
    [
      '',
      `| Attack | ${present.join(' | ')} |`,
      `| --- |${' --- |'.repeat(present.length)}`,
      ...rows,
    ].join('\n'),
  )
})

for (const proxy of PROXY_NAMES)
  t.test(`${proxy}: without TLS`, { skip: missingProgram(proxy) }, async (t) => {
    const gate = await startGate(t, proxy, { isPlain: true })
    for (const [name, expected] of Object.entries(PLAIN_CASES))
      await t.test(name, (t) => hold(t, proxy, gate, expected))
  })

t.test('haproxy: nobody passes when Lua fails', async (t) => {
  const changes = { 'haproxy.lua': [['= ask(txn, address)', '= nil']] } as const
  const gate = await startGate(t, 'haproxy', { changes })
  for (const who of ['ada', undefined] as const)
    await hold(t, 'haproxy', gate, { who, status: 503 })
})

t.test('haproxy: nobody passes while Gatehouse does not answer', async (t) => {
  const changes = { 'haproxy.lua': [['TIMEOUT = 2000', 'TIMEOUT = 100']] } as const
  const gate = await startGate(t, 'haproxy', { changes })
  gate.gatehouse.app.server.removeAllListeners('request')
  await hold(t, 'haproxy', gate, { who: 'ada', status: 504 })
})

const CLOSED_BELOW = 'rules: [{ paths: [/grafana/d/1], require: admins }]'

/** An app that expects requests without the prefix that they have in the browser. */
const BELOW_A_PATH: Readonly<Record<string, Readonly<Record<string, readonly [string, string]>>>> =
  {
    traefik: {
      'traefik.yaml': [
        '  routers:\n',
        `    ${blockOf('docs/traefik.md', 'yaml prefix').split('middlewares:\n    ')[1]}`,
      ],
    },
    caddy: {
      Caddyfile: [
        '\t# The metadata',
        `${blockOf('docs/caddy.md', 'caddyfile site')}\n\t# The metadata`,
      ],
    },
  }

for (const [name, files] of Object.entries(BELOW_A_PATH)) {
  const proxy = name as ProxyName
  t.test(`${proxy}: an app below a path`, { skip: missingProgram(proxy) }, async (t) => {
    const changes = Object.fromEntries(
      Object.entries(files).map(([file, change]) => [file, [change]]),
    )
    const { pass, gatehouse } = await startGate(t, proxy, { changes })
    const cookie = await cookiesOf(gatehouse, 'ada')
    const target = '/grafana/d/1?a=b'
    t.match(await pass(target, { ...program, cookie }), { told: target, heard: '/d/1?a=b' })
    t.match(await pass('/other', { ...program, cookie }), { told: '/other', heard: '/other' })
    t.equal((await pass(target, program)).heard, undefined, 'nobody passes without a session')
    await gatehouse.reload(CONFIG.replace('providers:', `${CLOSED_BELOW}\n    providers:`))
    const closed = await pass(target, { ...program, cookie })
    t.match(closed, { status: 403, heard: undefined }, 'a rule closes the path of the browser')
    t.equal((await pass('/grafana/d/2', { ...program, cookie })).heard, '/d/2')
  })
}

t.test('nginx for Ingress: no upgrade but to WebSockets', async (t) => {
  const { data } = parse(blockOf('docs/kubernetes-ingress.md', 'yaml server-snippet'))
  const changes: readonly (readonly [string, string])[] = [
    // As ingress-nginx writes it.
    ['proxy_set_header Upgrade $upgrade;', 'proxy_set_header Upgrade $http_upgrade;'],
    [
      'map $upgrade $upgrade_connection {',
      'map $http_upgrade $upgrade_connection { default upgrade;',
    ],
    ['server_name app.example.com', `${data['server-snippet']}\nserver_name app.example.com`],
  ]
  const gate = await startGate(t, 'nginx', { changes: { 'nginx.conf': changes } })
  await PROBES.upgrades(t, 'nginx', gate)
  const signedIn = CASES['signed in, WebSocket'] as Case
  await hold(t, 'nginx', gate, signedIn)
})

t.test('lighttpd reads tildes as hyphens', async (t) => {
  const app = await startLighttpd(t)
  const direct = await fetch(`http://127.0.0.1:${app.port}/`, {
    headers: { 'X~Forwarded~User': 'eve' },
  })
  t.match(await direct.text(), /^HTTP_X_FORWARDED_USER=eve$/m, 'as it is')
  for (const proxy of PROXY_NAMES)
    await t.test(proxy, { skip: missingProgram(proxy) }, async (t) => {
      const { ask, gatehouse } = await startGate(t, proxy, { appPort: app.port })
      const cookie = await cookiesOf(gatehouse, 'ada')
      const { status, body } = await ask({ headers: { cookie } })
      t.match({ status, body }, { status: 200, body: /^HTTP_X_FORWARDED_USER=ada$/m })
      for (const name of [
        'X~Forwarded~User',
        "X'Forwarded!User",
        'X_Forwarded~User',
        'X.Forwarded.User',
      ]) {
        const { body } = await ask({ headers: { cookie, [name]: 'eve' } })
        t.notMatch(body, /eve/, name)
      }
    })
})

const UPLOAD = 3 * 2 ** 20

/** An app that sends one event and goes on, and counts what is uploaded. */
async function startStreams(t: Test) {
  const app = createServer(async (request, response) => {
    if (request.method === 'POST') {
      const { byteLength } = await buffer(request)
      response.end(String(byteLength))
      return
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (request.url === '/events') response.write('data: one\n\n')
    else response.end()
  })
  app.listen(0, '127.0.0.1')
  await once(app, 'listening')
  t.teardown(() => {
    app.close()
    app.closeAllConnections()
  })
  return (app.address() as AddressInfo).port
}

for (const proxy of PROXY_NAMES)
  t.test(`${proxy}: streams, and large uploads`, { skip: missingProgram(proxy) }, async (t) => {
    const gate = await startGate(t, proxy, { appPort: await startStreams(t) })
    const headers = { host: 'app.example.com', cookie: await cookiesOf(gate.gatehouse, 'ada') }
    const { rootPem: ca } = gate.certificate
    const to = { host: '127.0.0.1', port: gate.port, servername: headers.host, ca, headers }
    const stream = request({ ...to, path: '/events' }).end()
    const [events] = await once(stream, 'response')
    t.equal(String((await once(events, 'data'))[0]), 'data: one\n\n', 'before the response ends')
    stream.on('error', () => {}).destroy()
    const upload = request({ ...to, method: 'POST' }).end(Buffer.alloc(UPLOAD))
    const [answer] = await once(upload, 'response')
    t.equal(await text(answer), String(UPLOAD))
  })

const FROM = CONFIG.replace(
  'providers:',
  'rules: [{ from: [10.0.0.0/8], require: anyone }]\n    providers:',
)
const OF_CLIENT = 'DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT'
const OF_CONNECTION = 'DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT'
const PROXY_PROTOCOL = [
  'filter_chains:',
  `listener_filters:
        - name: envoy.filters.listener.proxy_protocol
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol
      filter_chains:`,
] as const
const HOPS = [
  'use_remote_address: true',
  'use_remote_address: true\n                xff_num_trusted_hops: 1',
] as const

for (const proxy of PROXY_NAMES)
  t.test(`${proxy}: a rule about addresses`, { skip: missingProgram(proxy) }, async (t) => {
    // As in clusters where clients come from addresses of proxies: Envoy names this machine by either.
    const addresses = Object.values(networkInterfaces()).flatMap((one = []) => one)
    const own = addresses.filter(({ family }) => family === 'IPv4').map(({ address }) => address)
    const server = { trustedProxies: ['127.0.0.1', ...own] }
    const { pass } = await startGate(t, proxy, { yaml: FROM, server })
    for (const chain of ['10.1.2.3', '10.1.2.3, 127.0.0.1', '10.1.2.3, 10.1.2.4'])
      t.match(await pass('/', { ...program, 'X-Forwarded-For': chain }), { status: 401 }, chain)
  })

t.test('envoy behind another balancer', { skip: missingProgram('envoy') }, async (t) => {
  const rows: readonly [ProxyName, readonly (readonly [string, string])[], ByBalancer, number][] = [
    ['envoy', [PROXY_PROTOCOL, [OF_CONNECTION, OF_CLIENT]], 'line', 200],
    ['envoy', [HOPS, [OF_CONNECTION, OF_CLIENT]], 'header', 200],
    ['envoy-grpc', [PROXY_PROTOCOL, [OF_CONNECTION, OF_CLIENT]], 'line', 200],
    ['envoy-grpc', [HOPS, [OF_CONNECTION, OF_CLIENT]], 'header', 401],
  ]
  for (const [proxy, changes, by, status] of rows)
    await t.test(`${proxy}, address in a ${by}`, async (t) => {
      const file = { [`${proxy}.yaml`]: changes }
      const { pass } = await startGate(t, proxy, { yaml: FROM, changes: file })
      const told =
        by === 'line'
          ? await pass('/', program, 'PROXY TCP4 10.1.2.3 127.0.0.1 4000 443\r\n')
          : await pass('/', { ...program, 'X-Forwarded-For': '192.0.2.1, 10.1.2.3' })
      t.equal(told.status, status)
    })
})

/** How a balancer names its client: in a line of the PROXY protocol, or in X-Forwarded-For. */
type ByBalancer = 'line' | 'header'

t.test('traefik: every check that is asked for is answered, with the headers listed', async (t) => {
  const { app, ...gatehouse } = await startGatehouse(t, WITH_TOOLS)
  const { http } = parse(readExample('traefik.yaml'))
  const cookie = await cookiesOf({ app, ...gatehouse }, 'admin')
  const middlewares: Readonly<Record<string, Middleware>> = http.middlewares
  for (const [name, { forwardAuth }] of Object.entries(middlewares)) {
    if (!forwardAuth) continue
    const { pathname, search } = new URL(forwardAuth.address)
    for (const { proxy, headers } of SHAPES.filter(({ proxy }) => proxy.startsWith('traefik'))) {
      const ask = (more: object) =>
        app.inject({ url: pathname + search, headers: { ...headers, ...more } })
      const opened = await ask({ ...navigation, 'x-forwarded-method': 'GET' })
      t.equal(opened.statusCode, 302, `${name}, ${proxy}, anonymous`)
      const passed = await ask({ cookie })
      t.equal(passed.statusCode, 200, `${name}, ${proxy}, signed in`)
      const sent = Object.keys(passed.headers).filter((header) =>
        /user|displayname|assertion|tools/.test(header),
      )
      // A client without credentials gets none back.
      const listed = ['authorization', ...sent].sort()
      t.same(forwardAuth.authResponseHeaders.map(toLowerCase).sort(), listed)
    }
  }
  const open = Object.entries<Router>(http.routers).filter(
    ([, { middlewares: names = [] }]) => !names.some((name) => middlewares[name]?.forwardAuth),
  )
  t.same(
    open.map(([name]) => name),
    ['upgrades', 'auth', 'metadata', 'mcp'],
    'only what Gatehouse itself answers is open, and what is refused',
  )
})

interface Middleware {
  readonly forwardAuth?: { readonly address: string; readonly authResponseHeaders: string[] }
}
interface Router {
  readonly middlewares?: readonly string[]
}

function toLowerCase(text: string): string {
  return text.toLowerCase()
}
