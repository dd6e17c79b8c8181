import { parseName } from '@gatehouse/pki'
import t from 'tap'
import { isAbandoned } from '../src/renewals.ts'
import { requestKeyOf } from '../src/request.ts'
import { backoff, isMisdated, planRenewal } from '../src/times.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

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
