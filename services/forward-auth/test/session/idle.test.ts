import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { countCalls, hold, type Instance, portalNamed, startInstances } from './kit.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const IDLE = 5 * MINUTE
const portals = [portalNamed('main', ['corp'], { idle: IDLE })]

/** What gives instances that share a store, by engine. */
const ENGINES = {
  'a folder': async () => (t: Test) => startInstances(t, 3, { portals }),
  async PostgreSQL(t: Test) {
    const { url } = await startPostgres(t)
    let schemas = 0
    return (t: Test) => {
      const database = { url, schema: `idle${++schemas}` }
      return startInstances(t, 3, { portals, database })
    }
  },
}

/** The clock of a test does not wait for what is written. */
async function written(touches: readonly ReturnType<typeof countCalls>[]): Promise<void> {
  while (touches.some(({ count, done }) => done < count)) await nextTurn()
}

/** What a person does next: after so many seconds, at one of the instances. */
const uses = fc.array(
  fc.record({ pause: fc.integer({ min: 1, max: IDLE / SECOND }), where: fc.nat({ max: 2 }) }),
  { minLength: 1, maxLength: 12 },
)

for (const [engine, prepare] of Object.entries(ENGINES))
  t.test(engine, async (t) => {
    const begin = await prepare(t)

    t.test('nobody who is active is idle to an instance that has not seen it', async (t) => {
      const all = await begin(t)
      const [{ clock }] = all as [Instance]
      const touches = all.map((each) => countCalls(each, 'touchSessions'))
      const pass = async (ms: number) => {
        for (const step of [Math.min(ms, MINUTE), Math.max(0, ms - MINUTE)]) {
          await clock.advance(step)
          await written(touches)
        }
      }
      const isKept = fc.asyncProperty(uses, async (person) => {
        const { cookie } = await all[0]!.begin()
        for (const { pause, where } of person) {
          await pass(pause * SECOND)
          if (!(await all[where]!.check(cookie))) return false
          await written(touches)
        }
        await clock.advance(IDLE + 1)
        const left = await Promise.all(all.map((each) => each.check(cookie)))
        return left.every((session) => session === undefined)
      })
      await fc.assert(isKept, { numRuns: Number(process.env.GATEHOUSE_FUZZ ?? 20_000) / 2_500 })
    })

    t.test(
      'the first use after a minute is written at once, and no answer waits for that',
      async (t) => {
        const [here, there] = (await begin(t)) as [Instance, Instance]
        const { cookie, sid } = await here.begin()
        await here.clock.advance(IDLE - SECOND)
        const writing = hold(here, 'touchSessions', 'before')
        const touches = countCalls(here, 'touchSessions')
        t.ok(await here.check(cookie), 'while it is written')
        await writing.entered
        writing.release()
        await written([touches])
        await here.clock.advance(10 * SECOND)
        t.ok(await there.check(cookie))
        t.equal((await there.store.findSession(sid))?.lastSeen, here.clock.now() - 10 * SECOND)
      },
    )
  })
