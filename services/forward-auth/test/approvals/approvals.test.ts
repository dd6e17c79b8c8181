import { DatabaseSync } from 'node:sqlite'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import type { ApprovableCall } from '../../src/approvals/approvals.ts'
import { endSessions } from '../../src/session/ends.ts'
import { STATE_FILE } from '../../src/store/sqlite/sqlite-store.ts'
import { APPROVALS } from '../../src/store/tables.ts'
import { MINUTE, startApprovals } from './kit.ts'

/** A portal, and people who may decide. */
async function startHere(t: Test, rest = '') {
  const test = await startApprovals(t, rest)
  const ada = await test.person('ada')
  const agent = await test.agentOf(ada)
  const decide = async (
    call: ApprovableCall,
    decision: 'once' | 'remember' | 'deny',
    by = ada,
  ): Promise<boolean | undefined> => {
    const visitor = await test.visitorOf(by)
    const { id } = await test.app.approvals.request(call)
    const opened = await test.app.approvals.find(id, visitor)
    return opened && test.app.approvals.decide(opened, decision, visitor, undefined as never)
  }
  const stateOf = async (call: ApprovableCall) => (await test.app.approvals.request(call)).state
  return { ...test, ada, agent, decide, stateOf, approvals: test.app.approvals }
}

t.test('a call is asked for once, decided once and used once', async (t) => {
  const { agent, decide, stateOf, approvals, clock } = await startHere(t)
  const call = agent.call('delete_note')
  const first = await approvals.request(call)
  t.equal(first.state, 'asked')
  t.equal(first.url, `https://auth.example.com/portals/main/account/calls/${first.id}`)
  t.match(first.id, /^[\w-]{43}$/)
  t.strictSame(await approvals.request(call), first)
  t.equal(await approvals.use(call), false, 'nobody has decided')
  t.equal(await decide(call, 'once'), true)
  t.equal(await decide(call, 'deny'), false)
  t.equal(await stateOf(call), 'allowed')
  const uses = await Promise.all(Array.from({ length: 20 }, () => approvals.use(call)))
  t.equal(uses.filter(Boolean).length, 1, 'one of twenty at once')
  t.equal(await stateOf(call), 'asked', 'the next one is asked for again')

  await decide(call, 'deny')
  t.equal(await stateOf(call), 'denied')
  t.equal(await approvals.use(call), false)
  await clock.advance(10 * MINUTE - 1)
  t.equal(await stateOf(call), 'denied', 'a no lasts')
  await clock.advance(1)
  t.equal(await stateOf(call), 'asked')
  await decide(call, 'once')
  await clock.advance(2 * MINUTE)
  t.equal(await approvals.use(call), false, 'a yes that nobody uses ends')
  t.equal(await stateOf(call), 'asked')
  await clock.advance(10 * MINUTE)
  t.equal(await decide(call, 'once'), true, 'as a new question')
})

t.test('twenty equal calls at once are one question', async (t) => {
  const { agent, approvals, recorded } = await startHere(t)
  const call = agent.call('delete_note')
  const answers = await Promise.all(Array.from({ length: 20 }, () => approvals.request(call)))
  t.equal(new Set(answers.map(({ id, state }) => `${state} ${id}`)).size, 1)
  t.equal(answers[0]?.state, 'asked')
  t.equal(recorded().length, 1)
})

t.test('what a person has allowed is good for nothing else', async (t) => {
  const { agent, decide, approvals, agentOf, person, stateOf } = await startHere(t)
  const call = agent.call('move_note', { id: 1, to: 'b' })
  const bob = await agentOf(await person('bob'))
  const others: [why: string, other: ApprovableCall][] = [
    ['another argument', agent.call('move_note', { id: 2, to: 'b' })],
    ['one argument more', agent.call('move_note', { id: 1, to: 'b', force: true })],
    ['another tool', agent.call('delete_note', { id: 1, to: 'b' })],
    ['another client', { ...call, client: { ...call.client, id: 'https://other.test/c.json' } }],
    ['another resource', { ...call, resource: 'https://app.example.com/other' }],
    ['another person', bob.call('move_note', { id: 1, to: 'b' })],
    ['a rule with an approver', { ...call, approve: { ...call.approve, approver: 'editors' } }],
    ['a rule with a step-up', { ...call, approve: { ...call.approve, stepUp: 'lately' } }],
  ]
  await decide(call, 'once')
  for (const [why, other] of others) {
    t.equal(await approvals.use(other), false, why)
    t.equal(await stateOf(other), 'asked', why)
    if (other.person === call.person) await decide(other, 'deny')
  }
  t.equal(await approvals.use(call), true)
})

t.test('a permission for a tool is for all arguments, and for one agent', async (t) => {
  const { agent, ada, decide, approvals, agentOf, stateOf, clock, app } = await startHere(t)
  const call = agent.call('move_note', { id: 1 })
  const next = agent.call('move_note', { id: 2 })
  t.equal(await decide(agent.call('delete_note'), 'remember'), true, 'no such option: once')
  t.equal(await stateOf(agent.call('delete_note', { id: 2 })), 'asked')
  await decide(agent.call('move_note', { id: 3 }), 'deny')
  t.equal(await stateOf(agent.call('move_note', { id: 4 })), 'asked')
  t.equal(await decide(call, 'remember'), true)
  t.equal(await stateOf(agent.call('move_note', { id: 4 })), 'allowed', 'what waits passes too')
  t.equal(await approvals.use(call), true)
  for (let i = 0; i < 3; i++) {
    t.equal(await stateOf(next), 'allowed')
    t.equal(await approvals.use(next), true)
  }
  const refused = agent.call('move_note', { id: 3 })
  t.equal(await stateOf(refused), 'denied', 'a no to these arguments still counts')
  t.equal(await approvals.use(refused), false)
  const { remember: _, ...withoutOption } = next.approve
  t.equal(await approvals.use({ ...next, approve: withoutOption }), false)
  const other = await agentOf(ada)
  t.not(other.sid, agent.sid)
  t.equal(await approvals.use(other.call('move_note', { id: 4 })), false, 'another agent')
  await clock.advance(15 * MINUTE)
  t.equal(await approvals.use(next), false, 'it ends')

  await decide(other.call('move_note', { id: 5 }), 'remember')
  t.equal(await approvals.use(other.call('move_note', { id: 6 })), true)
  await endSessions(app, [{ sid: other.sid }], { endedBy: 'person' })
  t.equal(await approvals.use(other.call('move_note', { id: 6 })), false, 'so does its agent')
})

t.test('who may decide', async (t) => {
  const test = await startHere(t)
  const { agent, person, visitorOf, approvals, program } = test
  const people = {
    ada: test.ada,
    bob: await person('bob'),
    'ada as an editor': await person('ada', { groups: ['editor'] }),
    'bob as an editor': await person('bob', { groups: ['editor'] }),
    'a guest who is an editor': await person('eve', { groups: ['editor', 'guest'] }),
  }
  const table: [what: string, call: ApprovableCall, who: string][] = [
    ['her own', agent.call('delete_note'), 'ada, ada as an editor'],
    [
      'with an approver: nobody for themselves',
      agent.call('pay'),
      'bob as an editor, a guest who is an editor',
    ],
    ['with conditions of a step-up', agent.call('wire'), 'ada, ada as an editor'],
    ['with both', agent.call('fire'), 'bob as an editor'],
    [
      'of a program',
      program('pay'),
      'ada as an editor, bob as an editor, a guest who is an editor',
    ],
  ]
  for (const [what, call, who] of table) {
    const { id, state } = await approvals.request(call)
    t.equal(state, 'asked', what)
    for (const [name, browser] of Object.entries(people)) {
      const visitor = await visitorOf(browser)
      const may = who.split(', ').includes(name)
      t.equal((await approvals.find(id, visitor)) !== undefined, may, `${what}: ${name}`)
      const listed = (await approvals.list(visitor)).some(({ row }) => row.key === id)
      t.equal(listed, may, `${what}: ${name}, in the list`)
    }
  }
  const ada = await visitorOf(test.ada)
  t.equal(await approvals.find('x'.repeat(43), ada), undefined)
  const { id } = await approvals.request(agent.call('delete_note'))
  const other = test.app.portals.get('other')!
  const elsewhere = Object.create(ada, { portal: { value: other } })
  t.equal(await approvals.find(id, elsewhere), undefined, 'of another portal')
})

t.test('programs that act for nobody need an approver, and share nothing', async (t) => {
  const { approvals, program, person, decide, stateOf } = await startHere(t)
  const bob = await person('bob', { groups: ['editor'] })
  t.match(await approvals.request(program('delete_note')), { state: 'denied', id: '' })
  const call = program('fire')
  await decide(call, 'remember', bob)
  t.equal(await approvals.use(call), true)
  t.equal(await approvals.use(program('fire', 'ci', { id: 2 })), true)
  t.equal(await stateOf(program('fire', 'other')), 'asked')
  const sameClient = { ...program('fire', 'other'), client: { id: 'ci' } }
  t.equal(await approvals.use(sameClient), false, 'another user of the same client')
})

t.test('an agent that floods has five questions, and its person twenty', async (t) => {
  const { agent, stateOf, decide, program, recorded } = await startHere(t)
  const states = await Promise.all(
    Array.from({ length: 12 }, (_, id) => stateOf(agent.call('delete_note', { id }))),
  )
  t.equal(states.filter((state) => state === 'asked').length, 5)
  t.equal(states.filter((state) => state === 'limited').length, 7)
  t.equal(recorded().length, 5)
  t.equal(await stateOf(agent.call('move_note')), 'limited')
  t.equal(await stateOf(program('pay')), 'asked')
  const open = states.indexOf('asked')
  t.equal(await decide(agent.call('delete_note', { id: open }), 'deny'), true)
  t.equal(await stateOf(agent.call('move_note')), 'asked')
})

t.test('whoever waits learns of a decision or an end', async (t) => {
  const { agent, approvals, decide, clock, app } = await startHere(t)
  const wait = (id: string, signal = new AbortController().signal) => {
    const waiting = { isOver: false }
    const over = approvals.decided(id, signal).then(() => {
      waiting.isOver = true
    })
    return Object.assign(waiting, { over })
  }
  const settle = async () => {
    for (let i = 0; i < 50; i++) await setImmediate()
  }
  const call = agent.call('delete_note')
  const { id } = await approvals.request(call)
  const abort = new AbortController()
  const waiting = [wait(id), wait(id), wait(id, abort.signal)]
  await settle()
  abort.abort()
  await waiting[2]?.over
  t.strictSame(
    waiting.map(({ isOver }) => isOver),
    [false, false, true],
  )
  await decide(call, 'once')
  await Promise.all(waiting.map(({ over }) => over))
  await wait(id).over
  await wait('unknown').over
  await wait(id, AbortSignal.abort()).over

  /** Lets time pass until a wait is over. Gives how long that took. */
  const pass = async (waits: ReturnType<typeof wait>) => {
    const begun = clock.now()
    for (await settle(); !waits.isOver; await settle()) await clock.advance(5_000)
    return clock.now() - begun
  }
  const late = wait((await approvals.request(agent.call('move_note'))).id)
  t.ok((await pass(late)) >= 10 * MINUTE)

  const ended = wait((await approvals.request(agent.call('wire'))).id)
  await settle()
  await endSessions(app, [{ sid: agent.sid }], { endedBy: 'person' })
  t.ok((await pass(ended)) < MINUTE)
  t.equal((await approvals.request(agent.call('wire'))).state, 'limited', 'no agent, no question')
})

t.test('arguments that cannot be shown whole cannot be approved', async (t) => {
  const { agent, stateOf, approvals } = await startHere(t)
  const text = (length: number) => ({ text: 'x'.repeat(length - '{"text":""}'.length) })
  const table: [why: string, given: Record<string, unknown>, state: string][] = [
    ['none', {}, 'asked'],
    ['16 kB', text(16_384), 'asked'],
    ['a byte more', text(16_385), 'too-large'],
    ['of two bytes each', { text: 'é'.repeat(8_200) }, 'too-large'],
    ['a long name', { [`${'x'.repeat(17_000)}`]: 1 }, 'too-large'],
    ['an integer that is not the one that was sent', { id: 2 ** 53 }, 'too-large'],
    ['the last that is', { id: 2 ** 53 - 1 }, 'asked'],
    ['an integer of any size', { id: 2n ** 64n }, 'asked'],
    ['deep inside', { a: [{ b: -(2 ** 60) }] }, 'too-large'],
    ['a number beyond all', { id: Number.POSITIVE_INFINITY }, 'too-large'],
  ]
  for (const [why, given, state] of table)
    t.equal(await stateOf(agent.call('delete_note', given)), state, why)
  const long = { ...agent.call('delete_note'), tool: 'x'.repeat(129) }
  t.match(await approvals.request(long), { state: 'too-large', id: '' })
})

t.test('the audit trail says who asked and who decided, and no argument', async (t) => {
  const { agent, program, decide, person, recorded, app, log } = await startHere(t)
  const canary = { text: 'canary-of-an-argument' }
  const bob = await person('bob', { groups: ['editor'] })
  await decide(agent.call('delete_note', canary), 'once')
  await decide(agent.call('move_note', canary), 'deny')
  await decide(program('pay', 'ci', canary), 'once', bob)
  const common = { client: 'https://assistant.test/oauth/client.json', host: 'app.example.com' }
  const asked = (tool: string) => ({ event: 'call-asked', caller: 'corp:ada', tool, ...common })
  const ci = { tool: 'pay', client: 'ci', host: 'app.example.com' }
  t.match(recorded(), [
    asked('delete_note'),
    { ...asked('delete_note'), event: 'call-allowed', person: 'corp:ada' },
    asked('move_note'),
    { ...asked('move_note'), event: 'call-denied', person: 'corp:ada' },
    { event: 'call-asked', caller: 'psk:ci', ...ci },
    { event: 'call-allowed', caller: 'corp:bob', person: 'psk:ci', ...ci },
  ])
  t.equal(recorded().length, 6)
  await app.auditTrail.flush()
  const rows: unknown[] = []
  for await (const row of app.authStore.audit.rows(0)) rows.push(row)
  t.match(rows.at(-1), { event: 'call-allowed', actor: 'corp:bob', actorName: 'Name of bob' })
  t.notMatch(JSON.stringify([rows, log]), 'canary')
})

t.test(
  'whoever writes into the store cannot allow a call, nor prolong or move a yes',
  async (t) => {
    const path = testFolder(t)
    const test = await startHere(t, `storage: { path: ${path} }`)
    const { agent, ada, decide, approvals, clock, person, agentOf, visitorOf } = test
    const bob = await agentOf(await person('bob'))
    const calls = {
      asked: agent.call('delete_note'),
      allowed: agent.call('delete_note', { id: 2 }),
      denied: agent.call('delete_note', { id: 3 }),
      remembered: agent.call('move_note'),
      'of another person': bob.call('move_note'),
    }
    await approvals.request(calls.asked)
    await decide(calls.allowed, 'once')
    await decide(calls.denied, 'deny')
    await decide(calls.remembered, 'remember')
    t.equal(await approvals.use(calls.remembered), true, 'the yes of this call')
    await approvals.request(calls['of another person'])
    using db = new DatabaseSync(`${path}/${STATE_FILE}`)
    db.exec('PRAGMA foreign_keys = OFF; PRAGMA synchronous = OFF')
    type Row = Record<string, string | number | null>
    const rows = db.prepare('SELECT rowid, * FROM approvals').all() as Row[]
    t.equal(rows.length, 6)
    const mayUse = async () => {
      const uses: string[] = []
      for (const [name, call] of Object.entries(calls))
        if (await approvals.use(call)) uses.push(name)
      return uses.join(', ')
    }
    /** Changes a row, unless the column cannot have that. */
    async function change({ rowid }: Row, changed: Row): Promise<boolean> {
      const set = Object.keys(changed).map((name) => `${name} = ?`)
      const sql = `UPDATE approvals SET ${set} WHERE rowid = ?`
      for (;;)
        try {
          return db.prepare(sql).run(...Object.values(changed), rowid!).changes === 1
        } catch (error) {
          const { message } = error as Error
          if (/constraint|cannot store/.test(message)) return false
          if (!/locked/.test(message)) throw error
          await setTimeout(5)
        }
    }
    const allowed = ['', 'allowed', 'remembered', 'allowed, remembered']
    for (const [i, row] of rows.entries())
      for (const member of APPROVALS.members) {
        const other = rows[(i + 1) % rows.length]!
        const values = new Set([null, 'allowed', 'remembered', clock.now() + 60 * MINUTE])
        for (const value of [...values, other[member]!, rows.at(i - 2)![member]!]) {
          if (!(await change(row, { [member]: value }))) continue
          t.ok(allowed.includes(await mayUse()), `${member}: ${value}`)
          // What was used is as it was.
          for (const each of rows) await change(each, { key: `${each.rowid}` })
          for (const each of rows) await change(each, each)
        }
      }
    t.equal(await mayUse(), 'allowed, remembered')
    await clock.advance(20 * MINUTE)
    for (const row of rows) await change(row, { until: clock.now() + MINUTE })
    t.equal(await mayUse(), '', 'what has ended is over')
    t.strictSame(await approvals.list(await visitorOf(ada)), [])
  },
)
