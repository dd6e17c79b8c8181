import { fromClaims } from '@gatehouse/profile'
import fc from 'fast-check'
import t from 'tap'
import { createFakeProvider } from '../fake-provider.ts'
import { ADA, type Instance, portalNamed, startInstances } from './kit.ts'

const MINUTE = 60_000
const REFRESH = 10 * MINUTE

/** The methods of the store that sessions use: random ones wait before their work, and after it. */
const METHODS = [
  ...['beginSession', 'updateSession', 'findSession', 'endSessions', 'leaseSession'],
  ...['touchSessions'],
] as const

/** Has a scheduler decide when each call of the store goes on. Gives a function that restores it. */
function schedule({ store }: Instance, scheduler: fc.Scheduler, name: string): () => void {
  const all = store as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>
  const whole = METHODS.map((method) => [method, all[method]!] as const)
  for (const [method, real] of whole)
    all[method] = async (...args) => {
      await scheduler.schedule(Promise.resolve(), `${name} ${method}`)
      const result = await real.apply(store, args)
      await scheduler.schedule(Promise.resolve(), `${name} ${method} done`)
      return result
    }
  return () => {
    for (const [method, real] of whole) all[method] = real
  }
}

const KINDS = ['check', 'arrive', 'renew', 'end', 'end all', 'touch', 'learn', 'full'] as const
const step = fc.record({
  kind: fc.constantFrom(...KINDS, 'check', 'renew', 'end'),
  at: fc.constantFrom(0, 1),
})
/** What the provider answers when it is asked again. */
const answer = fc.constantFrom('read', 'read', 'ended', 'fault', 'used', 'impossible')

t.test('property: in any order, a session that has ended passes no check again', async (t) => {
  const { provider, state } = createFakeProvider()
  const portals = [portalNamed('main', [provider], { refresh: REFRESH, lifetime: 9_999 * MINUTE })]
  const all = await startInstances(t, 2, { portals })
  const [here, there] = all as [Instance, Instance]
  const seen = new Map<string, number>()
  const note = (what: string) => seen.set(what, (seen.get(what) ?? 0) + 1)
  let number = 0

  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 3, maxLength: 10 }),
      answer,
      fc.boolean(),
      fc.scheduler(),
      async (steps, says, isDue, scheduler) => {
        const claims = { ...ADA.claims, sub: `person ${number++}` }
        const profile = fromClaims('corp', claims)
        const tokens = { refresh: 'r' }
        state.reRead = (before) => {
          note(says)
          const error = new Error('away') as never
          if (says === 'read') return { kind: 'read', signedIn: { profile: before, tokens } }
          if (says === 'ended') return { kind: 'ended', why: 'invalid_grant' }
          if (says === 'impossible') return { kind: 'impossible' }
          return { kind: 'fault', error, isUsed: says === 'used' }
        }
        const first = await here.begin({ profile, tokens })
        const { cookie, own, sid } = first
        for (const each of all) await each.check(cookie)
        if (isDue) await here.clock.advance(REFRESH)
        const restores = all.map((each, i) => schedule(each, scheduler, `${i}`))
        const begun = new Set([sid])
        /** The sessions whose end has resolved: at one instance, or at both. */
        const ended: { readonly sid: string; readonly at: Instance }[] = []
        const wrong: string[] = []

        const act = async ({ kind, at }: { kind: (typeof KINDS)[number]; at: number }) => {
          const instance = all[at]!
          if (kind === 'check' || kind === 'arrive') {
            const before = ended.filter((each) => each.at === instance).map((each) => each.sid)
            const find = kind === 'check' ? instance.check(cookie) : instance.arrive(own)
            const found = await find
            if (found && before.includes(found.sid)) wrong.push(`${kind} at ${at}`)
            note(found ? 'passed' : 'refused')
          }
          if (kind === 'renew') {
            const before = await instance.arrive(own)
            const next = await instance.begin({ profile, tokens, ...(before && { before }) })
            begun.add(next.sid)
            if (before) note(next.sid === sid ? 'renewed' : 'replaced')
          }
          if (kind === 'end') {
            await instance.records.endOne(first.session)
            ended.push({ sid, at: instance })
            await all[1 - at]!.catchUp()
            ended.push({ sid, at: all[1 - at]! })
          }
          if (kind === 'end all') {
            const { person } = first.session
            const rows = await instance.records.end({ person })
            for (const row of rows) ended.push({ sid: row.sid, at: instance })
          }
          if (kind === 'touch')
            await instance.store.touchSessions([{ sid, at: instance.clock.now(), hosts: ['a'] }])
          if (kind === 'learn') await instance.catchUp()
          if (kind === 'full') instance.records.learn([], true)
        }
        const acts = Promise.all(steps.map(act))
        // Who waits for another instance to ask the provider is told by the feed.
        let isOver = false
        const over = acts.finally(() => {
          isOver = true
        })
        const feed = (async () => {
          for (; !isOver; await new Promise((next) => setImmediate(next)))
            for (const each of all) await each.catchUp()
        })()
        await scheduler.waitFor(over)
        await feed
        // What goes on beside the checks.
        for (let turn = 0; turn < 30; turn++) {
          await new Promise((next) => setImmediate(next))
          if (scheduler.count() > 0) await scheduler.waitAll()
        }
        for (const restore of restores) restore()

        for (const each of all) await each.catchUp()
        for (const { sid: over } of ended)
          for (const each of all) {
            if (await each.records.find(over)) wrong.push('it is known at the end')
            each.records.forget(over)
            if (await each.records.find(over)) wrong.push('it is stored at the end')
          }
        if (ended.some((each) => each.sid === sid)) {
          note('ended')
          for (const each of all) if (await each.check(cookie)) wrong.push('its cookie passes')
        }
        for (const each of begun) await there.records.end({ sid: each })
        return wrong.length === 0 || Promise.reject(new Error(wrong.join(', ')))
      },
    ),
    { numRuns: Number(process.env.GATEHOUSE_FUZZ ?? 20_000) / 100 },
  )
  // Otherwise the interleavings would prove little.
  for (const what of ['passed', 'refused', 'renewed', 'replaced', 'ended', 'read', 'used'])
    t.ok(Number(seen.get(what)) > 0, `${what}: ${seen.get(what)} times`)
})
