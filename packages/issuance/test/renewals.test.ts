import { parseName } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { expectWarnings } from '../../../scripts/test/quiet.ts'
import { failedOrders } from '../../cert-store/test/helpers/store.ts'
import { isAbandoned } from '../src/renewals.ts'
import { requestKeyOf } from '../src/request.ts'
import { backoff, isMisdated, planRenewal } from '../src/times.ts'
import { currentOf, DAY, obtain, openStage, type Stage } from './helpers/stage.ts'
import { rest } from './leap-clock.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'CERT_ISSUE_FAILED', 'a certificate could not be issued')

const HOUR = 3_600_000
const STEP = 6 * HOUR

/** Lets time pass in steps, so that each finds what is due. */
async function pass({ clock, issuance }: Stage, days: number, step = STEP) {
  for (let passed = 0; passed < days * DAY; passed += step) {
    await clock.advance(step)
    await rest(clock, issuance)
  }
}

t.test('renewal at a share of the lifetime, never later', async (t) => {
  const cases: [lifetime: number, random: number, at: number][] = [
    [90 * DAY, 0, 60 * DAY],
    [90 * DAY, 0.9999999, 55.5 * DAY],
    [10 * DAY, 0, (20 / 3) * DAY],
    [10 * DAY - 1, 0, 5 * DAY - 0.5],
    [7 * DAY, 0, 3.5 * DAY],
    [2 * HOUR, 0.5, 0.475 * 2 * HOUR],
  ]
  for (const [lifetime, random, at] of cases) {
    const planned = planRenewal({ notBefore: 1000, notAfter: 1000 + lifetime }, () => random)
    t.ok(Math.abs(planned - 1000 - at) < 1000, `${lifetime / DAY} days, ${random}`)
  }
})

t.test('a certificate is abandoned after two lifetimes by clock and run time', async (t) => {
  const record = { notBefore: 0, notAfter: DAY, fetchedAt: 100, fetchedRan: 7 }
  const cases: [now: number, ran: number, isAbandoned: boolean][] = [
    [100 + 2 * DAY - 1, 7 + 2 * DAY, false],
    [100 + 2 * DAY, 7 + 2 * DAY - 1, false],
    [100 + 400 * DAY, 7 + DAY, false],
    [100 + 2 * DAY, 7 + 2 * DAY, true],
  ]
  for (const [now, ran, expected] of cases) t.equal(isAbandoned(record, { now, ran }), expected)
})

t.test('a certificate dated by a clock ahead of time is misdated', async (t) => {
  const MINUTE = 60_000
  const now = 1000 * DAY
  const cases: [why: string, notBefore: number, madeAt: number | undefined, expected: boolean][] = [
    ['valid', now - DAY, now - DAY, false],
    ['within a minute', now + MINUTE, now + MINUTE, false],
    ['made by a clock that was ahead', now + 5 * DAY, now + 5 * DAY + MINUTE, true],
    ['of an older version', now + 5 * DAY, undefined, true],
    ['just made by a CA that is ahead of this clock', now + DAY, now - MINUTE, false],
    ['made by such a CA a while ago', now + DAY, now - DAY, true],
  ]
  for (const [why, notBefore, madeAt, expected] of cases) {
    const record = { notBefore, notAfter: notBefore + 90 * DAY, ...(madeAt && { madeAt }) }
    t.equal(isMisdated(record, now), expected, why)
  }
})

t.test('the backoff is 1, 10 and 100 minutes, then a day', async (t) => {
  t.strictSame([1, 2, 3, 4, 40].map(backoff), [60_000, 600_000, 6_000_000, DAY, DAY])
})

t.test('requestKeys differ by issuer, key and set of names', async (t) => {
  const base = {
    issuer: { name: 'ca' },
    names: ['a.test', 'b.test'].map(parseName),
    keyType: 'p256' as const,
    csr: null,
  }
  const swapped = { ...base, names: ['b.test', 'a.test'].map(parseName) }
  t.equal(requestKeyOf(base), requestKeyOf(swapped), 'order does not matter')
  const others = [
    base,
    { ...base, issuer: { name: 'acme' } },
    { ...base, issuer: { name: 'acme', profile: 'https://ca.test/directory shortlived' } },
    { ...base, keyType: 'p384' as const },
    { ...base, csr: { spkiSha256: '00' } },
    { ...base, csr: { spkiSha256: '01' } },
    { ...base, names: [parseName('a.test')] },
  ]
  t.equal(new Set(others.map(requestKeyOf)).size, others.length)
})

t.test('certificates that are due are renewed with a new key', async (t) => {
  const stage = await openStage(t)
  await stage.start()
  await obtain(stage)
  const first = await currentOf(stage)
  await pass(stage, 3)
  t.equal((await currentOf(stage))?.id, first?.id)
  await pass(stage, 1)
  const second = await currentOf(stage)
  t.not(second?.id, first?.id)
  t.notSame(second?.sealedKey, first?.sealedKey)
  t.equal(second?.fetchedAt, first?.fetchedAt, 'nobody has fetched it')
  t.match(await obtain(stage), {
    cached: true,
    serialNumber: second?.serialNumber,
  })
  const [row] = (await stage.audit()).filter(({ action }) => action === 'renew')
  t.equal(row?.actor, 'system')
})

t.test('configured certificates are issued at start and renewed, fetched or not', async (t) => {
  const stage = await openStage(t, {
    certificates: [
      { domain: 'a.test', names: ['b.test'] },
      { domain: 'c.test', keyType: 'p384' },
    ],
  })
  await stage.start()
  await pass(stage, 1)
  t.match(await currentOf(stage, 'a.test'), { names: ['a.test', 'b.test'], keyType: 'p256' })
  t.match(await currentOf(stage, 'c.test'), { keyType: 'p384' })
  await pass(stage, 30, DAY)
  for (const domain of ['a.test', 'c.test'])
    t.ok(Number((await currentOf(stage, domain))?.notAfter) > stage.clock.now())
  t.equal((await stage.store.list({ after: 0, limit: 10 })).length, 2)
})

t.test('certificates that expired while the service was down are renewed at start', async (t) => {
  const folder = testFolder(t)
  const first = await openStage(t, { folder })
  await obtain(first)
  await first.close()
  await first.clock.advance(10 * DAY)
  const second = await openStage(t, { folder, clock: first.clock })
  await second.start()
  await pass(second, 0.25)
  t.match(await obtain(second), { cached: true })
})

t.test(
  'after the clock is set back, certificates that begin in the future are replaced once',
  async (t) => {
    const stage = await openStage(t)
    await stage.start()
    await pass(stage, 2)
    await obtain(stage)
    const first = await currentOf(stage)
    stage.clock.shift(-DAY)
    await pass(stage, 0.25)
    const second = await currentOf(stage)
    t.not(second?.id, first?.id)
    t.ok(Number(second?.notBefore) < stage.clock.now())
    await pass(stage, 0.5)
    t.equal((await currentOf(stage))?.id, second?.id)
  },
)

t.test('after the clock is set forward, due certificates are renewed', async (t) => {
  const stage = await openStage(t)
  await stage.start()
  await obtain(stage)
  const first = await currentOf(stage)
  stage.clock.shift(5 * DAY)
  await pass(stage, 0.25)
  t.not((await currentOf(stage))?.id, first?.id)
})

t.test(
  'a renewal that fails is tried again with growing pauses while the old one is answered',
  async (t) => {
    let isDown = false
    let tries = 0
    const stage = await openStage(t, {
      issuer: (ca) => ({
        name: 'ca',
        permits: () => true,
        issue(request) {
          tries += 1
          if (isDown) throw new Error('down')
          return ca.issue(request)
        },
      }),
    })
    await stage.start()
    const first = await obtain(stage)
    isDown = true
    await pass(stage, 6)
    t.equal(tries - 1, 5, 'four times in steps of 6 hours, then a day later')
    t.match(await obtain(stage), {
      cached: true,
      serialNumber: first.serialNumber,
    })
    const [order] = await failedOrders(stage.store)
    t.equal(order?.lastError?.code, 'INTERNAL')
    isDown = false
    await pass(stage, 1)
    t.not((await currentOf(stage))?.serialNumber, first.serialNumber)
  },
)
