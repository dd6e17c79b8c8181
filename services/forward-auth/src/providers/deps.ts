import type { BoundedFetch, FetchOptions } from '@gatehouse/net'
import type { Clock } from '@gatehouse/service-kit'

/** What a provider needs from outside; tests replace it. */
export interface ProviderDeps {
  /** Makes the fetch that a provider has for itself: that of @gatehouse/net. */
  readonly createFetch: (options: FetchOptions) => BoundedFetch
  readonly clock: Clock
  readonly log: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
  }
}
