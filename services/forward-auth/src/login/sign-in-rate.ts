import { LRUCache } from 'lru-cache'

/** Sign-ins in a burst, and the ms in which one is added again. */
const BURST = 60
const INTERVAL = 5_000
const MAX_PEOPLE = 10_000

/**
 * A token bucket per person, so that no account can fill the store with sessions. Each instance
 * counts on its own.
 */
export class SignInRate {
  readonly #now: () => number
  /** The time at which the bucket of each person is full again. */
  readonly #fullAt = new LRUCache<string, number>({ max: MAX_PEOPLE })

  constructor(now: () => number) {
    this.#now = now
  }

  /** Counts a sign-in. Returns 0, or the seconds to wait if there were too many. */
  take(person: string): number {
    const now = this.#now()
    const latest = now + BURST * INTERVAL
    // Limited to an empty bucket, in case the clock was set back.
    const before = Math.min(Math.max(this.#fullAt.get(person) ?? now, now), latest)
    const after = before + INTERVAL
    const isAllowed = after <= latest
    this.#fullAt.set(person, isAllowed ? after : before)
    return isAllowed ? 0 : Math.ceil((after - latest) / 1_000)
  }
}
