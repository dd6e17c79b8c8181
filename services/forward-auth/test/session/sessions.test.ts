import { createHmac, hkdfSync } from 'node:crypto'
import { chmod } from 'node:fs/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { fromClaims } from '@gatehouse/profile'
import { type ManualClock, manualClock, testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { Logins } from '../../src/login/logins.ts'
import {
  ADA,
  cookieHeader,
  keysOf,
  NEW_SECRET,
  OLD_SECRET,
  OTHER_SITE,
  portalNamed,
  SITE,
  startInstance,
} from './kit.ts'

const SECOND = 1_000
const HOUR = 3_600 * SECOND

t.test('a session is read from its cookie, again and again, as the same object', async (t) => {
  const { create, read, verify, portal, clock } = await startInstance(t)
  const { session, cookies } = create()
  const cookie = `theme=dark; ${cookieHeader(cookies)}; lang=en`
  t.equal(await read(portal(), SITE, cookie), session)
  t.equal(await read(portal(), SITE, cookie), session)
  t.equal(await verify(portal(), session.token), session)
  t.match(session, {
    portal: 'main',
    issuer: 'https://auth.example.com/portals/main',
    site: SITE,
    iat: clock.now() / SECOND,
    exp: (clock.now() + HOUR) / SECOND,
    profile: ADA,
  })
  t.match(session.sid, /^[\w-]{22}$/)
  t.not(create().session.sid, session.sid)
})

t.test('the token is a JWT with the claims of the person and a type of its own', async (t) => {
  const { session } = (await startInstance(t)).create()
  const [header, claims] = session.token
    .split('.')
    .slice(0, 2)
    .map((part) => JSON.parse(String(Buffer.from(part, 'base64url'))))
  t.match(header, { alg: 'HS256', typ: 'gatehouse-session+jwt', kid: /^[\w-]{16}$/ })
  t.match(claims, {
    iss: 'https://auth.example.com/portals/main',
    aud: 'example.com',
    sub: 'ada',
    sid: session.sid,
    email: 'ada@example.com',
    groups: ['admin', 'ops'],
    gatehouse_provider: 'corp',
  })
  t.equal(claims.exp - claims.iat, 3_600)
  t.equal(claims.nbf, claims.iat)
})

t.test('claims that the token cannot hold stay unknown in the session', async (t) => {
  const profile = fromClaims('corp', { sub: 'ada', _claim_names: { groups: 'src1' } })
  const { session } = (await startInstance(t)).create(profile)
  t.throws(() => session.profile.claims.groups, { code: 'PROFILE_CLAIM_UNKNOWN' })
})

t.test('a cached session ends at the second of its expiry', async (t) => {
  const { create, read, portal, clock } = await startInstance(t)
  const cookie = cookieHeader(create().cookies)
  await clock.advance(HOUR - 1)
  t.ok(await read(portal(), SITE, cookie))
  await clock.advance(1)
  t.equal(await read(portal(), SITE, cookie), undefined)
})

t.test('a session is judged by the clock as it is now, also when that was set', async (t) => {
  const real = manualClock()
  const time = { ahead: 0 }
  const clock = { ...real, now: () => real.now() + time.ahead }
  const { create, read, portal } = await startInstance(t, { clock: clock as ManualClock })
  const DAY = 24 * HOUR
  const before = cookieHeader(create().cookies)
  t.ok(await read(portal(), SITE, before))

  time.ahead = 2 * DAY
  t.notOk(await read(portal(), SITE, before), 'ended by the clock that is ahead')
  const ahead = cookieHeader(create().cookies)
  t.ok(await read(portal(), SITE, ahead))

  time.ahead = 0
  t.ok(await read(portal(), SITE, before), 'nobody has lost their session')
  t.notOk(await read(portal(), SITE, ahead), 'one from the future does not hold yet')
  t.ok(await read(portal(), SITE, cookieHeader(create().cookies)), 'and who signs in is in')

  time.ahead = -2 * DAY
  t.notOk(await read(portal(), SITE, before), 'nor does any by a clock that is behind')
})

t.test('a session is valid only for its own portal and domain', async (t) => {
  const { create, read, verify, portal } = await startInstance(t)
  const { session, cookies } = create()
  const cookie = cookieHeader(cookies)
  t.equal(await read(portal(), OTHER_SITE, cookie), undefined)
  t.equal(await read(portal('other'), SITE, cookie.replace('.main=', '.other=')), undefined)
  t.equal(await verify(portal('other'), session.token), undefined)
  t.ok(await read(portal(), SITE, cookie))
})

t.test('removing a portal, provider or key from the configuration ends its sessions', async (t) => {
  const other = portalNamed('main', ['github'])
  const removals: [what: string, remove: (now: Instance['now']) => unknown][] = [
    ['its provider', (now) => (now.portals = new Map([['main', other]]))],
    ['its portal', (now) => (now.portals = new Map([['other', portalNamed('other')]]))],
    ['its key', async (now) => (now.keys = await keysOf(NEW_SECRET))],
  ]
  for (const [what, remove] of removals) {
    const { create, read, verify, portal, now } = await startInstance(t)
    const { session, cookies } = create()
    const main = portal()
    t.ok(await read(main, SITE, cookieHeader(cookies)), `before ${what}`)
    await remove(now)
    const portalAfter = now.portals.get('main') ?? now.portals.get('other')!
    t.equal(await read(portalAfter, SITE, cookieHeader(cookies)), undefined, what)
    t.equal(await verify(portalAfter, session.token), undefined, what)
  }
})
type Instance = Awaited<ReturnType<typeof startInstance>>

t.test('keys rotate on three instances, one at a time, and nobody is signed out', async (t) => {
  const folder = testFolder(t)
  const instances = await Promise.all([1, 2, 3].map(() => startInstance(t, { folder })))
  const cookies = instances.map(({ create }) => cookieHeader(create().cookies))
  async function everywhere() {
    for (const { read, portal } of instances)
      for (const cookie of cookies) if (!(await read(portal(), SITE, cookie))) return false
    return true
  }
  t.ok(await everywhere())
  for (const secrets of [
    [OLD_SECRET, NEW_SECRET],
    [NEW_SECRET, OLD_SECRET],
  ])
    for (const instance of instances) {
      instance.now.keys = await keysOf(...secrets)
      cookies.push(cookieHeader(instance.create().cookies))
      t.ok(
        await everywhere(),
        `with the keys of instance ${instances.indexOf(instance) + 1} changed`,
      )
    }
})

t.test('a list that cannot be opened stops the start', async (t) => {
  const folder = testFolder(t, { 'revocations.db': 'this is no database' })
  await t.rejects(startInstance(t, { folder }), { code: 'FWA_STORE_UNAVAILABLE' })
  await chmod(folder, 0o700)
})

t.test('a session that no cookies hold is refused at login', async (t) => {
  const { create } = await startInstance(t)
  const groups = Array.from({ length: 1_000 }, (_, i) => `a group with the number ${i}`)
  const profile = fromClaims('corp', { sub: 'ada', groups })
  t.throws(() => create(profile), { code: 'FWA_SESSION_TOO_LARGE', message: /^what corp shares/ })
})

t.test('accepts only session tokens as sessions', async (t) => {
  const { app, create, verify, portal, clock, now } = await startInstance(t)
  const { session } = create()
  const [head = '', body = '', signature = ''] = session.token.split('.')
  const header = JSON.parse(String(Buffer.from(head, 'base64url')))
  const claims = JSON.parse(String(Buffer.from(body, 'base64url')))
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const { secret } = now.keys.session.first
  const login = now.keys.login.first

  function forge(changes: object, otherClaims: object = {}, key: Buffer = secret, alg = 'sha256') {
    const signed = `${encode({ ...header, ...changes })}.${encode({ ...claims, ...otherClaims })}`
    return `${signed}.${createHmac(alg, key).update(signed).digest('base64url')}`
  }
  function forgeHeader(start: string) {
    const head = Buffer.from(`${start},"alg":"HS256","typ":"gatehouse-session+jwt"}`)
    const signed = `${head.toString('base64url')}.${body}`
    return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
  }
  /** Another last character, whose bits beyond the 256 of the signature differ alone. */
  const otherEnd = (text: string) => {
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    return alphabet[alphabet.indexOf(text.at(-1) ?? '') ^ 1]
  }
  t.ok(await verify(portal(), forge({})), 'the forge works')
  t.ok(await verify(portal(), forgeHeader(`{"kid":"${header.kid}"`)), 'also of the header')

  const bare = Buffer.from(hkdfSync('sha256', OLD_SECRET, '', '', 32))
  const logins = new Logins(() => now.keys, clock, app.authStore)
  const state = { provider: 'corp', returnTo: 'https://app.example.com/' }
  const begun = logins.begin(portal(), SITE, state, undefined)
  const seconds = clock.now() / SECOND
  const forgeries: [what: string, token: string][] = [
    ['no signature', `${head}.${body}.`],
    ['alg none', forge({ alg: 'none' })],
    ['alg none without signature', `${encode({ ...header, alg: 'none' })}.${body}.`],
    ['alg HS512', forge({ alg: 'HS512' }, {}, secret, 'sha512')],
    ['alg RS256', forge({ alg: 'RS256' })],
    ['typ JWT', forge({ typ: 'JWT' })],
    ['typ at+jwt', forge({ typ: 'at+jwt' })],
    ['no typ', forge({ typ: undefined })],
    ['crit', forge({ crit: ['exp'] })],
    ['another kid', forge({ kid: 'another' })],
    ['the key of logins', forge({ kid: login.kid }, {}, login.secret)],
    ['the key of logins under the kid of sessions', forge({}, {}, login.secret)],
    ['the secret itself', forge({}, {}, Buffer.from(OLD_SECRET))],
    ['a key for no purpose', forge({}, {}, bare)],
    ['an empty key', forge({}, {}, Buffer.alloc(0))],
    ['another issuer', forge({}, { iss: 'https://evil.test/portals/main' })],
    ['another portal', forge({}, { iss: 'https://auth.example.com/portals/other' })],
    ['another audience', forge({}, { aud: 'evil.test' })],
    ['the audience of another site', forge({}, { aud: 'example.org' })],
    ['several audiences', forge({}, { aud: ['example.com', 'example.org'] })],
    ['no kid', forge({ kid: undefined })],
    ['two kids', `${forgeHeader(`{"kid":"${header.kid}","kid":"another"`)}`],
    ['a kid in another case', forge({ kid: String(header.kid).toUpperCase() })],
    ['no alg', forge({ alg: undefined })],
    ['a signature that ends otherwise', `${session.token.slice(0, -1)}${otherEnd(signature)}`],
    ['no issuer', forge({}, { iss: undefined })],
    ['no audience', forge({}, { aud: undefined })],
    ['no subject', forge({}, { sub: undefined })],
    ['no time of issue', forge({}, { iat: undefined })],
    ['no beginning', forge({}, { nbf: undefined })],
    ['issued in the future', forge({}, { iat: seconds + 31, nbf: seconds + 31 })],
    ['times that are texts', forge({}, { iat: `${seconds}`, nbf: `${seconds}` })],
    ['an expiry that is a text', forge({}, { exp: `${seconds + 60}` })],
    ['an expiry that is a list', forge({}, { exp: [seconds + 60] })],
    ['no expiry', forge({}, { exp: undefined })],
    ['expired', forge({}, { exp: seconds })],
    ['not yet valid', forge({}, { nbf: seconds + 31 })],
    ['no sid', forge({}, { sid: undefined })],
    ['no provider', forge({}, { gatehouse_provider: undefined })],
    ['another provider', forge({}, { gatehouse_provider: 'github' })],
    ['another subject', `${head}.${encode({ ...claims, sub: 'bob' })}.${signature}`],
    ['the state of a login', begun.secrets.state],
    ['the cookie of a login', begun.cookies[0]?.value ?? ''],
    ['an empty text', ''],
    ['half a token', session.token.slice(0, session.token.length / 2)],
    ['more than a token', `${session.token}.`],
    ['a very long text', 'a'.repeat(1_000_000)],
  ]
  for (const [what, token] of forgeries) t.equal(await verify(portal(), token), undefined, what)
})

t.test('what nobody here has signed is refused without an error of a library', async (t) => {
  const { app, create, verify, portal, now } = await startInstance(t)
  const { session } = create()
  const jwt = (app.jwt as unknown as Record<'session', { verify(token: string): unknown }>).session
  let calls = 0
  const { verify: whole } = jwt
  jwt.verify = (token) => {
    calls += 1
    return whole(token)
  }
  const [head = '', body = '', signature = ''] = session.token.split('.')
  const unknown = create().session.token
  now.keys = await keysOf(NEW_SECRET)
  t.equal(await verify(portal(), unknown), undefined, 'a key that is no longer there')
  now.keys = await keysOf(OLD_SECRET)
  const zeros = 'A'.repeat(43)
  for (const token of [
    `${head}.${body}.${zeros}`,
    `${head}.${body.slice(2)}.${signature}`,
    `${head.slice(4)}.${body}.${signature}`,
    `${zeros}.${zeros}.${zeros}`,
  ])
    t.equal(await verify(portal(), token), undefined)
  t.equal(calls, 0)
  t.ok(await verify(portal(), session.token))
  t.equal(calls, 1)
})

t.test('a million forged cookies do not grow memory', async (t) => {
  const { create, read, portal } = await startInstance(t)
  const { cookies } = create()
  const cookie = cookieHeader(cookies)
  const heap: number[] = []
  for (let i = 0; i < 1_000_000; i++) {
    // One in a hundred looks like a token.
    const junk = i % 100 === 0 ? `${cookie.slice(0, -10)}${i + 1e9}` : `${cookie.slice(0, 30)}${i}`
    if (await read(portal(), SITE, junk)) t.fail('junk was taken for a session')
    if (i % 500_000 === 499_999) heap.push(usedHeap())
  }
  const [half = 0, whole = 0] = heap
  // Half a million cookies that are kept would be 50 MB or more; code that V8 compiles meanwhile is less than 8.
  t.ok(whole - half < 8 * 1024 * 1024, `grew by ${whole - half} bytes`)
  t.ok(await read(portal(), SITE, cookie))
})

function usedHeap(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}
