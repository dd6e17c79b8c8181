import { parseName } from '@gatehouse/pki'
import t from 'tap'
import { lineageOf } from '../../src/issuance/lineage.ts'
import { backoff, isAbandoned, planRenewal } from '../../src/issuance/renewal.ts'

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

t.test('what nobody fetched for two lifetimes is abandoned', async (t) => {
  const validity = { notBefore: 0, notAfter: DAY, fetchedAt: 100 }
  t.equal(isAbandoned(validity, 100 + 2 * DAY - 1), false)
  t.equal(isAbandoned(validity, 100 + 2 * DAY), true)
})

t.test('1, 10 and 100 minutes, then daily', async (t) => {
  t.strictSame([1, 2, 3, 4, 40].map(backoff), [60_000, 600_000, 6_000_000, DAY, DAY])
})

t.test('lineages differ by issuer, key and set of names', async (t) => {
  const base = {
    issuer: { name: 'ca' },
    names: ['a.test', 'b.test'].map(parseName),
    keyType: 'p256' as const,
    csr: null,
  }
  const swapped = { ...base, names: ['b.test', 'a.test'].map(parseName) }
  t.equal(lineageOf(base), lineageOf(swapped), 'order does not matter')
  const others = [
    base,
    { ...base, issuer: { name: 'acme' } },
    { ...base, issuer: { name: 'acme', profile: 'https://ca.test/directory shortlived' } },
    { ...base, keyType: 'p384' as const },
    { ...base, csr: { spkiSha256: '00' } },
    { ...base, csr: { spkiSha256: '01' } },
    { ...base, names: [parseName('a.test')] },
  ]
  t.equal(new Set(others.map(lineageOf)).size, others.length)
})
