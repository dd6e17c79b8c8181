import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { manualClock, testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { createBrowser } from '../../../../packages/identity-providers/test/stand-ins/browser.ts'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { programOf } from '../../../../scripts/test/program.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { ask, startRunning } from '../../../../scripts/test/running.ts'
import { until } from '../../../../scripts/test/until.ts'
import { startGatehouse } from '../helpers/gatehouse.ts'
import { checkAt, type Person, startPeople } from '../helpers/provider-session.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const REFRESH = MINUTE
const GRACE = 10 * MINUTE
const SESSION = 'session: { refresh: 1m, grace: 10m }'

type People = Awaited<ReturnType<typeof startPeople>>

t.test('signed out at the provider, a person is out at each instance', async (t) => {
  const people = await startPeople(t)
  const folder = testFolder(t)
  const config = join(folder, 'config.yaml')
  const rest = `server: { port: 0 }
metrics: { enabled: false }
log: { format: json, checks: all }
storage: { path: data }`
  writeFileSync(config, people.configOf('', rest))

  async function start(t: Test) {
    const running = startRunning(t, [...programOf('forward-auth'), 'serve', '--config', config])
    const { url } = await running.said('ready')
    return { ...running, url: String(url) }
  }
  const instances = await Promise.all([start(t), start(t)])
  const [one, two] = instances as [(typeof instances)[0], (typeof instances)[0]]
  const statuses = async (person: Person) =>
    Promise.all([one, two].map(async ({ url }) => (await checkAt(url, person)).status))
  const isOut = (person: Person) =>
    until(async () => (await statuses(person)).every((status) => status === 401))
  const isIn = async (t: Test, person: Person, message: string) =>
    t.strictSame(await statuses(person), [200, 200], message)

  for (const [n, { url }] of [one, two, one, two].entries()) {
    const alice = await people.signIn(one.url)
    const bob = await people.signIn(two.url, 'bob')
    await isIn(t, alice, 'signed in')
    const token = await people.logoutToken(alice)
    t.equal(await people.send(url, token), 200)
    await isOut(alice)
    const again = await people.signIn(url)
    t.not(again.sid, alice.sid)
    for (const instance of [one, two]) t.equal(await people.send(instance.url, token), 200)
    await isIn(t, again, `a session that began after it, in round ${n}`)
    await isIn(t, bob, 'and somebody else')
  }

  await t.test('of all their sessions, with a token that names the person alone', async (t) => {
    const iat = Math.floor(Date.now() / SECOND) - 5
    people.forge({ iat })
    const before = [await people.signIn(one.url), await people.signIn(two.url)]
    const bob = await people.signIn(two.url, 'bob')
    people.forge({})
    const after = await people.signIn(two.url)
    const token = await people.logoutToken(after, { sid: undefined, iat })
    t.equal(await people.send(one.url, token), 200)
    for (const each of before) await isOut(each)
    await isIn(t, after, 'signed in after the token')
    await isIn(t, bob, 'somebody else')
  })

  await t.test('also of the session whose sign-in was under way', async (t) => {
    const browser = createBrowser()
    const first = await people.signIn(one.url, 'alice', browser)
    const complete = await people.beginSignIn(two.url, 'alice', browser)
    // By the clock of the provider, it has ended after it issued the tokens of the sign-in.
    const iat = Math.floor(Date.now() / SECOND) + 20
    t.equal(await people.send(one.url, await people.logoutToken(first, { iat })), 200)
    t.equal(await complete(), undefined, 'the provider is asked once more')
    await isOut(first)
  })

  await t.test('whatever becomes of the instance that was told', async (t) => {
    const alice = await people.signIn(one.url)
    await isIn(t, alice, 'signed in')
    t.equal(await people.send(one.url, await people.logoutToken(alice)), 200)
    one.child.kill('SIGKILL')
    await one.ended
    const restarted = await start(t)
    t.equal((await checkAt(restarted.url, alice)).status, 401)
    await until(async () => (await checkAt(two.url, alice)).status === 401)
    const again = await people.signIn(restarted.url)
    t.equal((await checkAt(restarted.url, again)).status, 200)
  })
})

t.test('what the provider says when it is asked again', async (t) => {
  const server = await startPostgres(t)
  let schemas = 0

  /** Three instances on one database, by one clock. */
  async function start(t: Test, people: People, portal = '') {
    const manual = manualClock()
    // As those of databases and systems, which know no parts of a millisecond; timers may.
    const clock = { ...manual, now: () => Math.floor(manual.now()) }
    const storage = `storage: { url: "${server.url}", schema: again${++schemas} }`
    const yaml = people.configOf(`${SESSION}, ${portal}`, storage)
    const instances = await Promise.all(
      [1, 2, 3].map(() => startGatehouse(t, yaml, undefined, { clock })),
    )
    const urls = instances.map(({ port }) => `http://127.0.0.1:${port}`)
    const [url = ''] = urls
    const statuses = (person: Person) =>
      Promise.all(urls.map(async (each) => (await checkAt(each, person)).status))
    return { clock, instances, url, urls, statuses }
  }
  const all = (status: number) => [status, status, status]

  await t.test('a group that was removed counts no more', async (t) => {
    const people = await startPeople(t)
    const alice = people.people.get('alice')
    people.people.set('alice', { ...alice, groups: ['staff', 'eng'] })
    const { clock, url, statuses } = await start(t, people, 'allow: { groups: [staff] }')
    const person = await people.signIn(url)
    people.people.set('alice', { ...alice, groups: ['eng'] })
    await clock.advance(REFRESH - 13 * SECOND)
    t.strictSame(await statuses(person), all(200), 'not asked again yet')
    await clock.advance(13 * SECOND)
    t.strictSame(await statuses(person), all(403))
    people.people.set('alice', { ...alice, groups: ['staff'] })
    await clock.advance(REFRESH)
    t.strictSame(await statuses(person), all(200), 'and again a member')
  })

  await t.test('a revoked refresh token ends the session', async (t) => {
    const people = await startPeople(t)
    const { clock, url, statuses } = await start(t, people)
    const [alice, bob] = [await people.signIn(url), await people.signIn(url, 'bob')]
    await people.revoke(alice.refresh)
    await clock.advance(REFRESH)
    t.strictSame(await statuses(alice), all(401))
    t.strictSame(await statuses(bob), all(200))
  })

  await t.test('while it is away, people stay until grace is over', async (t) => {
    expectWarnings(t, 'FWA_PROVIDER_UNREACHABLE', 'provider cannot be used')
    const people = await startPeople(t)
    const { clock, url, statuses } = await start(t, people)
    const person = await people.signIn(url)
    await people.stop()
    for (let age = 0; age < REFRESH + GRACE - MINUTE; age += MINUTE) {
      t.strictSame(await statuses(person), all(200), `after ${age / MINUTE} minutes`)
      await clock.advance(MINUTE)
    }
    await clock.advance(MINUTE - 1)
    t.strictSame(await statuses(person), all(200), 'to the last')
    await clock.advance(1)
    t.strictSame(await statuses(person), all(401))
    await people.restart()
    // One instance after the other notices that it is back.
    await until(async () => {
      await clock.advance(MINUTE)
      return (await statuses(person)).every((status) => status === 200)
    })
  })

  await t.test('a client that is refused signs nobody out', async (t) => {
    expectWarnings(t, 'the provider refuses our client')
    const people = await startPeople(t)
    const { clock, url, urls, instances, statuses } = await start(t, people)
    const persons = [await people.signIn(url), await people.signIn(url, 'bob')]
    people.hostility['/token'] = { status: 401, json: { error: 'invalid_client' } }
    for (const _ of [1, 2, 3]) {
      await clock.advance(REFRESH)
      for (const person of persons) t.strictSame(await statuses(person), all(200))
    }
    const told = instances.map(
      ({ log }) => log.filter(({ msg }) => msg === 'the provider refuses our client').length,
    )
    t.ok(Math.max(...told) === 1, 'each says it once')
    const reports = await Promise.all(urls.map(async (each) => (await ask(`${each}/readyz`)).body))
    t.ok(reports.some((body) => body.includes('provider main/corp')))
    people.resume()
    // Each instance learns it when it asks itself.
    await until(async () => {
      await clock.advance(REFRESH)
      for (const person of persons) t.strictSame(await statuses(person), all(200))
      const bodies = await Promise.all(urls.map(async (each) => (await ask(`${each}/readyz`)).body))
      return bodies.every((body) => !body.includes('provider main/corp'))
    })
  })

  await t.test('of many requests at once, one alone uses the refresh token', async (t) => {
    const people = await startPeople(t)
    people.state.rotates = true
    const { clock, url, urls } = await start(t, people)
    const person = await people.signIn(url)
    for (let round = 1; round <= 20; round++) {
      await clock.advance(REFRESH)
      const before = people.asked['/token'] ?? 0
      const answers = await Promise.all(
        Array.from({ length: 64 }, (_, i) => checkAt(urls[i % urls.length] ?? '', person)),
      )
      t.strictSame([...new Set(answers.map(({ status }) => status))], [200], `round ${round}`)
      t.equal((people.asked['/token'] ?? 0) - before, 1)
    }
    t.equal(new Set(people.issued.map(({ refresh }) => refresh)).size, 21)
  })
})
