import { hasBegun } from '../clocks.ts'

export const DAY = 86_400_000
const SHORT = 10 * DAY

interface Validity {
  readonly notBefore: number
  readonly notAfter: number
}

/**
 * When a certificate is to be renewed: after two thirds of its own lifetime, half if that is under
 * ten days, and up to a twentieth earlier so that what was issued together is not renewed together.
 */
export function planRenewal({ notBefore, notAfter }: Validity, random: () => number): number {
  const lifetime = notAfter - notBefore
  const share = lifetime < SHORT ? 1 / 2 : 2 / 3
  return notBefore + Math.floor(lifetime * (share - random() / 20))
}

/**
 * The soonest that a new certificate is renewed, whatever its CA advises: a clock or a CA that is
 * wrong must not have one ordered after the other.
 */
export function soonestRenewal({ notBefore, notAfter }: Validity, now: number): number {
  return now + Math.min(Math.floor((notAfter - notBefore) / 10), DAY)
}

/** Whether nobody has fetched a certificate for two of its lifetimes, by the clock and by the run time. */
export function isAbandoned(
  {
    notBefore,
    notAfter,
    fetchedAt,
    fetchedRan = 0,
  }: Validity & { readonly fetchedAt: number; readonly fetchedRan?: number },
  { now, ran }: { readonly now: number; readonly ran: number },
): boolean {
  const patience = 2 * (notAfter - notBefore)
  return now - fetchedAt >= patience && ran - fetchedRan >= patience
}

/**
 * Whether a certificate begins in the future since a clock was ahead when it was made: ours, or a
 * while ago that of its CA. If its CA is merely ahead of this clock, another one would be no better.
 */
export function isMisdated(record: Validity & { readonly madeAt?: number }, now: number): boolean {
  if (hasBegun(record, now)) return false
  const { madeAt = record.notBefore } = record
  return !hasBegun({ notBefore: madeAt }, now) || soonestRenewal(record, madeAt) <= now
}

/** How long to wait after so many failures in a row: 1, 10 and 100 minutes, then a day. */
export function backoff(failures: number): number {
  return failures > 3 ? DAY : 60_000 * 10 ** (failures - 1)
}
