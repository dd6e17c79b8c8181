import { AcmeError, type AcmeErrorCode } from '@gatehouse/acme'
import fc from 'fast-check'
import t from 'tap'
import { newOrder } from '../../cert-store/test/helpers/store.ts'
import { IssuanceError } from '../src/errors.ts'
import { failedOrder, nextTryOf } from '../src/failure.ts'

const NOW = Date.UTC(2030, 0, 1)
const SECOND = 1_000
const DAY = 86_400 * SECOND

/** Seconds that these failures in a row make wait. */
function waits(errors: readonly unknown[]): number[] {
  let order = newOrder()
  return errors.map((error) => {
    order = failedOrder(order, error, NOW, order.lastError)
    return (Number(order.nextTryAt) - NOW) / SECOND
  })
}

const acme = (code: AcmeErrorCode) => new AcmeError(code, 'no')
const refused = new AcmeError('ACME_CAA', 'no', {
  problem: { type: 'caa', detail: 'no', status: 403, subproblems: [] },
  isDecision: true,
})

t.test('a fault before the CA was asked waits seconds, and another one longer', (t) => {
  const early = acme('ACME_DNS_CREDENTIALS')
  const rows: [what: string, errors: readonly unknown[], seconds: readonly number[]][] = [
    ['DNS', [early, early, early, early, early, early], [10, 30, 60, 120, 300, 300]],
    ['no connection', [acme('ACME_UNREACHABLE')], [10]],
    ['terms', [new IssuanceError('CERT_TERMS_NOT_AGREED', 'no')], [10]],
    ['what the CA asks', [new AcmeError('ACME_UNREACHABLE', '', { retryAfterMs: 90_000 })], [90]],
    ['the CA', [refused, refused, refused, refused], [60, 600, 6_000, 86_400]],
    ['the DNS as the CA sees it', [acme('ACME_DNS')], [60]],
    [
      'one after the other',
      [early, early, early, early, refused, refused],
      [10, 30, 60, 120, 6_000, 86_400],
    ],
    ['and back', [refused, refused, refused, early, refused], [60, 600, 6_000, 120, 6_000]],
  ]
  for (const [what, errors, seconds] of rows) t.same(waits(errors), seconds, what)
  t.end()
})

t.test('property: a failed order waits only for its own configuration, and a day at most', (t) => {
  fc.assert(
    fc.property(
      fc.constantFrom('failed', 'pending', 'done'),
      fc.option(fc.integer({ min: NOW - 3 * DAY, max: NOW + 3 * DAY })),
      fc.constantFrom(undefined, 'a', 'b'),
      fc.constantFrom(undefined, 'a', 'b'),
      (status, nextTryAt, configuration, today) => {
        const order = newOrder({ status, nextTryAt, ...(configuration && { configuration }) })
        const next = nextTryOf(order, { configuration: today }, NOW)
        const at = Number(nextTryAt)
        const waits = status === 'failed' && configuration === today && at > NOW && at <= NOW + DAY
        return next === (waits ? nextTryAt : undefined)
      },
    ),
  )
  t.end()
})
