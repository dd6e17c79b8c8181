import { manualClock } from '@gatehouse/service-kit/testing'
import t from 'tap'
import type { ApprovalRow } from '../../src/store/store.ts'
import { agent, approval, ENGINES, HOUR, MINUTE, type Open, session } from './kit.ts'

/** Two instances on one store, with a person and two agents of theirs. */
async function two(newStore: Open) {
  const clock = manualClock(Date.now())
  const [here, there] = [await newStore({ clock }), await newStore({ clock })]
  await here.store.beginSession(session('a', { person: 'ada' }))
  for (const sid of ['x', 'y']) await here.store.beginSession(agent(sid, 'a', { person: 'ada' }))
  const call = (key: string, changes: Partial<ApprovalRow> = {}) =>
    approval(key, { agent: 'x', until: clock.now() + 10 * MINUTE, ...changes })
  const decided = (key: string, state = 'allowed', changes: Partial<ApprovalRow> = {}) =>
    call(key, { state, until: clock.now() + 2 * MINUTE, sealed: `sealed of ${state}`, ...changes })
  const stateOf = async (key: string) => (await there.store.findApproval(key))?.state
  return { clock, here, there, call, decided, stateOf, stores: [here.store, there.store] as const }
}

const truthy = (results: readonly boolean[]) => results.filter(Boolean).length

for (const [engine, prepare] of Object.entries(ENGINES)) {
  t.test(`on ${engine}`, async (t) => {
    const newStore = await prepare(t)

    t.test('a call is added once, wherever it is asked for', async (t) => {
      const { stores, call, there } = await two(newStore(t))
      const tries = Array.from({ length: 20 }, (_, i) => stores[i % 2]!.addApproval(call('k')))
      t.equal(truthy(await Promise.all(tries)), 1)
      t.match(await there.store.findApproval('k'), call('k'))
      t.equal(await there.store.findApproval('other'), undefined)
    })

    t.test('five calls of an agent wait, and twenty of a person', async (t) => {
      const { clock, stores, call, decided, here } = await two(newStore(t))
      const add = (prefix: string, changes: Partial<ApprovalRow>, times: number) =>
        Promise.all(
          Array.from({ length: times }, (_, i) =>
            stores[i % 2]!.addApproval(call(`${prefix}${i}`, changes)),
          ),
        ).then(truthy)
      t.equal(await add('x', {}, 12), 5, 'of one agent, by two instances at once')
      t.equal(await add('y', { agent: 'y' }, 12), 5, 'of another one')
      for (const sid of ['z0', 'z1', 'z2']) {
        await here.store.beginSession(agent(sid, 'a', { person: 'ada' }))
        await add(sid, { agent: sid }, 4)
      }
      t.equal((await here.store.listApprovals('ada', 100)).length, 20, 'of one person')
      t.equal(await add('p', { person: 'program', agent: null, decider: 'ada' }, 12), 5)
      t.equal(await add('q', { person: 'bob', agent: null, decider: 'bob' }, 12), 5)
      const [first] = await here.store.listApprovals('ada', 100)
      t.equal(await here.store.addApproval(call('more', { agent: 'z0' })), false)
      t.equal(
        await here.store.decideApproval({ ...first!, ...decided(first!.key), agent: first!.agent }),
        true,
      )
      t.equal(
        await here.store.addApproval(call('more', { agent: 'z0' })),
        true,
        'what is decided makes room',
      )
      t.equal(await here.store.addApproval(call('more2', { agent: 'z1' })), false)
      await clock.advance(10 * MINUTE)
      t.equal(await add('later', {}, 6), 5, 'so does what is over')
    })

    t.test('one decision counts, wherever it is made, and everybody is told', async (t) => {
      const { clock, stores, call, decided, here, there, stateOf } = await two(newStore(t))
      for (let round = 0; round < 5; round++) {
        const key = `k${round}`
        await here.store.addApproval(call(key))
        const states = ['allowed', 'denied']
        const tries = Array.from({ length: 8 }, (_, i) =>
          stores[i % 2]!.decideApproval(decided(key, states[i % 2])),
        )
        const results = await Promise.all(tries)
        t.equal(truthy(results), 1)
        t.equal(await stateOf(key), states[results.indexOf(true) % 2])
        for (const instance of [here, there]) {
          await instance.store.catchUp()
          t.ok(instance.learned('changed').includes(key))
        }
      }
      await here.store.addApproval(call('late'))
      await clock.advance(10 * MINUTE - 1)
      t.equal((await there.store.listApprovals('ada', 100)).length, 1)
      await clock.advance(1)
      t.strictSame(await there.store.listApprovals('ada', 100), [])
      t.equal(await here.store.decideApproval(decided('late')), false, 'it is over')
      t.equal(await stateOf('late'), 'asked')
      t.equal(await here.store.decideApproval(decided('unknown')), false)
    })

    t.test('what is allowed once is used once, by one of twenty', async (t) => {
      const { clock, stores, call, decided, here, stateOf } = await two(newStore(t))
      const useOften = async (key: string) =>
        truthy(
          await Promise.all(Array.from({ length: 20 }, (_, i) => stores[i % 2]!.useApproval(key))),
        )
      await here.store.addApproval(call('k'))
      t.equal(await useOften('k'), 0, 'nobody has decided')
      await here.store.decideApproval(decided('k'))
      t.equal(await here.store.addApproval(call('k')), false, 'it waits for nobody')
      t.equal(await useOften('k'), 1)
      t.equal(await useOften('k'), 0)
      t.equal(await stateOf('k'), 'allowed', 'and its page says so')
      await clock.advance(-HOUR)
      t.equal(await useOften('k'), 0, 'nor once more if the clock is set back')
      await clock.advance(HOUR)
      t.equal(await here.store.addApproval(call('k')), true, 'it is asked for again')
      await here.store.decideApproval(decided('k'))
      await clock.advance(2 * MINUTE)
      t.equal(await useOften('k'), 0, 'it is over')
      await here.store.addApproval(call('no'))
      await here.store.decideApproval(decided('no', 'denied'))
      t.equal(await useOften('no'), 0)
    })

    t.test('what is remembered is stored with the decision, or not at all', async (t) => {
      const { call, decided, here, there, stateOf } = await two(newStore(t))
      await here.store.addApproval(call('k'))
      const tool = decided('tool', 'remembered', { until: Date.now() + HOUR })
      const [first, second] = await Promise.all([
        here.store.decideApproval(decided('k'), tool),
        there.store.decideApproval(decided('k', 'denied'), { ...tool, key: 'other' }),
      ])
      t.ok(first !== second)
      t.strictSame(
        [await stateOf('tool'), await stateOf('other')],
        first ? ['remembered', undefined] : [undefined, 'remembered'],
      )
      t.equal(await here.store.useApproval(first ? 'tool' : 'other'), false, 'it is not used up')
    })

    t.test('the rows of an agent end with it, also in a race', async (t) => {
      const { call, decided, here, there, stateOf } = await two(newStore(t))
      for (const sid of ['x', 'y']) {
        await here.store.addApproval(call(`asked ${sid}`, { agent: sid }))
        await here.store.addApproval(call(`allowed ${sid}`, { agent: sid }))
        const tool = decided(`tool ${sid}`, 'remembered', { agent: sid })
        await here.store.decideApproval(decided(`allowed ${sid}`, 'allowed', { agent: sid }), tool)
      }
      await there.store.endSessions({ sid: 'x' })
      for (const key of ['asked', 'allowed', 'tool']) {
        t.equal(await stateOf(`${key} x`), undefined, key)
        t.ok(await stateOf(`${key} y`), key)
      }
      t.equal(await here.store.addApproval(call('more')), false, 'no agent')
      t.equal(await here.store.decideApproval(decided('asked x')), false)
      await there.store.endSessions({ person: 'ada' })
      t.equal(await stateOf('asked y'), undefined, 'nor of the person')

      for (let round = 0; round < 12; round++) {
        const [parent, sid] = [`p${round}`, `z${round}`]
        await here.store.beginSession(session(parent, { person: 'ada' }))
        await here.store.beginSession(agent(sid, parent, { person: 'ada' }))
        await here.store.addApproval(call(`${sid} asked`, { agent: sid }))
        const tool = decided(`${sid} tool`, 'remembered', { agent: sid })
        await Promise.all([
          there.store.endSessions(round % 2 ? { sid } : { person: 'ada' }),
          here.store.decideApproval(decided(`${sid} asked`, 'allowed', { agent: sid }), tool),
          here.store.addApproval(call(`${sid} more`, { agent: sid })),
        ])
        for (const key of ['asked', 'tool', 'more'])
          t.equal(await stateOf(`${sid} ${key}`), undefined)
      }
    })

    t.test('a row is there for an hour after its end', async (t) => {
      const clock = manualClock(Date.now())
      const time = { passed: 0 }
      const { store } = await newStore(t)({ clock, monotonic: () => time.passed })
      await store.addApproval(approval('k', { until: clock.now() + 10 * MINUTE }))
      const pass = async (ms: number) => {
        time.passed += ms
        await clock.advance(ms)
        await store.prune()
        return store.findApproval('k')
      }
      t.ok(await pass(10 * MINUTE + HOUR - 1))
      t.equal(await pass(1), undefined)
    })
  })
}
