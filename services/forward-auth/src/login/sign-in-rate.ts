import { LRUCache } from 'lru-cache'

/** Sign-ins that one person may make at once, and the milliseconds for one to come back. */
const BURST = 60
const INTERVAL = 5_000
/** Somebody whom many others push out may sign in as often as somebody new. */
const MAX_PEOPLE = 10_000

/** How often each person may sign in, so that no account can fill the list of ended sessions. */
export interface SignInRate {
  /** Takes one sign-in; gives the seconds to wait if there is none left, else 0. */
  take(person: string): number
}

/** Makes a {@link SignInRate} of token buckets. Each instance counts for itself. */
export function createSignInRate(now: () => number): SignInRate {
  /** When the bucket of each person is full again. */
  const fullAt = new LRUCache<string, number>({ max: MAX_PEOPLE })
  return {
    take(person) {
      const at = now()
      const latest = at + BURST * INTERVAL
      // After a clock was set back no bucket is emptier than empty.
      const before = Math.min(Math.max(fullAt.get(person) ?? at, at), latest)
      const after = before + INTERVAL
      const isLeft = after <= latest
      fullAt.set(person, isLeft ? after : before)
      return isLeft ? 0 : Math.ceil((after - latest) / 1_000)
    },
  }
}
