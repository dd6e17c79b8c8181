import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../../scripts/test/quiet.ts'
import type { Reply, ScriptedCaOptions } from '../../../../acme/test/scripted-ca/index.ts'
import { briskClock, openAcmeStage, startCa } from '../../helpers/acme.ts'
import { currentOf, DAY, NOW, obtain } from '../../helpers/stage.ts'
import { rest, settle } from '../../leap-clock.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'ACME_SERVER_INTERNAL', 'ACME_UNREACHABLE')

const HOUR = DAY / 24
const time = (at: number) => new Date(at).toISOString()

/** A service whose clock can be ahead of that of its CA, with the work of its loops. */
async function startAhead(t: Test, options: ScriptedCaOptions = {}) {
  const steady = briskClock()
  let ahead = 0
  const ca = await startCa(t, steady, options)
  const clock = { ...steady, now: () => steady.now() + ahead }
  const { stage } = await openAcmeStage(t, {}, { acme: ca, clock })
  await stage.start()
  return {
    ca,
    stage,
    setAhead(ms: number) {
      ahead = ms
    },
    async pass(ms: number, step = 6 * HOUR) {
      for (let at = 0; at < ms; at += step) {
        await steady.advance(step)
        await rest(steady, stage.issuance)
      }
    },
  }
}

t.test('a CA that wants each certificate renewed at once is asked for one a day', async (t) => {
  let asked = 0
  const renewalWindow = () => ({ start: time(NOW - DAY), end: time(NOW + 1000 * asked++) })
  const { ca, stage, pass } = await startAhead(t, { renewalWindow })
  await obtain(stage)
  await pass(4 * DAY, 3 * HOUR)
  const placed = ca.count('newOrder')
  t.ok(placed >= 3 && placed <= 5, `${placed} orders in 4 days`)
})

t.test('a clock that is ahead by more than a certificate lasts makes no loop', async (t) => {
  const { ca, stage, setAhead, pass } = await startAhead(t, { lifetimeMs: 6 * DAY })
  setAhead(4 * DAY)
  await obtain(stage)
  await pass(2 * DAY, HOUR)
  const placed = ca.count('newOrder')
  t.ok(placed >= 3 && placed <= 5, `${placed} orders in 2 days`)
})

t.test('what failed while the clock was ahead is tried again when it is right', async (t) => {
  await t.test('a first certificate', async (t) => {
    const { ca, stage, setAhead } = await startAhead(t)
    setAhead(60 * DAY)
    ca.always('newOrder', 'reset')
    t.ok((await obtain(stage)).code)
    ca.always('newOrder')
    setAhead(0)
    t.ok((await obtain(stage)).certificate)
  })

  await t.test('an order that the CA has', async (t) => {
    const { ca, stage, setAhead, pass } = await startAhead(t)
    setAhead(60 * DAY)
    ca.always('certificate', { status: 500, body: {} })
    t.ok((await obtain(stage)).code)
    ca.always('certificate')
    setAhead(0)
    await pass(HOUR, HOUR)
    await settle(() => stage.issuance.flights.size === 0)
    t.equal(ca.count('newOrder'), 1)
    t.ok(await currentOf(stage))
  })

  await t.test('a renewal', async (t) => {
    const { ca, stage, setAhead, pass } = await startAhead(t)
    await obtain(stage)
    setAhead(85 * DAY)
    ca.always('newOrder', 'reset')
    await pass(HOUR, HOUR / 4)
    const failed = ca.count('newOrder')
    t.ok(failed >= 2)
    ca.always('newOrder')
    setAhead(0)
    await pass(6 * HOUR)
    t.equal(ca.count('newOrder'), failed + 1)
    t.match(await obtain(stage), { cached: true, notBefore: /2030-01-01T0[2-9]/ })
  })
})

t.test('no Retry-After makes a renewal wait until the certificate has ended', async (t) => {
  const { ca, stage, pass } = await startAhead(t)
  await obtain(stage)
  const later: Reply = { status: 503, headers: { 'retry-after': String(30 * 86_400) }, body: {} }
  ca.answer('newOrder', later)
  await pass(60 * DAY, 10 * DAY)
  await pass(0.75 * DAY)
  t.equal(ca.count('newOrder'), 2, 'not before a day has passed')
  await pass(0.5 * DAY)
  t.equal(ca.count('newOrder'), 3)
})
