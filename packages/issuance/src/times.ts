/** Clocks that are set differ by no more than this, in ms. */
const CLOCK_SKEW = 60_000
export const HOUR = 3_600_000
export const DAY = 24 * HOUR
/** The time between two searches for certificates that are due, in ms. */
export const RENEW_EVERY = 30_000
/** Certificates that live shorter are renewed after half of their lifetime. */
const SHORT = 10 * DAY

export interface Validity {
  readonly notBefore: number
  readonly notAfter: number
}

/**
 * Whether a certificate is valid already, or will be within a minute. If not, the clock that dated it
 * was ahead, or the clock of this machine is behind.
 */
export function hasBegun(validity: Pick<Validity, 'notBefore'>, now: number): boolean {
  return beginOf(validity) <= now
}

/** The earliest time at which a clock may take a certificate for valid. */
export function beginOf({ notBefore }: Pick<Validity, 'notBefore'>): number {
  return notBefore - CLOCK_SKEW
}

/** Puts what is valid already first and keeps the order otherwise. */
export function preferBegun<T extends Validity>(records: readonly T[], now: number): readonly T[] {
  return records.toSorted((a, b) => Number(hasBegun(b, now)) - Number(hasBegun(a, now)))
}

/**
 * Returns the time to renew a certificate: after two thirds of its lifetime, or half if that is under ten days,
 * and up to a twentieth earlier so that certificates issued together are not renewed together.
 */
export function planRenewal({ notBefore, notAfter }: Validity, random: () => number): number {
  const lifetime = notAfter - notBefore
  const share = lifetime < SHORT ? 1 / 2 : 2 / 3
  return notBefore + Math.floor(lifetime * (share - random() / 20))
}

/** The time in which a client is to renew its certificate: as its CA says, or ours; earlier if it was asked to. */
export function renewalWindow(
  record: Validity & {
    readonly windowStart?: number | null
    readonly windowEnd?: number | null
    readonly renewalRequestedAt?: number | null
  },
): { readonly start: number; readonly end: number } {
  const requested = record.renewalRequestedAt ?? Number.POSITIVE_INFINITY
  return {
    start: Math.min(requested, record.windowStart ?? planRenewal(record, () => 1)),
    end: Math.min(requested + HOUR, record.windowEnd ?? planRenewal(record, () => 0)),
  }
}

/**
 * The earliest renewal of a new certificate, whatever its CA advises: a wrong clock or CA must not
 * cause one order after the other.
 */
export function soonestRenewal({ notBefore, notAfter }: Validity, now: number): number {
  return now + Math.min(Math.floor((notAfter - notBefore) / 10), DAY)
}

/**
 * Whether a certificate begins in the future because a clock was ahead when it was made: ours, or that
 * of its CA a while ago. If the CA is merely ahead of this clock, another certificate is no better.
 */
export function isMisdated(record: Validity & { readonly madeAt?: number }, now: number): boolean {
  if (hasBegun(record, now)) return false
  const { madeAt = record.notBefore } = record
  return !hasBegun({ notBefore: madeAt }, now) || soonestRenewal(record, madeAt) <= now
}

/** Seconds after which an ACME client asks again when to renew: often enough for a certificate that lives for an hour. */
export function askAgainAfter({ notBefore, notAfter }: Validity): number {
  return Math.min(6 * 3_600, Math.max(60, Math.floor((notAfter - notBefore) / 20_000)))
}

/** Milliseconds after which a renewal is tried again that has failed, if its failure does not say. */
export function retryAfter({ notBefore, notAfter }: Validity): number {
  return Math.min(HOUR, Math.floor((notAfter - notBefore) / 20))
}

/** Milliseconds to wait after so many failures in a row: 1, 10 and 100 minutes, then a day. */
export function backoff(failures: number): number {
  return failures > 3 ? DAY : 60_000 * 10 ** (failures - 1)
}

/** Milliseconds to wait after so many failures in a row that cost the CA nothing. */
export function earlyBackoff(failures: number): number {
  return ([10, 30, 60, 120][failures - 1] ?? 300) * 1000
}

interface Renewed extends Validity {
  readonly renewAt: number | null
  readonly explanationUrl?: string | null
}

/** The times of a certificate as answers write them, without `renewAt` if no renewal is planned. */
export function describeTimes({ notBefore, notAfter, renewAt }: Renewed) {
  return {
    notBefore: toTime(notBefore),
    notAfter: toTime(notAfter),
    ...(renewAt !== null && { renewAt: toTime(renewAt) }),
  }
}

/** Describes the times with the page on which the CA explains the time of the renewal. */
export function describeRenewal(record: Renewed) {
  const { renewAt, explanationUrl } = record
  return {
    ...describeTimes(record),
    ...(renewAt !== null && explanationUrl && { renewalExplanationUrl: explanationUrl }),
  }
}

/** RFC 3339 in UTC, to the second as in X.509. */
export function toTime(time: number): string {
  return `${new Date(time).toISOString().slice(0, 19)}Z`
}
