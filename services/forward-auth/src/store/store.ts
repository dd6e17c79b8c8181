import type { Clock } from '@gatehouse/service-kit/clock'
import type { RowOf } from '@gatehouse/store'
import type { APPROVALS, AUDIT, CONSENTS, SESSIONS } from './tables.ts'

/** A session as the store keeps it: digests, times in ms since the epoch, and what is sealed. */
export type SessionRow = RowOf<typeof SESSIONS>

/**
 * The filter of a list of sessions: all of a portal, or those of a digest, which belongs to one portal. `agents` stands for
 * agents only. Default: sessions of people only.
 */
export type Listing = Readonly<
  ({ portal: string } | { person: string } | { mail: string }) & { agents?: boolean }
>
/** A session in a list, with the hosts where it was seen, the last one first. */
export type Listed = SessionRow & { readonly hosts: readonly string[] }

/** A code for which an agent begins once, and until when it could be redeemed, in ms since the epoch. */
export type Code = Readonly<{ id: string; until: number }>

/** The time and host of the last use of a session. */
export type Seen = Pick<Listed, 'sid' | 'lastSeen' | 'seenMac' | 'hosts'>

export type ConsentRow = Pick<RowOf<typeof CONSENTS>, 'key' | 'person' | 'until' | 'mac'>

/** A call that somebody has to approve, or what they have allowed. */
export type ApprovalRow = Omit<RowOf<typeof APPROVALS>, 'due'>

/** The sessions to end, each with its agents: `before` is the last `iat` of theirs, in seconds. */
export type End =
  | { readonly sid: string }
  | { readonly person: string; readonly except?: string }
  | { readonly subject: string; readonly issuedUntil: number }
  | { readonly providerSid: string; readonly issuedUntil: number }

export interface SessionEvent {
  readonly kind: 'ended' | 'changed' | 'burnt'
  /** ID of the session, or the ticket. */
  readonly key: string
  /** The time until which it matters, in ms since the epoch. */
  readonly until: number
}

/** The memory of an instance, which learns of events. */
export interface SessionFollower {
  /** Learns the events of all instances. One may come again. @param full - some may have been missed before */
  learn(events: readonly SessionEvent[], full: boolean): void
  /** IDs of sessions that ended, which a store that lost writes may have again. */
  ended(): readonly string[]
}

export type AuditEvent =
  | 'sign-in'
  | 'sign-in-refused'
  | 'sign-in-failed'
  | 'sign-out'
  | 'session-ended'
  | 'agent-allowed'
  | 'call-asked'
  | 'call-allowed'
  | 'call-denied'
  | 'access-refused'
  | 'program-passed'
  | 'tool-called'

/** The roles that end a session early: `operator` by the command line, `reuse` by a refresh token that was used twice. */
export const ENDED_BY = [
  'person',
  'provider',
  'administrator',
  'operator',
  'program',
  'sign-in',
  'reuse',
] as const
export type EndedBy = (typeof ENDED_BY)[number]

/**
 * What a call of a tool came to: it `ran`; it ran and says that it failed, or the server answered with an error (`failed`);
 * or nobody knows, as the answer was cut off (`unknown`).
 */
export type CallOutcome = 'ran' | 'failed' | 'unknown'

type AuditColumns = Omit<RowOf<typeof AUDIT>, 'seq' | 'id' | 'at' | 'ran'>

/** A row of the audit trail: the columns that it has. `*` stands for several persons, hosts, addresses, clients or tools. */
export type AuditRow = {
  readonly [Name in keyof AuditColumns]?: Exclude<AuditColumns[Name], null> | undefined
} & Pick<AuditColumns, 'portal' | 'requestId'> & {
    /** ISO 8601, in UTC. */
    readonly time: string
    readonly event: AuditEvent
    readonly endedBy?: EndedBy | undefined
    readonly outcome?: CallOutcome | undefined
  }

/** A row of the audit trail: `ran` is how long the service had run when it was written, in ms. */
export type StoredAuditRow = AuditRow & { readonly ran: number }

export interface AuditStore {
  /** Adds rows. If it rejects with STORE_UNAVAILABLE, they may be tried again. */
  append(rows: readonly StoredAuditRow[]): Promise<void>
  /**
   * Removes rows that are outside of the retention both by the clock and by the time that the service
   * has run since, so that a clock that was wrong removes nothing too early.
   *
   * @param retention - in ms
   */
  prune(retention: number): Promise<void>
  /** The rows of all instances since a time and before another one, in ms, oldest first. */
  rows(since: number, until?: number): AsyncIterable<StoredAuditRow>
}

/** The names of the secrets that a store can make. */
export type SecretName = 'session' | 'assertion'

/** The clocks and the log of a store. */
export interface StoreOptions {
  /** The clock to go by. Default: that of the database, or else that of the system. */
  readonly clock?: Clock | undefined
  /** Milliseconds on a clock that is never set. Default: that of the process. */
  readonly monotonic?: (() => number) | undefined
  readonly log: Record<'error' | 'warn' | 'info', (fields: object, message: string) => void>
}

/** The maximum number of hosts that are stored for one session. */
export const MAX_HOSTS = 50
