import type { Clock } from '@gatehouse/net'

export type { Clock }

/** Resolves after that many milliseconds; rejects with the signal's reason if it is aborted. */
export async function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted()
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = clock.setTimer(resolve, ms)
  await orAborted(promise, signal).finally(() => timer.cancel())
}

/** Awaits shared work, but rejects with the signal's reason if it is aborted first. */
export async function orAborted<T>(work: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (!signal) return work
  const { promise, reject } = Promise.withResolvers<never>()
  const stop = () => reject(signal.reason)
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  try {
    // Handles a rejection of the work after an abort, too.
    return await Promise.race([promise, work])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
