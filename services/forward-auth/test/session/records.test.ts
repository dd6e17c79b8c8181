import { copyFileSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { until } from '../../../../scripts/test/until.ts'
import { type Session, sealSession } from '../../src/session/session.ts'
import { STATE_FILE } from '../../src/store/sqlite/sqlite-store.ts'
import {
  breakStore,
  countCalls,
  HOST,
  hold,
  type Instance,
  keysOf,
  NEW_SECRET,
  OLD_SECRET,
  portalNamed,
  startInstance,
  startInstances,
  touch,
} from './kit.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const AWAY = { code: 'STORE_UNAVAILABLE' }

const fileOf = ({ folder }: Instance) => `${folder}/${STATE_FILE}`
/** Reads or writes the file of the store, as somebody with access to it. */
function query(instance: Instance, sql: string, ...params: (string | number | null)[]) {
  const db = new DatabaseSync(fileOf(instance), { timeout: 5_000 })
  const rows = db.prepare(sql).all(...params)
  db.close()
  return rows
}
const rowsOf = (instance: Instance, sid: string) =>
  query(instance, 'SELECT * FROM sessions WHERE sid = ?', sid)
const [start2, start3] = [2, 3].map(
  (count) => (t: Parameters<typeof startInstances>[0]) => startInstances(t, count),
)

t.test('a session is read once, however many ask for it', async (t) => {
  const [one, two] = await start2!(t)
  const { session, sid } = await one!.begin()
  const reads = countCalls(two!, 'findSession')
  const found = await Promise.all(Array.from({ length: 64 }, () => two!.records.find(sid)))
  t.equal(new Set(found).size, 1)
  t.match(found[0], session)
  t.equal(two!.records.find(sid), found[0], 'then from memory, without waiting')
  t.equal(reads.count, 1)
})

t.test('an ID that is missing is asked for once in two seconds', async (t) => {
  const here = await startInstance(t)
  const reads = countCalls(here, 'findSession')
  for (let i = 0; i < 10; i++) t.equal(await here.records.find('nobody'), undefined)
  t.equal(reads.count, 1)
  await here.clock.advance(2 * SECOND)
  await here.records.find('nobody')
  t.equal(reads.count, 2)
  t.equal(await here.records.open('nobody'), undefined)
})

t.test('a read that fails is not remembered', async (t) => {
  const [one, two] = await start2!(t)
  const { sid } = await one!.begin()
  const repair = breakStore(two!, 'findSession')
  await t.rejects(Promise.resolve(two!.records.find(sid)), AWAY)
  repair()
  t.ok(await two!.records.find(sid))
})

t.test('an end that meets a read under way', async (t) => {
  for (const when of ['before', 'after'] as const)
    for (const where of ['here', 'elsewhere'] as const) {
      const [one, two] = await start2!(t)
      const { session, sid } = await one!.begin()
      const reading = hold(two!, 'findSession', when)
      const found = two!.records.find(sid)
      await reading.entered
      await (where === 'here' ? two! : one!).records.endOne(session)
      if (where === 'elsewhere') await two!.catchUp()
      reading.release()
      const what = `ended ${where}, ${when} the row was read`
      t.equal(await found, undefined, what)
      t.equal(await two!.records.find(sid), undefined, `${what}, and later`)
    }
})

t.test('a change that meets a read under way', async (t) => {
  const [one, two] = await start2!(t)
  const before = await one!.begin()
  const reading = hold(two!, 'findSession', 'after')
  const found = two!.records.find(before.sid)
  await reading.entered
  await one!.begin({ before: before.session })
  const reads = countCalls(two!, 'findSession')
  await two!.catchUp()
  reading.release()
  t.match(await found, { rev: 2 }, 'whoever asked before gets the newest')
  t.equal(reads.count, 0, 'which the same read has read again')
})

t.test('who asks after a change never joins a read of before', async (t) => {
  const here = await startInstance(t)
  const { sid } = await here.begin()
  const early = Promise.resolve(here.records.find(sid))
  const reads = countCalls(here, 'findSession')
  // In the turn in which the read gives its result.
  await early.then(() => {
    here.records.forget(sid)
    return here.records.find(sid)
  })
  t.equal(reads.count, 1)
})

t.test('a full read of the feed that meets a read under way, and memory', async (t) => {
  const here = await startInstance(t)
  const known = await here.begin()
  const other = await here.begin()
  await here.records.find(known.sid)
  const reading = hold(here, 'findSession', 'after')
  const found = here.records.find(other.sid)
  await reading.entered
  query(here, 'DELETE FROM sessions')
  here.records.learn([], true)
  reading.release()
  t.equal(await found, undefined, 'what was being read')
  t.equal(await here.records.find(known.sid), undefined, 'what was known')
})

t.test('an end counts at once here, there when it is known, and after a restart', async (t) => {
  const [here, there] = await start2!(t)
  const { session, sid, cookie, token } = await here!.begin()
  const other = await here!.begin()
  t.ok(await there!.check(cookie))
  const written = here!.records.endOne(session)
  t.equal(here!.records.find(sid), undefined, 'before it is written')
  t.equal(rowsOf(here!, sid).length, 1)
  await written
  t.equal(rowsOf(here!, sid).length, 0)
  t.equal(await here!.check(cookie), undefined)
  t.equal(await here!.verify(token), undefined)
  await there!.clock.advance(SECOND)
  t.equal(await there!.check(cookie), undefined, 'there within a second')
  await here!.records.endOne(session)

  await here!.close()
  const again = await startInstance(t, { folder: here!.folder })
  t.equal(await again.check(cookie), undefined)
  t.ok(await again.check(other.cookie), 'nobody else is out')
})

t.test('the agents of a session end with it, here at once', async (t) => {
  const here = await startInstance(t)
  for (const how of ['endOne', 'end'] as const) {
    const { session, sid } = await here.begin()
    const { row, contents } = (await here.records.open(sid))!
    const keys = await keysOf(OLD_SECRET)
    const of = { sid: `agent of ${sid}`, parent: sid, subject: null, providerSid: null }
    const agent = sealSession({ ...row, ...of }, contents, keys.record)
    t.equal(await here.store.beginAgent(agent, { id: sid, until: session.ends }), true)
    t.match(await here.records.find(agent.sid), { sid: agent.sid, profile: session.profile })
    if (how === 'end') await here.records.end({ sid })
    else await here.records.endOne(session)
    t.equal(await here.records.find(agent.sid), undefined, how)
  }
})

t.test('an end whose write fails is known here, and repeated each second', async (t) => {
  const here = await startInstance(t)
  const { session, sid, cookie } = await here.begin()
  await here.check(cookie)
  const repair = breakStore(here, 'endSessions')
  await t.rejects(here.records.endOne(session), { ...AWAY, retryAfter: 5 })
  t.equal(await here.check(cookie), undefined)
  t.ok(here.records.isUnsaved(sid))
  for (let i = 0; i < 3; i++) await here.clock.advance(SECOND)
  t.ok(here.records.isUnsaved(sid), 'it is tried in vain')
  here.records.learn([], true)
  t.equal(await here.check(cookie), undefined, 'a full read does not bring it back')
  repair()
  const writing = hold(here, 'endSessions', 'after')
  await here.clock.advance(SECOND)
  await writing.entered
  writing.release()
  await here.records.end({ sid })
  t.notOk(here.records.isUnsaved(sid))
  t.equal(rowsOf(here, sid).length, 0)
})

t.test('an end that was not written is tried once more at the end of the service', async (t) => {
  const here = await startInstance(t)
  const { session, sid } = await here.begin()
  const repair = breakStore(here, 'endSessions')
  await t.rejects(here.records.endOne(session))
  repair()
  await here.close()
  t.equal(rowsOf(here, sid).length, 0)
})

t.test('ends of a person spare the session that ends the others', async (t) => {
  const [here, there] = await start2!(t)
  const mine = await here!.begin()
  const others = [await here!.begin(), await there!.begin()]
  const elsewhere = await here!.begin({ at: here!.portal('other') })
  for (const { cookie } of others) t.ok(await here!.check(cookie))
  const { person, sid } = mine.session
  const ended = await here!.records.end({ person, except: sid })
  t.strictSame(ended.map((row) => row.sid).sort(), others.map((each) => each.sid).sort())
  await there!.catchUp()
  for (const instance of [here!, there!]) {
    for (const { cookie } of others) t.equal(await instance.check(cookie), undefined)
    t.ok(await instance.check(mine.cookie))
    const at = instance.portal('other')
    t.ok(await instance.check(elsewhere.cookie, { at }), 'at another portal')
  }
})

t.test('nothing that was under way revives a session that has ended', async (t) => {
  const rows: [what: string, act: (here: Instance, sid: string) => Promise<unknown>][] = [
    ['a touch', touch],
    ['a lease', ({ store }, sid) => store.leaseSession(sid, 1, 0, 9e15)],
    [
      'a change',
      async (here, sid) => {
        const row = (await here.store.findSession(sid))!
        return () => here.records.update({ ...row, rev: 2 })
      },
    ],
  ]
  for (const [what, act] of rows) {
    const [here, there] = await start2!(t)
    const { session, sid, cookie } = await here!.begin()
    const late = await act(there!, sid)
    await here!.records.endOne(session)
    if (typeof late === 'function') t.equal(await late(), false, what)
    else await act(there!, sid)
    await there!.catchUp()
    for (const instance of [here!, there!]) {
      t.equal(rowsOf(instance, sid).length, 0, what)
      t.equal(await instance.check(cookie), undefined, what)
    }
  }
})

t.test('a session is changed once from each revision', async (t) => {
  const all = await start3!(t)
  const { sid } = await all[0]!.begin()
  const row = (await all[0]!.store.findSession(sid))!
  const changes = all.map(({ records }) => records.update({ ...row, rev: 2 }))
  t.equal((await Promise.all(changes)).filter(Boolean).length, 1)
})

t.test('a row that somebody wrote by hand is no session', async (t) => {
  const rows: [what: string, column: string, value: string | number | null][] = [
    ['an end that was moved', 'ends', 9e15],
    ['a revision that was set back', 'rev', 0],
    ['another portal', 'portal', 'other'],
    ['another person', 'person', 'x'],
    ['no idle time', 'idle', null],
    ['a re-reading in the future', 're_read', 9e15],
    ['hidden from the provider', 'subject', 'x'],
    ['hidden from its session at the provider', 'provider_sid', 'x'],
    ['nonsense', 'sealed', 'x'],
    ['nothing', 'sealed', ''],
  ]
  const portals = [portalNamed('main', ['corp'], { idle: 5 * MINUTE }), portalNamed('other')]
  for (const [what, column, value] of rows) {
    const here = await startInstance(t, { portals })
    const { sid, cookie, token } = await here.begin()
    query(here, `UPDATE sessions SET ${column} = ? WHERE sid = ?`, value, sid)
    t.equal(await here.check(cookie), undefined, what)
    t.equal(await here.verify(token), undefined, what)
    t.equal(await here.records.open(sid), undefined, what)
  }

  const here = await startInstance(t, { portals })
  const [ada, bob] = [await here.begin(), await here.begin()]
  query(
    here,
    'UPDATE sessions SET sealed = (SELECT sealed FROM sessions WHERE sid = ?) WHERE sid = ?',
    ada.sid,
    bob.sid,
  )
  t.equal(await here.check(bob.cookie), undefined, 'what was sealed for another row')
  t.ok(await here.check(ada.cookie))

  const row = (await here.store.findSession(ada.sid))!
  const { contents } = (await here.records.open(ada.sid))!
  const foreign = sealSession({ ...row, rev: 2 }, contents, (await keysOf(NEW_SECRET)).record)
  await here.records.update(foreign)
  t.equal(await here.check(ada.cookie), undefined, 'sealed with a key that is not ours')
})

t.test('a store that has ended sessions again ends them again', async (t) => {
  const here = await startInstance(t)
  const { session, sid, cookie } = await here.begin()
  const going = await here.begin()
  copyFileSync(fileOf(here), `${here.folder}/copy`)
  await here.records.endOne(session)
  rmSync(fileOf(here))
  copyFileSync(`${here.folder}/copy`, fileOf(here))
  t.equal(await here.check(cookie), undefined, 'before anybody has noticed')
  await here.catchUp()
  t.equal(await here.check(cookie), undefined)
  t.equal(rowsOf(here, sid).length, 0, 'for those as well that did not know')
  t.ok(await here.check(going.cookie))
  t.match(here.log, [/was replaced/, /they were ended/])
})

t.test('a store that is away: what is in memory is answered, and nothing else', async (t) => {
  const [here, there] = await start2!(t)
  const { session, cookie } = await here!.begin()
  const unread = await there!.begin()
  t.ok(await here!.check(cookie))
  for (const method of ['findSession', 'endSessions', 'updateSession'] as const)
    breakStore(here!, method)
  t.ok(await here!.check(cookie))
  await t.rejects(here!.check(unread.cookie), AWAY)
  await t.rejects(here!.records.open(unread.sid), AWAY)
  await t.rejects(here!.records.end({ person: session.person }), AWAY)
  t.ok(await here!.check(cookie), 'what nobody could end goes on')
  await t.rejects(here!.begin({ before: session }), AWAY)
})

t.test('a burnt ticket is refused at every instance', async (t) => {
  const [here, there] = await start2!(t)
  const ticket = { key: 'ticket', until: here!.clock.now() + MINUTE }
  t.notOk(here!.records.isBurnt(ticket))
  await here!.records.burn(ticket)
  t.ok(here!.records.isBurnt(ticket))
  await there!.catchUp()
  t.ok(there!.records.isBurnt(ticket))
  t.notOk(there!.records.isBurnt({ ...ticket, key: 'other' }))
})

t.test('of more burnt tickets than are remembered, none counts again', async (t) => {
  const { records } = await startInstance(t)
  const kind = 'burnt' as const
  const burn = (key: string, until: number) => records.learn([{ kind, key, until }])
  burn('first', 1_000)
  for (let i = 0; i < 10_000; i++) burn(`${i}`, 1_001 + i)
  t.ok(records.isBurnt({ key: 'first', until: 1_000 }), 'the first one is forgotten')
  t.ok(records.isBurnt({ key: 'unburnt', until: 1_000 }), 'and so none as old counts')
  t.notOk(records.isBurnt({ key: 'later', until: 1_001 }))
  t.ok(records.isBurnt({ key: '9999', until: 11_000 }))
})

t.test('where sessions are seen is written once a minute, and at the end', async (t) => {
  const here = await startInstance(t)
  const touches = countCalls(here, 'touchSessions')
  const { cookie, own, session } = await here.begin()
  const seenAt = async () => {
    await here.written()
    const [row] = await here.store.listSessions({ portal: 'main' }, 10)
    return { lastSeen: row!.lastSeen - session.begun, hosts: row!.hosts }
  }
  for (let i = 0; i < 5; i++) {
    await here.check(cookie)
    await here.arrive(own)
    await here.clock.advance(10 * SECOND)
  }
  t.strictSame(await seenAt(), { lastSeen: 0, hosts: [] })
  await here.clock.advance(10 * SECOND)
  t.strictSame(await seenAt(), { lastSeen: 40 * SECOND, hosts: [] })
  await here.clock.advance(HOUR / 2)
  t.equal(touches.count, 1, 'nothing is written of nobody')

  for (let i = 0; i < 80; i++) here.records.noteHost(session, `${i}.example.com`)
  await here.close()
  const again = await startInstance(t, { folder: here.folder, clock: here.clock })
  const [row] = await again.store.listSessions({ portal: 'main' }, 10)
  t.match(row, { lastSeen: here.clock.now() })
  t.equal(row!.hosts.length, 50, 'bounded')
})

t.test('an app is written at once the first time, with all that come in a turn', async (t) => {
  const here = await startInstance(t)
  const touches = countCalls(here, 'touchSessions')
  const [{ cookie, session }, other] = [await here.begin(), await here.begin()]
  const hosts = async () => {
    await here.written()
    return (await here.store.listSessions({ portal: 'main' }, 10)).map((row) =>
      row.hosts.toSorted(),
    )
  }
  const pass = async (host: string) => {
    await here.check(cookie)
    here.records.noteHost(session, host)
    await setImmediate()
    await until(async () => (await hosts()).flat().includes(host))
  }
  here.records.noteHost(other.session, HOST)
  await pass(HOST)
  t.strictSame(await hosts(), [[HOST], [HOST]])
  t.equal(touches.count, 1)
  await pass('b.example.com')
  t.equal(touches.count, 2)
  for (let i = 0; i < 10; i++) for (const host of [HOST, 'b.example.com']) await pass(host)
  t.equal(touches.count, 2, 'and then once a minute')
  for (let i = 0; i < 80; i++) here.records.noteHost(session, `${i}.example.com`)
  await until(() => touches.count === 3)
  await here.written()
  for (let i = 0; i < 80; i++) here.records.noteHost(session, `${i}.example.com`)
  await setImmediate()
  await here.written()
  t.equal(touches.count, 3, 'a session with so many hosts has none that is new')
})

t.test('what was seen while the store was away is written later', async (t) => {
  const here = await startInstance(t)
  const { session, cookie } = await here.begin()
  const repair = breakStore(here, 'touchSessions')
  await here.check(cookie)
  here.records.noteHost(session, HOST)
  await here.clock.advance(2 * MINUTE)
  here.records.noteHost(session, 'b.example.com')
  await here.clock.advance(MINUTE)
  repair()
  await here.clock.advance(MINUTE)
  await here.written()
  const [row] = await here.store.listSessions({ portal: 'main' }, 10)
  t.equal(row!.lastSeen - session.begun, 2 * MINUTE)
  t.strictSame([...row!.hosts].sort(), [HOST, 'b.example.com'])
})

t.test('who waits for a change goes on when it came, or after a time', async (t) => {
  const here = await startInstance(t)
  const { records, clock } = here
  const rows: [what: string, happen: (session: Session) => unknown][] = [
    ['a change', (before) => here.begin({ before })],
    ['an end', ({ sid }) => records.end({ sid })],
    ['the time', () => clock.advance(1)],
  ]
  for (const [what, happen] of rows) {
    const { sid, session } = await here.begin()
    let isOver = false
    const waiting = records.changed(sid, 3 * SECOND).then(() => {
      isOver = true
    })
    await clock.advance(3 * SECOND - 1)
    records.learn([{ kind: 'changed', key: 'other', until: 0 }], true)
    records.forget(sid)
    t.notOk(isOver, `before ${what}, whatever else is read again`)
    await happen(session)
    await waiting
  }
})

t.test('a folder without a store is no reason to forget', async (t) => {
  const here = await startInstance(t, { folder: testFolder(t) })
  const { session, cookie } = await here.begin()
  await here.records.endOne(session)
  rmSync(fileOf(here))
  await here.catchUp()
  t.equal(await here.check(cookie), undefined)
  const later = await here.begin()
  t.ok(await here.check(later.cookie))
})
