/** A token bucket of so many within a time: all may be taken at once, and they come back one by one. */
export interface Limit {
  readonly count: number
  /** Milliseconds in which all of them come back. */
  readonly per: number
}

/**
 * A bucket is the moment at which it is full again, in epoch milliseconds; any in the past is full.
 * Returns how many are left in it, never more than the limit has.
 */
export function left(fullAt: number, limit: Limit, now: number): number {
  const missing = Math.ceil((fullAt - now) / interval(limit))
  return Math.min(limit.count, Math.max(0, limit.count - missing))
}

/** The bucket after one was taken, even if none was left. */
export function take(fullAt: number, limit: Limit, now: number): number {
  return Math.max(fullAt, now) + interval(limit)
}

/** Returns the time at which `count` will be left, if none is taken. */
export function freeAt(fullAt: number, limit: Limit, count: number): number {
  return fullAt - (limit.count - count) * interval(limit)
}

/** The latest time at which a bucket can be full again if it was never taken from while empty. */
export function emptyAt(limit: Limit, now: number): number {
  return now + limit.count * interval(limit)
}

/** Milliseconds for one to come back, rounded up: never earlier than at the CA. */
const interval = ({ count, per }: Limit): number => Math.ceil(per / count)
