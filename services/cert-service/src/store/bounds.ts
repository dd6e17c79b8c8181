const HOUR = 3_600_000
const DAY = 24 * HOUR

/** How many certificates of a name one request can take out of service. */
export const MAX_ISSUED = 10_000
/** Chains that are kept in memory: there is one for each issuing certificate. */
export const MAX_CHAINS = 1_000
/** When more events than this wait for a receiver, the oldest are dropped. */
export const MAX_EVENTS = 10_000
/** Sessions at the inventory. */
export const MAX_SIGN_INS = 1_000
/** Milliseconds after which nobody can use a session any more that was not used. */
export const SIGN_IN_KEPT_MS = HOUR
/** Expired usage is kept this long by the run time, as the clock may be wrong. */
export const USAGE_KEPT_MS = 7 * DAY
export const RESERVATION_KEPT_MS = DAY

/** Rows of a table that are deleted at once. */
const PRUNE_LIMIT = 1_000

/** Bounds for pruning: what is older than `before` by the clock and `ranBefore` by the run time goes. */
export interface Age {
  readonly now: number
  readonly before: number
  readonly ranBefore: number
  readonly limit: number
}

/** Gives the bounds for what is kept for so many milliseconds. */
export function agesAt(now: number, ran: number): (ms: number) => Age {
  return (ms) => ({ now, before: now - ms, ranBefore: ran - ms, limit: PRUNE_LIMIT })
}
