import type { Name } from '@gatehouse/pki'
import type { Identifier } from '../identifier.ts'

/** A challenge and the expected answer (RFC 8555 section 8.1). */
export interface ChallengeTask {
  /** The name without `*.`, or the IP address. */
  readonly identifier: Identifier
  readonly wildcard: boolean
  readonly token: string
  readonly keyAuthorization: string
  /** Location of the answer, from `locate`. */
  readonly place?: string | undefined
}

/**
 * Answers challenges of one type. Its methods are called for several tasks at once, some of which may
 * have the same name, and again for the same task when an order is resumed.
 */
export interface Solver {
  readonly type: 'dns-01' | 'http-01' | 'tls-alpn-01'
  /**
   * Finds the location of the answer. It is stored before `present`, so that another process can clean
   * up. Absent if there is only one possible location.
   */
  locate?(task: ChallengeTask, signal: AbortSignal): Promise<string>
  /** Publishes the answer; resolves when the CA may validate. */
  present(task: ChallengeTask, signal: AbortSignal): Promise<void>
  /** Removes the answer once the CA has decided; it need not exist. */
  cleanUp(task: ChallengeTask, signal: AbortSignal): Promise<void>
  /**
   * Checks without changes whether `present` can work for a name. Absent if only the CA can tell.
   * @throws AcmeError `ACME_DNS_*`
   */
  check?(name: Name, signal: AbortSignal): Promise<Checked>
}

/** Result of a check without changes. */
export interface Checked {
  /** Location of the answer. */
  readonly target: string
  /** Whether the provider could be read; `false` if it has nothing to read. */
  readonly isProviderChecked: boolean
}

/**
 * Stores answers for the servers that present them to CAs; several replicas may share one. Entries may
 * be dropped after an hour.
 */
export interface ChallengeStore {
  put(key: string, value: string): Promise<void>
  get(key: string): Promise<string | undefined>
  delete(key: string): Promise<void>
}
