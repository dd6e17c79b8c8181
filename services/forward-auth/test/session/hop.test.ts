import { hash } from 'node:crypto'
import cookie from '@fastify/cookie'
import fc from 'fast-check'
import Fastify from 'fastify'
import t from 'tap'
import { deriveKeys, seal } from '../../src/keys/key-ring.ts'
import {
  addTicket,
  beginHop,
  bindingPlace,
  clearBindings,
  clearHops,
  MAX_HOPS,
  readHop,
  readTicket,
  splitTarget,
  TICKET,
  withTicket,
} from '../../src/session/hop.ts'
import { readSite } from '../../src/sites.ts'
import { type HostCookie, serializeCookie } from '../../src/web/cookies.ts'

const [OLD, NEW] = ['the old secret of 32 characters !', 'the new secret of 32 characters !']
const KEYS = deriveKeys([OLD], 'login')
const NOW = 1_900_000_000_000
const [SECOND, MINUTE, HOUR] = [1_000, 60_000, 3_600_000]
const PORTAL = 'main'
const HOST = 'app.example.com'
const ORIGIN = `https://${HOST}`
const TARGET = `${ORIGIN}/a?x=1`
const PLACE = { domain: 'example.com', path: `/portals/${PORTAL}` }
const BINDING = `__Secure-gatehouse-binding.${PORTAL}.`
const PREFIX = `__Host-gatehouse-hop.${PORTAL}.`

/** A browser at the host of an app. */
function browserAt(host = HOST) {
  const jar = new Map<string, string>()
  const header = () => [...jar].map((pair) => pair.join('=')).join('; ')
  const take = (cookies: readonly HostCookie[]) => {
    for (const { name, value } of cookies)
      if (value === '') jar.delete(name)
      else jar.set(name, value)
  }
  return {
    jar,
    header,
    take,
    /** Is sent to the sign-in page. */
    begin({
      origin = ORIGIN,
      count = 0,
      portal = PORTAL,
      cookieHeader = header(),
      now = NOW,
    } = {}) {
      const begun = { portal, origin, count, cookieHeader, now, place: undefined }
      const { hop, cookies } = beginHop(begun, KEYS)
      take(cookies)
      return { hop, cookies }
    },
    /** Comes back with a ticket. */
    read(ticket: string, { portal = PORTAL, at = host, now = NOW, keys = KEYS } = {}) {
      return readTicket(ticket, { portal, host: at, cookieHeader: header(), now }, keys)
    },
  }
}
type Browser = ReturnType<typeof browserAt>

/** The URL to which the sign-in page sends back whoever has this session. */
function finish(hop: string, { sid = 'ada', returnTo = TARGET, portal = PORTAL, now = NOW } = {}) {
  const read = readHop(hop, { portal, returnTo, now }, KEYS)
  if (!read) throw new Error('there is no such hop')
  return withTicket(returnTo, read, { portal, sid, now }, KEYS)
}
const ticketOf = (url: string) => splitTarget(url)?.ticket ?? 'none'
const ticketFor = (browser: Browser, sid = 'ada') => ticketOf(finish(browser.begin().hop, { sid }))

t.before(async () => void (await Fastify().register(cookie)))

t.test('brings the session to the app, and the same ask twice gets the same answer', async (t) => {
  const ada = browserAt()
  const { hop, cookies } = ada.begin()
  t.match(readHop(hop, { portal: PORTAL, returnTo: TARGET, now: NOW }, KEYS), {
    host: HOST,
    browser: /^[0-9a-f]{32}$/,
    count: 0,
  })
  t.match(cookies.map(serializeCookie), [
    /^__Host-gatehouse-hop\.main\.[0-9a-f]{8}=[\w-]{22}; Max-Age=600; Path=\/; HttpOnly; Secure; SameSite=None$/,
  ])
  const url = finish(hop)
  t.ok(url.startsWith(`${TARGET}&${TICKET}=`))
  t.ok(url.length - TARGET.length < 320, 'the ticket is short')
  const first = ada.read(ticketOf(url))
  t.equal(first.sid, 'ada')
  t.strictSame(ada.read(ticketOf(url)), first)
  ada.take(clearHops(PORTAL, ada.header()))
  t.equal(ada.jar.size, 0)
})

t.test(
  'login CSRF: the ticket of an attacker is nothing in the browser of somebody else',
  async (t) => {
    const [ada, mallory] = [browserAt(), browserAt()]
    const ticket = ticketFor(mallory, 'mallory')
    t.equal(mallory.read(ticket).sid, 'mallory')
    t.equal(ada.read(ticket).sid, undefined)
    ada.begin()
    t.equal(ada.read(ticket).sid, undefined, 'nor if it has a hop of its own')
  },
)

t.test('a ticket from an access log is nothing in the browser of who reads it', async (t) => {
  const [ada, mallory] = [browserAt(), browserAt()]
  mallory.begin()
  t.equal(mallory.read(ticketFor(ada)).sid, undefined)
})

t.test(
  'a hop that an attacker began and another browser finished: the misfit burns it',
  async (t) => {
    const [ada, mallory] = [browserAt(), browserAt()]
    const ticket = ticketOf(finish(mallory.begin().hop, { sid: 'ada' }))
    const atAda = ada.read(ticket)
    t.equal(atAda.sid, undefined)
    const atMallory = mallory.read(ticket)
    t.equal(atMallory.sid, 'ada', 'it would fit')
    t.ok(atMallory.burn)
    t.strictSame(atAda.burn, atMallory.burn, 'but has the mark under which it was burnt')
    t.equal(atAda.burn?.until, NOW + 30 * SECOND)
  },
)

t.test('cookie tossing: no cookie that was not set for this browser binds a hop', async (t) => {
  const victim = browserAt()
  const ticket = ticketFor(victim)
  const [name = '', value = ''] = [...victim.jar][0] ?? []
  t.equal(victim.read(ticket).sid, 'ada')
  const rows: [what: string, header: string][] = [
    ['none', ''],
    ['doubled', `${name}=${value}; ${name}=${value}`],
    ['doubled, one of another', `${name}=${value}; ${name}=${'a'.repeat(22)}`],
    ['doubled behind a tab', `${name}=${value};\t${name} =x`],
    ['another value', `${name}=${'a'.repeat(22)}`],
    ['no value', `${name}=`],
    ['a longer value', `${name}=${value}a`],
    ['a quoted value', `${name}="${value}"`],
    ['the digest for its value', `${name}=${name.slice(-8)}`],
    ['another name', `${PREFIX}01234567=${value}`],
    ['an overlong name', `${name}${'0'.repeat(4_000)}=${value}`],
    ['a longer prefix', `x${name}=${value}`],
    ['upper case', `${name.toUpperCase()}=${value}`],
    ['of a domain', `${name.replace('__Host-', '__Secure-')}=${value}`],
    ['without prefix', `${name.replace('__Host-', '')}=${value}`],
    ['of another portal', `${name.replace('main', 'main-1')}=${value}`],
    ['without a name', `=${name}=${value}`],
    ['in a value', `x=${name}=${value}`],
    ...['\u00a0', '\ufeff', '\u3000', '\v', '\u00c2\u00a0'].map((space): [string, string] => [
      `look-alike ${encodeURIComponent(space)}`,
      `${space}${name}=${value}`,
    ]),
  ]
  for (const [what, cookieHeader] of rows) {
    const of = { portal: PORTAL, host: HOST, cookieHeader, now: NOW }
    t.equal(readTicket(ticket, of, KEYS).sid, undefined, what)
    t.equal(readTicket(ticket, of, KEYS).count, 1, what)
    const begun = { ...of, origin: ORIGIN, count: 0, place: undefined }
    const { cookies } = beginHop(begun, KEYS)
    t.not(cookies[0]?.value, value, `${what}: a new hop does not take it`)
    for (const each of [...cookies, ...clearHops(PORTAL, cookieHeader)])
      t.match(serializeCookie(each), /^__Host-gatehouse-hop\.main\.[0-9a-f]{8}=/, what)
  }
})

t.test('no two hops have the same value', async (t) => {
  // More than random bytes are taken from the system for at a time.
  const values = Array.from({ length: 1_000 }, () => browserAt().begin().cookies[0]?.value)
  t.equal(new Set(values).size, 1_000)
  t.ok(values.every((value) => /^[\w-]{22}$/.test(value ?? '')))
})

t.test('a script of the app cannot have a value set again that is none', async (t) => {
  for (const value of ['a b', 'ä', '"', 'a'.repeat(4_000), 'a'.repeat(21)]) {
    const name = `${PREFIX}${hash('sha256', value, 'hex').slice(0, 8)}`
    t.match(browserAt().begin({ cookieHeader: `${name}=${value}` }).cookies, [
      { value: /^[\w-]{22}$/ },
    ])
  }
})

t.test('a ticket is for one host, portal and half a minute', async (t) => {
  const ada = browserAt()
  const ticket = ticketFor(ada)
  const rows: [string, Parameters<Browser['read']>[1], count: number, isBurnt: boolean][] = [
    ['another host', { at: 'other.example.com' }, 1, true],
    ['the host below', { at: `x.${HOST}` }, 1, true],
    ['another portal', { portal: 'other' }, 1, false],
    ['half a minute later', { now: NOW + 30 * SECOND }, 1, false],
    ['from the future', { now: NOW - 30 * SECOND }, 1, false],
    ['the keys of another purpose', { keys: deriveKeys([OLD], 'session') }, 1, false],
    ['keys that are gone', { keys: deriveKeys([NEW], 'login') }, 1, false],
  ]
  for (const [what, of, count, isBurnt] of rows) {
    const read = ada.read(ticket, of)
    t.equal(read.sid, undefined, what)
    t.equal(read.count, count, what)
    t.equal(read.burn !== undefined, isBurnt, `${what}: burnt`)
  }
  for (const now of [NOW + 30 * SECOND - 1, NOW - 30 * SECOND + 1])
    t.equal(ada.read(ticket, { now }).sid, 'ada', 'clocks of instances differ')
  t.equal(ada.read(ticket, { keys: deriveKeys([NEW, OLD], 'login') }).sid, 'ada', 'newer keys')
})

t.test('a hop is for one portal, origin and hour', async (t) => {
  const { hop } = browserAt().begin()
  const read = (of: { portal?: string; returnTo?: string; now?: number }, keys = KEYS) =>
    readHop(hop, { portal: PORTAL, returnTo: TARGET, now: NOW, ...of }, keys)
  for (const given of [
    {},
    { now: NOW + HOUR - 1 },
    { now: NOW - MINUTE },
    { returnTo: `${ORIGIN}/other?x=2#y` },
    { returnTo: 'https://APP.example.com:443/' },
  ])
    t.ok(read(given), JSON.stringify(given))
  for (const given of [
    { now: NOW + HOUR },
    { now: NOW - HOUR },
    { portal: 'other' },
    { returnTo: TARGET.replace('app', 'other') },
    { returnTo: TARGET.replace('com/', 'com:8443/') },
    { returnTo: TARGET.replace('https', 'http') },
    { returnTo: '/a?x=1' },
    { returnTo: '' },
  ])
    t.equal(read(given), undefined, JSON.stringify(given))
  t.equal(read({}, deriveKeys([NEW], 'login')), undefined)
})

/** A hop with a binding, and what the browser of who began it shows at the sign-in host. */
function bind(cookieHeader = '') {
  const begun = { portal: PORTAL, origin: ORIGIN, count: 0, now: NOW, place: PLACE }
  const { hop, cookies } = beginHop({ ...begun, cookieHeader }, KEYS)
  const [own, binding] = cookies as [HostCookie, HostCookie]
  const shown = `${binding.name}=${binding.value}`
  const read = (header: string, now = NOW) =>
    readHop(hop, { portal: PORTAL, returnTo: TARGET, cookieHeader: header, now }, KEYS)
  return { hop, own, binding, shown, read }
}

t.test('a hop counts in the browser that shows its sign-in binding', async (t) => {
  const { own, binding, shown, read, hop } = bind()
  t.match(serializeCookie(own), /; Path=\/; HttpOnly; Secure; SameSite=Lax$/)
  t.match(
    serializeCookie(binding),
    /; Max-Age=3600; Domain=example\.com; Path=\/portals\/main; HttpOnly; Secure; SameSite=Lax$/,
  )
  t.equal(binding.name.slice(-9), own.name.slice(-9))
  t.strictSame(bind(`${own.name}=${own.value}`).binding, binding, 'a hop that is taken over')
  const { name, value } = binding
  const rows: [what: string, header: string, counts: boolean][] = [
    ['its own', shown, true],
    ['beside others', `a=b; ${shown}; c=d`, true],
    ['beside another value of the name', `${name}=x; ${shown}; ${name}=y`, true],
    ['twice', `${shown}; ${shown}`, true],
    ['none', '', false],
    ['another value', `${name}=${'a'.repeat(22)}`, false],
    ['another name', `${BINDING}01234567=${value}`, false],
    ['that of another hop', bind().shown, false],
    ['its value alone', value, false],
    ['the cookie of the app', `${name}=${own.value}`, false],
    ['the cookie of the app by its own name', `${own.name}=${own.value}`, false],
    ['quoted', `${name}="${value}"`, false],
    ['a longer value', `${shown}a`, false],
    ['in a value', `a=${shown}`, false],
    ['of another portal', shown.replace('.main.', '.main-1.'), false],
  ]
  for (const [what, header, counts] of rows) t.equal(Boolean(read(header)), counts, what)
  t.ok(
    readHop(hop, { portal: PORTAL, returnTo: TARGET, now: NOW }, KEYS),
    'in the state of a login',
  )
  t.ok(read(shown, NOW + HOUR - 1))
  t.equal(read(shown, NOW + HOUR), undefined)
})

t.test('nobody learns one end of a hop from the other, nor either from the link', async () => {
  fc.assert(
    fc.property(fc.nat(), fc.nat(), () => {
      const [ada, mallory] = [bind(), bind()]
      const link = Buffer.from(ada.hop.split('.')[0] ?? '', 'base64url').toString()
      const isSecret = ![ada.own.value, ada.binding.value].some((value) => link.includes(value))
      const isOne = ada.own.value !== ada.binding.value
      const isAlone = !ada.read(mallory.shown) && !mallory.read(ada.shown)
      return isSecret && isOne && isAlone && ada.read(ada.shown) !== undefined
    }),
    { numRuns: 500 },
  )
})

t.test('without a binding, a hop is good for half a minute or within a login', async (t) => {
  const { hop } = browserAt().begin()
  const of = { portal: PORTAL, returnTo: TARGET }
  const at = (now: number, cookieHeader?: string) =>
    readHop(hop, { ...of, now, ...(cookieHeader !== undefined && { cookieHeader }) }, KEYS)
  t.ok(at(NOW + 30 * SECOND - 1, ''))
  t.equal(at(NOW + 30 * SECOND, ''), undefined)
  t.ok(at(NOW + 30 * SECOND), 'the state of a login is bound to the browser')
  t.equal(at(NOW + HOUR), undefined)
})

const placeOf = (domain: string, authOrigin: string) => {
  const site = readSite({ domain, authHost: authOrigin, session: { scope: 'host' } }, '/gate')
  return 'message' in site ? undefined : bindingPlace({ portal: { name: PORTAL }, site })
}

t.test('where browsers keep a cookie for app and sign-in host', async (t) => {
  const rows: [domain: string, authOrigin: string, shared: string | undefined][] = [
    ['example.com', 'https://auth.example.com', 'example.com'],
    ['example.com', 'https://example.com', 'example.com'],
    ['example.com', 'https://auth.example.com:8443', 'example.com'],
    ['apps.example.com', 'https://auth.apps.example.com', 'apps.example.com'],
    ['apps.example.com', 'https://auth.example.com', 'example.com'],
    ['apps.example.co.uk', 'https://auth.sso.example.co.uk', 'example.co.uk'],
    ['lab.home.arpa', 'https://auth.lab.home.arpa', 'lab.home.arpa'],
    ['home.internal', 'https://auth.home.internal', 'home.internal'],
    ['me.duckdns.org', 'https://auth.me.duckdns.org', 'me.duckdns.org'],
    ['fritz.box', 'https://auth.fritz.box', 'fritz.box'],
    ['example.org', 'https://auth.example.com', undefined],
    ['one.example.co.uk', 'https://auth.other.co.uk', undefined],
    ['one.duckdns.org', 'https://two.duckdns.org', undefined],
    ['home.arpa', 'https://auth.home.arpa', undefined],
    ['lan', 'https://auth.lan', undefined],
    ['localhost', 'http://localhost:3000', undefined],
    ['localhost', 'http://auth.localhost:3000', undefined],
    ['example.com', 'https://192.0.2.1', undefined],
    ['example.com', 'https://[2001:db8::1]:8443', undefined],
  ]
  for (const [domain, authOrigin, shared] of rows) {
    const place = shared === undefined ? undefined : { domain: shared, path: '/gate/portals/main' }
    t.strictSame(placeOf(domain, authOrigin), place, `${domain} ${authOrigin}`)
  }
  const label = fc.constantFrom('a', 'b', 'com', 'co', 'uk', 'home', 'arpa', 'example')
  const names = fc.array(label, { minLength: 1, maxLength: 5 }).map((all) => all.join('.'))
  fc.assert(
    fc.property(names, names, (domain, host) => {
      const shared = placeOf(domain, `https://${host}`)?.domain
      const below = (name: string) => `.${name}`.endsWith(`.${shared}`)
      return shared === undefined || (below(domain) && below(host) && shared.includes('.'))
    }),
  )
})

t.test('of many bindings the oldest go, whatever a sibling has set', async (t) => {
  const names = [...Array(40).keys()].map((i) => `${BINDING}${i.toString(16).padStart(8, '0')}`)
  const header = (count: number) => names.slice(0, count).map((name) => `${name}=x`)
  t.strictSame(clearBindings(PORTAL, header(16).join('; '), PLACE), [])
  const cleared = clearBindings(PORTAL, header(18).join('; '), PLACE)
  t.strictSame(
    cleared.map(({ name }) => name),
    names.slice(0, 2),
  )
  t.match(serializeCookie(cleared[0]!), /=; Max-Age=0; Domain=example\.com; Path=\/portals\/main;/)
  t.equal(clearBindings(PORTAL, header(40).join('; '), PLACE).length, 16)
  const odd = [...header(16), `${BINDING}\u00e4=x`, `${BINDING}=x`, `${BINDING}0123456 7=x`]
  t.strictSame(clearBindings(PORTAL, odd.join('; '), PLACE), [], 'not what it could not have set')
})

t.test('a ticket is added before the fragment', async (t) => {
  for (const [url, added] of [
    ['https://a.test/', `https://a.test/?${TICKET}=`],
    ['https://a.test/?x', `https://a.test/?x&${TICKET}=`],
    ['https://a.test/#/route?x', `https://a.test/?${TICKET}=#/route?x`],
    ['https://a.test/?x#y#z', `https://a.test/?x&${TICKET}=#y#z`],
  ] as const)
    t.equal(addTicket(url), added)
})

t.test('hosts of return URLs count with their ports', async (t) => {
  const rows: [origin: string, returnTo: string, host: string][] = [
    ['https://app.example.com', 'HTTPS://APP.example.com:443', HOST],
    ['https://app.example.com:8443', 'https://app.example.com:8443/', `${HOST}:8443`],
    ['https://xn--bcher-kva.example', 'https://bücher.example/', 'xn--bcher-kva.example'],
    ['http://localhost:3000', 'http://localhost:3000/', 'localhost:3000'],
    ['http://[::1]:3000', 'http://[::1]:3000/', '[::1]:3000'],
  ]
  for (const [origin, returnTo, host] of rows) {
    const ada = browserAt()
    const url = finish(ada.begin({ origin }).hop, { returnTo })
    t.equal(ada.read(ticketOf(url), { at: host }).sid, 'ada', origin)
  }
})

t.test('nothing that was sealed for another purpose passes', async (t) => {
  const ada = browserAt()
  const { hop } = ada.begin()
  const ticket = ticketOf(finish(hop))
  const readAsHop = (text: string | undefined) =>
    readHop(text, { portal: PORTAL, returnTo: TARGET, now: NOW }, KEYS)
  t.equal(ada.read(hop).sid, undefined, 'a hop is no ticket')
  t.equal(readAsHop(ticket), undefined, 'a ticket is no hop')
  const [browser] = [...ada.jar.values()]
  const forged = JSON.stringify({ sid: 'eve', host: HOST, browser, count: 0, start: NOW })
  for (const purpose of [
    'state main https://auth.example.com',
    'target main',
    'hop',
    'ticket',
    '',
  ]) {
    t.equal(ada.read(seal(forged, KEYS, purpose)).sid, undefined, purpose)
    t.equal(readAsHop(seal(forged, KEYS, purpose)), undefined, purpose)
  }
  for (const text of [undefined, '', 'a', forged, '%00', 'a'.repeat(100_000)]) {
    t.equal(readAsHop(text), undefined)
    t.match(ada.read(text ?? ''), { sid: undefined, count: 1, burn: undefined })
  }
})

t.test('no change of a single character passes, in a ticket or in a hop', async () => {
  const ada = browserAt()
  const { hop } = ada.begin()
  const ticket = ticketOf(finish(hop))
  const characters = fc.constantFrom(...'AZaz09-_+/=.%~ \u00e4')
  const changes = fc.oneof(
    fc.tuple(fc.constant(1), characters),
    fc.tuple(fc.constant(0), characters),
    fc.constant([1, ''] as [number, string]),
  )
  fc.assert(
    fc.property(fc.nat(), changes, (place, [length, text]) => {
      const change = (sealed: string) => {
        const at = place % (sealed.length + 1)
        return sealed.slice(0, at) + text + sealed.slice(at + length)
      }
      const [bent, bentHop] = [change(ticket), change(hop)]
      if (bent !== ticket && ada.read(bent).burn !== undefined) return false
      const of = { portal: PORTAL, returnTo: TARGET, now: NOW }
      return bentHop === hop || readHop(bentHop, of, KEYS) === undefined
    }),
    { numRuns: 3_000 },
  )
})

/** Targets as browsers and programs send them, and as they never should. */
const pieces = fc.oneof(
  fc.constantFrom('a', '/', '?', '&', '=', '%', '%3F', '%26', '+', ';', '..', '//', '\u00e4', "'"),
  fc.constantFrom('x=1', TICKET.toUpperCase(), `${TICKET}s`, `x${TICKET}=`, `${TICKET}%3D`),
)
const targets = fc.array(pieces, { maxLength: 12 }).map((all) => `/${all.join('')}`)
const isClean = (target: string) => splitTarget(target) === undefined

t.test('what a ticket is added to comes back byte by byte', async (t) => {
  const hop = { host: HOST, browser: 'b', count: 0, start: NOW, signed: '' }
  const add = (target: string) =>
    withTicket(target, hop, { portal: PORTAL, sid: 's', now: NOW }, KEYS)
  for (const target of [
    '/',
    '/a',
    '/a?',
    '/a?x=1',
    '/a?x=1&',
    '/a?&',
    '/a?x=?',
    '/a?a=%C3%A4+b',
    '/?=&',
  ])
    t.equal(splitTarget(add(target))?.target, target)
  fc.assert(
    fc.property(targets.filter(isClean), (target) => {
      const split = splitTarget(add(target))
      return split?.target === target && /^[\w-]{100,320}$/.test(split.ticket ?? '')
    }),
    { numRuns: 5_000 },
  )
})

t.test('splitTarget', async (t) => {
  const T = `${TICKET}=abc`
  const rows: [target: string, rest: string | undefined, ticket?: string][] = [
    ['/a', undefined],
    ['/a?x=1', undefined],
    [`/${T}`, undefined],
    [`/a?x=${T}`, undefined],
    [`/a?x=?${T}`, undefined],
    [`/a?x${T}`, undefined],
    [`/a?${TICKET}s=abc`, undefined],
    [`/a?${T}`, '/a', 'abc'],
    [`/a?&${T}`, '/a?', 'abc'],
    [`/a?x=1&${T}`, '/a?x=1', 'abc'],
    [`/a?x=1&&${T}`, '/a?x=1&', 'abc'],
    [`/a?${TICKET}=`, '/a', ''],
    [`/a?${T}=b`, '/a', 'abc=b'],
    [`/a?${T}?x`, '/a', 'abc?x'],
    [`/a?${TICKET}`, '/a', ''],
    [`/a?x=1&${TICKET}`, '/a?x=1', ''],
    [`/a?${T}&`, '/a?', 'abc'],
    [`/a?${T}&x=1`, '/a?x=1', 'abc'],
    [`/a?x=1&${T}&y=2`, '/a?x=1&y=2', 'abc'],
    [`/a?${T}&${T}`, '/a'],
    [`/a?${T}&x=1&${T}`, '/a?x=1'],
    [`/a?${TICKET}&${T}`, '/a'],
  ]
  for (const [target, rest, ticket] of rows)
    t.strictSame(
      splitTarget(target),
      rest === undefined ? undefined : { target: rest, ticket },
      target,
    )
})

t.test('no ticket is left in a target, wherever it stood', async () => {
  const tickets = fc.constantFrom(
    `&${TICKET}=a`,
    `&${TICKET}`,
    `?${TICKET}=a`,
    TICKET,
    `&${TICKET}=`,
  )
  const mixed = fc.array(fc.oneof(pieces, tickets), { maxLength: 12 })
  fc.assert(
    fc.property(mixed, (all) => {
      const target = `/${all.join('')}`
      const rest = splitTarget(target)?.target ?? target
      const query = rest.split('?').slice(1).join('?')
      const seen = query.split('&').some((each) => each.split('=')[0] === TICKET)
      return !seen && isClean(rest) && rest.startsWith(target.split('?', 1)[0] ?? '')
    }),
    { numRuns: 5_000 },
  )
})

t.test('tabs that are opened at once, answered in any order, all end well', async () => {
  const steps = fc.array(fc.nat(7), { minLength: 4, maxLength: 32 })
  fc.assert(
    fc.property(steps, (order) => {
      const ada = browserAt()
      const tabs = Array.from({ length: 8 }, () => ({ header: '', step: 0, ticket: '' }))
      const hops = new Map<object, ReturnType<typeof beginHop>>()
      const failed = order.some((number) => {
        const tab = tabs[number]!
        tab.step += 1
        if (tab.step === 1) tab.header = ada.header()
        if (tab.step === 2) {
          const start = { portal: PORTAL, origin: ORIGIN, place: PLACE, count: 0, now: NOW }
          const begun = beginHop({ ...start, cookieHeader: tab.header }, KEYS)
          hops.set(tab, begun)
          ada.take(begun.cookies)
        }
        if (tab.step === 3) tab.ticket = ticketOf(finish(hops.get(tab)!.hop))
        return tab.step === 4 && ada.read(tab.ticket).sid !== 'ada'
      })
      return !failed
    }),
    { numRuns: 1_000 },
  )
})

t.test('takes the cookie that a browser has, and keeps at most 16', async (t) => {
  const ada = browserAt()
  ada.begin()
  const before = ada.header()
  for (let i = 0; i < 50; i++) t.equal(ada.begin().cookies.length, 1)
  t.equal(ada.header(), before)

  const many = browserAt()
  for (let i = 0; i < 40; i++) {
    many.begin({ cookieHeader: '' })
    if (many.jar.size > 16) many.begin()
    t.ok(many.jar.size <= 16)
  }
  const useless = browserAt()
  for (let i = 0; i < 16; i++) useless.jar.set(`${PREFIX}${i.toString(16).padStart(8, '0')}`, 'x')
  t.equal(useless.begin().cookies.length, 17)
  t.equal(useless.jar.size, 1)
})

t.test('180 cookies: few are cleared at once, and the hop ends well', async (t) => {
  const ada = browserAt()
  for (let i = 0; i < 180; i++) ada.begin({ cookieHeader: '' })
  t.equal(ada.jar.size, 180)
  const { hop, cookies } = ada.begin()
  t.ok(cookies.length <= 17)
  t.ok(cookies.map(serializeCookie).join('').length < 2_500, 'proxies limit headers')
  t.equal(ada.read(ticketOf(finish(hop))).sid, 'ada')
  t.equal(clearHops(PORTAL, ada.header()).length, 16)
})

t.test('all lost to a sibling that sets 180 cookies: costs one hop more', async (t) => {
  const ada = browserAt()
  const { hop } = ada.begin()
  ada.jar.clear()
  const { sid, count } = ada.read(ticketOf(finish(hop)))
  t.strictSame([sid, count], [undefined, 1])
  t.equal(ada.read(ticketOf(finish(ada.begin({ count }).hop))).sid, 'ada')
})

t.test('portals that share a host have cookies of their own', async (t) => {
  const ada = browserAt()
  const ticket = ticketFor(ada)
  ada.begin({ portal: 'main-1' })
  t.equal(ada.jar.size, 2)
  ada.take(clearHops('main-1', ada.header()))
  t.equal(ada.read(ticket).sid, 'ada')
})

t.test(
  'counts the hops of a browser that keeps no cookies, but not those of a bookmark',
  async (t) => {
    const ada = browserAt()
    let count = 0
    for (let hops = 1; hops <= MAX_HOPS; hops++) {
      const ticket = ticketOf(finish(ada.begin({ count, cookieHeader: '' }).hop))
      ada.jar.clear()
      ;({ count } = ada.read(ticket, { now: NOW + MINUTE }))
      t.equal(count, hops)
      t.equal(ada.read(ticket, { now: NOW + 10 * MINUTE }).count, 1)
    }
    t.equal(count, MAX_HOPS)
  },
)

t.test('works in linear time', async (t) => {
  const ada = browserAt()
  for (const piece of [
    '&',
    '?',
    `&${TICKET}`,
    `${TICKET}=`,
    `?${TICKET}=a`,
    `;${PREFIX}`,
    `; ${BINDING}00000000=`,
    ' ',
    'A',
  ]) {
    const text = piece.repeat(Math.ceil(1_000_000 / piece.length))
    const start = process.cpuUsage()
    splitTarget(`/?${TICKET}${text}`)
    ada.read(text)
    const begun = { portal: PORTAL, origin: ORIGIN, count: 0, cookieHeader: text, now: NOW }
    const { hop } = beginHop({ ...begun, place: PLACE }, KEYS)
    const of = { portal: PORTAL, returnTo: TARGET, cookieHeader: text, now: NOW }
    readHop(hop, of, KEYS)
    readHop(text, of, KEYS)
    clearBindings(PORTAL, text, PLACE)
    clearHops(PORTAL, text)
    const { user } = process.cpuUsage(start)
    t.ok(user < 2_000_000, `${piece}: ${user} µs`)
  }
})
