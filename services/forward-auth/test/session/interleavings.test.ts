import { setImmediate } from 'node:timers/promises'
import type { RedirectProvider } from '@gatehouse/identity-providers'
import { fromClaims } from '@gatehouse/profile'
import fc from 'fast-check'
import t from 'tap'
import { createFakeProvider } from '../fake-provider.ts'
import { ADA, type Instance, portalNamed, startInstances, touch } from './kit.ts'
import { createModel, type Model } from './model.ts'

type ReRead = Awaited<ReturnType<RedirectProvider['reRead']>>

const REFRESH = 600_000
const RUNS = Number(process.env.GATEHOUSE_FUZZ ?? 20_000) / 20

/** Has an instance use a model, whose calls wait for a scheduler before they are made, and before they give their result. */
function useModel({ store, records }: Instance, model: Model, scheduler: fc.Scheduler, at: number) {
  const turn = (what: string) => scheduler.schedule(Promise.resolve(), `${at}: ${what}`)
  let read = 0
  async function catchUp(): Promise<void> {
    const events = model.events.slice(read)
    read += events.length
    records.learn(events)
  }
  const all = Object.entries(model.sessions).map(([name, call]) => {
    const scheduled = async (...args: readonly unknown[]) => {
      await turn(name)
      const result = await (call as (...all: readonly unknown[]) => unknown)(...args)
      await turn(`${name} is done`)
      return result
    }
    return [name, scheduled] as const
  })
  Object.assign(store, Object.fromEntries(all), { catchUp })
}

const KINDS = ['check', 'arrive', 'renew', 'end', 'end all', 'touch', 'catch up', 'full'] as const
const step = fc.record({
  kind: fc.constantFrom(...KINDS, 'check', 'check', 'renew', 'end', 'full'),
  at: fc.constantFrom(0, 1),
})
type Step = { readonly kind: (typeof KINDS)[number]; readonly at: number }
const actors = fc.array(fc.array(step, { minLength: 1, maxLength: 5 }), {
  minLength: 2,
  maxLength: 4,
})

const profileBefore = fromClaims('corp', ADA.claims)
const error = Object.assign(new Error('away'), { code: 'FWA_PROVIDER_UNREACHABLE' }) as never
const tokens = { refresh: 'r' }
/** What the provider answers when it is asked again. */
const ANSWERS: readonly ReRead[] = [
  { kind: 'read', signedIn: { profile: profileBefore, tokens } },
  { kind: 'ended', why: 'invalid_grant' },
  { kind: 'fault', error, isUsed: false },
  { kind: 'fault', error, isUsed: true },
  { kind: 'impossible' },
]

t.test('property: in any order, a session that has ended passes no check again', async (t) => {
  const { provider, state } = createFakeProvider()
  const session = { refresh: REFRESH, grace: REFRESH, lifetime: 10 * REFRESH }
  const portals = [portalNamed('main', [provider], session)]
  const all = (await startInstances(t, 2, { portals })) as [Instance, Instance]
  const [here] = all
  // Before the instances end, which write what is left.
  t.teardown(() => {
    const { sessions } = createModel()
    for (const { store } of all)
      for (const name of [...Object.keys(sessions), 'catchUp']) Reflect.deleteProperty(store, name)
  })
  const seen = new Map<string, number>()
  const note = (what: string) => void seen.set(what, (seen.get(what) ?? 0) + 1)

  async function run(
    scheduler: fc.Scheduler,
    plan: readonly (readonly Step[])[],
    answer: ReRead,
    isDue: boolean,
  ): Promise<readonly string[]> {
    const model = createModel()
    for (const [i, each] of all.entries()) useModel(each, model, scheduler, i)
    state.reRead = () => {
      note(answer.kind)
      return answer
    }
    const beginning = here.begin({ tokens })
    await scheduler.waitFor(beginning)
    const first = await beginning
    const { sid, cookie, own } = first
    if (isDue) await here.clock.advance(REFRESH)
    /** The instances that know each session to have ended. */
    const ended = all.map(() => new Set<string>())
    const wrong: string[] = []

    async function act({ kind, at }: Step): Promise<void> {
      const instance = all[at]!
      const { records } = instance
      switch (kind) {
        case 'check':
        case 'arrive': {
          const before = new Set(ended[at])
          const found = await (kind === 'check' ? instance.check(cookie) : instance.arrive(own))
          note(found ? 'passed' : before.has(sid) ? 'refused' : 'refused early')
          if (found && before.has(found.sid)) wrong.push(`${kind} at ${at} passes`)
          return
        }
        case 'renew': {
          const before = await instance.arrive(own)
          const next = await instance.begin({ tokens, ...(before && { before }) })
          return note(next.sid === sid ? 'renewed' : 'begun anew')
        }
        case 'end':
          await records.endOne(first.session)
          ended[at]!.add(sid)
          // As the feed does, soon.
          await all[1 - at]!.catchUp()
          ended[1 - at]!.add(sid)
          return
        case 'end all':
          for (const row of await records.end({ person: first.session.person }))
            ended[at]!.add(row.sid)
          return
        case 'touch':
          return touch(here, sid)
        case 'catch up':
          return instance.catchUp()
        case 'full':
          return records.learn([], true)
      }
    }
    const acts = plan.map(async (steps) => {
      for (const each of steps) await act(each)
    })
    let isOver = false
    const over = Promise.all(acts).finally(() => {
      isOver = true
    })
    // Who waits for what the other instance does hears of it when nothing else goes on.
    const feed = (async () => {
      for (let quiet = 0; !isOver; await setImmediate()) {
        quiet = scheduler.count() > 0 ? 0 : quiet + 1
        if (quiet > 5) for (const each of all) await each.catchUp()
      }
    })()
    await scheduler.waitFor(over)
    await feed
    // What goes on beside the checks.
    for (let turn = 0; turn < 8; turn++, await setImmediate()) await scheduler.waitAll()

    for (const each of all) await each.catchUp()
    for (const each of new Set(ended.flatMap((sids) => [...sids])))
      for (const { records } of all)
        for (const what of ['in memory', 'in the store']) {
          const finding = Promise.resolve(records.find(each))
          await scheduler.waitFor(finding)
          if (await finding) wrong.push(`it is ${what} at the end`)
          records.forget(each)
        }
    return wrong
  }

  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      actors,
      fc.constantFrom(...ANSWERS),
      fc.boolean(),
      async (...given) => {
        const wrong = await run(...given)
        if (wrong.length > 0) throw new Error(wrong.join(', '))
      },
    ),
    { numRuns: RUNS },
  )
  // Otherwise the orders would prove little.
  for (const what of [
    'passed',
    'refused',
    'renewed',
    'begun anew',
    ...ANSWERS.map((one) => one.kind),
  ])
    t.ok(Number(seen.get(what)) > RUNS / 50, `${what}: ${seen.get(what)} times`)
})
