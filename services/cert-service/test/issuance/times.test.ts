import {
  ACCOUNT_KEPT,
  LEASE_MS,
  LEASE_RENEWED_EVERY,
  ORDER_KEPT,
  ORDER_OPEN,
  retentionOf,
} from '@gatehouse/cert-store/port'
import {
  askAgainAfter,
  planRenewal,
  RENEW_EVERY,
  retryAfter,
  soonestRenewal,
} from '@gatehouse/issuance/times'
import { BACKDATE } from '@gatehouse/pki'
import t from 'tap'
import { untilNextLook } from '../../../../packages/certs-client/src/keep.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const LIFETIMES = [1, 2, 5, 24, 6 * 24, 7 * 24, 239, 240, 30 * 24, 90 * 24, 180 * 24]
/** All that can be configured, at its ends and between. */
const GRID = LIFETIMES.flatMap((hours) =>
  [HOUR, DAY, 30 * DAY, 400 * DAY].flatMap((retention) =>
    [MINUTE, 5 * MINUTE].map((wait) => ({ lifetime: hours * HOUR, retention, wait })),
  ),
)

/** The times of a configuration, for a certificate that is made at 0. */
function timesOf({ lifetime, retention, wait }: (typeof GRID)[number]) {
  const validity = { notBefore: -BACKDATE, notAfter: lifetime }
  const renewal = { first: planRenewal(validity, () => 1), last: planRenewal(validity, () => 0) }
  const placed = { ...validity, renewAt: renewal.last }
  const poll = untilNextLook(placed, 0, () => 1)
  const kept = retentionOf({ retention, longest: lifetime })
  const askAgain = askAgainAfter(validity) * 1_000
  return {
    ...{ lifetime, wait, validity, renewal, kept, askAgain, poll },
    soonest: soonestRenewal(validity, 0),
    retry: retryAfter(validity),
    /** From the last moment of the plan to the end. */
    margin: lifetime - renewal.last,
  }
}

type Times = ReturnType<typeof timesOf>

const ORDER: readonly [why: string, sooner: (of: Times) => number, later: (of: Times) => number][] =
  [
    ['a replica keeps its lease', () => 2 * LEASE_RENEWED_EVERY, () => LEASE_MS],
    [
      'what a lost replica has claimed is renewed within a minute',
      () => RENEW_EVERY + LEASE_MS,
      () => MINUTE,
    ],
    [
      'a renewal has many tries before the end',
      () => 10 * (RENEW_EVERY + LEASE_MS),
      ({ margin }) => margin,
    ],
    ['also after failures', ({ retry }) => 5 * retry, ({ margin }) => margin],
    ['a failure is not tried at each look', () => RENEW_EVERY, ({ retry }) => retry],
    [
      'a CA that advises at once causes no orders one after the other',
      () => 2 * RENEW_EVERY,
      ({ soonest }) => soonest,
    ],
    ['nor delays what is planned', ({ soonest }) => soonest, ({ renewal }) => renewal.first],
    [
      'an ACME client asks in the window or soon after it',
      ({ renewal, askAgain }) => renewal.last + 2 * askAgain,
      ({ lifetime }) => lifetime,
    ],
    [
      'a client of ours learns of a renewal in time',
      ({ poll }) => 2 * poll,
      ({ margin }) => margin,
    ],
    [
      'nothing that clients poll is given up',
      ({ poll }) => poll,
      ({ validity }) => 2 * (validity.notAfter - validity.notBefore),
    ],
    [
      'an order is there as long as its client may finalize it and a caller waits',
      ({ wait }) => ORDER_OPEN + wait,
      () => ORDER_KEPT,
    ],
    [
      'what was proven ahead for it too',
      ({ wait }) => ORDER_OPEN + wait,
      ({ kept }) => kept.orders,
    ],
    [
      'a certificate can be named in `replaces` and asked about (ARI) until it has ended',
      ({ lifetime }) => lifetime,
      ({ lifetime, kept }) => lifetime + kept.certificates,
    ],
    [
      'the trail says who got a certificate as long as it is known',
      ({ lifetime, kept }) => lifetime + kept.certificates - 1,
      ({ kept }) => kept.audit,
    ],
    [
      'an account lives while it renews',
      ({ lifetime }) => lifetime,
      ({ lifetime }) => lifetime + ACCOUNT_KEPT,
    ],
    ['an account outlives its orders', () => ORDER_KEPT, () => ACCOUNT_KEPT],
  ]

t.test('no configuration puts times out of order that depend on each other', (t) => {
  for (const [why, sooner, later] of ORDER) {
    const wrong = GRID.filter((of) => !(sooner(timesOf(of)) < later(timesOf(of))))
    t.strictSame(wrong, [], why)
  }
  t.end()
})

t.test('renewal follows from the lifetime by one formula', (t) => {
  for (const [lifetime, share] of [
    [HOUR, 1 / 2],
    [6 * DAY, 1 / 2],
    [10 * DAY - 1, 1 / 2],
    [10 * DAY, 2 / 3],
    [180 * DAY, 2 / 3],
  ] as const) {
    const at = planRenewal({ notBefore: 0, notAfter: lifetime }, () => 0)
    t.equal(at, Math.floor(lifetime * share))
  }
  t.end()
})

t.test('an operator says how long the audit trail is kept, and nothing else', (t) => {
  const of = { retention: HOUR, longest: 180 * DAY }
  t.equal(retentionOf(of).audit, 180 * DAY + HOUR)
  t.strictSame(retentionOf(of, DAY), { ...retentionOf(of), audit: DAY })
  t.end()
})
