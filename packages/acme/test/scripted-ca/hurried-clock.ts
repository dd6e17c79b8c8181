import type { Clock } from '@gatehouse/net'

/** A clock whose timers fire at once, each having moved it to the time that it was set for. */
export function hurriedClock(start = Date.UTC(2030, 0, 1)): Clock {
  let now = start
  return {
    now: () => now,
    setTimer(fn, ms) {
      const at = now + ms
      const immediate = setImmediate(() => {
        now = Math.max(now, at)
        fn()
      })
      return { cancel: () => clearImmediate(immediate) }
    },
  }
}
