/** Time as it is passed in, so that tests hold it still. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Calls `fn` once after that many milliseconds. */
  setTimer(fn: () => void, ms: number): { cancel(): void }
}

/** Resolves after that many milliseconds; rejects with the signal's reason once it is aborted. */
export async function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted()
  let timer: ReturnType<Clock['setTimer']> | undefined
  const due = new Promise<void>((resolve) => {
    timer = clock.setTimer(resolve, ms)
  })
  try {
    await orAborted(due, signal)
  } finally {
    timer?.cancel()
  }
}

/** The outcome of work that others share, unless the signal is aborted first. */
export async function orAborted<T>(work: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (!signal) return work
  const { promise, reject } = Promise.withResolvers<never>()
  const stop = () => reject(signal.reason)
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  try {
    // Both are heard, so that no failure of the work goes unhandled.
    return await Promise.race([promise, work])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
