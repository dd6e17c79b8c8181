import { backoffMs, toTime } from '@gatehouse/net'
import type { Clock } from '@gatehouse/service-kit/clock'
import { ProviderError } from './errors.ts'
import type { ProviderDeps } from './provider.ts'

const MAX_AGE_MS = 3_600_000
const REFRESH_MS = 60_000
/** While the provider is down, whoever needs it causes a read, but not sooner after the last one. */
const DEMAND_MS = 1_000

/**
 * The metadata of a provider, cached for an hour and refreshed in the background once it is a minute
 * old. It is read at the start, and with backoff after a failure, so that `failing` is up to date
 * even if nobody signs in. One read that fails is no outage: a good document counts until a second one fails.
 */
export class Discovery<T> {
  readonly #provider: string
  readonly #read: () => Promise<T>
  readonly #deps: Pick<ProviderDeps, 'clock' | 'log'>
  #cached: { readonly value: T; readonly readAt: number } | undefined
  #reading: Promise<T> | undefined
  #failure: ProviderError | undefined
  #failures = 0
  /** Reads that failed since the last one that did not. */
  #failedReads = 0
  #retryAt = 0
  #failedAt = Number.NEGATIVE_INFINITY
  #timer: ReturnType<Clock['setTimer']>
  #isClosed = false

  /** @param read - rejects with a ProviderError */
  constructor(provider: string, read: () => Promise<T>, deps: Pick<ProviderDeps, 'clock' | 'log'>) {
    this.#provider = provider
    this.#read = read
    this.#deps = deps
    this.#timer = deps.clock.setTimer(() => this.#refreshInBackground(), 0)
  }

  /** Rejects without a request if one has failed within the last second. */
  get(): Promise<T> {
    const { clock } = this.#deps
    this.#refreshIfStale()
    if (this.#cached && this.#age() < MAX_AGE_MS) return Promise.resolve(this.#cached.value)
    const isNew = Math.abs(clock.now() - this.#failedAt) < DEMAND_MS
    if (this.#reading || !this.#failure || !isNew) return this.#refresh()
    const { code, message, cause } = this.#failure
    return Promise.reject(new ProviderError(code, message, { cause, retryAfter: 1 }))
  }

  /** Reports that another request to the provider failed, so that discovery is retried soon. */
  reportFailure(failure: ProviderError): void {
    if (!this.#failure) this.#fail(failure)
  }

  failing(): boolean {
    this.#refreshIfStale()
    return this.#failure !== undefined
  }

  close(): void {
    this.#isClosed = true
    this.#timer.cancel()
  }

  /** Infinite if the clock was set back since. */
  #age(): number {
    const age = this.#deps.clock.now() - (this.#cached?.readAt ?? Number.POSITIVE_INFINITY)
    return age < 0 ? Number.POSITIVE_INFINITY : age
  }

  #refreshIfStale(): void {
    const isStale = this.#cached !== undefined && this.#age() >= REFRESH_MS
    if (isStale && this.#deps.clock.now() >= this.#retryAt) this.#refreshInBackground()
  }

  #refreshInBackground(): void {
    this.#refresh().catch(() => {})
  }

  #refresh(): Promise<T> {
    this.#reading ??= this.#read()
      .then(
        (value) => this.#accept(value),
        (error: ProviderError) => {
          this.#failedAt = this.#deps.clock.now()
          if (++this.#failedReads === 1 && this.#age() < MAX_AGE_MS) this.#retryLater()
          else {
            this.#cached = undefined
            this.#fail(error)
          }
          throw error
        },
      )
      .finally(() => {
        this.#reading = undefined
      })
    return this.#reading
  }

  #accept(value: T): T {
    const { clock, log } = this.#deps
    if (this.#failure) log.info({ provider: this.#provider }, 'provider is reachable again')
    this.#cached = { value, readAt: clock.now() }
    this.#failure = undefined
    this.#failures = 0
    this.#failedReads = 0
    this.#retryAt = 0
    this.#timer.cancel()
    return value
  }

  #fail(error: ProviderError): void {
    if (this.#isClosed) return
    const isKnown = reasonOf(this.#failure) === reasonOf(error)
    this.#failure = error
    this.#retryLater()
    const waiting = { provider: this.#provider, err: error, nextTryAt: toTime(this.#retryAt) }
    if (!isKnown) this.#deps.log.warn(waiting, 'provider cannot be used')
  }

  #retryLater(): void {
    if (this.#isClosed) return
    const { clock } = this.#deps
    const backoff = backoffMs(++this.#failures)
    this.#retryAt = clock.now() + backoff
    this.#timer.cancel()
    this.#timer = clock.setTimer(() => this.#refreshInBackground(), backoff)
  }
}

function reasonOf(error: ProviderError | undefined): string | undefined {
  return (error?.cause as Error | undefined)?.message
}
