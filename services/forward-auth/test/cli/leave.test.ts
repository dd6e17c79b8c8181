import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { fromClaims } from '@gatehouse/profile'
import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import { StoreError } from '@gatehouse/store'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { leave } from '../../src/cli/leave.ts'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { personOf } from '../../src/session/session.ts'
import { AuthStore } from '../../src/store/auth-store.ts'
import { readAudit } from '../../src/store/open.ts'
import { passes } from '../account/kit.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { SHAPES } from '../shapes.ts'

const KEYS =
  'callers: { keys: [{ name: backup, key: key-of-a-program-0123456789, hosts: [app.example.com] }] }'
const HOUR = 3_600_000
const ADA = { name: 'Ada Lovelace', email: 'ada@example.com' }
const personAt = (portal: string) => personOf(portal, { provider: 'corp', id: 'ada' })

/** A service with people who are signed in, and the command on its store. */
async function start(t: Test, storage?: string) {
  const folder = testFolder(t)
  const file = join(folder, 'config.yaml')
  const yaml = yamlOf(
    portalOf('main', KEYS) + portalOf('other'),
    `storage: ${storage ?? `{ path: "${folder}/data" }`}`,
  )
  writeFileSync(file, yaml)
  const { value: config } = await loadForwardAuthConfig(file, {})
  const test = await startApp(t, yaml, undefined, { clock: systemClock })
  const cookies = {
    ada: await test.signIn('main', ADA),
    again: await test.signIn('main', ADA),
    elsewhere: await test.signIn('other', ADA),
    bob: await test.signIn('main', { sub: 'bob', email: 'bob@example.com' }),
  }
  const { authStore, auditTrail } = test.app
  const record = (sub: string, claims: object) =>
    auditTrail.record(undefined, {
      ...{ event: 'sign-in', portal: 'main', host: 'auth.example.com' },
      profile: fromClaims('corp', { sub, ...claims }),
    })
  record('ada', { ...ADA, preferred_username: 'countess' })
  await auditTrail.flush()
  const consent = { until: Date.now() + HOUR, mac: 'x' }
  await authStore.giveConsent({ ...consent, key: 'a', person: personAt('main') })
  const run = async (person: string, yes = false) =>
    JSON.parse(await leave(config, person, { yes, json: true }))
  const passing = async () => {
    await authStore.catchUp()
    const { elsewhere, ...others } = cookies
    const answers = await Promise.all(Object.values(others).map((cookie) => passes(test, cookie)))
    const at = { portal: 'other' }
    const { statusCode } = await test.check(SHAPES[0]!, { cookie: elsewhere }, at)
    return [...answers, statusCode === 200]
  }
  const ends = async () => {
    const rows = await Array.fromAsync(readAudit(config.storage, 0))
    return rows
      .filter(({ event }) => event === 'session-ended')
      .map(({ portal, person, endedBy, actor }) => [portal, person, endedBy, actor])
      .sort()
  }
  return { ...test, config, record, run, passing, ends }
}

const ENDED = ['main', 'main', 'other'].map((portal) => [
  ...[portal, 'corp:ada', 'operator', userInfo().username],
])

for (const engine of ['a folder', 'PostgreSQL'])
  t.test(`a person leaves, with ${engine}`, async (t) => {
    const url = engine === 'PostgreSQL' && (await startPostgres(t)).url
    const test = await start(t, url ? `{ url: "${url}" }` : undefined)
    const { run, passing, ends, app } = test
    const dry = await run('ada')
    t.match(dry, { person: 'corp:ada', actor: userInfo().username, dryRun: true })
    t.match(dry.found, [
      { portal: 'main', sessions: { length: 2 }, agents: { length: 0 } },
      { portal: 'other', sessions: { length: 1 } },
    ])
    t.strictSame(dry.ended, [])
    t.match(dry.remains, {
      'account at corp': /close it there/,
      'API keys': 'replace those that they knew of backup',
    })
    t.strictSame(await passing(), [true, true, true, true], 'a dry run ends nothing')

    const done = await run('ada@example.com', true)
    t.match(done, {
      dryRun: false,
      found: [{ sessions: { length: 2 } }, { sessions: { length: 1 } }],
    })
    t.equal(done.ended.length, 3)
    t.strictSame(await passing(), [false, false, true, false])
    t.strictSame(await ends(), ENDED)
    t.equal(await app.authStore.findConsent('a'), undefined)

    const again = await run('ada@example.com', true)
    t.match(again.found, [{ sessions: { length: 0 } }, { sessions: { length: 0 } }])
    t.strictSame(again.ended, done.ended, 'the proof has what was ended before')
    t.strictSame(await ends(), ENDED)
  })

t.test('nobody comes back by what there was before', async (t) => {
  const { app, run } = await start(t)
  const [portal, site] = [app.portals.get('main'), app.sites.list[0]]
  if (!portal || !site) throw new Error('there is no portal')
  const [row] = await app.authStore.listSessions({ person: personAt('main') }, 1)
  if (!row) throw new Error('there is no session')
  await run('ada', true)
  const { hosts: _, ...session } = row
  t.equal(await app.authStore.updateSession({ ...session, rev: session.rev + 1 }), false)
  const agent = { ...session, sid: 'agent', parent: session.sid }
  const code = { id: 'code', until: Date.now() + HOUR }
  t.equal(await app.authStore.beginAgent(agent, code), false, 'by a code of an agent')
  const signIn = (issuedAt: number) =>
    app.sessions.begin({
      ...{ portal, site, browser: { userAgent: '', address: undefined } },
      signedIn: { profile: fromClaims('corp', { sub: 'ada' }), tokens: {}, issuedAt },
    })
  const now = Math.floor(Date.now() / 1_000)
  for (const issuedAt of [now - 300, now, now + 30])
    t.equal(await signIn(issuedAt), undefined, `by a sign-in under way, of ${issuedAt - now}`)
  t.ok(await signIn(now + 120), 'the provider lets them in: its account has to be closed')
})

t.test('the names of a person', async (t) => {
  const { run, app, passing, record } = await start(t)
  record('gone', { name: 'Grace Hopper', email: 'grace@example.com' })
  record('bob', { name: 'Bob', email: 'shared@example.com' })
  record('rob', { name: 'Bob', email: 'shared@example.com' })
  await app.auditTrail.flush()
  for (const name of ['ada', 'corp:ada', 'ADA@example.com', 'ada lovelace', 'countess'])
    t.equal((await run(name)).person, 'corp:ada', name)
  t.match(await run('grace@example.com', true), { person: 'corp:gone', ended: { length: 0 } })
  const wrong: [name: string, message: string][] = [
    ['Bob', 'Bob may be corp:bob or corp:rob: name one of them'],
    ['shared@example.com', 'shared@example.com may be corp:bob or corp:rob: name one of them'],
    [
      'adda@example.com',
      'nobody has signed in who is called adda@example.com; did you mean ada@example.com?',
    ],
    ['gonne', 'nobody has signed in who is called gonne; did you mean gone?'],
    ['zzzzzzzz', 'nobody has signed in who is called zzzzzzzz'],
    ['x\u001b[2J', 'nobody has signed in who is called x\\u001b[2J'],
  ]
  for (const [name, message] of wrong) await t.rejects(run(name, true), { message })
  t.strictSame(await passing(), [true, true, true, true])
})

t.test('a proof to read', async (t) => {
  const { config } = await start(t)
  const text = await leave(config, 'ada', { json: false })
  t.match(text, /^person: corp:ada\ntime: /)
  t.match(parse(text), { dryRun: true, found: [{ portal: 'main' }, { portal: 'other' }] })
})

t.test('stopped at any step and run again, it ends in the same state', async (t) => {
  const { endSessions, withdrawConsents } = AuthStore.prototype
  t.teardown(() => Object.assign(AuthStore.prototype, { endSessions, withdrawConsents }))
  let steps = 0
  for (const isDone of [false, true])
    for (let n = 1, isStopped = true; isStopped; n += 1) {
      const { run, passing, app } = await start(t)
      let count = 0
      const guard = <Args extends unknown[], Result>(method: (...args: Args) => Promise<Result>) =>
        async function guarded(this: AuthStore, ...args: Args): Promise<Result> {
          count += 1
          if (count === n && !isDone) throw new StoreError('STORE_UNAVAILABLE', 'it is away')
          const result = await method.apply(this, args)
          if (count === n) throw new StoreError('STORE_UNAVAILABLE', 'the answer was lost')
          return result
        }
      Object.assign(AuthStore.prototype, {
        endSessions: guard(endSessions),
        withdrawConsents: guard(withdrawConsents),
      })
      isStopped = await run('corp:ada', true).then(
        () => false,
        () => true,
      )
      Object.assign(AuthStore.prototype, { endSessions, withdrawConsents })
      if (!isStopped) break
      steps += 1
      await run('corp:ada', true).catch((error) => t.fail(`${n} ${isDone}: ${error.message}`))
      t.strictSame(await passing(), [false, false, true, false], `${n} ${isDone}`)
      t.equal(await app.authStore.findConsent('a'), undefined)
    }
  t.ok(steps >= 10, `${steps} steps`)
})

t.test('ten thousand sessions', async (t) => {
  const { app, run, passing } = await start(t)
  const { authStore } = app
  const [row] = await authStore.listSessions({ person: personAt('main') }, 1)
  if (!row) throw new Error('there is no session')
  const { hosts: _, ...session } = row
  const sids = Array.from({ length: 9_900 }, () => randomBytes(16).toString('base64url'))
  while (sids.length > 0)
    await Promise.all(sids.splice(0, 100).map((sid) => authStore.beginSession({ ...session, sid })))
  await run('ada', true)
  t.strictSame(await authStore.listSessions({ person: personAt('main') }, 10), [])
  t.strictSame(await passing(), [false, false, true, false])
})
