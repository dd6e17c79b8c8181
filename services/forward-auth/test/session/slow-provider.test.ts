import { setImmediate } from 'node:timers/promises'
import { createMetrics } from '@gatehouse/service-kit/telemetry'
import t from 'tap'
import { createFakeProvider } from '../fake-provider.ts'
import { type Instance, portalNamed, startInstance, startInstances } from './kit.ts'
import { createModel } from './model.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const REFRESH = MINUTE
const PEOPLE = 650
const TICK = 250
const SLOW = 'provider main/corp: slow'
const AWAY = 'provider main/corp'

const outage = { code: 'FWA_PROVIDER_UNREACHABLE', message: 'away' } as never

interface Spell {
  readonly what: string
  /** How long answers take, in ms. */
  readonly latency: number
  readonly lasts: number
  readonly isAway?: boolean
  /** What is told of the provider meanwhile. */
  readonly told: string
}

/** People who use two instances in turn while their provider has a bad spell, and once it is over. */
async function spend(t: Parameters<typeof startInstances>[0], spell: Spell) {
  const { provider, state } = createFakeProvider()
  const session = { lifetime: 60 * MINUTE, refresh: REFRESH, grace: 10 * MINUTE }
  const portals = [portalNamed('main', [provider], session)]
  const all = (await startInstances(t, 2, { portals })) as [Instance, Instance]
  const [{ clock, app, log }] = all
  // A disk would not know of a clock that stands still.
  const { sessions, events } = createModel()
  for (const { store } of all) Object.assign(store, sessions)
  t.teardown(() => {
    for (const { store } of all)
      for (const name of Object.keys(sessions)) Reflect.deleteProperty(store, name)
  })
  const people = await Promise.all(
    Array.from({ length: PEOPLE }, (_, i) => all[0].begin({ tokens: { refresh: `${i} ` } })),
  )
  const isWellFrom = clock.now() + REFRESH + spell.lasts
  const counts = { out: 0, passed: 0, most: 0, open: 0, twice: 0, waited: 0 }
  state.reRead = async (profile) => {
    const isOver = clock.now() >= isWellFrom
    counts.most = Math.max(counts.most, ++counts.open)
    const answered = Promise.withResolvers<void>()
    clock.setTimer(() => answered.resolve(), isOver ? 50 : spell.latency)
    await answered.promise
    counts.open -= 1
    if (spell.isAway && !isOver) return { kind: 'fault', error: outage, isUsed: true }
    return { kind: 'read', signedIn: { profile, tokens: { refresh: 'the same' } } }
  }
  await clock.advance(REFRESH)

  const waits = new Map<string, number>()
  const waiting = new Set<string>()
  const told = new Set<string>()
  async function visit({ sid, cookie }: (typeof people)[number], at: Instance): Promise<void> {
    waiting.add(sid)
    const begun = clock.now()
    const found = await at.check(cookie)
    waiting.delete(sid)
    counts[found ? 'passed' : 'out'] += 1
    if (clock.now() - begun < SECOND) return
    counts.waited += 1
    if (begun - (waits.get(sid) ?? 0) < 30 * SECOND) counts.twice += 1
    waits.set(sid, begun)
  }
  let [turn, heard] = [0, 0]
  for (const end = isWellFrom + 4 * MINUTE; clock.now() < end; await clock.advance(TICK)) {
    // As the feed does, soon.
    for (const { records } of all) records.learn(events.slice(heard))
    heard = events.length
    for (const part of app.readiness().degraded) told.add(part)
    for (let i = 0; i < 20; i++) {
      const person = people[turn++ % PEOPLE]!
      const at = all[Math.floor(turn / PEOPLE + turn) % 2]!
      if (!waiting.has(person.sid)) void visit(person, at)
    }
    await setImmediate()
  }
  while (waiting.size > 0) await clock.advance(TICK)
  const rows = await Promise.all(people.map(({ sid }) => all[0].records.open(sid)))
  return {
    ...{ counts, told: [...told], log, degraded: app.readiness().degraded },
    dropped: rows.filter((row) => !row?.contents.tokens).length,
    oldest: Math.max(...rows.map((row) => clock.now() - Number(row?.row.reRead))),
  }
}

const SPELLS: readonly Spell[] = [
  { what: 'slow for a minute', latency: 2_500, lasts: MINUTE, told: SLOW },
  { what: 'slow for five', latency: 2_500, lasts: 5 * MINUTE, told: SLOW },
  { what: 'slower than anybody waits', latency: 9_000, lasts: 3 * MINUTE, told: SLOW },
  { what: 'hangs', latency: 30_000, lasts: 3 * MINUTE, isAway: true, told: AWAY },
  { what: 'away', latency: 10, lasts: 3 * MINUTE, isAway: true, told: AWAY },
]

t.test(
  '650 people: nobody waits twice in half a minute, nobody is out, no token is lost',
  async (t) => {
    for (const spell of SPELLS) {
      const { what } = spell
      const { counts, told, degraded, dropped, oldest, log } = await spend(t, spell)
      t.comment(what, counts)
      t.equal(counts.out, 0, `${what}: nobody is out`)
      t.ok(counts.passed > 15_000, `${what}: ${counts.passed} requests`)
      t.equal(counts.twice, 0, `${what}: ${counts.waited} waited, nobody twice`)
      t.ok(counts.most <= 2 * 64, `${what}: ${counts.most} were asked about at once`)
      t.ok(told.includes(spell.told), `${what}: it is named`)
      t.strictSame(degraded, [], `${what}: it is well again`)
      t.equal(dropped, 0, `${what}: no token is lost`)
      t.ok(oldest < 2 * REFRESH, `${what}: ${oldest} ms is the oldest`)
      const lines = log.filter((line) => line.startsWith('the provider is '))
      t.ok(lines.length > 0 && lines.length <= 4, `${what}: it is logged, ${lines.length} times`)
    }
  },
)

t.test('the length of the line is a metric', async (t) => {
  const { provider, state } = createFakeProvider()
  const metrics = createMetrics({ service: 'test', version: '0' })
  const portals = [portalNamed('main', [provider], { refresh: REFRESH })]
  const { begin, check, clock } = await startInstance(t, { portals, metrics })
  const people = await Promise.all(
    Array.from({ length: 20 }, (_, i) => begin({ tokens: { refresh: `${i}` } })),
  )
  const answered = Promise.withResolvers<void>()
  state.reRead = async (profile) => {
    await answered.promise
    return { kind: 'read', signedIn: { profile, tokens: { refresh: 'the same' } } }
  }
  const seriesOf = async (state: string) =>
    Number(
      new RegExp(
        `^gatehouse_auth_questions\\{portal="main",provider="corp",state="${state}"\\} (\\d+)$`,
        'm',
      ).exec(await metrics.text())?.[1],
    )
  t.strictSame([await seriesOf('running'), await seriesOf('waiting')], [0, 0])
  await clock.advance(REFRESH)
  const checks = people.map(({ cookie }) => check(cookie))
  await setImmediate()
  t.strictSame([await seriesOf('running'), await seriesOf('waiting')], [8, 12])
  answered.resolve()
  t.ok((await Promise.all(checks)).every(Boolean))
  t.strictSame([await seriesOf('running'), await seriesOf('waiting')], [0, 0])
})
