import type { Name } from '@gatehouse/pki'
import type { Identifier } from '../identifier.ts'

/** One challenge that the CA set, and the answer that it wants to see (RFC 8555 section 8.1). */
export interface ChallengeTask {
  /** The name without `*.`, or the IP address. */
  readonly identifier: Identifier
  readonly wildcard: boolean
  readonly token: string
  readonly keyAuthorization: string
  /** What `locate` gave for it. */
  readonly place?: string | undefined
}

/**
 * Answers challenges of one type. It is called for several tasks at once, two of which may share a
 * name, and again for the same task when an order is resumed.
 */
export interface Solver {
  readonly type: 'dns-01' | 'http-01' | 'tls-alpn-01'
  /**
   * Says where the answer will be put, which is kept before it is: so it can be taken away from
   * there, even by another process. Absent where there is only one place.
   */
  locate?(task: ChallengeTask, signal: AbortSignal): Promise<string>
  /** Puts the answer in place; resolves when the CA may look. */
  present(task: ChallengeTask, signal: AbortSignal): Promise<void>
  /** Takes it away, once the CA has decided; it may be gone already, or never have been there. */
  cleanUp(task: ChallengeTask, signal: AbortSignal): Promise<void>
  /**
   * Looks, changing nothing, whether `present` could work for a name. Absent where only the CA can
   * tell.
   *
   * @throws AcmeError `ACME_DNS_*`
   */
  check?(name: Name, signal: AbortSignal): Promise<Checked>
}

/** What could be seen without changing anything. */
export interface Checked {
  /** Where the answer would go. */
  readonly target: string
  /** Whether the provider let us read there; `false` where it has nothing to read. */
  readonly isProviderChecked: boolean
}
