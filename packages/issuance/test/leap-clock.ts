import type { Clock } from '@gatehouse/net'

/** A clock that leaps: whatever is due by then fires once, at the end. */
export interface LeapClock extends Clock {
  advance(ms: number): Promise<void>
  /** Sets the clock to another time; none of it passes. */
  shift(ms: number): void
  /** Milliseconds that have really passed. */
  elapsed(): number
}

export function leapClock(start: number): LeapClock {
  let passed = 0
  let shown = start
  const timers = new Set<{ at: number; fn: () => void }>()
  return {
    now: () => shown + passed,
    elapsed: () => passed,
    setTimer(fn, ms) {
      const timer = { at: passed + ms, fn }
      timers.add(timer)
      return { cancel: () => void timers.delete(timer) }
    },
    shift(ms) {
      shown += ms
    },
    async advance(ms) {
      passed += ms
      for (const timer of [...timers].filter(({ at }) => at <= passed)) {
        timers.delete(timer)
        timer.fn()
      }
      await settle()
    },
  }
}

/** Lets everything that needs no clock go on, until the condition holds if there is one. */
export async function settle(until?: () => boolean): Promise<void> {
  for (let n = 0; until ? !until() && n < 100_000 : n < 30; n += 1) await new Promise(setImmediate)
}
