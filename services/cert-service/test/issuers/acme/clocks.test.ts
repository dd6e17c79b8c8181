import t, { type Test } from 'tap'
import type {
  Reply,
  ScriptedCaOptions,
} from '../../../../../packages/acme/test/scripted-ca/index.ts'
import { expectWarnings } from '../../../../../scripts/test/quiet.ts'
import { briskClock, post, startAcme, startCa } from '../../helpers/acme.ts'
import { DAY, NOW, settle } from '../../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'ACME_SERVER_INTERNAL', 'ACME_UNREACHABLE')

const HOUR = DAY / 24
const domain = 'app.example.com'
const time = (at: number) => new Date(at).toISOString()

/** A service whose clock can be ahead of that of its CA, with the work of its loops. */
async function startAhead(t: Test, options: ScriptedCaOptions = {}) {
  const steady = briskClock()
  let ahead = 0
  const ca = await startCa(t, steady, options)
  const clock = { ...steady, now: () => steady.now() + ahead }
  const { running } = await startAcme(t, {}, { ca, clock })
  running.service.start()
  return {
    ca,
    running,
    setAhead(ms: number) {
      ahead = ms
    },
    async pass(ms: number, step = 6 * HOUR) {
      for (let at = 0; at < ms; at += step) {
        await steady.advance(step)
        await settle(() => running.service.issuance.flights.size === 0)
      }
    },
  }
}

t.test('a CA that wants each certificate renewed at once is asked for one a day', async (t) => {
  let asked = 0
  const renewalWindow = () => ({ start: time(NOW - DAY), end: time(NOW + 1000 * asked++) })
  const { ca, running, pass } = await startAhead(t, { renewalWindow })
  await post(running)
  await pass(4 * DAY, 3 * HOUR)
  const placed = ca.count('newOrder')
  t.ok(placed >= 3 && placed <= 5, `${placed} orders in 4 days`)
})

t.test('a clock that is ahead by more than a certificate lasts makes no loop', async (t) => {
  const { ca, running, setAhead, pass } = await startAhead(t, { lifetimeMs: 6 * DAY })
  setAhead(4 * DAY)
  await post(running)
  await pass(2 * DAY, HOUR)
  const placed = ca.count('newOrder')
  t.ok(placed >= 3 && placed <= 5, `${placed} orders in 2 days`)
})

t.test('what failed while the clock was ahead is tried again when it is right', async (t) => {
  await t.test('a first certificate', async (t) => {
    const { ca, running, setAhead } = await startAhead(t)
    setAhead(60 * DAY)
    ca.always('newOrder', 'reset')
    t.equal((await post(running)).status, 503)
    ca.always('newOrder')
    setAhead(0)
    t.equal((await post(running)).status, 200)
  })

  await t.test('an order that the CA has', async (t) => {
    const { ca, running, setAhead, pass } = await startAhead(t)
    setAhead(60 * DAY)
    ca.always('certificate', { status: 500, body: {} })
    t.equal((await post(running)).status, 503)
    ca.always('certificate')
    setAhead(0)
    await pass(HOUR, HOUR)
    await settle(() => running.service.issuance.flights.size === 0)
    t.equal(ca.count('newOrder'), 1)
    t.equal((await running.call('GET', `/api/certificate/${domain}`)).status, 200)
  })

  await t.test('a renewal', async (t) => {
    const { ca, running, setAhead, pass } = await startAhead(t)
    await post(running)
    setAhead(85 * DAY)
    ca.always('newOrder', 'reset')
    await pass(HOUR, HOUR / 4)
    const failed = ca.count('newOrder')
    t.ok(failed >= 2)
    ca.always('newOrder')
    setAhead(0)
    await pass(6 * HOUR)
    t.equal(ca.count('newOrder'), failed + 1)
    t.match((await post(running)).body, { cached: true, notBefore: /2030-01-01T0[2-9]/ })
  })
})

t.test('no Retry-After makes a renewal wait until the certificate has ended', async (t) => {
  const { ca, running, pass } = await startAhead(t)
  await post(running)
  const later: Reply = { status: 503, headers: { 'retry-after': String(30 * 86_400) }, body: {} }
  ca.answer('newOrder', later)
  await pass(60 * DAY, 10 * DAY)
  await pass(0.75 * DAY)
  t.equal(ca.count('newOrder'), 2, 'not before a day has passed')
  await pass(0.5 * DAY)
  t.equal(ca.count('newOrder'), 3)
})
