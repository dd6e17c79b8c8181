import type { Clock } from '@gatehouse/net'
import type { Issuance } from '../src/issuance.ts'
import { RENEW_EVERY } from '../src/times.ts'

/** Milliseconds until it is in vain. Long, so that a busy machine fails no test. */
const PATIENCE = 120_000

/** A clock that leaps: whatever is due by then fires once, at the end. */
export interface LeapClock extends Clock {
  advance(ms: number): Promise<void>
  /** Sets the clock to another time; none of it passes. */
  shift(ms: number): void
  /** Milliseconds that have really passed. */
  elapsed(): number
  /** How many timers of so many milliseconds wait: one for each loop that rests for so long. */
  waiting(ms: number): number
}

export function leapClock(start: number): LeapClock {
  let passed = 0
  let shown = start
  const timers = new Set<{ ms: number; at: number; fn: () => void }>()
  return {
    now: () => shown + passed,
    elapsed: () => passed,
    waiting: (ms) => [...timers].filter((timer) => timer.ms === ms).length,
    setTimer(fn, ms) {
      const timer = { ms, at: passed + ms, fn }
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

/** Lets everything that needs no clock go on: until the condition holds, or else for some turns. */
export async function settle(until?: () => boolean): Promise<void> {
  const end = performance.now() + PATIENCE
  for (let n = 0; until ? !until() : n < 30; n += 1) {
    if (performance.now() > end) throw new Error(`In vain: ${until}`)
    await new Promise(setImmediate)
  }
}

/** Waits until both loops rest that renew and that ask CAs about renewals, and all that they began is over. */
export const rest = (clock: LeapClock, { flights }: Pick<Issuance, 'flights'>): Promise<void> =>
  settle(() => clock.waiting(RENEW_EVERY) === 2 && flights.size === 0)
