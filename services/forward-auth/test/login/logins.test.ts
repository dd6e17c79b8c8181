import { randomBytes } from 'node:crypto'
import { manualClock } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t from 'tap'
import { createLogins } from '../../src/login/logins.ts'
import type { Portal } from '../../src/portals.ts'
import type { Site } from '../../src/sites.ts'
import { keysOf, NEW_SECRET, OLD_SECRET, OTHER_SITE, portalNamed, SITE } from '../session/kit.ts'

const MINUTE = 60_000
const MAIN = portalNamed('main')
const OTHER = portalNamed('other')
const WISH = { provider: 'corp', returnTo: 'https://app.example.com/a', isRetry: false }

/** One instance. Several with the same keys stand for each other. */
async function start(...secrets: string[]) {
  const now = { keys: await keysOf(...(secrets.length > 0 ? secrets : [OLD_SECRET])) }
  const clock = manualClock()
  const logins = createLogins({ keys: () => now.keys, clock })
  const arrive = (
    portal: Portal,
    site: Site,
    state: unknown,
    cookieHeader: string | undefined,
    provider = 'corp',
  ) => logins.arrive(portal, site, { provider, state, cookieHeader })
  const begin = (...args: Parameters<typeof logins.begin>) => {
    const { secrets, setCookies } = logins.begin(...args)
    const [setCookie = '', ...further] = setCookies
    return { secrets, setCookie, further }
  }
  return { ...logins, begin, arrive, clock, now }
}

/** The Cookie header after a Set-Cookie value. */
const sent = (setCookie: string) => setCookie.split(';')[0] ?? ''

t.test('a login arrives once, in the browser that began it', async (t) => {
  const { begin, arrive } = await start()
  const { secrets, setCookie } = begin(MAIN, SITE, WISH, undefined)
  const cookie = sent(setCookie)
  const arrival = arrive(MAIN, SITE, secrets.state, cookie)
  t.match(arrival, { kind: 'live', wish: WISH, secrets })

  const after = arrival.kind === 'live' ? sent(arrival.setCookie) : ''
  const used = { kind: 'used', wish: WISH }
  t.strictSame(arrive(MAIN, SITE, secrets.state, after), used, 'again')
  t.strictSame(arrive(MAIN, SITE, secrets.state, cookie), used, 'with the cookie of before')
  t.strictSame(arrive(MAIN, SITE, secrets.state, undefined), used, 'without a cookie')
  const another = await start()
  t.strictSame(another.arrive(MAIN, SITE, secrets.state, after), used, 'on another instance')
})

t.test('each login has its own state, nonce and verifier, sealed in URL and cookie', async (t) => {
  const { begin } = await start()
  const all = Array.from({ length: 100 }, () => begin(MAIN, SITE, WISH, undefined))
  for (const name of ['state', 'nonce', 'codeVerifier'] as const)
    t.equal(new Set(all.map(({ secrets }) => secrets[name])).size, 100, name)
  const [{ secrets, setCookie }] = all as [(typeof all)[number]]
  t.match(secrets, { nonce: /^[\w-]{22}$/, codeVerifier: /^[\w-]{43}$/ })
  const told = Buffer.from(secrets.state + sent(setCookie), 'base64url').toString('latin1')
  for (const secret of [secrets.nonce, secrets.codeVerifier, 'app.example.com', 'corp'])
    t.notOk((told + secrets.state + setCookie).includes(secret), 'sealed')
})

t.test('a login cannot be finished in another browser', async (t) => {
  const { begin, arrive } = await start()
  const [ada, eve] = [1, 2].map(() => begin(MAIN, SITE, WISH, undefined)) as [Begun, Begun]
  const lost = { kind: 'lost', wish: WISH }
  t.strictSame(arrive(MAIN, SITE, ada.secrets.state, sent(eve.setCookie)), lost)
  t.strictSame(arrive(MAIN, SITE, eve.secrets.state, sent(ada.setCookie)), lost)
  t.strictSame(arrive(MAIN, SITE, eve.secrets.state, undefined), lost)
  t.match(arrive(MAIN, SITE, eve.secrets.state, sent(eve.setCookie)), { kind: 'live' })
})
type Begun = ReturnType<Awaited<ReturnType<typeof start>>['begin']>

t.test('a login cannot be finished at another portal or site', async (t) => {
  const { begin, arrive } = await start()
  const { secrets, setCookie } = begin(MAIN, SITE, WISH, undefined)
  const cookie = sent(setCookie)
  const cookies = `${cookie}; ${cookie.replace('.main=', '.other=')}`
  t.strictSame(arrive(OTHER, SITE, secrets.state, cookies), { kind: 'unknown' })
  t.strictSame(arrive(MAIN, OTHER_SITE, secrets.state, cookies), { kind: 'unknown' })
  t.match(arrive(MAIN, SITE, secrets.state, cookies), { kind: 'live' })
})

t.test('ignores a login cookie that is sent twice', async (t) => {
  const { begin, arrive } = await start()
  const { secrets, setCookie } = begin(MAIN, SITE, WISH, undefined)
  const cookie = sent(setCookie)
  t.match(arrive(MAIN, SITE, secrets.state, `${cookie}; ${cookie}`), { kind: 'lost' })
})

t.test('a login expires', async (t) => {
  const { begin, arrive, clock } = await start()
  const { secrets, setCookie } = begin(MAIN, SITE, WISH, undefined)
  t.match(setCookie, /; Path=\/; Max-Age=600; HttpOnly; Secure; SameSite=Lax$/)
  await clock.advance(10 * MINUTE)
  const expired = { kind: 'expired', wish: WISH }
  t.strictSame(arrive(MAIN, SITE, secrets.state, sent(setCookie)), expired, 'what it was for stays')
})

t.test('a login is taken only at the redirect URI of the provider it began at', async (t) => {
  const { begin, arrive, clock } = await start()
  const { secrets, setCookie } = begin(MAIN, SITE, WISH, undefined)
  const cookie = sent(setCookie)
  const foreign = { kind: 'foreign', wish: WISH }
  t.strictSame(arrive(MAIN, SITE, secrets.state, cookie, 'other'), foreign)
  t.strictSame(arrive(MAIN, SITE, secrets.state, undefined, 'other'), foreign, 'without a cookie')
  t.match(arrive(MAIN, SITE, secrets.state, cookie), { kind: 'live' }, 'and it is not used up')
  await clock.advance(10 * MINUTE)
  t.strictSame(arrive(MAIN, SITE, secrets.state, cookie, 'other'), foreign, 'nor when it is late')
})

t.test('eight tabs can log in at the same time', async (t) => {
  const { begin, arrive } = await start()
  let cookie = ''
  const states = Array.from({ length: 9 }, (_, i) => {
    const wish = { ...WISH, returnTo: `https://app.example.com/${i}` }
    const { secrets, setCookie } = begin(MAIN, SITE, wish, cookie)
    cookie = sent(setCookie)
    return secrets.state
  })
  const [oldest, ...others] = states
  t.match(arrive(MAIN, SITE, oldest, cookie), { kind: 'lost' }, 'of nine the oldest is gone')
  for (const [i, state] of others.toReversed().entries()) {
    const arrival = arrive(MAIN, SITE, state, cookie)
    t.match(arrival, { kind: 'live', wish: { returnTo: `https://app.example.com/${8 - i}` } })
    if (arrival.kind === 'live') cookie = sent(arrival.setCookie)
  }
})

t.test('the login cookie stays small however many logins begin', async (t) => {
  const { begin, arrive } = await start()
  let cookie = ''
  let last = ''
  for (let i = 0; i < 200; i++) {
    const wish = { ...WISH, returnTo: `https://app.example.com/${i}/`.padEnd(2_048, 'a') }
    const { secrets, setCookie } = begin(MAIN, SITE, wish, cookie)
    cookie = sent(setCookie)
    last = secrets.state
    if (cookie.length > 2_500) t.fail(`${cookie.length} characters`)
  }
  t.match(arrive(MAIN, SITE, last, cookie), { kind: 'live' })
})

t.test('those that came back give way before those under way', async (t) => {
  const { begin, arrive } = await start()
  const first = begin(MAIN, SITE, WISH, undefined)
  const second = begin(MAIN, SITE, WISH, sent(first.setCookie))
  const back = arrive(MAIN, SITE, second.secrets.state, sent(second.setCookie))
  let cookie = back.kind === 'live' ? sent(back.setCookie) : ''
  for (let i = 0; i < 7; i++) cookie = sent(begin(MAIN, SITE, WISH, cookie).setCookie)
  t.match(arrive(MAIN, SITE, first.secrets.state, cookie), { kind: 'live' })
})

t.test('a login that began before a rotation of keys arrives after it', async (t) => {
  const { begin, arrive, now } = await start()
  const { secrets, setCookie } = begin(MAIN, SITE, WISH, undefined)
  now.keys = await keysOf(NEW_SECRET)
  t.match(arrive(MAIN, SITE, secrets.state, sent(setCookie)), { kind: 'unknown' })
  now.keys = await keysOf(NEW_SECRET, OLD_SECRET)
  t.match(arrive(MAIN, SITE, secrets.state, sent(setCookie)), { kind: 'live' })
})

t.test('signing out takes all logins of the browser away', async (t) => {
  const { clear } = await start()
  t.strictSame(clear(MAIN), [
    '__Host-gatehouse-login.main=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax',
    '__Host-gatehouse-target.main=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax',
    '__Host-gatehouse-rounds.main=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax',
  ])
})

t.test('a forged state or login cookie is unknown and never an error', async (t) => {
  const { begin, arrive } = await start()
  const { secrets, setCookie } = begin(MAIN, SITE, WISH, undefined)
  const cookie = sent(setCookie)
  for (const state of [undefined, '', 'x', ['a', 'b'], {}, cookie.split('=')[1]])
    t.strictSame(arrive(MAIN, SITE, state, cookie), { kind: 'unknown' })
  const alias = secrets.state.replace(/.$/, (last) => `!${last}`)
  for (const state of [`${secrets.state}=`, `${secrets.state}!`, ` ${secrets.state}`, alias])
    t.strictSame(arrive(MAIN, SITE, state, cookie), { kind: 'unknown' }, 'the same bytes')
  const swapped = `__Host-gatehouse-login.main=${secrets.state}`
  t.match(arrive(MAIN, SITE, secrets.state, swapped), { kind: 'lost' }, 'a state as the cookie')
  const flips = fc.nat({ max: secrets.state.length - 1 })
  const letters = fc.constantFrom('A', 'B', '-', '_', '', 'AA')
  fc.assert(
    fc.property(flips, letters, fc.string(), (at, letter, junk) => {
      const flip = (text: string) => text.slice(0, at) + letter + text.slice(at + 1)
      const [state, slots] = [flip(secrets.state), flip(cookie)]
      const ofState =
        state === secrets.state || arrive(MAIN, SITE, state, cookie).kind === 'unknown'
      const others = [arrive(MAIN, SITE, junk, slots), arrive(MAIN, SITE, state, junk)]
      return ofState && others.every(({ kind }) => kind !== 'live')
    }),
  )
})

/** A link as dashboards make them: structured, percent-encoded, of this length. */
function dashboardLink(length: number, seed = ''): string {
  let panes = ''
  for (let i = 0; panes.length < length; i++)
    panes += `{"refId":"${seed}${i}","expr":"sum(rate(http_requests_total{job=\\"api-${i * 7919}\\"}[5m]))"},`
  const query = encodeURIComponent(panes)
  return `https://app.example.com/explore?panes=${query}`.slice(0, length).replace(/%.?$/, '')
}

/** A link that nothing makes shorter. */
function randomLink(length: number): string {
  const text = randomBytes(length).toString('base64url')
  return `https://app.example.com/saml?request=${text}`.slice(0, length)
}

t.test('a login knows where it leads to however long the link is', async (t) => {
  const { begin, arrive } = await start()
  const cookiesOf = ({ setCookie, further }: Begun) => [setCookie, ...further].map(sent).join('; ')
  const links = [1_000, 2_048, 4_096, 6_000, 8_192].map((length) => dashboardLink(length))
  for (const returnTo of [...links, randomLink(2_500), randomLink(3_700)]) {
    const begun = begin(MAIN, SITE, { ...WISH, returnTo }, undefined)
    t.ok(begun.secrets.state.length <= 3_000, `${returnTo.length}: ${begun.secrets.state.length}`)
    for (const cookie of begun.further) t.ok(sent(cookie).length <= 4_096)
    const arrival = arrive(MAIN, SITE, begun.secrets.state, cookiesOf(begun))
    t.match(arrival, { kind: 'live', wish: { returnTo } }, `${returnTo.length} characters`)
  }
  t.equal(begin(MAIN, SITE, { ...WISH, returnTo: links[3]! }, undefined).further.length, 0)
})

t.test('a link that fits nowhere leads to its page without the query', async (t) => {
  const { begin, arrive } = await start()
  const one = begin(MAIN, SITE, { ...WISH, returnTo: randomLink(8_192) }, undefined)
  t.strictSame(one.further, [])
  t.match(arrive(MAIN, SITE, one.secrets.state, sent(one.setCookie)), {
    kind: 'live',
    wish: { returnTo: 'https://app.example.com/saml' },
  })
  const path = `https://app.example.com/${randomBytes(6_000).toString('base64url')}`
  const two = begin(MAIN, SITE, { ...WISH, returnTo: path }, undefined)
  t.match(arrive(MAIN, SITE, two.secrets.state, sent(two.setCookie)), { wish: { returnTo: '' } })
})

t.test('of several tabs with links that need a cookie each ends on its own page', async (t) => {
  const { begin, arrive } = await start()
  const links = [1, 2].map(() => randomLink(3_500))
  const first = begin(MAIN, SITE, { ...WISH, returnTo: links[0]! }, undefined)
  const second = begin(MAIN, SITE, { ...WISH, returnTo: links[1]! }, sent(first.setCookie))
  const cookies = [second.setCookie, ...second.further].map(sent).join('; ')
  t.match(arrive(MAIN, SITE, first.secrets.state, cookies), {
    kind: 'live',
    wish: { returnTo: 'https://app.example.com/saml' },
  })
  t.match(arrive(MAIN, SITE, second.secrets.state, cookies), { wish: { returnTo: links[1] } })
  t.match(arrive(OTHER, SITE, second.secrets.state, cookies), { kind: 'unknown' })
})
