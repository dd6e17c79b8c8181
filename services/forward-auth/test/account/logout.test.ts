import { DatabaseSync } from 'node:sqlite'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { textsIn } from '../../src/pages/languages.ts'
import { portalOf, yamlOf } from '../app.ts'
import { named, text, timeText } from '../pages/read.ts'
import {
  AUTH,
  arrive,
  MAIN,
  SCRIPT,
  SHARED,
  signIn,
  signInUrl,
  start,
  WANTED,
  whoIs,
} from '../portal/kit.ts'
import { until } from '../store/kit.ts'
import type { Visitor } from '../visitor.ts'

const texts = textsIn('en')

// What is wrong in these tests, and said.
expectWarnings(t, 'ERR_SQLITE_ERROR', 'FWA_PROVIDER_UNREACHABLE', 'STORE_UNAVAILABLE')

const HOUR = 3_600_000
const FORM = {
  method: 'POST',
  headers: { origin: AUTH, 'content-type': 'application/x-www-form-urlencoded' },
} as const

/** Everywhere where a session counts. */
const PLACES = ['check', 'profile', 'profile.json', 'verify'] as const

t.test('after signing out the old cookie counts nowhere, nor after a restart', async (t) => {
  const folder = testFolder(t)
  const yaml = yamlOf(portalOf('main'), `storage: { path: "${folder}" }`)
  const test = await start(t, { yaml })
  const ada = test.visitor()
  await arrive(ada, test.corp, WANTED)
  const old = copyOf(ada)
  t.strictSame(await statuses(test, old), [200, 200, 200, 200])

  const done = await ada.open(`${MAIN}/logout`, FORM)
  t.match(done, { statusCode: 200, body: texts.signedOut.title })
  t.match(
    [done.headers['set-cookie']].flat().filter((line) => !/-rounds\./.test(String(line))),
    [
      '__Host-gatehouse.main=; Max-Age=0; Path=/; HttpOnly; Secure; Priority=High; SameSite=Lax',
      // The host may be one of an app, too.
      '__Host-gatehouse-app.main=; Max-Age=0; Path=/; HttpOnly; Secure; SameSite=Lax',
      /^__Host-gatehouse-login\.main\.[\w-]{8}=; Max-Age=0; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
    ],
  )
  t.strictSame([...ada.jar], [])
  t.strictSame(await statuses(test, old), [401, 401, 401, 401])

  const again = await start(t, { yaml })
  t.strictSame(await statuses(again, old), [401, 401, 401, 401], 'after a restart')
  const back = again.visitor()
  await signIn(back, again.corp, 'ada')
  t.equal(await whoIs(back), 'ada', 'and whoever signs in again is in')
})

t.test('a sign-out while the clock is ahead of the end of the session', async (t) => {
  const folder = testFolder(t)
  const yaml = yamlOf(portalOf('main'), `storage: { path: "${folder}" }`)
  const ahead = await start(t, { yaml })
  const ada = ahead.visitor()
  await arrive(ada, ahead.corp, WANTED)
  const old = copyOf(ada)
  ada.jar.clear()
  await ahead.clock.advance(9 * HOUR)
  t.strictSame(await statuses(ahead, old), [401, 401, 401, 401])
  const headers = { ...FORM.headers, cookie: old.own }
  t.equal((await ada.open(`${MAIN}/logout`, { ...FORM, headers })).statusCode, 200)
  const right = await start(t, { yaml })
  t.strictSame(await statuses(right, old), [401, 401, 401, 401], 'when it is right again')
})

/** What somebody who can read the cookies of a browser has of it. */
function copyOf(visitor: Visitor) {
  const token = visitor.jar.get('__Host-gatehouse.main') ?? ''
  return { own: visitor.cookies(), ofApp: visitor.cookies('app.example.com'), token }
}

async function statuses(
  test: Awaited<ReturnType<typeof start>>,
  { own, ofApp, token }: ReturnType<typeof copyOf>,
) {
  const visitor = test.visitor()
  const answers = PLACES.map((place) => {
    if (place === 'check') return visitor.visit(WANTED, { headers: { ...SCRIPT, cookie: ofApp } })
    if (place !== 'verify')
      return visitor.open(`${MAIN}/${place}`, { headers: { ...SCRIPT, cookie: own } })
    const headers = { ...SCRIPT, authorization: `Bearer ${token}` }
    return visitor.open(`${AUTH}/api/portals/main/verify`, { headers })
  })
  return (await Promise.all(answers)).map(({ statusCode }) => statusCode)
}

t.test('nothing but our own form signs out', async (t) => {
  const { visitor, corp } = await start(t)
  const ada = visitor()
  await signIn(ada, corp, 'ada')
  const asked = await ada.open(`${MAIN}/logout`)
  t.match(asked, { statusCode: 200, body: texts.signOut.title })
  t.match(asked.body, `<form method="post" action="${MAIN}/logout">`)
  for (const [what, origin] of [
    ['no Origin', undefined],
    ['another site', 'https://evil.test'],
    ['another host of the domain', 'https://app.example.com'],
    ['another scheme', 'http://auth.example.com'],
    ['another port', 'https://auth.example.com:8443'],
    ['none to tell', 'null'],
    ['a suffix', 'https://auth.example.com.evil.test'],
  ] as const) {
    const headers = { 'content-type': FORM.headers['content-type'], ...(origin && { origin }) }
    const refused = await ada.open(`${MAIN}/logout`, { method: 'POST', headers })
    t.equal(refused.statusCode, 403, what)
    t.notOk(refused.headers['set-cookie'], what)
  }
  t.equal(await whoIs(ada), 'ada')
})

t.test('validates the return URL of a logout like that of a login', async (t) => {
  const { visitor, corp } = await start(t)
  for (const [rd, isTaken] of [
    [WANTED, true],
    ['https://evil.test/', false],
    ['//evil.test', false],
    ['javascript:alert(1)', false],
  ] as const) {
    const ada = visitor()
    await signIn(ada, corp, 'ada')
    const url = `${MAIN}/logout?rd=${encodeURIComponent(rd)}`
    const told = encodeURIComponent(rd)
    const [asked, done] = [await ada.open(url), await ada.open(url, FORM)]
    t.equal(done.headers.location, undefined)
    for (const page of [asked, done]) {
      t.equal(page.body.includes(told), isTaken, rd)
      if (!isTaken) t.notMatch(page.body, /evil|alert/)
    }
  }
})

t.test('signing out at the provider too, where it offers that', async (t) => {
  const { visitor, corp } = await start(t)
  const ada = visitor()
  corp.state.logoutUrl = new URL('https://corp.test/end?client_id=a')
  await signIn(ada, corp, 'ada')
  const done = await ada.open(`${MAIN}/logout`, FORM)
  const target = encodeURIComponent(`${MAIN}/logout`)
  t.match(done.body, `https://corp.test/end?client_id=a&amp;post_logout_redirect_uri=${target}`)
  t.match((await ada.open(`${MAIN}/logout`)).body, texts.signedOut.title, 'and back from there')

  await signIn(ada, corp, 'ada')
  corp.state.failure = 'FWA_PROVIDER_UNREACHABLE'
  t.equal((await ada.open(`${MAIN}/logout`, FORM)).statusCode, 200, 'its trouble is no matter')
  t.strictSame([...ada.jar], [])
})

t.test('who is not signed in is signed out, left-over cookies included', async (t) => {
  const { visitor, corp } = await start(t)
  const nobody = visitor()
  await nobody.open(signInUrl())
  nobody.jar.set('__Host-gatehouse.main', 'left over')
  t.match((await nobody.open(`${MAIN}/logout`)).body, texts.signedOut.title)
  t.equal((await nobody.open(`${MAIN}/logout`, FORM)).statusCode, 200)
  t.strictSame([...nobody.jar], [])
  t.equal((await signIn(nobody, corp, 'ada')).statusCode, 200)
})

t.test('where the hosts of a domain share a cookie, signing out removes it', async (t) => {
  const { visitor, corp } = await start(t, { yaml: SHARED })
  const ada = visitor()
  await arrive(ada, corp, WANTED)
  t.match(ada.cookies('wiki.example.com'), /^__Secure-gatehouse-app\.main=/)
  await ada.open(`${MAIN}/logout`, FORM)
  for (const host of ['auth', 'app', 'wiki']) t.equal(ada.cookies(`${host}.example.com`), '')
})

t.test('a logout that cannot be written down takes the session away all the same', async (t) => {
  const folder = testFolder(t)
  const yaml = yamlOf(portalOf('main'), `storage: { path: "${folder}" }`)
  const test = await start(t, { yaml })
  const { visitor, corp, app, log } = test
  const [ada, bob] = [visitor(), visitor()]
  await arrive(ada, corp, WANTED)
  await signIn(bob, corp, 'bob', signInUrl())
  const old = copyOf(ada)
  const blocker = new DatabaseSync(`${folder}/revocations.db`)
  blocker.exec('BEGIN EXCLUSIVE')

  const page = await ada.open(`${MAIN}/logout`, FORM)
  t.match(page, { statusCode: 503, headers: { 'retry-after': '5', 'content-type': /^text\/html/ } })
  const end = timeText('en', app.clock.now() + 8 * 3_600_000)
  const shown = text(named(page.body, 'main')[0]!).replace(/\s+/g, ' ')
  t.match(shown, `the copy may stay valid until ${end}`)
  t.strictSame([...ada.jar], [], 'the cookies are taken away')
  t.strictSame(await statuses(test, old), [401, 401, 401, 401], 'it is refused here')
  const isDegraded = () => app.readiness().degraded.includes('store')
  t.ok(isDegraded())
  t.ok(log.some(({ msg }) => msg === 'a sign-out could not be stored'))

  const headers = { ...FORM.headers, ...SCRIPT }
  const problem = await bob.open(`${MAIN}/logout`, { ...FORM, headers })
  t.match(problem, { statusCode: 503, headers: { 'retry-after': '5' } })
  t.match(problem.json(), { status: 503, code: 'STORE_UNAVAILABLE' })
  t.strictSame([...bob.jar], [])
  for (const { body } of [page, problem]) t.notMatch(body, folder)

  const withCopy = { ...FORM, headers: { ...FORM.headers, cookie: old.own } }
  const asked = await visitor().open(`${MAIN}/logout`, withCopy)
  t.equal(asked.statusCode, 503, 'a second try does not say that it is written')
  const copy = { headers: { cookie: old.own } }
  t.equal((await visitor().open(`${MAIN}/logout`, copy)).statusCode, 503, 'nor does the page')

  blocker.close()
  t.equal((await visitor().open(`${MAIN}/logout`, withCopy)).statusCode, 200)
  t.match((await visitor().open(`${MAIN}/logout`, copy)).body, texts.signedOut.title)
  await signIn(ada, corp, 'ada', signInUrl())
  t.equal((await ada.open(`${MAIN}/logout`, FORM)).statusCode, 200)
  await until(async () => {
    await test.clock.advance(1_000)
    return !isDegraded()
  })
  const again = await start(t, { yaml })
  t.strictSame(await statuses(again, old), [401, 401, 401, 401], 'written by now')
})

t.test('signing in as somebody else ends the session that was there', async (t) => {
  const test = await start(t)
  const ada = test.visitor()
  await arrive(ada, test.corp, WANTED)
  const old = copyOf(ada)
  await signIn(ada, test.corp, 'bob', signInUrl({ rd: WANTED, switch: '1' }))
  t.equal(await whoIs(ada), 'bob')
  t.strictSame(await statuses(test, old), [401, 401, 401, 401])
})
