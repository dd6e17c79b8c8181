/** Source of time, passed in so that tests can control it. */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number
  /** Calls `fn` once after `ms` milliseconds, without a maximum. */
  setTimer(fn: () => void, ms: number): { cancel(): void }
}
