import { DAY } from '../schema/sql.ts'
import type { Retention } from './records.ts'

// The times that depend on each other, in ms: a test compares them for all that can be configured.

const HOUR = 3_600_000
/** The lifetime of a lease. A replica renews its leases more often. */
export const LEASE_MS = 15_000
export const LEASE_RENEWED_EVERY = 5_000
/** The time in which an order of an ACME client can be finalized, and after which it is deleted. */
export const ORDER_OPEN = DAY
export const ORDER_KEPT = 2 * DAY
/** The time from the last use of an ACME account, and the end of its last certificate, until it is deleted. */
export const ACCOUNT_KEPT = 90 * DAY

const AUDIT_KEPT = 90 * DAY

/**
 * Returns how long ended records are kept: an order while its client may finalize it, and audit entries as long as their
 * certificate, whose lifetime is `longest` at most, unless the operator says how long.
 */
export function retentionOf(
  { retention, longest }: Record<'retention' | 'longest', number>,
  audit = Math.max(AUDIT_KEPT, longest + retention),
): Retention {
  return {
    audit,
    certificates: retention,
    orders: Math.max(retention, ORDER_KEPT),
    challenges: HOUR,
  }
}
