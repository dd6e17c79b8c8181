/** Source of time, passed in so that tests can control it. */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number
  /** Calls `fn` once after `ms` milliseconds, without a maximum. */
  setTimer(fn: () => void, ms: number): { cancel(): void }
}

/** RFC 3339 in UTC, to the second. */
export function toTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

/** Resolves after that many milliseconds; rejects with the signal's reason if it is aborted. */
export async function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted()
  let timer: ReturnType<Clock['setTimer']> | undefined
  const elapsed = new Promise<void>((resolve) => {
    timer = clock.setTimer(resolve, ms)
  })
  await orAborted(elapsed, signal).finally(() => timer?.cancel())
}

/** Awaits shared work for that many milliseconds at most; undefined if it takes longer. */
export async function orLate<T>(
  work: Promise<T>,
  clock: Pick<Clock, 'setTimer'>,
  ms: number,
): Promise<T | undefined> {
  let timer: ReturnType<Clock['setTimer']> | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = clock.setTimer(() => resolve(undefined), ms)
  })
  return await Promise.race([work, late]).finally(() => timer?.cancel())
}

/** Awaits shared work, but rejects with the signal's reason if it is aborted first. */
export async function orAborted<T>(work: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (!signal) return work
  let stop = () => {}
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop)
    if (signal.aborted) stop()
  })
  try {
    // Handles a rejection of the work after an abort, too.
    return await Promise.race([aborted, work])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
