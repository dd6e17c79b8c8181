import { FwaError } from '../errors.ts'
import type { ProviderDeps } from './deps.ts'

const MAX_AGE_MS = 3_600_000
const LOOK_AGAIN_MS = 60_000
const MAX_BACKOFF_MS = 30_000

/** What a provider says about itself: asked for when needed, again when that is a minute old, and kept for an hour. */
export interface Discovery<T> {
  /** Rejects at once while the provider is down and another try is not due yet. */
  get(): Promise<T>
  /** Notes that another request has failed, so that it is tried again soon. */
  lost(failure: FwaError): void
  /** Whether the last try failed. */
  failing(): boolean
  close(): void
}

/**
 * Reads once after the start, in the background, and after a failure again and again, each time later,
 * so that `failing` tells how things are without anybody trying.
 */
export function createDiscovery<T>(
  provider: string,
  read: () => Promise<T>,
  { clock, log }: Pick<ProviderDeps, 'clock' | 'log'>,
): Discovery<T> {
  let known: { readonly value: T; readonly readAt: number } | undefined
  let reading: Promise<T> | undefined
  let failure: FwaError | undefined
  let failures = 0
  let retryAt = 0
  let timer = clock.setTimer(retry, 0)
  let isClosed = false

  function get(): Promise<T> {
    lookAgain()
    if (known && ageOf(known) < MAX_AGE_MS) return Promise.resolve(known.value)
    if (reading || !failure || clock.now() >= retryAt) return refresh()
    const { code, message, cause } = failure
    const retryAfter = Math.ceil((retryAt - clock.now()) / 1_000)
    return Promise.reject(new FwaError(code, message, { cause, retryAfter }))
  }

  /** What was read in the future is old: the clock was set back since. */
  function ageOf({ readAt }: { readonly readAt: number }): number {
    const age = clock.now() - readAt
    return age < 0 ? Number.POSITIVE_INFINITY : age
  }

  /** Nobody waits for it: it is the next one who is spared a provider that has gone. */
  function lookAgain(): void {
    if (known && ageOf(known) >= LOOK_AGAIN_MS) retry()
  }

  function refresh(): Promise<T> {
    reading ??= read()
      .then(accept, (error: FwaError) => {
        known = undefined
        retryLater(error)
        throw error
      })
      .finally(() => {
        reading = undefined
      })
    return reading
  }

  function accept(value: T): T {
    if (failure) log.info({ provider }, 'provider answers again')
    known = { value, readAt: clock.now() }
    failure = undefined
    failures = 0
    timer.cancel()
    return value
  }

  function lost(error: FwaError): void {
    if (!failure) retryLater(error)
  }

  function retryLater(error: FwaError): void {
    if (isClosed) return
    if (reasonOf(failure) !== reasonOf(error))
      log.warn({ provider, err: error }, 'provider cannot be used')
    failure = error
    const backoff = Math.min(MAX_BACKOFF_MS, 1_000 * 2 ** failures++) * (0.5 + Math.random() / 2)
    retryAt = clock.now() + backoff
    timer.cancel()
    timer = clock.setTimer(retry, backoff)
  }

  function retry(): void {
    refresh().catch(() => {})
  }

  return {
    get,
    lost,
    failing() {
      lookAgain()
      return failure !== undefined
    },
    close() {
      isClosed = true
      timer.cancel()
    },
  }
}

function reasonOf(error: FwaError | undefined): string | undefined {
  return (error?.cause as Error | undefined)?.message
}
