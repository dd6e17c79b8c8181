import type { Clock } from './clock.ts'

/** A clock that tests control. */
export interface ManualClock extends Clock {
  /** Moves the clock, fires each timer at its time, and lets their callbacks continue. */
  advance(ms: number): Promise<void>
}

/** Creates a {@link ManualClock} that begins at `start`, in milliseconds since the epoch. */
export function manualClock(start = Date.UTC(2030, 0, 1)): ManualClock {
  let now = start
  const timers = new Set<{ at: number; fn: () => void }>()
  const next = (until: number) =>
    [...timers].filter(({ at }) => at <= until).toSorted((a, b) => a.at - b.at)[0]

  return {
    now: () => now,
    setTimer(fn, ms) {
      const timer = { at: now + ms, fn }
      timers.add(timer)
      return { cancel: () => void timers.delete(timer) }
    },
    async advance(ms) {
      const until = now + ms
      for (let timer = next(until); timer; timer = next(until)) {
        timers.delete(timer)
        now = Math.max(now, timer.at)
        timer.fn()
        await new Promise(setImmediate)
      }
      now = until
      await new Promise(setImmediate)
    },
  }
}
