import { BACKDATE } from '@gatehouse/pki'
import t from 'tap'
import { currentOf, DAY, obtain, openStage, type Stage } from './helpers/stage.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const ca = { leafLifetime: 7 * DAY, maxLifetime: 30 * DAY }
/** A caller that may have no certificate that lives longer than two days. */
const SHORT = { actor: { actor: 'psk:short' }, longest: 2 * DAY }

const livesFor = ({ notBefore, notAfter }: { notBefore: string; notAfter: string }) =>
  Date.parse(notAfter) - Date.parse(notBefore) - BACKDATE
const madeOf = async ({ store }: Stage) => (await store.listHistory('a.test')).length

t.test('what lives longer than was asked for is replaced, once', async (t) => {
  const stage = await openStage(t, { ca })
  const first = await obtain(stage)
  const shorter = await obtain(stage, { lifetime: 2 * DAY })
  t.equal(livesFor(shorter), 2 * DAY)
  t.not(shorter.serialNumber, first.serialNumber)
  for (const lifetime of [undefined, 2 * DAY, 6 * DAY, 30 * DAY]) {
    const answer = await obtain(stage, { lifetime })
    t.match(answer, { cached: true, serialNumber: shorter.serialNumber }, String(lifetime))
  }
  t.equal(await madeOf(stage), 2)
})

t.test('two callers of one certificate do not renew it in turns', async (t) => {
  const stage = await openStage(t, { ca })
  await stage.start()
  for (let hour = 0; hour < 10 * 24; hour += 6) {
    t.ok(livesFor(await obtain(stage, { lifetime: 6 * DAY })) <= 6 * DAY)
    t.ok(livesFor(await obtain(stage, {}, SHORT)) <= 2 * DAY)
    await stage.clock.advance(6 * HOUR)
  }
  // Renewed about once a day, as half of two days, however often they ask.
  const made = await madeOf(stage)
  t.ok(made >= 9 && made <= 14, `${made} in ten days`)
})

t.test('requests at the same time each get what they ask for', async (t) => {
  const stage = await openStage(t, { ca })
  const lifetimes = [30 * DAY, undefined, DAY, 6 * DAY, 2 * DAY]
  const answers = await Promise.all(lifetimes.map((lifetime) => obtain(stage, { lifetime })))
  const allowed = [30, 7, 1, 6, 2]
  for (const [i, answer] of answers.entries())
    t.ok(
      livesFor(answer) <= (allowed[i] ?? 0) * DAY || lifetimes[i] === undefined,
      `${lifetimes[i]}`,
    )
  t.equal(livesFor(await obtain(stage)), DAY, 'the shortest stays')
})

t.test('a replacement has the limits of a renewal', async (t) => {
  const limits = {
    perCaller: { names: 1, issuancesPerMinute: 1, burst: 2 },
  }
  const stage = await openStage(t, { ca, limits })
  t.equal(livesFor(await obtain(stage, { lifetime: 2 * DAY }, SHORT)), 2 * DAY)
  t.equal(livesFor(await obtain(stage, { lifetime: DAY }, SHORT)), DAY, 'it is no other name')
  t.match(await obtain(stage, { lifetime: HOUR }, SHORT), { limit: 'perCaller.issuancesPerMinute' })
})

t.test('the service renews for as long as was asked', async (t) => {
  const stage = await openStage(t, { ca })
  await stage.start()
  await obtain(stage, { lifetime: 2 * DAY })
  await stage.clock.advance(1.1 * DAY)
  t.equal(livesFor(await obtain(stage)), 2 * DAY)
  t.equal(await madeOf(stage), 2)
})

t.test('the longest lifetime of today also bounds renewals', async (t) => {
  const stage = await openStage(t, { ca })
  await obtain(stage, { lifetime: 30 * DAY })
  await stage.close()
  const { folder, clock } = stage
  const again = await openStage(t, { ca: { leafLifetime: DAY }, folder, clock })
  await again.start()
  await again.clock.advance(21 * DAY)
  t.equal(livesFor(await obtain(again)), DAY)
})

t.test('a CA that decides by itself is asked for no lifetime', async (t) => {
  const issuer = { name: 'public', permits: () => true, issue: () => t.fail('nothing is issued') }
  const stage = await openStage(t, { issuer: () => issuer as never })
  t.match(await obtain(stage, { lifetime: 6 * DAY }), {
    code: 'CERT_LIFETIME_REFUSED',
    detail: 'the CA behind public decides',
  })
})

t.test('certificates of an hour are renewed all day, each in time', async (t) => {
  const stage = await openStage(t, {
    ca: { leafLifetime: HOUR },
    certificates: [{ domain: 'a.test' }],
  })
  const { clock } = stage
  await stage.start()
  await clock.advance(MINUTE)
  const left: number[] = []
  for (let passed = MINUTE; passed < DAY; passed += 5 * MINUTE) {
    const current = await currentOf(stage)
    left.push((current?.notAfter ?? 0) - clock.now())
    await clock.advance(5 * MINUTE)
  }
  t.ok(Math.min(...left) > 20 * MINUTE, `${Math.min(...left) / MINUTE} minutes at least`)
  const made = await madeOf(stage)
  t.ok(made >= 48 && made <= 62, `${made} in a day`)
})

t.test(
  'the latest end of a request is bounded by the longest lifetime, and by its own',
  async (t) => {
    const stage = await openStage(t, { ca })
    const { latestEnd } = stage.ca.servers
    const skew = 5 * MINUTE
    const now = stage.clock.now()
    t.equal(latestEnd(), now + 30 * DAY + skew)
    t.equal(latestEnd(2 * DAY), now + 2 * DAY + skew)
    t.equal(latestEnd(60 * DAY), latestEnd())
  },
)

t.test('the last year of the root is told, and no year before it', async (t) => {
  const { ca, clock } = await openStage(t)
  const lastYear = ca.rootEnds()! - 365 * DAY
  clock.shift(lastYear - clock.now())
  t.notOk(ca.degraded().includes('ca-root'))
  clock.shift(1)
  t.ok(ca.degraded().includes('ca-root'))
})
