import { existsSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { fromClaims } from '@gatehouse/profile'
import { type ManualClock, manualClock, testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { until } from '../../../../scripts/test/until.ts'
import type { Session } from '../../src/session/session.ts'
import { cookieHeader, portalNamed, SITE, startInstance } from './kit.ts'

const SECOND = 1_000
const HOUR = 3_600 * SECOND
const DAY = 24 * HOUR

type Instance = Awaited<ReturnType<typeof startInstance>>

const isIn = async ({ read, portal }: Instance, cookie: string) =>
  (await read(portal(), SITE, cookie)) !== undefined
/** How many of these sessions an instance accepts. */
async function countIn(instance: Instance, all: readonly { readonly cookie: string }[]) {
  const accepted = await Promise.all(all.map(({ cookie }) => isIn(instance, cookie)))
  return accepted.filter(Boolean).length
}
const rowsIn = (folder: string) => {
  const db = new DatabaseSync(`${folder}/revocations.db`, { timeout: 5_000 })
  const rows = db.prepare('SELECT sid FROM revoked').all()
  db.close()
  return rows.map(({ sid }) => String(sid))
}

/** Somebody who has signed in: the session and the Cookie header. */
function signIn({ create }: Instance, sub = 'ada') {
  const { session, cookies } = create(fromClaims('corp', { sub }))
  return { session, cookie: cookieHeader(cookies) }
}

/** When this has come about, all that was written before is on disk. */
const settled = (instance: Instance) => instance.revoke(await signIn(instance, 'settler').session)

/** A clock that can be set, beside the time that really passes. */
function settableClock() {
  const real = manualClock()
  const time = { ahead: 0 }
  const clock: ManualClock = { ...real, now: () => real.now() + time.ahead }
  return { time, clock, monotonic: real.now }
}

t.test('a session that was signed out stays revoked', async (t) => {
  const folder = testFolder(t)
  const [here, there] = (await Promise.all([1, 2].map(() => startInstance(t, { folder })))) as [
    Instance,
    Instance,
  ]
  const { session, cookie } = await signIn(here)
  t.ok(await isIn(there, cookie))

  await here.revoke(session)
  await here.revoke(session)
  t.notOk(await isIn(here, cookie), 'here at once')
  t.equal(await here.verify(here.portal(), session.token), undefined, 'for verify too')
  await there.clock.advance(SECOND)
  t.notOk(await isIn(there, cookie), 'there within a second')

  await here.close()
  const again = await startInstance(t, { folder })
  t.notOk(await isIn(again, cookie), 'after a restart')
  t.ok(await isIn(again, await signIn(again).cookie))
})

t.test('a logout counts from the call on, whether or not it is written yet', async (t) => {
  const here = await startInstance(t)
  const { session, cookie } = await signIn(here)
  const written = here.revoke(session)
  t.notOk(await isIn(here, cookie))
  t.strictSame(rowsIn(here.folder), [], 'nothing waits for the disk')
  await written
  t.strictSame(rowsIn(here.folder), [session.sid])
})

t.test(
  'logouts that come together share a commit, and each answer waits for its own',
  async (t) => {
    const here = await startInstance(t)
    const all = Array.from({ length: 50 }, (_, i) => await signIn(here, `person${i}`))
    const [first, ...others] = all.map(({ session }) => here.revoke(session))
    await first
    t.equal(rowsIn(here.folder).length, 50, 'those of one turn of the event loop')
    await Promise.all(others)
    const later = [await signIn(here, 'x'), await signIn(here, 'y'), await signIn(here, 'z')]
    const one = here.revoke(later[0]!.session)
    await Promise.resolve()
    await Promise.resolve()
    const two = here.revoke(later[1]!.session)
    const three = here.revoke(later[2]!.session)
    await one
    await Promise.all([two, three])
    t.equal(rowsIn(here.folder).length, 53)
    t.equal(await countIn(here, all), 0)
  },
)

t.test('what was signed out is removed when it has ended by the clock and by time', async (t) => {
  const { time, clock, monotonic } = settableClock()
  const here = await startInstance(t, { clock, monotonic })
  const { session, cookie } = await signIn(here)
  await here.revoke(session)

  time.ahead = 2 * DAY
  await clock.advance(HOUR)
  await settled(here)
  t.ok(rowsIn(here.folder).includes(session.sid), 'kept by a clock that is days ahead')
  time.ahead = 0
  t.notOk(await isIn(here, cookie), 'and refused when the clock is right again')
  await here.close()
  const again = await startInstance(t, { folder: here.folder, clock, monotonic })
  t.notOk(await isIn(again, cookie), 'after a restart too')

  time.ahead = -2 * DAY
  await clock.advance(3 * HOUR)
  await settled(again)
  t.ok(rowsIn(here.folder).includes(session.sid), 'kept by a clock that is behind')
  time.ahead = 0
  await clock.advance(HOUR / 6)
  await settled(again)
  t.notOk(rowsIn(here.folder).includes(session.sid), 'ended by both')
})

t.test('the time that a list has been in use is counted over restarts', async (t) => {
  const folder = testFolder(t)
  const { time, clock, monotonic } = settableClock()
  const first = await startInstance(t, { folder, clock, monotonic })
  const { session } = await signIn(first)
  await first.revoke(session)
  await first.close()
  time.ahead = 30 * DAY
  const away = await startInstance(t, { folder, clock, monotonic: () => monotonic() + 30 * DAY })
  await away.clock.advance(HOUR / 2)
  await settled(away)
  t.ok(rowsIn(folder).includes(session.sid), 'time in which nothing ran does not count')
  await away.close()
  const back = await startInstance(t, { folder, clock, monotonic: () => monotonic() - 5 * DAY })
  await back.clock.advance(HOUR)
  await back.close()
  const last = await startInstance(t, { folder, clock, monotonic })
  await last.clock.advance(HOUR)
  await settled(last)
  t.notOk(rowsIn(folder).includes(session.sid), 'all the stretches together do')
})

t.test('a logout that cannot be written fails, is told, and is written later', async (t) => {
  const here = await startInstance(t)
  const { folder, log, clock, storeIsUp } = here
  const { session, cookie } = await signIn(here)
  // It waits for the try that the end of its own lock lets through.
  const blocker = new DatabaseSync(`${folder}/revocations.db`, { timeout: 5_000 })
  blocker.exec('BEGIN EXCLUSIVE')
  await t.rejects(here.revoke(session), { code: 'FWA_STORE_UNAVAILABLE', retryAfter: 5 })
  t.notOk(await isIn(here, cookie), 'refused here all the same')
  t.notOk(storeIsUp())
  t.match(log, [/writing fails/])
  await clock.advance(SECOND)
  await until(() => log.length > 1)
  t.match(log, [/writing fails/, /reading fails/], 'each is told once')
  blocker.exec('ROLLBACK')
  blocker.exec('BEGIN')
  blocker.prepare('SELECT count(*) FROM revoked').get()
  await t.rejects(here.revoke(await signIn(here, 'bob').session), { code: 'FWA_STORE_UNAVAILABLE' })
  await clock.advance(SECOND)
  t.notOk(storeIsUp(), 'reading succeeds, and writing does not')
  blocker.close()
  await here.revoke(await signIn(here, 'eve').session)
  t.ok(storeIsUp())
  t.equal(rowsIn(folder).length, 3, 'all of them are written now')
  t.ok(rowsIn(folder).includes(session.sid))
})

t.test('a commit of another instance is waited for, however long its disk takes', async (t) => {
  const here = await startInstance(t)
  const { folder, log, clock, storeIsUp } = here
  const { session, cookie } = await signIn(here)
  const other = new DatabaseSync(`${folder}/revocations.db`, { timeout: 5_000 })
  other.exec('BEGIN EXCLUSIVE')
  other
    .prepare(`INSERT INTO revoked (sid, person, first, last, generation, until, due)
      VALUES (?, '', 0, 0, 0, ?, ?)`)
    .run(session.sid, clock.now() + DAY, DAY)
  await clock.advance(SECOND)
  let isCaughtUp = false
  const catchingUp = here.catchUp().then(() => {
    isCaughtUp = true
  })
  const revoking = here.revoke(await signIn(here, 'bob').session)
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
  t.notOk(isCaughtUp)
  t.ok(storeIsUp(), 'who waits is ready')
  other.exec('COMMIT')
  other.close()
  await Promise.all([catchingUp, revoking])
  t.notOk(await isIn(here, cookie), 'what it wrote is known')
  t.strictSame(log, [])
})

t.test('what could not be written is tried again each second', async (t) => {
  const here = await startInstance(t)
  const { session } = await signIn(here)
  const blocker = new DatabaseSync(`${here.folder}/revocations.db`)
  blocker.exec('BEGIN EXCLUSIVE')
  await t.rejects(here.revoke(session))
  blocker.close()
  await here.clock.advance(SECOND)
  while (!here.storeIsUp()) await new Promise(setImmediate)
  t.strictSame(rowsIn(here.folder), [session.sid])
})

t.test(
  'tries that fail leave no file open',
  { skip: existsSync('/proc/self/fd') ? false : 'needs /proc' },
  async (t) => {
    const here = await startInstance(t)
    const { session } = await signIn(here)
    const open = () =>
      readdirSync('/proc/self/fd').filter((fd) => {
        const path = readlinkOf(`/proc/self/fd/${fd}`)
        return path === `${here.folder}/revocations.db`
      }).length
    const blocker = new DatabaseSync(`${here.folder}/revocations.db`)
    blocker.exec('BEGIN EXCLUSIVE')
    await t.rejects(here.revoke(session))
    const before = open()
    // Each waits for the other's lock.
    await t.rejects(here.revoke(session))
    t.equal(open(), before)
    blocker.close()
  },
)

/** undefined of a descriptor that was closed meanwhile. */
function readlinkOf(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}

t.test('a list that somebody removed is written anew', async (t) => {
  const here = await startInstance(t)
  const { session, cookie } = await signIn(here)
  const bob = await signIn(here, 'bob')
  await here.revoke(session)
  rmSync(`${here.folder}/revocations.db`)
  await t.rejects(here.revoke(bob.session), { code: 'FWA_STORE_UNAVAILABLE' })
  t.notOk(here.storeIsUp())
  await here.clock.advance(SECOND)
  while (!here.storeIsUp()) await new Promise(setImmediate)
  t.equal(rowsIn(here.folder).length, 2)
  await here.close()
  t.notOk(await isIn(await startInstance(t, { folder: here.folder }), cookie))
})

t.test('one person cannot fill the list, and loses only sessions of their own', async (t) => {
  const folder = testFolder(t)
  const here = await startInstance(t, { folder })
  const there = await startInstance(t, { folder })
  const bob = await signIn(here, 'bob')
  const sessions: { session: Session; cookie: string }[] = []
  for (let i = 0; i < 130; i++) {
    sessions.push(await signIn(here))
    await here.clock.advance(SECOND)
  }
  await Promise.all(sessions.slice(0, 120).map(({ session }) => here.revoke(session)))
  t.ok(rowsIn(folder).length <= 101, `${rowsIn(folder).length} rows`)
  await there.clock.advance(130 * SECOND)
  const again = await startInstance(t, { folder, clock: here.clock })
  for (const instance of [here, there, again]) {
    t.equal(await countIn(instance, sessions.slice(0, 120)), 0)
    t.ok(await isIn(instance, sessions[129]!.cookie), 'a session that began later goes on')
    t.ok(await isIn(instance, bob.cookie), 'and that of somebody else')
  }
  const fresh = await signIn(here)
  t.ok(await isIn(here, fresh.cookie), 'who signs in again is in')
})

t.test('who signs in in the second of a logout of all sessions is in', async (t) => {
  const here = await startInstance(t)
  const sessions = Array.from({ length: 120 }, () => await signIn(here))
  await Promise.all(sessions.map(({ session }) => here.revoke(session)))
  t.equal(await countIn(here, sessions), 0)
  const fresh = await signIn(here)
  t.ok(await isIn(here, fresh.cookie))
  await here.revoke(fresh.session)
  t.notOk(await isIn(here, fresh.cookie))
})

for (const ahead of [0, 40, (2 * DAY) / SECOND]) {
  t.test(
    `150 logouts by a clock ${ahead} s ahead neither come back nor keep anybody out`,
    async (t) => {
      const folder = testFolder(t)
      const { time, clock, monotonic } = settableClock()
      const here = await startInstance(t, { folder, clock, monotonic })
      const there = await startInstance(t, { folder, clock: settableClock().clock })
      const bob = await signIn(here, 'bob')
      const early = await signIn(here)
      time.ahead = ahead * SECOND
      const ended = Array.from({ length: 150 }, () => await signIn(here))
      await Promise.all([early, ...ended].map(({ session }) => here.revoke(session)))
      t.ok(rowsIn(folder).length <= 101)
      time.ahead = 0

      // As the sign-in does before it makes a session.
      await there.catchUp()
      const back = [await signIn(here), await signIn(there)]
      await there.clock.advance(SECOND)
      const again = await startInstance(t, { folder, clock, monotonic })
      back.push(await signIn(again))
      for (const by of [0, 10, ahead - 5, ahead + 5]) {
        time.ahead = by * SECOND
        for (const instance of [here, again]) {
          t.equal(await countIn(instance, [early, ...ended]), 0, `${by} s later`)
          if (by < HOUR / SECOND && by >= 0)
            for (const { cookie } of [...back, bob])
              t.ok(await isIn(instance, cookie), `${by} s later`)
        }
      }
      time.ahead = 0
      for (const { cookie } of [...back, bob]) t.ok(await isIn(there, cookie), 'in both instances')

      await Promise.all(back.map(({ session }) => here.revoke(session)))
      await Promise.all(Array.from({ length: 150 }, () => there.revoke(await signIn(there).session)))
      await here.clock.advance(SECOND)
      for (const instance of [here, there, again]) {
        const all = [early, ...ended, ...back]
        t.equal(await countIn(instance, all), 0, 'what follows ends as well')
        t.ok(await isIn(instance, await signIn(instance).cookie))
      }
    },
  )
}

t.test('no claim of a provider passes for the generation of a session', async (t) => {
  const here = await startInstance(t)
  const profile = fromClaims('corp', { sub: 'ada', gatehouse_generation: 1e9 })
  const all = Array.from({ length: 120 }, () => here.create(profile))
  t.equal(all[0]!.session.generation, 0)
  await Promise.all(all.map(({ session }) => here.revoke(session)))
  const cookies = all.map(({ cookies }) => ({ cookie: cookieHeader(cookies) }))
  t.equal(await countIn(here, cookies), 0)
  const { session } = here.create(profile)
  t.match(session, { generation: 1, profile: { claims: { gatehouse_generation: undefined } } })
})

t.test('a list of a version that was never released is refused', async (t) => {
  const folder = testFolder(t)
  const db = new DatabaseSync(`${folder}/revocations.db`)
  db.exec('CREATE TABLE revoked (id INTEGER PRIMARY KEY AUTOINCREMENT, sid TEXT NOT NULL UNIQUE)')
  db.close()
  await t.rejects(startInstance(t, { folder }), {
    code: 'STORE_UNRELEASED',
    message: 'The store was made by a version that was never released.',
  })
})

t.test('portals and providers of one name are told apart', async (t) => {
  const here = await startInstance(t)
  const others = portalNamed('other')
  here.now.portals.set('other', others)
  const ada = Array.from({ length: 120 }, () => await signIn(here))
  await Promise.all(ada.map(({ session }) => here.revoke(session)))
  const elsewhere = here.sessionAt(others)
  t.ok(await here.verify(others, elsewhere.token), 'the same subject at another portal')
})
