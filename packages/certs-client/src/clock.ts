import type { Clock } from '@gatehouse/net'

/** Resolves after so many milliseconds; rejects as soon as the signal is aborted. */
export async function pause(ms: number, clock: Clock, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const timer = clock.setTimer(resolve, ms)
  const stop = () => reject(signal?.reason)
  signal?.addEventListener('abort', stop, { once: true })
  await promise.finally(() => {
    timer.cancel()
    signal?.removeEventListener('abort', stop)
  })
}

/** The system clock. Unlike those of a service, its timers keep the process alive: nothing else does. */
export const clientClock: Clock = {
  now: Date.now,
  setTimer(fn, ms) {
    const timer = setTimeout(fn, ms)
    return { cancel: () => clearTimeout(timer) }
  },
}
