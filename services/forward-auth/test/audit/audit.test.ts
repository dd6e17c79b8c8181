import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { until } from '../../../../scripts/test/until.ts'
import type {} from '../../src/audit/audit.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { AUTH, goalOf, MAIN, SCRIPT, signIn, signInUrl, start, WANTED } from '../portal/kit.ts'
import { BROWSER, SHAPES } from '../shapes.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'EEXIST', 'FWA_PROVIDER_INVALID', 'FWA_PROVIDER_UNREACHABLE')

const [HOUR, DAY] = [3_600_000, 86_400_000]
const FORM = { method: 'POST', headers: { origin: AUTH, 'sec-fetch-mode': 'navigate' } } as const
const POLICIES = `policies: { admin: 'Group("admin")' }`

/** The service on a folder, with the rows that it has written there. */
async function startOn(t: Test) {
  const folder = testFolder(t)
  const yaml = yamlOf(portalOf('main', POLICIES), `storage: { path: "${folder}" }`)
  const test = await start(t, { yaml, admits: ({ id }) => id !== 'eve' })
  const files = () => readdirSync(`${folder}/audit`).toSorted()
  /** Every row, once all are written. */
  async function rows(): Promise<Record<string, unknown>[]> {
    await test.app.auditTrail.flush()
    return files().flatMap((file) =>
      readFileSync(`${folder}/audit/${file}`, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line)),
    )
  }
  const told = (msg: string) => test.log.filter((line) => line.msg === msg)
  return { ...test, folder, files, rows, told }
}

const CLIENT = { 'x-forwarded-for': '192.0.2.7' }

t.test('a sign-in and a sign-out are a row and a log line each', async (t) => {
  const { visitor, corp, rows, told, files, folder } = await startOn(t)
  const ada = visitor()
  const begun = await ada.open(signInUrl())
  await ada.open(corp.authorize(begun.headers.location, 'ada'), { headers: CLIENT })
  await ada.open(`${MAIN}/logout`, { ...FORM, headers: { ...FORM.headers, ...CLIENT } })

  const ofAda = { portal: 'main', provider: 'corp', clientAddress: '192.0.2.7' }
  const [person, name] = ['corp:ada', 'Name of ada']
  t.match(await rows(), [
    { ...ofAda, person, name, event: 'sign-in', host: 'app.example.com', requestId: /./ },
    { ...ofAda, person, name, event: 'sign-out', host: 'auth.example.com', requestId: /./ },
  ])
  t.match((await rows())[0], { time: '2030-01-01T00:00:00.000Z', ran: Number })
  for (const [i, msg] of ['signed in', 'signed out'].entries()) {
    const [line, ...others] = told(msg)
    t.match(line, { ...ofAda, caller: person, level: 30, reqId: (await rows())[i]?.requestId })
    t.strictSame(others, [])
  }
  t.match(told('request').at(-1), { ip: '127.0.0.1', clientAddress: '192.0.2.7' })
  t.strictSame(files(), ['2030-01-01.jsonl'])
  t.equal(statSync(`${folder}/audit/2030-01-01.jsonl`).mode & 0o777, 0o600)
})

t.test('a sign-out has its row though the session was gone, or cannot be read', async (t) => {
  const { visitor, corp, app, rows } = await startOn(t)
  const [ada, bob] = [visitor(), visitor()]
  for (const [one, name] of [[ada, 'ada'] as const, [bob, 'bob'] as const])
    await signIn(one, corp, name, signInUrl())
  const listed = await app.authStore.listSessions({ portal: 'main' }, 9)
  const opened = await Promise.all(listed.map(({ sid }) => app.sessions.records.open(sid)))
  const ofAda = opened.find((each) => each?.contents.claims.sub === 'ada')!
  await app.authStore.endSessions({ sid: ofAda.row.sid })
  const cookie = ada.cookies('auth.example.com')
  await ada.open(`${MAIN}/logout`, FORM)
  const again = { ...FORM, headers: { ...FORM.headers, cookie } }
  for (let n = 0; n < 3; n++) await visitor().open(`${MAIN}/logout`, again)
  const { findSession } = app.authStore
  app.authStore.findSession = () => Promise.reject(new Error('away'))
  await bob.open(`${MAIN}/logout`, FORM)
  app.authStore.findSession = findSession
  const signOuts = (await rows()).filter(({ event }) => event === 'sign-out')
  t.match(signOuts, [{ person: 'corp:ada', provider: 'corp' }, { person: 'corp:bob' }])
  t.equal(signOuts.length, 2, 'the same cookie once more is no other sign-out')
})

t.test('the address of the client is the one that trusted proxies name', async (t) => {
  const { app, log } = await startOn(t)
  const lineOf = async (remoteAddress: string, headers: Record<string, string>) => {
    await app.inject({
      url: '/portals/main/signin',
      remoteAddress,
      headers: { ...SCRIPT, ...headers },
    })
    return log.at(-1)?.clientAddress
  }
  t.equal(await lineOf('127.0.0.1', { 'x-forwarded-for': '198.51.100.1, 192.0.2.7' }), '192.0.2.7')
  t.equal(await lineOf('192.0.2.66', CLIENT), '192.0.2.66', 'of a client that calls itself another')
  t.equal(await lineOf('127.0.0.1', {}), undefined)
  t.equal(await lineOf('127.0.0.1', { 'x-forwarded-for': 'x'.repeat(5_000) }), undefined)
})

t.test('sign-ins that do not succeed', async (t) => {
  const test = await startOn(t)
  const { visitor, corp } = test
  const attempt = async (sub: string, failure?: typeof corp.state.failure) => {
    const person = visitor()
    const begun = await person.open(signInUrl())
    corp.state.failure = failure
    const callback = corp.authorize(begun.headers.location, sub)
    if (failure === 'FWA_LOGIN_REFUSED') callback.searchParams.set('error', 'access_denied')
    await person.open(callback)
    corp.state.failure = undefined
  }
  await attempt('eve')
  await attempt('ada', 'FWA_LOGIN_REFUSED')
  await attempt('ada', 'FWA_PROVIDER_INVALID')
  corp.state.failure = 'FWA_PROVIDER_UNREACHABLE'
  await visitor().open(signInUrl())
  corp.state.failure = undefined
  for (let i = 0; i < 61; i++) await attempt('often')

  const rows = (await test.rows()).filter(({ event }) => event !== 'sign-in')
  t.strictSame(
    rows.map(({ event, person, provider, host, code }) => [event, person, provider, host, code]),
    [
      ['sign-in-refused', 'corp:eve', 'corp', 'app.example.com', 'FWA_FORBIDDEN'],
      ['sign-in-refused', undefined, 'corp', 'app.example.com', 'FWA_LOGIN_REFUSED'],
      ['sign-in-failed', undefined, 'corp', 'app.example.com', 'FWA_PROVIDER_INVALID'],
      ['sign-in-failed', undefined, 'corp', 'app.example.com', 'FWA_PROVIDER_UNREACHABLE'],
      ['sign-in-refused', 'corp:often', 'corp', 'app.example.com', 'FWA_RATE_LIMITED'],
    ],
  )
})

t.test('a refused sign-in says which part of `allow` refuses, and which claims came', async (t) => {
  const corp = 'issuerUrl: "http://localhost:1", clientId: a, clientSecret: b'
  const portal = (allow: string, own = '') =>
    yamlOf(
      `  - { name: main, ${allow} providers: [{ type: openIDConnect, name: corp, ${corp}${own} }] }\n`,
    )
  for (const [yaml, refusedBy, clause] of [
    [portal('allow: { groups: [staff] },'), 'allow', 'groups: staff'],
    [
      portal('', ', allow: { emailDomains: [example.com] }'),
      'allow of the provider corp',
      'emailDomains: example.com (no e-mail address came)',
    ],
    [portal(`allow: 'ClaimEqual("team", "a") && Group("x")',`), 'allow', 'Group("x")'],
  ] as const) {
    const test = await start(t, { yaml })
    test.app.log.level = 'debug'
    test.corp.state.claims = { groups: ['hr'], team: 'a' }
    const page = await signIn(test.visitor(), test.corp, 'eve')
    t.equal(page.statusCode, 403)
    t.notMatch(page.body, clause, 'the page does not say it')
    const line = test.log.find(({ event }) => event === 'sign-in-refused')
    t.match(line, { refusedBy, clause, code: 'FWA_FORBIDDEN', caller: 'corp:eve' })
    const debug = test.log.find(({ claims }) => claims)
    t.strictSame(debug?.claims, ['sub', 'name', 'groups', 'team'])
    t.notMatch(JSON.stringify(debug), '"hr"', 'their names only')
  }
})

t.test('a check that refuses has a row per host and hour, and a page of its own', async (t) => {
  const { check, signIn: cookieOf, rows, told, clock } = await startOn(t)
  const ask = async (host: string, headers: object = {}) => {
    const cookie = await cookieOf('main', {}, { host })
    const sent = { ...CLIENT, ...headers, cookie, 'x-forwarded-host': host }
    return check(SHAPES[0]!, sent, { query: '?policy=admin' })
  }
  for (const host of ['app', 'app', 'wiki', 'app'])
    t.equal((await ask(`${host}.example.com`)).statusCode, 403)
  t.equal((await ask('app.example.com', BROWSER)).statusCode, 403, 'a page')
  await check(SHAPES[0]!, { ...CLIENT }, { query: '?policy=admin' })
  await clock.advance(HOUR)
  await ask('app.example.com')

  const ofAda = { event: 'access-refused', person: 'corp:ada', code: 'FWA_FORBIDDEN' }
  const at = (host: string) => ({ ...ofAda, host: `${host}.example.com` })
  const expected = [at('app'), at('wiki'), at('app'), at('app')]
  t.match(await rows(), expected, 'a page has one of its own')
  t.equal((await rows()).length, 4)
  const asked = { method: 'POST', path: '/a/b', groups: undefined, refusedBy: 'policy admin' }
  t.match((await rows())[0], { ...asked, clause: 'Group("admin")' })
  t.match(told('access refused')[0], { ...asked, clause: 'Group("admin")' }, 'so has its line')
  t.match(told('request')[0], { appMethod: 'POST', appPath: '/a/b', clause: 'Group("admin")' })
  t.equal(told('access refused').length, 4, 'so have the log lines')
  t.equal(told('request').length, 7, 'beside those of the requests')
})

t.test('who signs in as somebody else ends the session that was there', async (t) => {
  const { visitor, corp, rows } = await startOn(t)
  const ada = visitor()
  await signIn(ada, corp, 'ada')
  await signIn(ada, corp, 'bob', signInUrl({ rd: WANTED, switch: '1' }))
  t.match(
    (await rows()).map(({ event, person, actor }) => [event, person, actor]),
    [
      ['sign-in', 'corp:ada', undefined],
      ['session-ended', 'corp:ada', 'corp:bob'],
      ['sign-in', 'corp:bob', undefined],
    ],
  )
})

t.test('a row that cannot be written is told, and the person is signed in', async (t) => {
  const { visitor, corp, rows, told, folder } = await startOn(t)
  writeFileSync(`${folder}/audit`, '')
  t.equal(goalOf(await signIn(visitor(), corp, 'ada')), WANTED)
  await signIn(visitor(), corp, 'bob')
  rmSync(`${folder}/audit`)
  await signIn(visitor(), corp, 'eve')
  await signIn(visitor(), corp, 'zoe')
  t.match(told('audit rows were lost'), [
    { level: 50, rows: 1, err: { code: /E(EXIST|NOTDIR)/ } },
    {},
  ])
  t.match(
    (await rows()).map(({ person }) => person),
    ['corp:eve', 'corp:zoe'],
  )
})

t.test('days outside of the retention are removed at the start and once a day', async (t) => {
  const folder = testFolder(t, { audit: { 'notes.txt': 'kept', '2020-01-01.jsonl': '' } })
  const rest = `storage: { path: "${folder}" }\naudit: { retention: 2d }`
  const yaml = yamlOf(portalOf('main'), rest)
  const files = () => readdirSync(`${folder}/audit`).toSorted()
  let ran = 0
  const daily = new Set<() => void>()
  const clock = {
    now: () => Date.UTC(2030, 0, 1),
    setTimer(fn: () => void, ms: number) {
      if (ms === DAY) daily.add(fn)
      return { cancel: () => void daily.delete(fn) }
    },
  }
  const startAgain = async () => {
    const { app } = await startApp(t, yaml, undefined, { clock, monotonic: () => ran })
    app.loops.start()
    return app
  }
  const app = await startAgain()
  await until(() => daily.size > 0)
  ran = 2 * DAY
  t.strictSame(files(), ['2020-01-01.jsonl', 'notes.txt'], 'kept at the start')
  for (const removeOld of daily) removeOld()
  await app.close()
  t.strictSame(files(), ['notes.txt'])
  t.equal(daily.size, 0)

  writeFileSync(`${folder}/audit/2020-01-02.jsonl`, '')
  await (await startAgain()).close()
  t.strictSame(files(), ['notes.txt'])
})
