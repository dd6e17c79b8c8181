import { randomBytes } from 'node:crypto'
import { manualClock, testFolder } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import type { Portal } from '../../src/portal/portals.ts'
import { type LoginState, Logins } from '../../src/sign-in/logins.ts'
import type { Site } from '../../src/sites.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { keysOf, NEW_SECRET, OLD_SECRET, OTHER_SITE, portalNamed, SITE } from '../session/kit.ts'
import { headersOf, sent } from '../web/kit.ts'

const MINUTE = 60_000
const MAIN = portalNamed('main')
const OTHER = portalNamed('other')
const LOGIN = {
  provider: 'corp',
  redirectUri: 'https://auth.example.com/portals/main/providers/corp/callback',
  returnTo: 'https://app.example.com/a',
}

/** One instance. Several with the same keys stand for each other. */
async function start(t: Test, folder = testFolder(t)) {
  const now = { keys: await keysOf(OLD_SECRET) }
  const clock = manualClock()
  const store = new SqliteStore(folder, { clock, log: console as never })
  t.teardown(() => store.close())
  const logins = new Logins(() => now.keys, clock, store)
  const complete = (
    portal: Portal,
    site: Site,
    state: unknown,
    cookieHeader: string | undefined,
    provider = 'corp',
  ) => logins.complete({ portal, site }, { provider, state, cookieHeader })
  const begin = (portal: Portal, site: Site, login: LoginState, header: string | undefined) => {
    const { secrets, cookies } = logins.begin({ portal, site }, login, header)
    const [cookie, ...further] = cookies
    return { secrets, setCookie: cookie!, further }
  }
  return { begin, complete, logins, clock, now }
}

t.test('a login completes once, in the browser that started it', async (t) => {
  const folder = testFolder(t)
  const { begin, complete } = await start(t, folder)
  const { secrets, setCookie } = begin(MAIN, SITE, LOGIN, undefined)
  const cookie = sent(setCookie)
  const found = await complete(MAIN, SITE, secrets.state, cookie)
  t.match(found, { kind: 'valid', login: LOGIN, secrets })

  const used = { kind: 'used', login: LOGIN }
  t.strictSame(await complete(MAIN, SITE, secrets.state, cookie), used, 'again')
  t.strictSame(await complete(MAIN, SITE, secrets.state, undefined), used, 'without a cookie')
  t.equal(found.kind === 'valid' && (await found.confirm()), true)
  const restarted = await start(t, folder)
  t.strictSame(await restarted.complete(MAIN, SITE, secrets.state, cookie), used, 'after a restart')
})

t.test(
  'each login has its own state, nonce and verifier, and neither URL nor cookie tells them',
  async (t) => {
    const { begin } = await start(t)
    const first = begin(MAIN, SITE, LOGIN, undefined)
    const cookie = sent(first.setCookie)
    const others = Array.from({ length: 50 }, () => begin(MAIN, SITE, LOGIN, cookie))
    const strangers = Array.from({ length: 49 }, () => begin(MAIN, SITE, LOGIN, undefined))
    const all = [first, ...others, ...strangers]
    for (const name of ['state', 'nonce', 'codeVerifier'] as const)
      t.equal(new Set(all.map(({ secrets }) => secrets[name])).size, 100, name)
    const { secrets, setCookie } = first
    t.match(secrets, { nonce: /^[\w-]{43}$/, codeVerifier: /^[\w-]{43}$/ })
    const opened = Buffer.from(secrets.state + sent(setCookie), 'base64url').toString('latin1')
    for (const secret of [secrets.nonce, secrets.codeVerifier, 'app.example.com', 'corp'])
      t.notOk((opened + secrets.state + sent(setCookie)).includes(secret), 'not told')
  },
)

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
  const cookies = `${cookie}; ${cookie.replace('.main.', '.other.')}`
  t.strictSame(await complete(OTHER, SITE, secrets.state, cookies), { kind: 'unknown' })
  t.strictSame(await complete(MAIN, OTHER_SITE, secrets.state, cookies), { kind: 'unknown' })
  t.match(await complete(MAIN, SITE, secrets.state, cookies), { kind: 'valid' })
})

t.test('a cookie of another host counts for no login', async (t) => {
  const { begin, complete } = await start(t)
  const [ada, eve] = [1, 2].map(() => begin(MAIN, SITE, LOGIN, undefined)) as [Begun, Begun]
  // Another host can neither set a name with this prefix nor write what a state is bound to under another.
  const [, secret] = sent(eve.setCookie).split('=')
  const planted = sent(eve.setCookie).replace('__Host-', '__Secure-')
  const named = sent(ada.setCookie)
  for (const [header, kind] of [
    [planted, 'lost'],
    [`x=${secret}; __Host-gatehouse-login.other.${eve.setCookie.name.slice(-8)}=${secret}`, 'lost'],
    [`${planted}; ${named}; x="__Host-gatehouse-login.main.a=${secret}"`, 'lost'],
  ] as const)
    t.match(await complete(MAIN, SITE, eve.secrets.state, header), { kind }, header)
  for (const [header, kind] of [
    [`${planted}; ${named}; ${named}`, 'lost'],
    [`${planted}; ${named}`, 'valid'],
  ] as const)
    t.match(await complete(MAIN, SITE, ada.secrets.state, header), { kind }, header)
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

/** What a browser sends after answers, in the order in which they arrived. */
function jarOf(...answers: Begun[]): string {
  const jar = new Map(answers.map(({ setCookie: { name, value } }) => [name, value]))
  return [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
}

const TABS = [1, 2, 3, 5, 8, 12, 50, 100]

t.test('any number of tabs can log in at the same time, and finish in any order', async (t) => {
  const shuffle = <T>(all: readonly T[]) => all.toSorted(() => (randomBytes(1)[0]! & 1) - 0.5)
  for (const count of TABS) {
    const { begin, complete } = await start(t)
    const returnTo = (i: number) => `https://app.example.com/${i}`
    const beginAt = (i: number, cookie?: string) =>
      begin(MAIN, SITE, { ...LOGIN, returnTo: returnTo(i) }, cookie)
    for (const way of ['all at once', 'half at once', 'one after another']) {
      const alone = { 'all at once': count, 'half at once': Math.ceil(count / 2) }[way] ?? 1
      const begun: Begun[] = []
      for (let i = 0; i < count; i++)
        begun.push(beginAt(i, i < alone ? undefined : jarOf(...begun.slice(0, alone))))
      const jar = jarOf(...shuffle(begun))
      t.ok(jar.split('; ').length <= alone, `${count} ${way}: ${jar.split('; ').length} cookies`)
      t.ok(jar.length <= alone * 85, `${count} ${way}: ${jar.length} bytes`)
      const results = await Promise.all(
        shuffle([...begun.keys()]).map(async (i) => {
          const found = await complete(MAIN, SITE, begun[i]!.secrets.state, jar)
          return found.kind === 'valid' && found.login.returnTo === returnTo(i)
        }),
      )
      t.ok(results.every(Boolean), `${count} ${way}`)
    }
  }
})

t.test('a browser has one login cookie however many logins begin', async (t) => {
  const { begin, complete } = await start(t)
  const first = begin(MAIN, SITE, LOGIN, undefined)
  const [begun, cookie] = [[first], sent(first.setCookie)]
  for (let i = 0; i < 200; i++) {
    const login = { ...LOGIN, returnTo: `https://app.example.com/${i}/`.padEnd(2_048, 'a') }
    begun.push(begin(MAIN, SITE, login, cookie))
  }
  t.ok(begun.every(({ setCookie }) => sent(setCookie) === cookie))
  for (const { secrets } of begun)
    t.match(await complete(MAIN, SITE, secrets.state, cookie), { kind: 'valid' })
})

t.test('a login that started before a rotation of keys completes after it', async (t) => {
  const { begin, complete, now } = await start(t)
  const { secrets, setCookie } = begin(MAIN, SITE, LOGIN, undefined)
  now.keys = await keysOf(NEW_SECRET)
  t.match(await complete(MAIN, SITE, secrets.state, sent(setCookie)), { kind: 'unknown' })
  now.keys = await keysOf(NEW_SECRET, OLD_SECRET)
  t.match(await complete(MAIN, SITE, secrets.state, sent(setCookie)), { kind: 'valid' })
})

t.test('signing out removes the logins of the browser at that portal', async (t) => {
  const { begin, logins } = await start(t)
  const begun = [1, 2].map(() => begin(MAIN, SITE, LOGIN, undefined))
  const other = begin(OTHER, SITE, LOGIN, undefined)
  const gone = 'Max-Age=0; Path=/; HttpOnly; Secure; SameSite=Lax'
  t.strictSame(await headersOf(...logins.clear(MAIN, `a=b; ${jarOf(other, ...begun)}; c`)), [
    ...begun.map(({ setCookie }) => `${setCookie.name}=; ${gone}`),
    `__Host-gatehouse-rounds.main=; ${gone}`,
  ])
  const many = jarOf(...Array.from({ length: 100 }, () => begin(MAIN, SITE, LOGIN, undefined)))
  const length = String(await headersOf(...logins.clear(MAIN, many))).length
  t.ok(length < 2_500, `the answer stays small: ${length} bytes`)
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
  const swapped = `${setCookie.name}=${secrets.state}`
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

/** Where logins lead whose return URL is in a cookie, and which it is. */
function followLong({ logins }: Started, { further: [cookie] }: Begun, returnTo: string) {
  const { pathname, searchParams } = new URL(returnTo)
  const id = /^\/portals\/main\/return\/([\w-]{22})$/.exec(pathname)?.[1] ?? ''
  const read = (portal = MAIN) =>
    logins.longDestination({ portal, site: SITE }, id, cookie && sent(cookie))?.returnTo
  return { pathname, id, read, without: searchParams.get('rd') }
}
type Started = Awaited<ReturnType<typeof start>>

t.test('keeps return URLs of any allowed length', async (t) => {
  const test = await start(t)
  const { begin, complete } = test
  const links = [1_000, 2_048, 4_096, 6_000, 8_192].map((length) => dashboardLink(length))
  for (const returnTo of [...links, randomLink(2_500), randomLink(3_700)]) {
    const begun = begin(MAIN, SITE, { ...LOGIN, returnTo }, undefined)
    t.ok(begun.secrets.state.length <= 3_000, `${returnTo.length}: ${begun.secrets.state.length}`)
    for (const cookie of begun.further) t.ok(sent(cookie).length <= 4_096)
    const found = await complete(MAIN, SITE, begun.secrets.state, sent(begun.setCookie))
    const reached = found.kind === 'valid' ? found.login.returnTo : ''
    const kept = begun.further.length > 0 ? followLong(test, begun, reached).read() : reached
    t.equal(kept, returnTo, `${returnTo.length} characters`)
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
  const hashed = `https://app.example.com/#${randomBytes(6_000).toString('base64url')}`
  const three = begin(MAIN, SITE, { ...LOGIN, returnTo: hashed, hop: 'x' }, undefined)
  t.match(await complete(MAIN, SITE, three.secrets.state, sent(three.setCookie)), {
    login: { returnTo: 'https://app.example.com/', hop: 'x' },
  })
  const path = `https://app.example.com/${randomBytes(6_000).toString('base64url')}`
  const two = begin(MAIN, SITE, { ...LOGIN, returnTo: path }, undefined)
  t.match(await complete(MAIN, SITE, two.secrets.state, sent(two.setCookie)), {
    login: { returnTo: '' },
  })
})

t.test('long return URLs of several tabs are in cookies of their own paths', async (t) => {
  const test = await start(t)
  const tabs = await Promise.all(
    Array.from({ length: 12 }, async () => {
      const returnTo = randomLink(3_500)
      const begun = test.begin(MAIN, SITE, { ...LOGIN, returnTo }, undefined)
      const found = await test.complete(MAIN, SITE, begun.secrets.state, sent(begun.setCookie))
      const reached = found.kind === 'valid' ? found.login.returnTo : ''
      return { begun, returnTo, ...followLong(test, begun, reached) }
    }),
  )
  const paths = tabs.map(({ begun }) => begun.further[0]?.path)
  t.equal(new Set(paths).size, 12, 'so that no request carries two of them')
  for (const { begun, returnTo, pathname, read, without } of tabs) {
    t.equal(begun.further[0]?.path, pathname)
    t.equal(read(), returnTo)
    t.equal(without, 'https://app.example.com/saml', 'if the cookie is lost')
    t.equal(read(OTHER), undefined)
  }
  const [one, two] = tabs as [(typeof tabs)[number], (typeof tabs)[number]]
  const planted = sent(two.begun.further[0]!)
  const realm = { portal: MAIN, site: SITE }
  t.equal(test.logins.longDestination(realm, one.id, planted), undefined, 'of another login')
})
