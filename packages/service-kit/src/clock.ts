const MAX_TIMEOUT_MS = 2_147_483_647

/** Time as it is passed in, so that tests hold it still. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Calls `fn` once after that many milliseconds, however many; it does not keep the process alive. */
  setTimer(fn: () => void, ms: number): { cancel(): void }
}

/** The time of this machine. */
export const systemClock: Clock = {
  now: Date.now,
  setTimer(fn, ms) {
    let timer: NodeJS.Timeout
    const wait = (left: number) => {
      const step = Math.min(left, MAX_TIMEOUT_MS)
      timer = setTimeout(() => (left > step ? wait(left - step) : fn()), step).unref()
    }
    wait(ms)
    return { cancel: () => clearTimeout(timer) }
  },
}
