import { LRUCache } from 'lru-cache'
import { FwaError } from '../errors.ts'

/** Sign-ins in a burst, and the ms in which one is added again. */
const SIGN_INS = { burst: 60, interval: 5_000 }
/** The limit for tickets: a browser with many tabs takes one for each. */
export const TICKETS = { burst: 300, interval: 1_000 }
const MAX_PEOPLE = 10_000

/** A token bucket per person, so that no account can fill the store with sessions. Each instance counts on its own. */
export class SignInRate {
  readonly #now: () => number
  /** The time at which the bucket of each person is full again. */
  readonly #fullAt = new LRUCache<string, number>({ max: MAX_PEOPLE })

  constructor(now: () => number) {
    this.#now = now
  }

  /**
   * Counts a sign-in. Returns 0, or the seconds to wait if there were too many.
   *
   * @param limit - of what else is counted for a person
   */
  take(person: string, { burst, interval } = SIGN_INS): number {
    const now = this.#now()
    const latest = now + burst * interval
    // Limited to an empty bucket, in case the clock was set back.
    const current = Math.min(Math.max(this.#fullAt.get(person) ?? now, now), latest)
    const next = current + interval
    const isAllowed = next <= latest
    this.#fullAt.set(person, isAllowed ? next : current)
    return isAllowed ? 0 : Math.ceil((next - latest) / 1_000)
  }

  /** Counts what a client does for a person. @throws FwaError FWA_RATE_LIMITED if there was too much of it */
  require(person: string, message: string, limit = SIGN_INS): void {
    const retryAfter = this.take(person, limit)
    if (retryAfter > 0) throw new FwaError('FWA_RATE_LIMITED', message, { retryAfter })
  }
}
