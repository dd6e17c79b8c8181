import { manualClock } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t from 'tap'
import type { End, SessionRow } from '../../src/store/store.ts'
import {
  agent,
  codeOf,
  consent,
  ENGINES,
  HOUR,
  MINUTE,
  type Open,
  type Opened,
  seenAt,
  session,
  until,
} from './kit.ts'

/** Sessions that each case begins, and where it looks which of them are there. */
const SESSIONS: readonly SessionRow[] = [
  session('a1', { person: 'ada', subject: 's-ada', providerSid: 'p1', issuedAt: 100 }),
  session('a2', { person: 'ada', subject: 's-ada', providerSid: 'p2', issuedAt: 200 }),
  session('b1', { person: 'bob', subject: 's-bob', providerSid: null, issuedAt: 100 }),
  session('c1', { person: 'cyd', subject: null, providerSid: 'p3', lastSeen: 5_000 }),
]

/** Their agents. The last one is of `c1`, and comes before it in every order of names. */
const AGENTS: readonly SessionRow[] = [
  agent('x1', 'a1', { person: 'ada' }),
  agent('x2', 'a2', { person: 'ada' }),
  agent('x3', 'a2', { person: 'ada', issuedAt: 999 }),
  agent('0', 'c1', { person: 'cyd', lastSeen: 9_000 }),
]

const ENDS: readonly (readonly [what: string, which: End, ended: string])[] = [
  ['one session', { sid: 'a1' }, 'a1 x1'],
  ['one without agents', { sid: 'b1' }, 'b1'],
  ['one agent', { sid: 'x2' }, 'x2'],
  ['one that is not there', { sid: 'x' }, ''],
  ['all of a person', { person: 'ada' }, 'a1 a2 x1 x2 x3'],
  ['a person, but for a session', { person: 'ada', except: 'a2' }, 'a1 x1'],
  ['a person, but for an agent', { person: 'ada', except: 'x1' }, 'a1 a2 x1 x2 x3'],
  ['a subject', { subject: 's-ada', issuedUntil: 200 }, 'a1 a2 x1 x2 x3'],
  ['a subject, but for what was issued later', { subject: 's-ada', issuedUntil: 199 }, 'a1 x1'],
  ['a subject, before all was issued', { subject: 's-ada', issuedUntil: 99 }, ''],
  ['a session of the provider', { providerSid: 'p2', issuedUntil: 200 }, 'a2 x2 x3'],
  ['that, but for what was issued later', { providerSid: 'p2', issuedUntil: 199 }, ''],
  ['a digest of the other kind', { subject: 'p2', issuedUntil: 999 }, ''],
]

/** What an instance does in the property test: to which of four sessions, and in which of five ways it ends them. */
const COMMAND = fc.record({
  at: fc.nat(1),
  what: fc.constantFrom(
    ...(['begin', 'agent', 'update', 'touch', 'lease', 'find', 'list', 'end', 'prune'] as const),
  ),
  who: fc.nat(3),
  how: fc.nat(4),
  rev: fc.integer({ min: 1, max: 3 }),
})
type Command = typeof COMMAND extends fc.Arbitrary<infer C> ? C : never

const bySid = (one: SessionRow, other: SessionRow) => (one.sid < other.sid ? -1 : 1)
const sidsOf = (rows: readonly SessionRow[]) => rows.map(({ sid }) => sid).toSorted()

async function present({ store }: Opened, sids: readonly string[]): Promise<string[]> {
  const rows = await Promise.all(sids.map((sid) => store.findSession(sid)))
  return rows.flatMap((row) => row?.sid ?? [])
}

const begin = ({ store }: Opened, ...rows: readonly SessionRow[]) =>
  Promise.all(rows.map((row) => store.beginSession(row)))

const beginAgents = ({ store }: Opened, ...rows: readonly SessionRow[]) =>
  Promise.all(rows.map((row) => store.beginAgent(row, codeOf(`for ${row.sid}`))))

for (const [engine, prepare] of Object.entries(ENGINES))
  t.test(`sessions on ${engine}`, async (t) => {
    const newStore = await prepare(t)
    const two = async (open: Open) => [await open(), await open()] as const

    for (const [what, which, ended] of ENDS)
      t.test(`an end of ${what}`, async (t) => {
        const [here, there] = await two(newStore(t))
        await begin(here, ...SESSIONS)
        await beginAgents(here, ...AGENTS)
        const all = [...SESSIONS, ...AGENTS]
        const sids = ended.split(' ').filter(Boolean)
        const rows = await there.store.endSessions(which)
        const expected = all.filter(({ sid }) => sids.includes(sid))
        t.strictSame(rows.toSorted(bySid), expected.toSorted(bySid), 'the rows of those that ended')
        const left = sidsOf(all).filter((sid) => !sids.includes(sid))
        t.strictSame(await present(here, sidsOf(all)), left, 'the others stay')
        await here.store.catchUp()
        t.strictSame(here.learned('ended'), sids, 'all instances are told')
        t.strictSame(await there.store.endSessions(which), [], 'nothing is left')
      })

    t.test('a session begins, changes and is found', async (t) => {
      const [here, there] = await two(newStore(t))
      const row = session('a', { mail: null, subject: null, providerSid: null, idle: HOUR })
      t.equal(await here.store.findSession('a'), undefined)
      t.equal(await here.store.beginSession(row), true)
      await t.rejects(there.store.beginSession(row), { code: 'STORE_STATEMENT_FAILED' }, 'once')
      t.strictSame(await there.store.findSession('a'), row)

      const seen = row.lastSeen + MINUTE
      await there.store.touchSessions([seenAt('a', seen)])
      t.equal(await here.store.leaseSession('a', 0, 0, Date.now() + HOUR), true)
      await here.store.touchSessions([seenAt('a', seen - 1)])
      const touched = await there.store.findSession('a')
      t.match(touched, { lastSeen: seen, seenMac: seenAt('a', seen).seenMac })
      const next = session('a', {
        ...{ rev: 1, lease: 5, person: 'other', mail: 'm', subject: 's', providerSid: 'p' },
        ...{ issuedAt: 300, begun: 1, lastSeen: 2, reRead: 3, ends: 4, idle: null, sealed: 'new' },
      })
      t.equal(await there.store.updateSession(next), true)
      const expected = { ...next, lease: 0, lastSeen: seen, seenMac: touched?.seenMac }
      t.strictSame(await here.store.findSession('a'), expected, 'all but when it was last seen')
      await until(() => here.learned('changed').length > 0)
      t.strictSame(here.learned('changed'), ['a'])
      const before = here.events.length
      for (const rev of [0, 1, 3])
        t.equal(await here.store.updateSession({ ...next, rev }), false, `revision ${rev}`)
      t.equal(await here.store.updateSession(session('x', { rev: 1 })), false, 'never there')
      t.equal(await here.store.findSession('x'), undefined, 'and not added')
      await here.store.catchUp()
      t.equal(new Set(here.events.slice(before).map(({ key }) => key)).has('x'), false)
    })

    t.test('one caller at a time may ask the provider', async (t) => {
      const open = newStore(t)
      const all = [await open(), await open()]
      await begin(all[0]!, session('a', { rev: 7 }))
      const lease = async (before: number, until: number, rev = 7) => {
        const tries = [...all, ...all, ...all].map(({ store }, i) =>
          store.leaseSession('a', rev, before, until + i),
        )
        return (await Promise.all(tries)).filter(Boolean).length
      }
      t.equal(await lease(0, 100, 6), 0, 'of another revision')
      t.equal(await lease(0, 100), 1)
      t.equal(await lease(0, 200), 0, 'it is not free any more')
      const { lease: held = 0 } = (await all[1]!.store.findSession('a')) ?? {}
      t.equal(await lease(held, 300), 1, 'who knows the one that is there replaces it')
      t.equal(await lease(held, 400), 0, 'and whoever had that has lost it')
      await all[1]!.store.updateSession(session('a', { rev: 8 }))
      t.equal(await lease(0, 500), 0)
      t.equal(await lease(0, 500, 8), 1, 'after a change')
      await all[0]!.store.endSessions({ sid: 'a' })
      t.equal(await lease(0, 600, 8), 0, 'it has ended')
    })

    t.test('of changes at once, one is made', async (t) => {
      const [here, there] = await two(newStore(t))
      await begin(here, session('a'))
      for (let rev = 1; rev <= 20; rev++) {
        const changes = [here, there, here, there].map(({ store }, i) =>
          store.updateSession(session('a', { rev, sealed: `${rev} ${i}` })),
        )
        const made = (await Promise.all(changes)).flatMap((isMade, i) => (isMade ? [i] : []))
        t.equal(made.length, 1)
        t.match(await there.store.findSession('a'), { rev, sealed: `${rev} ${made[0]}` })
      }
    })

    t.test('the newest are listed first, with their hosts', async (t) => {
      const [here, there] = await two(newStore(t))
      const of = (sid: string, begun: number, changes: Partial<SessionRow>) =>
        session(sid, { begun, ...changes })
      const ada = { person: 'ada', mail: 'a@' }
      await begin(
        here,
        of('1', 10, ada),
        of('2', 30, { ...ada, person: 'her other account' }),
        of('3', 20, ada),
        of('4', 40, { portal: 'other', person: 'ada at the other one' }),
        of('5', 50, {}),
      )
      await there.store.touchSessions([
        seenAt('3', 100, ['b.example', 'a.example']),
        seenAt('3', 300, ['c.example']),
        seenAt('1', 200),
        seenAt('gone', 200, ['a.example']),
      ])
      await here.store.touchSessions([seenAt('3', 400, ['b.example'])])
      const table: [which: Parameters<typeof here.store.listSessions>[0], sids: string][] = [
        [{ portal: 'main' }, '5 2 3 1'],
        [{ person: 'ada' }, '3 1'],
        [{ mail: 'a@' }, '2 3 1'],
        [{ portal: 'other' }, '4'],
        [{ portal: 'none' }, ''],
        [{ person: 'ada', agents: true }, ''],
      ]
      for (const [which, sids] of table) {
        const rows = await here.store.listSessions(which, 9)
        t.equal(rows.map(({ sid }) => sid).join(' '), sids, JSON.stringify(which))
      }
      const [newest] = await here.store.listSessions({ person: 'ada' }, 1)
      const hosts = ['b.example', 'c.example', 'a.example']
      t.strictSame(newest, { ...of('3', 20, ada), ...seenAt('3', 400, hosts) })

      const many = Array.from({ length: 70 }, (_, i) => `${i}.example`)
      await here.store.touchSessions([seenAt('1', 500, many)])
      await there.store.touchSessions([seenAt('1', 600, ['7.example', 'x.example'])])
      const [full] = (await here.store.listSessions({ person: 'ada' }, 2)).slice(1)
      t.equal(full?.hosts.length, 50, 'bounded')
      t.equal(full?.hosts[0], '7.example')
    })

    t.test('agents begin, change and are listed', async (t) => {
      const [here, there] = await two(newStore(t))
      await begin(here, session('a', { person: 'ada' }), session('b', { person: 'ada' }))
      const [one, other] = [agent('x', 'a', { person: 'ada' }), agent('y', 'b', { begun: 1 })]
      t.strictSame(await beginAgents(there, one, other), [true, true])
      t.strictSame(await here.store.findSession('x'), one)
      const changed = { ...one, rev: 1, sealed: 'new' }
      t.equal(await here.store.updateSession(changed), true)
      t.equal(await there.store.updateSession(changed), false, 'of one revision, one')
      await until(() => there.learned('changed').length > 0)
      await there.store.touchSessions([seenAt('x', changed.lastSeen, ['a.example'])])
      const table: [which: Parameters<typeof here.store.listSessions>[0], sids: string][] = [
        [{ portal: 'main' }, 'a b'],
        [{ portal: 'main', agents: false }, 'a b'],
        [{ portal: 'main', agents: true }, 'x y'],
        [{ person: 'ada', agents: true }, 'x'],
        [{ person: 'ada' }, 'a b'],
        [{ portal: 'other', agents: true }, ''],
      ]
      for (const [which, sids] of table) {
        const rows = await here.store.listSessions(which, 9)
        t.equal(sidsOf(rows).join(' '), sids, JSON.stringify(which))
      }
      const [listed] = await here.store.listSessions({ portal: 'main', agents: true }, 1)
      t.strictSame(listed, { ...changed, hosts: ['a.example'] })
    })

    t.test('a code is redeemed once, for a session that is there', async (t) => {
      const [here, there] = await two(newStore(t))
      await begin(here, session('a'))
      const code = codeOf('one')
      t.equal(await here.store.beginAgent(agent('x', 'a'), code), true)
      t.equal(await there.store.beginAgent(agent('x', 'a'), code), false, 'the second time')
      t.equal(await here.store.beginAgent(agent('x', 'a'), code), false, 'whoever tries it')
      await there.store.endSessions({ sid: 'x' })
      t.equal(await here.store.beginAgent(agent('x', 'a'), code), false, 'nor after its end')
      const parents: [what: string, parent: string | null][] = [
        ['one that never was', 'gone'],
        ['none', null],
        ['an agent', 'y'],
      ]
      await beginAgents(here, agent('y', 'a'))
      for (const [what, parent] of parents) {
        const row = agent(`of ${what}`, '', { parent })
        t.equal(await here.store.beginAgent(row, codeOf(what)), false, what)
        t.equal(await there.store.findSession(row.sid), undefined, what)
        t.equal(await there.store.beginAgent({ ...row, parent: 'a' }, codeOf(what)), false, 'used')
      }
      await t.rejects(here.store.beginAgent(agent('y', 'a'), codeOf('two')), {
        code: 'STORE_STATEMENT_FAILED',
      })
      t.equal(await here.store.beginAgent(agent('z', 'a'), codeOf('two')), true, 'not used by that')
      t.equal(await here.store.hasCompleted('two'), false, 'no login is a code')
    })

    t.test('of two redemptions at once, one begins, and the other one can end it', async (t) => {
      const [here, there] = await two(newStore(t))
      await begin(here, session('a'))
      const round = async (i: number) => {
        const row = agent(`agent${i}`, 'a')
        const both = i % 2 === 0 ? [here, there] : [there, here]
        const tries = both.map(async ({ store }) => {
          const isBegun = await store.beginAgent(row, codeOf(`code${i}`))
          if (!isBegun) await store.endSessions({ sid: row.sid })
          return isBegun
        })
        const begun = (await Promise.all(tries)).filter(Boolean).length
        return {
          sid: row.sid,
          begun,
          lives: (await there.store.findSession(row.sid)) !== undefined,
        }
      }
      for (let i = 0; i < 200; i += 100) {
        const rounds = await Promise.all(Array.from({ length: 100 }, (_, k) => round(i + k)))
        t.ok(rounds.every(({ begun }) => begun === 1))
        t.strictSame(
          rounds.filter(({ lives }) => lives),
          [],
        )
      }
      await here.store.catchUp()
      t.equal(here.learned('ended').length, 200, 'all instances are told')
      t.strictSame(await here.store.listSessions({ portal: 'main', agents: true }, 9), [])
    })

    t.test('an agent ends when its session does, also if that is prolonged', async (t) => {
      const [here, there] = await two(newStore(t))
      const [ends, later] = [Date.now() + HOUR, Date.now() + 2 * HOUR]
      await begin(here, session('a', { ends }), session('b', { ends }))
      const agents = [
        agent('0', 'a', { ends }),
        agent('x', 'a', { ends: 7 }),
        agent('y', 'b', { ends }),
      ]
      await beginAgents(here, ...agents)
      const longer = session('a', { rev: 1, ends: later })
      const tries = [here, there].map(({ store }) => store.updateSession(longer))
      t.strictSame((await Promise.all(tries)).toSorted(), [false, true])
      const rows = await Promise.all(agents.map(({ sid }) => there.store.findSession(sid)))
      t.strictSame(
        rows.map((row) => row?.ends),
        [later, 7, ends],
        'but for one that ends before',
      )
    })

    t.test('no agent outlives the session of its person', async (t) => {
      const [here, there] = await two(newStore(t))
      const outcomes = new Set<string>()
      const round = async (i: number) => {
        const of = { person: `person${i}`, subject: `s${i}`, providerSid: `p${i}` }
        const parent = session(`sid${i}`, of)
        await begin(here, parent)
        await here.store.beginAgent(agent(`first${i}`, parent.sid), codeOf(`first${i}`))
        const before = parent.issuedAt
        const which = [
          { sid: parent.sid },
          { person: of.person },
          { subject: of.subject, issuedUntil: before },
          { providerSid: of.providerSid, issuedUntil: before },
        ][i % 4] as End
        const ending = i % 5 === 0 ? here : there
        const beginIt = () => here.store.beginAgent(agent(`late${i}`, parent.sid), codeOf(`${i}`))
        const early = i % 3 === 0 ? beginIt() : undefined
        const end = ending.store.endSessions(which)
        const [isBegun, ended] = await Promise.all([early ?? beginIt(), end])
        outcomes.add(`${isBegun} ${ended.length}`)
        return present(there, [parent.sid, `first${i}`, `late${i}`])
      }
      for (let i = 0; i < 400; i += 100) {
        const rounds = Array.from({ length: 100 }, (_, k) => round(i + k))
        t.strictSame((await Promise.all(rounds)).flat(), [])
      }
      t.strictSame([...outcomes].toSorted(), ['false 2', 'true 3'], 'each way')
      await here.store.catchUp()
      const late = here.learned('ended').filter((sid) => sid.startsWith('first'))
      t.equal(late.length, 400, 'every instance is told')
    })

    t.test('consents are remembered until they are over or withdrawn', async (t) => {
      const clock = manualClock(Date.now())
      const open = newStore(t)
      const [here, there] = [await open({ clock }), await open({ clock })]
      const held = async () => {
        const keys = ['a', 'b', 'c']
        const all = await Promise.all(keys.map((key) => there.store.findConsent(key)))
        return all.flatMap((each) => each?.key ?? []).join(' ')
      }
      t.equal(await held(), '')
      const now = clock.now()
      await here.store.giveConsent(consent('a', 'ada', now + HOUR))
      await here.store.giveConsent(consent('b', 'ada', now + 2 * HOUR))
      await there.store.giveConsent(consent('c', 'bob', now + HOUR))
      t.equal(await held(), 'a b c')
      await clock.advance(HOUR - 1)
      t.equal(await held(), 'a b c')
      await there.store.giveConsent(consent('c', 'bob', now + 2 * HOUR))
      await clock.advance(1)
      t.equal(await held(), 'b c', 'over, unless it is renewed')
      await here.store.withdrawConsents('bob', 'b')
      t.equal(await held(), 'b c', 'of another beginning')
      await here.store.withdrawConsents('bob', 'c')
      t.equal(await held(), 'b')
      await here.store.giveConsent(consent('c', 'bob', now + 9 * HOUR))
      await here.store.withdrawConsents('bob')
      await here.store.withdrawConsents('b')
      t.equal(await held(), 'b')
      await here.store.giveConsent(consent('c', 'bob', now + 9 * HOUR))
      await there.store.withdrawConsents(undefined, 'b')
      t.equal(await held(), 'c', 'of everybody')
    })

    t.test('nothing revives a session that has ended', async (t) => {
      const [here, there] = await two(newStore(t))
      await begin(here, session('a'))
      await there.store.endSessions({ sid: 'a' })
      t.equal(await here.store.updateSession(session('a', { rev: 1 })), false)
      t.equal(await here.store.leaseSession('a', 0, 0, Date.now() + HOUR), false)
      await here.store.touchSessions([seenAt('a', Date.now(), ['a.example'])])
      for (const { store } of [here, there]) t.equal(await store.findSession('a'), undefined)
      t.strictSame(await here.store.listSessions({ portal: 'main' }, 9), [])
    })

    t.test('more sessions than one transaction touches', async (t) => {
      const { store } = await newStore(t)()
      const sids = Array.from({ length: 700 }, (_, i) => `sid${i}`)
      await Promise.all(sids.map((sid) => store.beginSession(session(sid))))
      const at = Date.now() + HOUR
      await store.touchSessions(sids.map((sid) => seenAt(sid, at, ['a.example'])))
      const rows = await store.listSessions({ portal: 'main' }, 1_000)
      t.equal(rows.length, sids.length)
      t.ok(rows.every(({ lastSeen, hosts }) => lastSeen === at && hosts.length === 1))
    })

    t.test('an end by the provider holds for sign-ins that come later', async (t) => {
      const [here, there] = await two(newStore(t))
      await here.store.endSessions({ subject: 's', issuedUntil: 200 })
      await there.store.endSessions({ subject: 's', issuedUntil: 150 })
      await there.store.endSessions({ providerSid: 'p', issuedUntil: 300 })
      const table: [changes: Partial<SessionRow>, begins: boolean][] = [
        [{ subject: 's', issuedAt: 200 }, false],
        [{ subject: 's', issuedAt: 201 }, true],
        [{ providerSid: 'p', issuedAt: 300 }, false],
        [{ subject: 's', providerSid: 'p', issuedAt: 250 }, false],
        [{ subject: 's', providerSid: 'p', issuedAt: 301 }, true],
        [{ subject: 'p', providerSid: 's', issuedAt: 1 }, true],
        [{ subject: null, providerSid: null, issuedAt: 0 }, true],
        [{ issuedAt: 0 }, true],
      ]
      for (const [i, [changes, begins]] of table.entries()) {
        const what = JSON.stringify(changes)
        t.equal(await there.store.beginSession(session(`${i}`, changes)), begins, what)
        t.strictSame(await present(here, [`${i}`]), begins ? [`${i}`] : [], what)
        await begin(here, session(`old${i}`))
        const renewed = session(`old${i}`, { rev: 1, ...changes })
        t.equal(await here.store.updateSession(renewed), begins, `renewed: ${what}`)
        t.equal((await there.store.findSession(`old${i}`))?.rev, begins ? 1 : 0)
      }
    })

    t.test('an end by the provider while a sign-in is written', async (t) => {
      const [here, there] = await two(newStore(t))
      const outcomes = new Set<string>()
      const round = async (i: number) => {
        const sid = `sid${i}`
        const isRenewal = i % 4 > 1
        if (isRenewal) await begin(here, session(sid))
        const row = session(sid, {
          ...{ subject: `s${i}`, providerSid: `p${i}`, rev: isRenewal ? 1 : 0 },
        })
        const before = row.issuedAt
        const which =
          i % 2 === 0
            ? { subject: `s${i}`, issuedUntil: before }
            : { providerSid: `p${i}`, issuedUntil: before }
        // On a folder, one instance writes all that waits before another one does.
        const ending = i % 5 === 0 ? here : there
        const write = () => here.store[isRenewal ? 'updateSession' : 'beginSession'](row)
        const early = i % 3 === 0 ? write() : undefined
        const end = ending.store.endSessions(which)
        const [isBegun, ended] = await Promise.all([early ?? write(), end])
        const left = await there.store.findSession(sid)
        const isThere = left !== undefined && left.rev === row.rev
        outcomes.add(`${isBegun} ${ended.length}`)
        return isThere ? [sid] : []
      }
      for (let i = 0; i < 400; i += 100) {
        const rounds = Array.from({ length: 100 }, (_, k) => round(i + k))
        t.strictSame((await Promise.all(rounds)).flat(), [])
      }
      t.strictSame([...outcomes].toSorted(), ['false 0', 'true 1'], 'each way')
    })

    t.test('every instance learns what happens at any of them', async (t) => {
      const open = newStore(t)
      const all = [await open(), await open(), await open()] as const
      const [one, two, three] = all
      await Promise.all([begin(one, session('a'), session('b')), begin(two, session('c'))])
      const ticket = { kind: 'burnt', key: 'ticket', until: Date.now() + MINUTE } as const
      await Promise.all([
        one.store.updateSession(session('a', { rev: 1 })),
        two.store.endSessions({ sid: 'b' }),
        three.store.tell(ticket),
      ])
      for (const each of all) {
        await until(() => new Set(each.events.map(({ kind }) => kind)).size === 3)
        t.strictSame(each.learned('changed'), ['a'])
        t.strictSame(each.learned('ended'), ['b'])
        t.strictSame(
          each.events.find(({ kind }) => kind === 'burnt'),
          ticket,
        )
        t.strictSame(each.full, [0], 'only the first read began anew')
      }
      for (let i = 0; i < 20; i++) {
        await begin(one, session(`s${i}`))
        await one.store.endSessions({ sid: `s${i}` })
        await three.store.catchUp()
        t.ok(three.learned('ended').includes(`s${i}`), 'who catches up knows it')
      }
      const late = await open()
      t.ok(late.learned('ended').includes('b'), 'and whoever starts later')
    })

    t.test('after a long pause, something may have been missed', async (t) => {
      const clock = manualClock(Date.now())
      const time = { passed: 0 }
      const open = newStore(t)
      const one = await open({ clock, monotonic: () => time.passed })
      const fulls = async () => {
        await one.store.catchUp()
        return one.full.length
      }
      t.equal(await fulls(), 1)
      time.passed += 10 * MINUTE
      t.equal(await fulls(), 1)
      time.passed += 10 * MINUTE + 1
      t.equal(await fulls(), 2, 'by the running time')
      t.equal(await fulls(), 2)
    })

    t.test('what is over is removed', async (t) => {
      const open = newStore(t)
      const clock = manualClock(Date.now())
      const time = { passed: 0 }
      const monotonic = () => time.passed
      const one = await open({ clock, monotonic })
      const begun = clock.now()
      await begin(
        one,
        session('short', { begun, ends: begun + HOUR }),
        session('idle', { begun, idle: 10 * MINUTE }),
        session('used', { begun, idle: 10 * MINUTE }),
        session('long', { begun }),
        session('out', { begun, ends: begun + HOUR }),
      )
      await one.store.touchSessions([seenAt('short', begun, ['a.example'])])
      await one.store.endSessions({ sid: 'out' })
      await one.store.endSessions({ subject: 's', issuedUntil: 100 })
      await one.store.completeLogin('login', begun)
      const sids = ['short', 'idle', 'used', 'long', 'out']
      const remaining = async () => {
        await one.store.prune()
        const [isKnown, isEnded] = await Promise.all([
          one.store.hasCompleted('login'),
          one.store.beginSession(session(`new${clock.now()}${time.passed}`, { subject: 's' })),
        ])
        const { learned, close } = await open({ clock, monotonic })
        await close()
        return [
          ...(await present(one, sids)),
          ...learned('ended').map((sid) => `${sid} ended`),
          ...(isKnown ? ['login'] : []),
          ...(isEnded ? [] : ['mark']),
        ].join(' ')
      }
      const pass = (ms: number) => {
        time.passed += ms
        return clock.advance(ms)
      }
      const rest = 'out ended login mark'
      t.equal(await remaining(), `short idle used long ${rest}`)
      await pass(11 * MINUTE)
      await one.store.touchSessions([seenAt('used', clock.now())])
      t.equal(await remaining(), `short idle used long ${rest}`, 'last seen is by the minute')
      await pass(MINUTE + 1)
      t.equal(await remaining(), `short used long ${rest}`, 'idle for too long')
      await pass(47 * MINUTE)
      await clock.advance(MINUTE)
      t.equal(await remaining(), `long ${rest}`, 'over')
      time.passed = HOUR
      t.equal(await remaining(), 'long out ended mark', 'the login, by both times')
      time.passed = 2 * HOUR
      t.equal(await remaining(), 'long out ended mark', 'kept by the clock')
      await clock.advance(HOUR)
      t.equal(await remaining(), 'long', 'ended by both')
    })

    t.test('a clock that is set ahead removes no session for an hour', async (t) => {
      const begun = Date.now()
      const time = { passed: 0, ahead: 0 }
      const clock = { ...manualClock(), now: () => begun + time.passed + time.ahead }
      const one = await newStore(t)({ clock, monotonic: () => time.passed })
      await begin(one, session('short', { begun, ends: begun + HOUR }), session('long', { begun }))
      const remaining = async () => {
        await one.store.prune()
        return (await present(one, ['short', 'long'])).join()
      }
      t.equal(await remaining(), 'short,long')
      time.ahead = 48 * HOUR
      t.equal(await remaining(), 'short,long')
      time.passed = HOUR - 1
      t.equal(await remaining(), 'short,long')
      time.passed = HOUR
      t.equal(await remaining(), '', 'then it is believed')
    })

    t.test('agents and consents that are over are removed', async (t) => {
      const open = newStore(t)
      const clock = manualClock(Date.now())
      const time = { passed: 0 }
      const monotonic = () => time.passed
      const one = await open({ clock, monotonic })
      const behind = await open({ clock: manualClock(clock.now()), monotonic })
      const begun = clock.now()
      await begin(
        one,
        session('short', { begun, ends: begun + HOUR }),
        session('idle', { begun, idle: 10 * MINUTE }),
        session('long', { begun, ends: begun + 9 * HOUR }),
      )
      await beginAgents(
        one,
        ...['short', 'idle', 'long'].map((sid) => agent(`of ${sid}`, sid, { begun })),
        agent('short itself', 'long', { begun, ends: begun + HOUR }),
      )
      await one.store.giveConsent(consent('consent', 'ada', begun + HOUR))
      const remaining = async () => {
        await one.store.prune()
        await one.store.catchUp()
        const sids = ['of short', 'of idle', 'of long', 'short itself']
        const hasConsent = await behind.store.findConsent('consent')
        const ended = one.learned('ended').map((sid) => `${sid} ended`)
        return [...(await present(one, sids)), ...(hasConsent ? ['consent'] : []), ...ended].join()
      }
      t.equal(await remaining(), 'of short,of idle,of long,short itself,consent')
      time.passed = 12 * MINUTE
      await clock.advance(13 * MINUTE)
      t.equal(
        await remaining(),
        'of short,of long,short itself,consent,of idle ended',
        'it is told',
      )
      time.passed = 59 * MINUTE
      await clock.advance(47 * MINUTE)
      t.equal(await remaining(), 'of long,consent,of idle ended,of short ended')
      time.passed = HOUR
      t.equal(await remaining(), 'of long,of idle ended,of short ended', 'by both times')
    })

    t.test(
      'more than one transaction removes is removed, agents before their session',
      async (t) => {
        const clock = manualClock(Date.now())
        const one = await newStore(t)({ clock, monotonic: clock.now })
        const [begun, names] = [clock.now(), Array.from({ length: 130 }, (_, i) => `${i}`)]
        const short = names.map((sid) => session(sid, { begun, ends: begun + HOUR }))
        await begin(
          one,
          session('idle', { begun, idle: MINUTE }),
          session('used', { begun }),
          ...short,
        )
        const agents = names.map((name) => agent(`agent ${name}`, 'idle', { begun }))
        await beginAgents(one, ...agents)
        await clock.advance(HOUR + 1)
        await one.store.prune()
        await one.store.catchUp()
        t.strictSame(one.learned('ended'), sidsOf(agents).toSorted(), 'all agents are told')
        t.strictSame(await present(one, [...sidsOf([...short, ...agents]), 'idle', 'used']), [
          'used',
        ])
      },
    )

    t.test('in any order, a session that has ended is never found again', async (t) => {
      const [here, there] = await two(newStore(t))
      const stores = [here.store, there.store]
      const threads = fc.array(fc.array(COMMAND, { maxLength: 8 }), {
        ...{ minLength: 2, maxLength: 5 },
      })
      let runs = 0
      const property = fc.asyncProperty(threads, async (all) => {
        const run = `run${++runs}`
        const ended = new Set<string>()
        const tried = new Set<string>()
        const rowOf = (who: number, rev: number) => {
          const of = { portal: run, person: `${run} person`, rev }
          return session(`${run} ${who}`, { ...of, subject: `${run} ${who % 2}` })
        }
        const endOf = (row: SessionRow, how: number): End =>
          [
            { sid: row.sid },
            { person: row.person },
            { person: row.person, except: row.sid },
            { subject: row.subject ?? '', issuedUntil: row.issuedAt },
            { providerSid: row.providerSid ?? '', issuedUntil: row.issuedAt },
          ][how] as End
        const steps = async ({ at, what, who, how, rev }: Command) => {
          const store = stores[at]!
          const row = rowOf(who, rev)
          const endedBefore = [...ended]
          if (what === 'begin') {
            if (tried.has(row.sid)) return
            tried.add(row.sid)
            await store.beginSession({ ...row, rev: 0 })
          }
          if (what === 'agent') {
            const { person } = row
            const of = agent(`${row.sid} agent ${how}`, row.sid, { portal: run, person })
            await store.beginAgent(of, codeOf(`${of.sid} ${rev}`)).catch(() => {})
          }
          if (what === 'update') await store.updateSession(row)
          if (what === 'touch')
            await store.touchSessions([seenAt(row.sid, Date.now(), ['a.example'])])
          if (what === 'lease') await store.leaseSession(row.sid, rev - 1, 0, Date.now() + HOUR)
          if (what === 'prune') await store.prune()
          if (what === 'end')
            for (const { sid } of await store.endSessions(endOf(row, how))) ended.add(sid)
          const found = await store.findSession(row.sid)
          const listed = what === 'list' ? await store.listSessions({ portal: run }, 9) : []
          const agents = await store.listSessions({ portal: run, agents: true }, 99)
          for (const { parent } of agents)
            if (endedBefore.includes(parent ?? '')) throw new Error(`an agent of ${parent} lives`)
          for (const { sid } of [...listed, ...(found ? [found] : [])])
            if (endedBefore.includes(sid)) throw new Error(`${sid} is back`)
        }
        await Promise.all(
          all.map(async (commands) => {
            for (const each of commands) await steps(each)
          }),
        )
        for (const each of [here, there]) {
          if ((await present(each, [...ended])).length > 0) throw new Error('it is there')
          await each.store.catchUp()
          const told = each.learned('ended')
          for (const sid of ended) if (!told.includes(sid)) throw new Error(`${sid} was not told`)
        }
      })
      await fc.assert(property, { numRuns: 25 })
      t.ok(runs >= 25)
    })
  })
