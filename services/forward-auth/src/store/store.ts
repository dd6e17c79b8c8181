import type { Clock } from '@gatehouse/service-kit/clock'
import type { HealthReport } from '@gatehouse/service-kit/http'
import type { KeyRing } from '../key-ring.ts'

/** A session that ended early, or all sessions of a person in a range of time. */
export interface Revocation {
  /** ID of the session, or `~` and the person for a range. */
  readonly sid: string
  /** Digest of the person. */
  readonly person: string
  /** The times at which the first and the last of these sessions were created, in seconds. */
  readonly first: number
  readonly last: number
  /** The highest generation of these sessions; one of a higher generation is not revoked. */
  readonly generation: number
  /** The times at which all of them have expired, by the clock and by the running time of the store, in ms. */
  readonly until: number
  readonly due: number
}

export interface RevocationChange {
  /** Rows to add. The wider one of two rows of one ID remains. */
  readonly add: readonly Revocation[]
  /** IDs of sessions whose row was replaced by another one. */
  readonly remove: readonly string[]
}

/** A copy of the revocations of all instances, in memory. */
export interface RevocationFollower {
  /** Called with the rows of all instances. A row may come again. */
  learn(rows: readonly Revocation[]): void
  /** Every row in memory. */
  rows(): Iterable<Revocation>
  /** Has rows written that the store has lost. */
  write(rows: readonly Revocation[]): void
}

/** The events of the audit trail. */
export type AuditEvent =
  | 'sign-in'
  | 'sign-in-refused'
  | 'sign-in-failed'
  | 'sign-out'
  | 'session-ended'
  | 'access-refused'
  | 'program-passed'

/** A row of the audit trail. `*` stands for several persons, hosts or addresses. */
export interface AuditRow {
  /** ISO 8601, in UTC. */
  readonly time: string
  readonly event: AuditEvent
  readonly portal: string
  readonly provider?: string | undefined
  /** `<provider>:<identifier at the provider>`; absent if it is not known. */
  readonly person?: string | undefined
  readonly name?: string | undefined
  /** Host of the app that the person wanted to use, or of the sign-in pages. */
  readonly host?: string | undefined
  readonly clientAddress?: string | undefined
  readonly requestId: string
  /** Code of the error that refused or failed. */
  readonly code?: string | undefined
  /** The rule that refused a person, such as `allow` or `policy admin`, and the part that did not hold. */
  readonly refusedBy?: string | undefined
  readonly clause?: string | undefined
}

/** A row of the audit trail: `ran` is how long the service had run when it was written, in ms. */
export type StoredAuditRow = AuditRow & { readonly ran: number }

export interface AuditStore {
  /** Adds rows. If it rejects with FWA_STORE_UNAVAILABLE, they may be tried again. */
  append(rows: readonly StoredAuditRow[]): Promise<void>
  /**
   * Removes rows that are outside of the retention both by the clock and by the time that the service
   * has run since, so that a clock that was wrong removes nothing too early.
   *
   * @param retention - in ms
   */
  prune(retention: number): Promise<void>
  /** The rows of all instances since a time in ms, oldest first. */
  rows(since: number): AsyncIterable<StoredAuditRow>
}

/** The names of the secrets that a store can make. */
export type SecretName = 'session' | 'assertion'

/**
 * The state that instances share beside their configuration. Every change is durable when its promise
 * resolves. Whatever cannot be done rejects with FWA_STORE_UNAVAILABLE.
 */
export interface AuthStore {
  /** The clock that all instances go by. */
  readonly clock: Clock
  readonly audit: AuditStore
  /** The time for which the service has run on this store in ms, whatever clocks were set to. */
  runningTime(): number
  /** Learns every revocation there is, before it resolves, and later those that any instance adds. */
  follow(follower: RevocationFollower): Promise<void>
  /** Learns what other instances have revoked until now. Resolves in any case. */
  catchUp(): Promise<void>
  revoke(change: RevocationChange): Promise<void>
  /** Whether the login has completed, at any instance. */
  hasCompleted(login: string): Promise<boolean>
  /**
   * Completes a login. Resolves with false if it was completed before, at any instance.
   *
   * @param expiresAt - until when the login could be completed, in ms since the epoch
   */
  completeLogin(login: string, expiresAt: number): Promise<boolean>
  /** Removes what has expired by the clock and by the running time. */
  prune(): Promise<void>
  /**
   * A random secret, which is made once: all instances get the same one.
   *
   * @param sealing - keys that seal it, where others than this service may read the store
   * @throws FwaError FWA_KEY_UNUSABLE
   */
  secret(name: SecretName, sealing?: KeyRing): Promise<string>
  /**
   * Gives the reason why sessions must not be accepted now; undefined if they may. Absent in a store whose instances
   * are never cut off from each other.
   */
  readonly staleness?: (() => Error | undefined) | undefined
  health(): HealthReport
  close(): Promise<void>
}

/** The clocks and the log of a store. */
export interface StoreOptions {
  /** The clock to go by. Default: that of the database, or else that of the system. */
  readonly clock?: Clock | undefined
  /** Milliseconds on a clock that is never set. Default: that of the process. */
  readonly monotonic?: (() => number) | undefined
  readonly log: Record<'error' | 'warn' | 'info', (fields: object, message: string) => void>
}

/** The time by which rows outlive their end, in ms, for instances whose clock is behind. */
export const MARGIN = 3_600_000
