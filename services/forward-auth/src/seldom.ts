import { LRUCache } from 'lru-cache'

const EVERY = 60_000
const MAX_KEYS = 1_000

/** Tells once a minute for each key, so that nobody fills the log from outside. */
export function createSeldom(now: () => number): (key: string, tell: () => void) => void {
  const last = new LRUCache<string, number>({ max: MAX_KEYS })
  return (key, tell) => {
    const before = last.get(key)
    // A clock that was set back must not end all telling.
    if (before !== undefined && Math.abs(now() - before) < EVERY) return
    last.set(key, now())
    tell()
  }
}
