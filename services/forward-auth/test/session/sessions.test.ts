import { createHmac, hkdfSync } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { fromClaims } from '@gatehouse/profile'
import { type ManualClock, manualClock, testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { Logins } from '../../src/sign-in/logins.ts'
import { STATE_FILE } from '../../src/store/sqlite/sqlite-store.ts'
import { MAX_TOKEN_LENGTH } from '../../src/web/cookies.ts'
import {
  ADA,
  breakStore,
  countCalls,
  HOST,
  hold,
  type Instance,
  keysOf,
  NEW_SECRET,
  OLD_SECRET,
  OTHER_SITE,
  portalNamed,
  SITE,
  startInstance,
  startInstances,
  touch,
} from './kit.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const MAIN = 'https://auth.example.com/portals/main'

/** The header and the claims of a token. */
const readToken = (token: string) =>
  token
    .split('.')
    .slice(0, 2)
    .map((part) => JSON.parse(String(Buffer.from(part, 'base64url'))))

t.test('a session is read from its cookies, again and again, as the same object', async (t) => {
  const { begin, check, arrive, verify, clock } = await startInstance(t)
  const { session, cookie, own, token } = await begin()
  const found = await check(`theme=dark; ${cookie}; lang=en`)
  t.match(found, session)
  for (const again of [await check(cookie), await arrive(own), await verify(token)])
    t.equal(again, found)
  t.match(session, {
    portal: 'main',
    issuer: MAIN,
    iat: clock.now() / SECOND,
    exp: (clock.now() + HOUR) / SECOND,
    profile: ADA,
    rev: 1,
  })
  t.match(session.sid, /^[\w-]{22}$/)
  t.not((await begin()).sid, session.sid)
})

t.test('the session token is a JWT with the claims of the person', async (t) => {
  const { session, token } = await (await startInstance(t)).begin()
  const [header, claims] = readToken(token)
  t.match(header, { alg: 'HS256', typ: 'gatehouse-session+jwt', kid: /^[\w-]{16}$/ })
  t.strictSame(claims, {
    ...ADA.claims,
    iss: MAIN,
    aud: 'auth.example.com',
    sub: 'ada',
    sid: session.sid,
    rev: 1,
    iat: session.iat,
    nbf: session.iat,
    exp: session.iat + 3_600,
    gatehouse_provider: 'corp',
  })
})

t.test('the token of an app says who is there to nobody but us', async (t) => {
  const { begin, cookiesOf, now } = await startInstance(t)
  const { session, appToken } = await begin()
  const [header, claims] = readToken(appToken)
  t.match(header, { alg: 'HS256', typ: 'gatehouse-app+jwt', kid: /^[\w-]{16}$/ })
  t.strictSame(claims, { iss: MAIN, sid: session.sid, rev: 1, aud: HOST, exp: session.exp })
  t.ok(appToken.length <= 400, `${appToken.length} characters`)
  now.sites = [{ ...SITE, scope: 'domain' }]
  const shared = cookiesOf(session, undefined, now.sites[0])
  t.match(readToken(shared.appToken)[1], { aud: 'example.com' })
})

t.test('claims that the token cannot hold stay unknown in the session', async (t) => {
  const profile = fromClaims('corp', { sub: 'ada', _claim_names: { groups: 'src1' } })
  const { begin, check } = await startInstance(t)
  const { cookie, session } = await begin({ profile })
  for (const each of [session, await check(cookie)])
    t.throws(() => each!.profile.claims.groups, { code: 'PROFILE_CLAIM_UNKNOWN' })
})

t.test('a session ends at the second of its expiry, also one in memory', async (t) => {
  const { begin, check, arrive, clock } = await startInstance(t)
  const { cookie, own } = await begin()
  await clock.advance(HOUR - 1)
  t.ok(await check(cookie))
  t.ok(await arrive(own))
  await clock.advance(1)
  t.equal(await check(cookie), undefined)
  t.equal(await arrive(own), undefined)
})

t.test('a session is judged by the clock as it is now, also when that was set', async (t) => {
  const real = manualClock()
  const time = { ahead: 0 }
  const clock: ManualClock = { ...real, now: () => real.now() + time.ahead }
  const { begin, check } = await startInstance(t, { clock })
  const DAY = 24 * HOUR
  const before = (await begin()).cookie
  t.ok(await check(before))

  time.ahead = 2 * DAY
  t.notOk(await check(before), 'ended by the clock that is ahead')
  const ahead = (await begin()).cookie
  t.ok(await check(ahead))

  time.ahead = 0
  t.ok(await check(before), 'nobody has lost their session')
  t.notOk(await check(ahead), 'one from the future does not hold yet')
  t.ok(await check((await begin()).cookie), 'and who signs in is in')

  time.ahead = -2 * DAY
  t.notOk(await check(before), 'nor does any by a clock that is behind')
})

t.test('a cookie is valid only at its own host, portal and domain', async (t) => {
  const { begin, check, arrive, verify, portal } = await startInstance(t)
  const { cookie, own, token, appToken } = await begin()
  const other = portal('other')
  const renamed = (text: string) => text.replace('.main=', '.other=')
  const rows: [what: string, found: unknown][] = [
    ['another app', await check(cookie, { host: 'b.example.com' })],
    ['a host below', await check(cookie, { host: `x.${HOST}` })],
    ['the sign-in host', await check(cookie, { host: 'auth.example.com' })],
    ['another domain', await check(cookie, { site: OTHER_SITE })],
    ['another portal', await check(renamed(cookie), { at: other })],
    ['the session cookie of another portal', await arrive(renamed(own), other)],
    ['that of another domain', await arrive(own, undefined, OTHER_SITE)],
    ['verify of another portal', await verify(token, other)],
    ['twice', await check(`${cookie}; ${cookie}`)],
    ['twice, one of them empty', await check(`${cookie}; ${cookie.split('=')[0]}=`)],
    ['the token of the app at the sign-in host', await arrive(own.replace(token, appToken))],
    ['the session token at the app', await check(cookie.replace(appToken, token))],
    ['the token of the app at verify', await verify(appToken)],
  ]
  for (const [what, found] of rows) t.equal(found, undefined, what)
  t.ok(await check(cookie))
  t.ok(await arrive(own))
})

t.test('tokens of one kind do not pass for the other, whichever was seen first', async (t) => {
  const { begin, check, arrive, now } = await startInstance(t)
  const { own, token, cookie, appToken, session } = await begin()
  const swapped = [cookie.replace(appToken, token), own.replace(token, appToken)] as const
  for (let i = 0; i < 2; i++) {
    t.equal(await check(swapped[0]), undefined)
    t.equal(await arrive(swapped[1]), undefined)
    t.ok(await check(cookie))
    t.ok(await arrive(own))
  }
  // With all claims of the other kind, and the audience that fits.
  const { kid, secret } = now.keys.session.first
  const forge = (typ: string, aud: string) =>
    sign({ alg: 'HS256', kid, typ }, { ...readToken(token)[1], aud, sid: session.sid }, secret)
  t.ok(await check(cookie.replace(appToken, forge('gatehouse-app+jwt', HOST))), 'the forge works')
  const asSession = forge('gatehouse-session+jwt', HOST)
  t.equal(await check(cookie.replace(appToken, asSession)), undefined)
  t.equal(await arrive(own.replace(token, forge('gatehouse-app+jwt', HOST))), undefined)
})

t.test('a domain whose hosts share a cookie', async (t) => {
  const { begin, check, now } = await startInstance(t)
  const site = { ...SITE, scope: 'domain' } as const
  now.sites = [site, OTHER_SITE]
  const { cookie } = await begin({ site })
  t.match(cookie, /^__Secure-gatehouse-app\.main=/)
  for (const host of [HOST, 'b.example.com', 'example.com'])
    t.ok(await check(cookie, { site, host }))
  const { cookie: ofHost } = await begin()
  const renamed = ofHost.replace('__Host-', '__Secure-')
  t.equal(await check(renamed, { site }), undefined, 'the token of one host')
  t.equal(await check(cookie.replace('__Secure-', '__Host-')), undefined, 'after a change back')
})

t.test('removing a portal, provider or key from the configuration ends its sessions', async (t) => {
  const other = portalNamed('main', ['github'])
  const removals: [what: string, remove: (now: Instance['now']) => unknown][] = [
    ['its provider', (now) => (now.portals = new Map([['main', other]]))],
    ['its portal', (now) => (now.portals = new Map([['other', portalNamed('other')]]))],
    ['its key', async (now) => (now.keys = await keysOf(NEW_SECRET))],
  ]
  for (const [what, remove] of removals) {
    const { begin, check, arrive, verify, now } = await startInstance(t)
    const { cookie, own, token } = await begin()
    t.ok(await check(cookie), `before ${what}`)
    await remove(now)
    const at = now.portals.get('main') ?? now.portals.get('other')!
    t.equal(await check(cookie, { at }), undefined, what)
    t.equal(await arrive(own, at), undefined, what)
    t.equal(await verify(token, at), undefined, what)
  }
})

t.test('keys rotate on three instances, one at a time, and nobody is signed out', async (t) => {
  const instances = await startInstances(t, 3)
  const all = await Promise.all(instances.map(({ begin }) => begin()))
  async function everywhere() {
    for (const { check, arrive, records } of instances)
      for (const { cookie, own, sid } of all) {
        records.forget(sid)
        if (!(await check(cookie)) || !(await arrive(own))) return false
      }
    return true
  }
  t.ok(await everywhere())
  for (const secrets of [
    [OLD_SECRET, NEW_SECRET],
    [NEW_SECRET, OLD_SECRET],
  ])
    for (const instance of instances) {
      instance.now.keys = await keysOf(...secrets)
      all.push(await instance.begin())
      const number = instances.indexOf(instance) + 1
      t.ok(await everywhere(), `with the keys of instance ${number} changed`)
    }
})

t.test('a store that cannot be opened stops the start', async (t) => {
  const folder = testFolder(t, { [STATE_FILE]: 'this is no database' })
  await t.rejects(startInstance(t, { folder }), { code: 'STORE_UNAVAILABLE' })
})

t.test('250 groups: the session has them, and its token names them', async (t) => {
  const { begin, check, arrive, verify, cookiesOf } = await startInstance(t)
  const groups = Array.from({ length: 250 }, (_, i) => `a group with the number ${i}`)
  const profile = fromClaims('corp', { ...ADA.claims, groups })
  const { cookie, own, token, session } = await begin({ profile })
  t.ok(token.length <= MAX_TOKEN_LENGTH)
  const [, claims] = readToken(token)
  t.match(claims, { name: 'Ada Lovelace', groups: undefined, _claim_names: { groups: 'unknown' } })
  for (const found of [session, await check(cookie), await arrive(own), await verify(token)])
    t.strictSame(found?.profile.groups, groups, 'from the record')

  const long = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => [`c${i}`, 'x'.repeat(100 + i)]),
  )
  const wide = await begin({ profile: fromClaims('corp', { ...long, sub: 'ada', groups }) })
  const [, kept] = readToken(wide.token)
  t.ok(wide.token.length <= MAX_TOKEN_LENGTH)
  t.ok('c0' in kept, 'the longest go first')
  const named = Object.keys(kept._claim_names)
  t.ok(named.includes('groups') && named.includes('c39') && !named.includes('c0'))
  t.strictSame((await verify(wide.token))?.profile.groups, groups)
  t.equal(cookiesOf(session).token, token, 'the same one each time')
})

t.test('all groups that are kept of a person are in their session', async (t) => {
  const { begin, check } = await startInstance(t)
  const groups = Array.from({ length: 1_000 }, (_, i) => `CN=Group ${i},${'OU=x,'.repeat(40)}`)
  const { cookie, token } = await begin({ profile: fromClaims('corp', { sub: 'ada', groups }) })
  t.ok(token.length <= MAX_TOKEN_LENGTH)
  t.strictSame((await check(cookie))?.profile.groups, groups)
})

t.test('a session that no cookie could hold is refused at the sign-in', async (t) => {
  const { begin } = await startInstance(t)
  const unknown = Array.from({ length: 199 }, (_, i) => [`${i} ${'x'.repeat(40)}`, 'elsewhere'])
  const claims = { sub: 'ada', _claim_names: Object.fromEntries(unknown) }
  await t.rejects(begin({ profile: fromClaims('corp', claims) }), {
    code: 'FWA_SESSION_TOO_LARGE',
    message: /^what corp says of you/,
  })
})

t.test('who signs in again in the browser of a session renews it', async (t) => {
  const [here, there] = (await startInstances(t, 2)) as [Instance, Instance]
  const first = await here.begin()
  t.ok(await there.check(first.cookie))
  await here.clock.advance(HOUR / 2)
  const profile = fromClaims('corp', { ...ADA.claims, groups: ['ops'] })
  const second = await here.begin({ before: first.session, profile })
  t.equal(second.sid, first.sid)
  t.match(second.session, { rev: 2, iat: here.clock.now() / SECOND })

  t.strictSame((await here.check(first.cookie))?.profile.groups, ['ops'], 'here at once')
  t.match(await there.arrive(second.own), { rev: 2 }, 'there too, for whoever brings the new token')
  await there.catchUp()
  t.strictSame((await there.check(first.cookie))?.profile.groups, ['ops'], 'and for the app')
  t.match(await here.arrive(first.own), { rev: 2 }, 'an older token is of the same session')

  await here.clock.advance(HOUR / 2)
  t.ok(await here.arrive(second.own), 'for a lifetime more')
  t.equal(await here.check(first.cookie), undefined, 'by new tokens')
})

t.test('tabs that sign in at once renew their session, one after the other', async (t) => {
  const instances = (await startInstances(t, 2)) as [Instance, Instance]
  const first = await instances[0].begin()
  const tabs = await Promise.all(
    Array.from({ length: 12 }, (_, i) => instances[i % 2]!.begin({ before: first.session })),
  )
  t.strictSame(new Set(tabs.map(({ sid }) => sid)), new Set([first.sid]))
  t.strictSame(
    tabs.map(({ session }) => session.rev).toSorted((one, other) => one - other),
    Array.from({ length: 12 }, (_, i) => i + 2),
  )
  for (const { catchUp, check } of instances) {
    await catchUp()
    t.match(await check(first.cookie), { rev: 13 })
  }
})

t.test('a sign-in of somebody else does not renew a session', async (t) => {
  const here = await startInstance(t)
  const first = await here.begin()
  for (const profile of [
    fromClaims('corp', { sub: 'bob' }),
    fromClaims('github', { sub: 'ada' }),
    fromClaims('corp', { sub: 'Ada' }),
  ]) {
    const second = await here.begin({ before: first.session, profile })
    t.not(second.sid, first.sid)
    t.match(second.session, { rev: 1 })
  }
})

t.test('a session that ended while its person signed in goes, and a new one begins', async (t) => {
  const rows: [what: string, happen: (there: Instance, first: Began) => Promise<unknown>][] = [
    ['it was ended', ({ records }, { session }) => records.endOne(session)],
    [
      'another tab signed in, and out',
      async ({ begin, records }, { session }) =>
        records.endOne((await begin({ before: session })).session),
    ],
  ]
  for (const [what, happen] of rows) {
    const [here, there] = (await startInstances(t, 2)) as [Instance, Instance]
    const first = await here.begin()
    t.ok(await there.check(first.cookie))
    const renewing = hold(here, 'updateSession', 'before')
    const renewed = here.begin({ before: first.session })
    await renewing.entered
    await happen(there, first)
    renewing.release()
    const second = await renewed
    t.not(second.sid, first.sid, what)
    t.ok(await here.check(second.cookie), what)
    await there.catchUp()
    for (const instance of [here, there])
      t.equal(await instance.check(first.cookie), undefined, `${what}: no sign-out would end it`)
  }
})
type Began = Awaited<ReturnType<Instance['begin']>>

t.test('a sign-in that the provider has ended meanwhile makes no session', async (t) => {
  const here = await startInstance(t)
  const first = await here.begin({ issuedAt: 100, sid: 'at the provider' })
  const { row } = (await here.records.open(first.sid))!
  const ended = await here.records.end({ providerSid: row.providerSid!, issuedUntil: 100 })
  t.equal(ended.length, 1)
  await t.rejects(here.begin({ issuedAt: 99, sid: 'at the provider' }), /has ended it already/)
  t.ok(await here.begin({ issuedAt: 101, sid: 'at the provider' }), 'a later one')
  t.ok(await here.begin({ issuedAt: 99, sid: 'another' }), 'another session there')
})

t.test('a sign-in that the provider has ended meanwhile ends the session it renews', async (t) => {
  const here = await startInstance(t)
  const renewed = await here.begin({ issuedAt: 100, sid: 'first there' })
  const other = await here.begin({ issuedAt: 100, sid: 'second there' })
  const { row } = (await here.records.open(other.sid))!
  await here.records.end({ providerSid: row.providerSid!, issuedUntil: 100 })
  t.ok(await here.check(renewed.cookie), 'the provider has ended another session')
  const signIn = { before: renewed.session, issuedAt: 99, sid: 'second there' }
  await t.rejects(here.begin(signIn), /has ended it already/)
  t.equal(await here.check(renewed.cookie), undefined)
})

t.test(
  'a token that is newer than its record is refused, once the record was read again',
  async (t) => {
    const [here, there] = (await startInstances(t, 2)) as [Instance, Instance]
    const first = await here.begin()
    t.ok(await there.check(first.cookie))
    const reads = countCalls(there, 'findSession')
    const second = await here.begin({ before: first.session })
    t.match(await there.arrive(second.own), { rev: 2 }, 'memory was old')
    t.equal(reads.count, 1)

    const newer = here.cookiesOf({ ...second.session, rev: 3 })
    t.equal(await here.arrive(newer.own), undefined, 'the store was set back')
    t.equal(await here.verify(newer.token), undefined)
    t.ok(await here.arrive(second.own))
  },
)

t.test('a session that was not used for its idle time ends, at whichever instance', async (t) => {
  const portals = [portalNamed('main', ['corp'], { idle: 5 * MINUTE })]
  const [here, there] = (await startInstances(t, 2, { portals })) as [Instance, Instance]
  const { cookie } = await here.begin()
  const { cookie: unused } = await here.begin()
  for (const instance of [here, there]) t.ok(await instance.check(cookie))
  for (let i = 0; i < 8; i++) {
    await here.clock.advance(3 * MINUTE)
    await here.written()
    t.ok(await here.check(cookie), 'used here')
  }
  await here.clock.advance(MINUTE)
  await here.written()
  t.ok(await there.check(cookie), 'there it is not idle, though that instance has not seen it')
  t.equal(await there.check(unused), undefined)
  await here.catchUp()
  t.equal(await here.check(unused), undefined)

  await here.clock.advance(5 * MINUTE)
  await there.written()
  t.ok(await here.check(cookie), 'to the end of the time, as it was used there')
  await here.clock.advance(5 * MINUTE + 1)
  t.equal(await here.check(cookie), undefined)
  await there.catchUp()
  t.equal(await there.check(cookie), undefined)
})

t.test('nobody becomes idle because the store was away', async (t) => {
  const portals = [portalNamed('main', ['corp'], { idle: 5 * MINUTE })]
  const here = await startInstance(t, { portals })
  const { cookie } = await here.begin()
  t.ok(await here.check(cookie))
  const repair = breakStore(here, 'touchSessions')
  for (let i = 0; i < 20; i++) {
    await here.clock.advance(MINUTE / 2)
    t.ok(await here.check(cookie))
  }
  repair()
  await here.clock.advance(2 * MINUTE)
  t.ok(await here.check(cookie))
  await here.clock.advance(MINUTE)
  await here.close()
  const again = await startInstance(t, { folder: here.folder, clock: here.clock, portals })
  t.ok(await again.check(cookie), 'what was seen is written')
})

t.test('an idle session is refused while the store is away', async (t) => {
  const portals = [portalNamed('main', ['corp'], { idle: 5 * MINUTE })]
  const here = await startInstance(t, { portals })
  const { cookie } = await here.begin()
  t.ok(await here.check(cookie))
  await here.clock.advance(7 * MINUTE)
  breakStore(here, 'findSession')
  await t.rejects(here.check(cookie), { code: 'STORE_UNAVAILABLE' })
})

t.test('idle: a read that meets a use at another instance', async (t) => {
  const portals = [portalNamed('main', ['corp'], { idle: 5 * MINUTE })]
  const [here, there] = (await startInstances(t, 2, { portals })) as [Instance, Instance]
  const { cookie, sid } = await here.begin()
  t.ok(await here.check(cookie))
  await here.clock.advance(6 * MINUTE)
  const reading = hold(here, 'findSession', 'before')
  const late = here.check(cookie)
  await reading.entered
  await touch(there, sid)
  reading.release()
  t.ok(await late, 'the store decides')
  t.ok(await there.check(cookie))
})

t.test('accepts only session tokens as sessions', async (t) => {
  const { store, begin, verify, portal, clock, now } = await startInstance(t)
  const { token, appToken } = await begin()
  const [head = '', body = '', signature = ''] = token.split('.')
  const header = JSON.parse(String(Buffer.from(head, 'base64url')))
  const claims = JSON.parse(String(Buffer.from(body, 'base64url')))
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const { secret } = now.keys.session.first
  const login = now.keys.login.first

  function forge(changes: object, otherClaims: object = {}, key: Buffer = secret, alg = 'sha256') {
    return sign({ ...header, ...changes }, { ...claims, ...otherClaims }, key, alg)
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
  t.ok(await verify(forge({})), 'the forge works')
  t.ok(await verify(forgeHeader(`{"kid":"${header.kid}"`)), 'also of the header')

  const bare = Buffer.from(hkdfSync('sha256', OLD_SECRET, '', '', 32))
  const logins = new Logins(() => now.keys, clock, store)
  const redirectUri = 'https://auth.example.com/portals/main/providers/corp/callback'
  const state = { provider: 'corp', redirectUri, returnTo: 'https://app.example.com/' }
  const begun = logins.begin({ portal: portal(), site: SITE }, state, undefined)
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
    ['a signature that ends otherwise', `${token.slice(0, -1)}${otherEnd(signature)}`],
    ['no issuer', forge({}, { iss: undefined })],
    ['no audience', forge({}, { aud: undefined })],
    ['no subject', forge({}, { sub: undefined })],
    ['no time of issue', forge({}, { iat: undefined })],
    ['no beginning', forge({}, { nbf: undefined })],
    ['an expiry that is a text', forge({}, { exp: `${seconds + 60}` })],
    ['an expiry that is a list', forge({}, { exp: [seconds + 60] })],
    ['no expiry', forge({}, { exp: undefined })],
    ['expired', forge({}, { exp: seconds })],
    ['no sid', forge({}, { sid: undefined })],
    ['the sid of nobody', forge({}, { sid: 'A'.repeat(22) })],
    ['no revision', forge({}, { rev: undefined })],
    ['a revision to come', forge({}, { rev: 2 })],
    ['no provider', forge({}, { gatehouse_provider: undefined })],
    ['another subject', `${head}.${encode({ ...claims, sub: 'bob' })}.${signature}`],
    ['the token of an app', appToken],
    ['the type of an app', forge({ typ: 'gatehouse-app+jwt' })],
    ['the state of a login', begun.secrets.state],
    ['the cookie of a login', begun.cookies[0]?.value ?? ''],
    ['an empty text', ''],
    ['half a token', token.slice(0, token.length / 2)],
    ['more than a token', `${token}.`],
    ['a very long text', 'a'.repeat(1_000_000)],
  ]
  for (const [what, forged] of forgeries) t.equal(await verify(forged), undefined, what)

  const untrue = { sub: 'bob', groups: ['root'], gatehouse_provider: 'github', iat: 0, nbf: 9e9 }
  const found = await verify(forge({}, untrue))
  t.match(found, { iat: seconds, profile: ADA }, 'what else it says is not believed')
})

/** A token in compact form. */
function sign(header: object, claims: object, key: Buffer, alg = 'sha256'): string {
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = `${encode(header)}.${encode(claims)}`
  return `${signed}.${createHmac(alg, key).update(signed).digest('base64url')}`
}

t.test('what nobody here has signed is refused without an error of a library', async (t) => {
  const { app, begin, verify, now } = await startInstance(t)
  const { token } = await begin()
  const jwt = (app.jwt as unknown as Record<'session', { verify(token: string): unknown }>).session
  let calls = 0
  const { verify: whole } = jwt
  jwt.verify = (given) => {
    calls += 1
    return whole(given)
  }
  const [head = '', body = '', signature = ''] = token.split('.')
  const unknown = (await begin()).token
  now.keys = await keysOf(NEW_SECRET)
  t.equal(await verify(unknown), undefined, 'a key that is no longer there')
  now.keys = await keysOf(OLD_SECRET)
  const zeros = 'A'.repeat(43)
  for (const forged of [
    `${head}.${body}.${zeros}`,
    `${head}.${body.slice(2)}.${signature}`,
    `${head.slice(4)}.${body}.${signature}`,
    `${zeros}.${zeros}.${zeros}`,
  ])
    t.equal(await verify(forged), undefined)
  t.equal(calls, 0)
  t.ok(await verify(token))
  t.equal(calls, 1)
})

t.test('forged cookies do not grow memory', async (t) => {
  const { begin, check } = await startInstance(t)
  const { cookie } = await begin()
  const heap: number[] = []
  for (let i = 0; i < 400_000; i++) {
    // One in a hundred looks like a token.
    const junk = i % 100 === 0 ? `${cookie.slice(0, -10)}${i + 1e9}` : `${cookie.slice(0, 30)}${i}`
    if (await check(junk)) t.fail('junk was taken for a session')
    if (i % 100_000 === 99_999) heap.push(usedHeap())
  }
  // What is kept would be 10 MB or more of each quarter. V8 compiles code whenever it has the time, but not in each of them.
  const growth = Math.min(...heap.slice(1).map((bytes, i) => bytes - heap[i]!))
  t.ok(growth < 4 * 1024 * 1024, `grew by ${growth} bytes at least`)
  t.ok(await check(cookie))
})

function usedHeap(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}
