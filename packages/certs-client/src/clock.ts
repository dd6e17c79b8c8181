import type { Clock } from '@gatehouse/net'

/** The system clock. Unlike those of a service, its timers keep the process alive: nothing else does. */
export const clientClock: Clock = {
  now: Date.now,
  setTimer(fn, ms) {
    const timer = setTimeout(fn, ms)
    return { cancel: () => clearTimeout(timer) }
  },
}
