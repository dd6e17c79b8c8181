import { randomBytes } from 'node:crypto'
import { manualClock, testFolder } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { Logins } from '../../src/login/logins.ts'
import type { Portal } from '../../src/portals.ts'
import type { Site } from '../../src/sites.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { keysOf, NEW_SECRET, OLD_SECRET, OTHER_SITE, portalNamed, SITE } from '../session/kit.ts'
import { headersOf, sent } from './kit.ts'

const MINUTE = 60_000
const MAIN = portalNamed('main')
const OTHER = portalNamed('other')
const LOGIN = { provider: 'corp', returnTo: 'https://app.example.com/a', isRetry: false }

/** One instance. Several with the same keys stand for each other. */
async function start(t: Test, folder = testFolder(t)) {
  const now = { keys: await keysOf(OLD_SECRET) }
  const clock = manualClock()
  const store = new SqliteStore(folder, { clock, log: console as never })
  t.teardown(() => store.close())
  const logins = new Logins({ keys: () => now.keys, clock, store })
  const complete = (
    portal: Portal,
    site: Site,
    state: unknown,
    cookieHeader: string | undefined,
    provider = 'corp',
  ) => logins.complete(portal, site, { provider, state, cookieHeader })
  const begin = (...args: Parameters<typeof logins.begin>) => {
    const { secrets, cookies } = logins.begin(...args)
    const [cookie, ...further] = cookies
    return { secrets, setCookie: cookie!, further }
  }
  return { begin, complete, clear: (portal: Portal) => logins.clear(portal), clock, now }
}

t.test('a login completes once, in the browser that started it', async (t) => {
  const { begin, complete } = await start(t)
  const { secrets, setCookie } = begin(MAIN, SITE, LOGIN, undefined)
  const cookie = sent(setCookie)
  const found = await complete(MAIN, SITE, secrets.state, cookie)
  t.match(found, { kind: 'valid', login: LOGIN, secrets })

  const after = found.kind === 'valid' ? sent(found.cookie) : ''
  const used = { kind: 'used', login: LOGIN }
  t.strictSame(await complete(MAIN, SITE, secrets.state, after), used, 'again')
  t.strictSame(await complete(MAIN, SITE, secrets.state, cookie), used, 'with the cookie of before')
  t.strictSame(await complete(MAIN, SITE, secrets.state, undefined), used, 'without a cookie')
  const another = await start(t)
  t.strictSame(
    await another.complete(MAIN, SITE, secrets.state, after),
    used,
    'on another instance',
  )
})

t.test('each login has its own state, nonce and verifier, sealed in URL and cookie', async (t) => {
  const { begin } = await start(t)
  const all = Array.from({ length: 100 }, () => begin(MAIN, SITE, LOGIN, undefined))
  for (const name of ['state', 'nonce', 'codeVerifier'] as const)
    t.equal(new Set(all.map(({ secrets }) => secrets[name])).size, 100, name)
  const [{ secrets, setCookie }] = all as [(typeof all)[number]]
  t.match(secrets, { nonce: /^[\w-]{22}$/, codeVerifier: /^[\w-]{43}$/ })
  const opened = Buffer.from(secrets.state + sent(setCookie), 'base64url').toString('latin1')
  for (const secret of [secrets.nonce, secrets.codeVerifier, 'app.example.com', 'corp'])
    t.notOk((opened + secrets.state + sent(setCookie)).includes(secret), 'sealed')
})

t.test('a login cannot be finished in another browser', async (t) => {
  const { begin, complete } = await start(t)
  const [ada, eve] = [1, 2].map(() => begin(MAIN, SITE, LOGIN, undefined)) as [Begun, Begun]
  const lost = { kind: 'lost', login: LOGIN }
  t.strictSame(await complete(MAIN, SITE, ada.secrets.state, sent(eve.setCookie)), lost)
  t.strictSame(await complete(MAIN, SITE, eve.secrets.state, sent(ada.setCookie)), lost)
  t.strictSame(await complete(MAIN, SITE, eve.secrets.state, undefined), lost)
  t.match(await complete(MAIN, SITE, eve.secrets.state, sent(eve.setCookie)), { kind: 'valid' })
})
type Begun = ReturnType<Awaited<ReturnType<typeof start>>['begin']>

t.test('a login cannot be finished at another portal or site', async (t) => {
  const { begin, complete } = await start(t)
  const { secrets, setCookie } = begin(MAIN, SITE, LOGIN, undefined)
  const cookie = sent(setCookie)
  const cookies = `${cookie}; ${cookie.replace('.main=', '.other=')}`
  t.strictSame(await complete(OTHER, SITE, secrets.state, cookies), { kind: 'unknown' })
  t.strictSame(await complete(MAIN, OTHER_SITE, secrets.state, cookies), { kind: 'unknown' })
  t.match(await complete(MAIN, SITE, secrets.state, cookies), { kind: 'valid' })
})

t.test('ignores a login cookie that is sent twice', async (t) => {
  const { begin, complete } = await start(t)
  const { secrets, setCookie } = begin(MAIN, SITE, LOGIN, undefined)
  const cookie = sent(setCookie)
  t.match(await complete(MAIN, SITE, secrets.state, `${cookie}; ${cookie}`), { kind: 'lost' })
})

t.test('a login expires', async (t) => {
  const { begin, complete, clock } = await start(t)
  const { secrets, setCookie } = begin(MAIN, SITE, LOGIN, undefined)
  t.match(await headersOf(setCookie), [/; Max-Age=600; Path=\/; HttpOnly; Secure; SameSite=Lax$/])
  await clock.advance(10 * MINUTE)
  const expired = { kind: 'expired', login: LOGIN }
  t.strictSame(
    await complete(MAIN, SITE, secrets.state, sent(setCookie)),
    expired,
    'what it was for stays',
  )
})

t.test('a login completes only at the redirect URI of the provider where it started', async (t) => {
  const { begin, complete, clock } = await start(t)
  const { secrets, setCookie } = begin(MAIN, SITE, LOGIN, undefined)
  const cookie = sent(setCookie)
  const foreign = { kind: 'foreign', login: LOGIN }
  t.strictSame(await complete(MAIN, SITE, secrets.state, cookie, 'other'), foreign)
  t.strictSame(
    await complete(MAIN, SITE, secrets.state, undefined, 'other'),
    foreign,
    'without a cookie',
  )
  t.match(
    await complete(MAIN, SITE, secrets.state, cookie),
    { kind: 'valid' },
    'and it is not used up',
  )
  await clock.advance(10 * MINUTE)
  t.strictSame(
    await complete(MAIN, SITE, secrets.state, cookie, 'other'),
    foreign,
    'nor when it is late',
  )
})

t.test('eight tabs can log in at the same time', async (t) => {
  const { begin, complete } = await start(t)
  let cookie = ''
  const states = Array.from({ length: 9 }, (_, i) => {
    const login = { ...LOGIN, returnTo: `https://app.example.com/${i}` }
    const { secrets, setCookie } = begin(MAIN, SITE, login, cookie)
    cookie = sent(setCookie)
    return secrets.state
  })
  const [oldest, ...others] = states
  t.match(
    await complete(MAIN, SITE, oldest, cookie),
    { kind: 'lost' },
    'of nine the oldest is gone',
  )
  for (const [i, state] of others.toReversed().entries()) {
    const found = await complete(MAIN, SITE, state, cookie)
    t.match(found, { kind: 'valid', login: { returnTo: `https://app.example.com/${8 - i}` } })
    if (found.kind === 'valid') cookie = sent(found.cookie)
  }
})

t.test('the login cookie stays small however many logins begin', async (t) => {
  const { begin, complete } = await start(t)
  let cookie = ''
  let last = ''
  for (let i = 0; i < 200; i++) {
    const login = { ...LOGIN, returnTo: `https://app.example.com/${i}/`.padEnd(2_048, 'a') }
    const { secrets, setCookie } = begin(MAIN, SITE, login, cookie)
    cookie = sent(setCookie)
    last = secrets.state
    if (cookie.length > 2_500) t.fail(`${cookie.length} characters`)
  }
  t.match(await complete(MAIN, SITE, last, cookie), { kind: 'valid' })
})

t.test('drops completed logins before those in progress', async (t) => {
  const { begin, complete } = await start(t)
  const first = begin(MAIN, SITE, LOGIN, undefined)
  const second = begin(MAIN, SITE, LOGIN, sent(first.setCookie))
  const back = await complete(MAIN, SITE, second.secrets.state, sent(second.setCookie))
  let cookie = back.kind === 'valid' ? sent(back.cookie) : ''
  for (let i = 0; i < 7; i++) cookie = sent(begin(MAIN, SITE, LOGIN, cookie).setCookie)
  t.match(await complete(MAIN, SITE, first.secrets.state, cookie), { kind: 'valid' })
})

t.test('a login that started before a rotation of keys completes after it', async (t) => {
  const { begin, complete, now } = await start(t)
  const { secrets, setCookie } = begin(MAIN, SITE, LOGIN, undefined)
  now.keys = await keysOf(NEW_SECRET)
  t.match(await complete(MAIN, SITE, secrets.state, sent(setCookie)), { kind: 'unknown' })
  now.keys = await keysOf(NEW_SECRET, OLD_SECRET)
  t.match(await complete(MAIN, SITE, secrets.state, sent(setCookie)), { kind: 'valid' })
})

t.test('signing out removes all logins of the browser', async (t) => {
  const { clear } = await start(t)
  t.strictSame(await headersOf(...clear(MAIN)), [
    '__Host-gatehouse-login.main=; Max-Age=0; Path=/; HttpOnly; Secure; SameSite=Lax',
    '__Host-gatehouse-target.main=; Max-Age=0; Path=/; HttpOnly; Secure; SameSite=Lax',
    '__Host-gatehouse-rounds.main=; Max-Age=0; Path=/; HttpOnly; Secure; SameSite=Lax',
  ])
})

t.test('a forged state or login cookie is unknown and never an error', async (t) => {
  const { begin, complete } = await start(t)
  const { secrets, setCookie } = begin(MAIN, SITE, LOGIN, undefined)
  const cookie = sent(setCookie)
  for (const state of [undefined, '', 'x', ['a', 'b'], {}, cookie.split('=')[1]])
    t.strictSame(await complete(MAIN, SITE, state, cookie), { kind: 'unknown' })
  const alias = secrets.state.replace(/.$/, (last) => `!${last}`)
  for (const state of [`${secrets.state}=`, `${secrets.state}!`, ` ${secrets.state}`, alias])
    t.strictSame(await complete(MAIN, SITE, state, cookie), { kind: 'unknown' }, 'the same bytes')
  const swapped = `__Host-gatehouse-login.main=${secrets.state}`
  t.match(
    await complete(MAIN, SITE, secrets.state, swapped),
    { kind: 'lost' },
    'a state as the cookie',
  )
  const flips = fc.nat({ max: secrets.state.length - 1 })
  const letters = fc.constantFrom('A', 'B', '-', '_', '', 'AA')
  await fc.assert(
    fc.asyncProperty(flips, letters, fc.string(), async (at, letter, junk) => {
      const flip = (text: string) => text.slice(0, at) + letter + text.slice(at + 1)
      const [state, slots] = [flip(secrets.state), flip(cookie)]
      const ofState =
        state === secrets.state || (await complete(MAIN, SITE, state, cookie)).kind === 'unknown'
      const others = [
        await complete(MAIN, SITE, junk, slots),
        await complete(MAIN, SITE, state, junk),
      ]
      return ofState && others.every(({ kind }) => kind !== 'valid')
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

t.test('keeps return URLs of any allowed length', async (t) => {
  const { begin, complete } = await start(t)
  const cookiesOf = ({ setCookie, further }: Begun) => [setCookie, ...further].map(sent).join('; ')
  const links = [1_000, 2_048, 4_096, 6_000, 8_192].map((length) => dashboardLink(length))
  for (const returnTo of [...links, randomLink(2_500), randomLink(3_700)]) {
    const begun = begin(MAIN, SITE, { ...LOGIN, returnTo }, undefined)
    t.ok(begun.secrets.state.length <= 3_000, `${returnTo.length}: ${begun.secrets.state.length}`)
    for (const cookie of begun.further) t.ok(sent(cookie).length <= 4_096)
    const found = await complete(MAIN, SITE, begun.secrets.state, cookiesOf(begun))
    t.match(found, { kind: 'valid', login: { returnTo } }, `${returnTo.length} characters`)
  }
  t.equal(begin(MAIN, SITE, { ...LOGIN, returnTo: links[3]! }, undefined).further.length, 0)
})

t.test('drops the query of a return URL that fits nowhere', async (t) => {
  const { begin, complete } = await start(t)
  const one = begin(MAIN, SITE, { ...LOGIN, returnTo: randomLink(8_192) }, undefined)
  t.strictSame(one.further, [])
  t.match(await complete(MAIN, SITE, one.secrets.state, sent(one.setCookie)), {
    kind: 'valid',
    login: { returnTo: 'https://app.example.com/saml' },
  })
  const path = `https://app.example.com/${randomBytes(6_000).toString('base64url')}`
  const two = begin(MAIN, SITE, { ...LOGIN, returnTo: path }, undefined)
  t.match(await complete(MAIN, SITE, two.secrets.state, sent(two.setCookie)), {
    login: { returnTo: '' },
  })
})

t.test('keeps the return URLs of several tabs apart', async (t) => {
  const { begin, complete } = await start(t)
  const links = [1, 2].map(() => randomLink(3_500))
  const first = begin(MAIN, SITE, { ...LOGIN, returnTo: links[0]! }, undefined)
  const second = begin(MAIN, SITE, { ...LOGIN, returnTo: links[1]! }, sent(first.setCookie))
  const cookies = [second.setCookie, ...second.further].map(sent).join('; ')
  t.match(await complete(MAIN, SITE, first.secrets.state, cookies), {
    kind: 'valid',
    login: { returnTo: 'https://app.example.com/saml' },
  })
  t.match(await complete(MAIN, SITE, second.secrets.state, cookies), {
    login: { returnTo: links[1] },
  })
  t.match(await complete(OTHER, SITE, second.secrets.state, cookies), { kind: 'unknown' })
})
