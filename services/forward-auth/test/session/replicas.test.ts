import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { type PostgresServer, startPostgres } from '../../../../scripts/test/postgres.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type {} from '../../src/audit/audit.ts'
import { readAudit } from '../../src/store/open.ts'
import { portalOf, type TestApp, yamlOf } from '../app.ts'
import { createFakeProvider, type FakeProvider } from '../fake-provider.ts'
import { bothCookies } from '../helpers/both-cookies.ts'
import {
  AUTH,
  arrive,
  goalOf,
  MAIN,
  SCRIPT,
  signIn,
  signInUrl,
  start,
  WANTED,
} from '../portal/kit.ts'
import { BROWSER, SHAPES } from '../shapes.ts'
import { until } from '../store/kit.ts'
import { createVisitor } from '../visitor.ts'

// What is wrong in these tests, and said.
expectWarnings(
  t,
  'STORE_UNAVAILABLE',
  'STORE_UNAVAILABLE',
  'connection for notifications was lost',
  'database is down',
  'sessions that had ended reappeared',
)

const FORM = {
  method: 'POST',
  headers: { origin: AUTH, 'content-type': 'application/x-www-form-urlencoded' },
} as const
const KEY = 'correct-horse-battery-staple'
const CALLERS = `callers: { keys: [{ name: ci, key: ${KEY}, hosts: [app.example.com] }] }`
const ASSERTION = 'assertion: { hosts: ["*.example.com"] }'
const APP = 'app.example.com'
const RULES = 'rules: [{ paths: [/open/*], require: anyone }]'

interface Options {
  readonly schema: string
  readonly rest?: string
  readonly corp?: FakeProvider
  readonly count?: number
}

/** Several instances on one schema, which start at once. */
async function startReplicas(t: Test, { url }: PostgresServer, options: Options) {
  const { schema, rest = '', corp = createFakeProvider(), count = 3 } = options
  const storage = `storage: { url: "${url}", schema: ${schema}${rest} }`
  const yaml = yamlOf(portalOf('main', `${CALLERS}, ${RULES}, ${ASSERTION}`), storage)
  const all = await Promise.all(Array.from({ length: count }, () => start(t, { yaml, corp })))
  return { all: all as readonly TestApp[] as [TestApp, TestApp, TestApp], corp }
}

/** The status of a check by a script. */
const statusAt = async ({ check }: TestApp, cookie: string) =>
  (await check(SHAPES[0]!, { ...SCRIPT, cookie })).statusCode

const signOut = ({ app }: TestApp, cookie: string) =>
  createVisitor(app).open(`${MAIN}/logout`, { ...FORM, headers: { ...FORM.headers, cookie } })

t.test('several instances on one database', async (t) => {
  const server = await startPostgres(t)

  t.test('a logout at one instance is a logout at all', async (t) => {
    const { all, corp } = await startReplicas(t, server, { schema: 'logout' })
    const [one, two, three] = all
    const ada = createVisitor(one.app)
    await arrive(ada, corp, WANTED)
    const cookie = ada.cookies(APP)
    for (const each of all) t.equal(await statusAt(each, cookie), 200)
    t.equal((await signOut(two, ada.cookies())).statusCode, 200)
    t.equal(await statusAt(two, cookie), 401, 'there at once')
    for (const each of [one, three]) await until(async () => (await statusAt(each, cookie)) === 401)
    const again = createVisitor(three.app)
    await arrive(again, corp, WANTED)
    for (const each of all) t.equal(await statusAt(each, again.cookies(APP)), 200, 'a new session')
  })

  t.test('200 logouts at once at three instances', async (t) => {
    const { all } = await startReplicas(t, server, { schema: 'many' })
    const people = await Promise.all(
      Array.from({ length: 200 }, (_, i) =>
        bothCookies(all[i % 3] as TestApp, { sub: `person${i}` }),
      ),
    )
    const kept = await all[0].signIn('main', { sub: 'somebody else' })
    const answers = await Promise.all(
      people.map(({ auth }, i) => signOut(all[(i + 1) % 3] as TestApp, auth)),
    )
    t.ok(answers.every(({ statusCode }) => statusCode === 200))
    for (const each of all) {
      await each.app.authStore.catchUp()
      const statuses = await Promise.all(people.map(({ app }) => statusAt(each, app)))
      t.strictSame([...new Set(statuses)], [401])
      t.equal(await statusAt(each, kept), 200)
    }
    const rows = await server.sql('SELECT sid FROM many.sessions')
    t.equal(rows.length, 1)
  })

  t.test('a login completes at one instance', async (t) => {
    const { all, corp } = await startReplicas(t, server, { schema: 'logins' })
    const [one, two, three] = all
    const ada = createVisitor(one.app)
    const begun = await ada.open(signInUrl())
    const { location } = begun.headers
    const cookie = ada.cookies()
    // The provider gives as many codes as are asked for.
    const callbackAt = ({ app }: TestApp) =>
      createVisitor(app).open(corp.authorize(location, 'ada'), { headers: { cookie } })
    const answers = await Promise.all(all.map(callbackAt))
    const hasSession = answers.map(({ headers }) =>
      [headers['set-cookie']].flat().some((line) => line?.startsWith('__Host-gatehouse.main=ey')),
    )
    t.equal(hasSession.filter(Boolean).length, 1, 'of three at once, one makes a session')
    for (const answer of answers) t.equal(goalOf(answer), WANTED)
    for (const each of [one, two, three]) {
      const late = await callbackAt(each)
      t.equal(goalOf(late), WANTED)
      t.notMatch(String(late.headers['set-cookie']), /gatehouse\.main=ey/, 'nor later')
    }
  })

  t.test('instances that start at once sign with the same key', async (t) => {
    const { all } = await startReplicas(t, server, { schema: 'keys' })
    const documents = await Promise.all(
      all.map(async ({ app }) => (await app.inject('/portals/main/.well-known/jwks.json')).body),
    )
    t.match(documents[0], /"kid"/)
    t.equal(new Set(documents).size, 1)
    const [one, two] = all
    const checked = await one.check(SHAPES[0]!, { cookie: await one.signIn('main') })
    const assertion = checked.headers['x-gatehouse-assertion']
    const headers = { ...SCRIPT, authorization: `Bearer ${assertion}` }
    const url = `${AUTH}/api/portals/main/verify?aud=https://app.example.com`
    const verified = await createVisitor(two.app).open(url, { headers })
    t.equal(verified.statusCode, 200)
  })

  t.test('the audit trail lists what happened at all instances', async (t) => {
    const { all, corp } = await startReplicas(t, server, { schema: 'trail' })
    const people = ['ada', 'bob', 'eve']
    for (const [i, { app }] of all.entries()) {
      const person = createVisitor(app)
      await signIn(person, corp, people[i] ?? '')
      await person.open(`${MAIN}/logout`, FORM)
      await app.auditTrail.flush()
    }
    const events: unknown[] = []
    const storage = {
      ...{ url: server.url, schema: 'trail', revocationStaleness: 60_000 },
      whenStale: 'refuse' as const,
    }
    const written = () =>
      server.sql('SELECT writes.id, ms::int FROM trail.writes, trail.run_time ORDER BY 1')
    const before = await written()
    for await (const { event, person } of readAudit(storage, 0)) events.push([event, person])
    t.strictSame(
      events,
      people.flatMap((sub) => ['sign-in', 'sign-out'].map((event) => [event, `corp:${sub}`])),
    )
    t.strictSame(await written(), before, 'reading it writes nothing')
    const absent = readAudit({ ...storage, schema: 'absent' }, 0)
    await t.rejects(absent.next(), { code: 'STORE_MISSING' })
    t.strictSame(await server.sql(`SELECT 1 FROM pg_namespace WHERE nspname = 'absent'`), [])
  })
})

t.test('while the database is away', async (t) => {
  const server = await startPostgres(t)
  // What holds before it is stale is looked at where it never is, however long a step takes.
  const { all: fresh, corp } = await startReplicas(t, server, {
    ...{ schema: 'away', rest: ', revocationStaleness: 24h', count: 1 },
  })
  const rest = ', revocationStaleness: 5s'
  const stale = await startReplicas(t, server, { schema: 'away', rest, corp, count: 1 })
  const all = [...fresh, ...stale.all]
  const [[one], [two]] = [fresh, stale.all]
  const allow = `${rest}, whenStale: allow`
  const [allowing] = (await startReplicas(t, server, { schema: 'away', rest: allow, count: 1 })).all
  const { app: ada, auth: adaAtSignIn } = await bothCookies(one, { sub: 'ada' })
  const { app: bob, auth: bobAtSignIn } = await bothCookies(one, { sub: 'bob' })
  const readiness = async ({ app }: TestApp) => {
    const { statusCode, body } = await app.inject('/readyz')
    const { degraded = [] } = JSON.parse(body) as { degraded?: string[] }
    // The provider gives no tokens to read people again with.
    return [statusCode, degraded.filter((part) => part !== 'provider main/corp')] as const
  }
  for (const each of [...all, allowing]) {
    // A busy machine may have made it stale.
    await each.app.authStore.catchUp()
    t.equal(await statusAt(each, ada), 200)
    t.strictSame(await readiness(each), [200, []])
  }
  await server.kill()

  const leaving = signOut(one, bobAtSignIn)
  await until(async () => (await readiness(one))[1].length === 1)
  t.strictSame(await readiness(one), [200, ['store']])
  t.equal(await statusAt(one, ada), 200, 'sessions go on at first')
  t.match(await leaving, { statusCode: 503, headers: { 'retry-after': /\d/ } })
  t.equal(await statusAt(one, bob), 401, 'who signed out here is out here')
  const again = await signOut(one, bobAtSignIn)
  t.equal(again.statusCode, 503, 'nor is a second try told that it is stored')
  await until(() => one.log.some(({ msg }) => msg === 'audit rows could not be stored yet'))
  const eve = createVisitor(two.app)
  const begun = await eve.open(signInUrl())
  const back = await eve.open(corp.authorize(begun.headers.location, 'eve'))
  t.match(back, { statusCode: 503, headers: { 'retry-after': /\d/ } }, 'nobody signs in')
  t.notMatch(`${back.body}${JSON.stringify(back.headers)}`, /127\.0\.0\.1|postgres/i)

  await until(async () => (await readiness(two))[0] === 503)
  t.strictSame(await readiness(one), [200, ['store']])
  for (const shape of SHAPES) {
    for (const headers of [SCRIPT, BROWSER]) {
      const answer = await two.check(shape, { ...headers, cookie: ada })
      const { denialStatus = (status: number) => status } = shape.dialect
      t.equal(answer.statusCode, denialStatus(503), shape.proxy)
      t.equal(answer.headers.location, undefined, 'nobody is sent to sign in')
      t.match(answer.headers['retry-after'], '5')
    }
  }
  const refused = await two.check(SHAPES[0]!, { ...SCRIPT, cookie: ada })
  t.match(refused.json(), { code: 'STORE_UNAVAILABLE', status: 503 })
  const open = { ...SCRIPT, 'X-Forwarded-Uri': '/open/x' }
  t.equal((await two.check(SHAPES[0]!, { ...open, cookie: ada })).statusCode, 503, 'an open path')
  t.equal((await two.check(SHAPES[0]!, open)).statusCode, 200, 'an open path without a session')
  const get = { ...BROWSER, 'X-Forwarded-Method': 'GET' }
  t.equal((await two.check(SHAPES[0]!, get)).statusCode, 302, 'nobody, as ever')
  const program = { ...SCRIPT, authorization: `ApiKey ${KEY}` }
  t.equal((await two.check(SHAPES[0]!, program)).statusCode, 200, 'a program')
  t.equal(await statusAt(two, '__Host-gatehouse-app.main=x.y.z'), 401, 'what is no session')
  const page = { headers: { ...SCRIPT, cookie: adaAtSignIn } }
  for (const path of ['profile', 'profile.json', 'signin'])
    t.equal((await createVisitor(two.app).open(`${MAIN}/${path}`, page)).statusCode, 503, path)
  t.equal(await statusAt(allowing, ada), 200, 'whenStale: allow goes on')
  t.strictSame(await readiness(allowing), [200, ['store']])

  await server.start()
  for (const each of [...all, allowing])
    await until(async () => {
      await each.clock.advance(1_000)
      return isDeepStrictEqual(await readiness(each), [200, []])
    })
  for (const each of all) t.equal(await statusAt(each, ada), 200, 'it goes on by itself')
  for (const { clock } of all) await clock.advance(1_000)
  await until(async () => (await statusAt(two, bob)) === 401)
  await until(async () => (await statusAt(allowing, bob)) === 401)
  for (const { app } of all) await app.auditTrail.flush()
  const rows = await server.sql('SELECT event, person FROM away.audit ORDER BY event')
  const row = { event: 'sign-out', person: 'corp:bob' }
  const passed = { event: 'program-passed', person: 'psk:ci' }
  const shown = { event: 'access-refused', person: null }
  t.strictSame(rows, [shown, passed, row], 'what waited is written')
  const delayed = one.log.filter(({ msg }) => msg === 'audit rows could not be stored yet')
  const message = /^The database cannot be used: 127\.0\.0\.1:\d+: [\w, ]+\.( Whether .*)?$/
  t.match(delayed, [{ level: 40, err: { code: 'STORE_UNAVAILABLE', message } }])
})
