import type { KeyType, Profile, RevocationReason } from '@gatehouse/pki'
import type { RowOf } from '@gatehouse/store'
import type {
  ACCOUNTS,
  AUTHORITIES,
  CERTIFICATES,
  CRLS,
  DATA_KEYS,
  ROLLS,
  ROOT_HOLDERS,
  SERVED_ACCOUNTS,
  SERVED_ORDERS,
  SIGN_INS,
  TRANSITIONS,
} from '../schema/tables.ts'

/** The members in a list, as a statement has it. */
type MembersOf<List extends string> = List extends `${infer One}, ${infer More}`
  ? One | MembersOf<More>
  : List

/** The way by which a certificate was requested: by a program, by ACME, by a person, or by the service itself. */
export type Way = 'api' | 'acme' | 'page' | 'service'

/** The origin of a certificate: who requested it, and how. */
export interface Origin {
  readonly way?: Way | null | undefined
  /** The program that asked for it, such as `certbot/5.8.0`. */
  readonly client?: string | null | undefined
  /** The account of the ACME client that asked for it, and renews it. */
  readonly account?: string | null | undefined
  /** The order of that client. */
  readonly servedOrder?: string | null | undefined
  /** The IP address of that client. */
  readonly address?: string | null | undefined
}

export interface NewCertificate extends Origin {
  /** The identity of a request: two with the same one share a certificate. See request.ts of packages/issuance. At most 1,000 bytes. */
  readonly requestKey: string
  readonly issuer: string
  /** Canonical names, the one it was asked for first. */
  readonly names: readonly string[]
  readonly keyType: KeyType
  /** Lower-case hexadecimal; unique per direct issuer. */
  readonly serialNumber: string
  readonly certificate: Uint8Array
  /** The direct issuer first, without the root. */
  readonly chain: readonly Uint8Array[]
  /** PKCS#8, sealed; `null` where the caller keeps the key. */
  readonly sealedKey: Uint8Array | null
  /** DER of the request it was made for; `null` where the key is ours. */
  readonly csr: Uint8Array | null
  readonly notBefore: number
  readonly notAfter: number
  readonly renewAt: number | null
  readonly fetchedAt: number
  /** The time to ask the CA about its renewal; `null` or absent: never. */
  readonly checkAt?: number | null
  /** The caller that it counts for. Absent: the one of the certificate that it replaces, if any. */
  readonly askedBy?: string
  /** The longest that it may live, in ms, as was asked for. Absent: as its issuer decides. */
  readonly lifetime?: number | undefined
}

/** The members of a certificate that are needed to take it out of service, and to tell who has it. */
export const ISSUED =
  'id, requestKey, issuer, names, serialNumber, certificate, notAfter, csr, madeAt, fetchedAt, client, address'
export type IssuedCertificate = Pick<CertificateRecord, MembersOf<typeof ISSUED>>

export interface CertificateRecord extends Omit<NewCertificate, 'askedBy'>, Partial<RenewalWindow> {
  readonly id: number
  /** The time at which it was stored, by the clock of then. */
  readonly madeAt?: number
  /** The run time of the store when it was last handed out. */
  readonly fetchedRan?: number
  /** The times at which its ACME client was last asked to renew it, and last read its renewal information. */
  readonly renewalRequestedAt?: number | null
  readonly renewalInfoReadAt?: number | null
}

/** Whether a certificate is in service, or was replaced or revoked. */
export interface InService {
  readonly isCurrent: boolean
  /** The caller that it counts for; `null` once another certificate has replaced it. */
  readonly askedBy: string | null
  readonly revokedAt: number | null
  readonly revocationReason: RevocationReason | null
  /** The id of the next certificate of its lineage. */
  readonly replacedBy: number | null
  /** The time at which its ACME client first fetched it. */
  readonly downloadedAt: number | null
}

/** The newest certificate of a lineage, as an ACME client may continue it. */
export const HEAD =
  'id, requestKey, issuer, names, certificate, account, address, notBefore, notAfter, windowStart, windowEnd, renewalRequestedAt'
export type Head = Pick<CertificateRecord, MembersOf<typeof HEAD>>

/** The owner of certificates that have each name of another one: its caller, or only others. */
export type Coverage = 'caller' | 'other'

/** A change of a certificate's state. */
export interface Transition extends Omit<RowOf<typeof TRANSITIONS>, 'id' | 'action'> {
  /** `reinstate`: its client fetched it only after another one had replaced it. */
  readonly action: 'replace' | 'reinstate' | 'revoke' | 'delete' | 'request-renewal'
}

/** A certificate in the history of its first name. */
export const PAST =
  'id, requestKey, issuer, names, keyType, serialNumber, notBefore, notAfter, madeAt'
export interface PastCertificate
  extends InService,
    Pick<CertificateRecord, MembersOf<typeof PAST>> {}

/** The renewal window that a CA suggests; `null` while it has not. */
export type RenewalWindow = Pick<
  RowOf<typeof CERTIFICATES>,
  'checkAt' | 'windowStart' | 'windowEnd' | 'explanationUrl'
>

export interface RevokedCertificate {
  readonly serialNumber: string
  readonly revokedAt: number
  readonly reason: RevocationReason
}

/** Work on a request key, and what it takes of quotas while it lasts. */
export interface Work {
  readonly requestKey: string
  /** The first name. */
  readonly domain: string
  readonly names: number
  /** The caller that it counts for; absent for a renewal. */
  readonly askedBy?: string | undefined
}

/** The right of one replica to work on a request key. */
export interface Lease {
  readonly requestKey: string
  /** Grows from lease to lease, so that the store refuses what an earlier holder writes late. */
  readonly token: number
  /** The current certificate of the request key when the lease was taken. */
  readonly currentId: number | null
  /** The order of the request key when the lease was taken. */
  readonly order?: OrderRecord | undefined
  /** Aborted if another replica has taken the lease over. */
  readonly lost: AbortSignal
}

/** The use of a quota, and when the first of it expires. */
export interface Counted {
  readonly count: number
  readonly until: number | null
}

/** A change in the store: everything cached of these request keys, or of all, is out of date. */
export interface ReplicaChange {
  readonly requestKeys: readonly string[] | 'all'
  /** Whether certificates were revoked or deleted. */
  readonly isUrgent: boolean
}

/** Milliseconds for which to keep what has ended. */
export interface Retention {
  readonly audit: number
  readonly certificates: number
  readonly orders: number
  readonly challenges: number
}

/** An account of an ACME client (RFC 8555 section 7.1.2). */
export interface ServedAccount
  extends Omit<RowOf<typeof SERVED_ACCOUNTS>, 'status' | 'keptAt' | 'keptRan'> {
  readonly status: 'valid' | 'deactivated' | 'revoked'
}

/** An order of an ACME client (RFC 8555 section 7.1.3). */
export interface ServedOrder
  extends Omit<RowOf<typeof SERVED_ORDERS>, 'status' | 'proofs' | 'ran'> {
  readonly status: 'pending' | 'ready' | 'processing' | 'valid' | 'invalid'
  readonly profile: Profile
  /** The proof of each name; `null` for an account whose caller has the names, unless it has given one up. */
  readonly proofs: readonly Proof[] | null
}

/** Whether a client has proven a name, by the challenge with this token. */
export interface Proof {
  readonly token: string
  readonly status: 'pending' | 'valid' | 'invalid' | 'deactivated'
  readonly at?: number
  /** The challenge that was tried. */
  readonly type?: string
  /** The problem that it met. */
  readonly error?: object
}

/** The roots that a caller trusts at an address; without a caller, those that were fetched from there. */
export type RootHolder = RowOf<typeof ROOT_HOLDERS>

/** The session of a person at the inventory. */
export type SignInRecord = RowOf<typeof SIGN_INS>

/** Work on a request key that outlives a request: under way, or failed and waiting for its next try. */
export interface OrderRecord
  extends Pick<NewCertificate, 'requestKey' | 'issuer' | 'names' | 'keyType' | 'csr' | 'lifetime'> {
  readonly id: string
  readonly status: 'pending' | 'failed' | 'done'
  /** The step that it is at, or was at when it failed. */
  readonly step: string
  readonly since: number
  readonly failures: number
  readonly lastError: OrderFailure | null
  readonly nextTryAt: number | null
  readonly checkpoint?: Checkpoint
  /** The caller that its certificate will count for; absent for a renewal. */
  readonly askedBy?: string
  /** The ACME client that it is for, and when it wants the certificate to end. */
  readonly origin?: Origin & Succession & { readonly notAfter?: number | undefined }
  /** The digest of what its issuer was configured with when it failed. */
  readonly configuration?: string | undefined
}

export interface OrderFailure {
  readonly code: string
  readonly detail: string
  readonly at: number
  /** Whether it came before the CA was asked for the certificate, so that another try costs the CA nothing. */
  readonly isEarly?: boolean
  /** The time from which its CA accepts another order. */
  readonly demandedUntil?: number
}

/** Orders by their request keys, or those that failed with none of these configurations. */
export type Waiting =
  | { readonly requestKeys: readonly string[] }
  | { readonly configurations: readonly string[] }

/** The lineage that a new certificate continues, beside that of its request key. */
export interface Succession {
  readonly predecessor?: Predecessor | undefined
}

/**
 * The certificate that a new one follows. It was found by the key that both have, as the client named it, by the account and
 * the address of the client, or as the one that is longest due. If another one has followed it meanwhile, the new one
 * follows that one, unless it is in use or the client named none.
 */
export interface Predecessor extends Pick<CertificateRecord, 'id' | 'requestKey'> {
  readonly reason: 'key' | 'named' | 'address' | 'due'
}

/** The state that an issuer has reached with an order, and the key that it may have certified. */
export interface Checkpoint {
  /** Plain JSON. */
  readonly state: unknown
  /** PKCS#8, sealed; `null` where the caller keeps the key. */
  readonly sealedKey: Uint8Array | null
}

/** An account at a CA; `url` is `null` until the CA has said. */
export type AccountRecord = RowOf<typeof ACCOUNTS>

export const EXPIRY = 'domain, issuer, notBefore, notAfter, way'
export type Expiry = Pick<RowOf<typeof CERTIFICATES>, MembersOf<typeof EXPIRY>>

export interface AuthorityRecord extends Omit<RowOf<typeof AUTHORITIES>, 'role' | 'previous'> {
  /** A cross certificate is the new root, signed by the old one. */
  readonly role: 'root' | 'cross' | 'intermediate' | 'client-intermediate'
}

/**
 * A roll from one root to the next: both are to be trusted from its beginning, the new one signs once it is used,
 * and the old one is no longer to be trusted once it is finished. If it is cancelled, the old one stays alone.
 */
export interface RollRecord extends Omit<RowOf<typeof ROLLS>, 'stage'> {
  readonly stage: 'begun' | 'used' | 'finished' | 'cancelled'
}

/** An authority to add, with its first revocation list. */
export interface NewAuthority extends Omit<AuthorityRecord, 'id'> {
  readonly crl?: Omit<CrlRecord, 'authorityId'>
}

/** Unexpired certificates, and the names of those that end last. */
export interface InForce {
  readonly total: number
  /** Those in service that are renewed: the others were replaced, or nobody fetches them. */
  readonly renewable: number
  readonly names: readonly string[]
  /** The last end. */
  readonly until: number | null
}

export type CrlRecord = RowOf<typeof CRLS>

/** The actions on certificates, on the roll of the root, on the keys by which ACME clients bind accounts, and on these accounts. */
export type AuditAction =
  | ('issue' | 'hand-out' | 'renew' | 'request-renewal' | 'revoke' | 'delete' | 'refuse' | 'fail')
  | ('acme-key' | 'acme-account' | 'acme-account-key' | 'acme-account-end' | 'acme-account-adopt')
  | 'ca-roll'

export interface AuditEntry {
  readonly at: number
  readonly action: AuditAction
  /** The one who did it: `psk:<key name>`, `mtls:<name>`, `jwt:<issuer>#<subject>` or `system`. */
  readonly actor: string
  readonly names: readonly string[]
  readonly serialNumber?: string
  readonly remoteAddress?: string
  readonly requestId?: string
  /** A plain sentence, or an error code. */
  readonly detail?: string
  /** The account of an ACME client. */
  readonly account?: string | null | undefined
  /** Number of times, for rows that are written once an hour. */
  readonly count?: number
  /** Entries of one key are one row: the first one's, whose count grows. */
  readonly key?: string
}

export interface AuditRecord extends Omit<AuditEntry, 'key'> {
  readonly id: number
  readonly count: number
}

/** Data keys, wrapped by the master key, and a value that tells whether a master key is the right one. */
export interface KeyringRecord {
  readonly check: Uint8Array
  readonly dataKeys: readonly DataKeyRecord[]
}

export type DataKeyRecord = RowOf<typeof DATA_KEYS>

/** The next event of a certificate: see `stateOf` of the page. */
export type CertificateState = 'renews' | 'due' | 'unrenewed' | 'failing' | 'ended'

/** The order of a listing: by the next event (renewal, try or else end), by the end, by the first name, or the newest first. */
export type ListOrder = 'next' | 'expiry' | 'name' | 'newest'

/** An entry of a listing: a current certificate, or a failed order of a request key that has none. */
export type Listed = CertificateRecord | OrderRecord

/** The most that a reader may see. Check each entry, as a reader may see less. */
export interface Scope {
  /** An issuer whose certificates are left out. */
  readonly without?: string | undefined
  /** First names, and patterns of SQL for them; absent: all. */
  readonly names?: { readonly exact: readonly string[]; readonly patterns: readonly string[] }
}

/** The filter and the order of a listing. */
export interface Listing extends Scope {
  readonly order: ListOrder
  readonly state?: CertificateState | 'covered' | 'unserved' | undefined
  /** The name of an issuer. */
  readonly issuer?: string | undefined
  /** The time before which certificates end, in ms since the epoch. */
  readonly endsBefore?: number | undefined
  readonly search?: Search | undefined
  readonly now: number
}

/** Counts of each state, and of what is ahead in each of some spans of time. */
export interface Tally {
  readonly counts: Readonly<Record<CertificateState, number>>
  /** Certificates to be renewed. */
  readonly renewals: readonly number[]
  /** Certificates that end without a renewal: not renewed, or failing. */
  readonly ends: readonly number[]
}

/** The terms of a search: any of them finds a certificate. */
export interface Search {
  /** A part of one of the names. */
  readonly part?: string
  /** The wildcard that is one of the names. */
  readonly wildcard?: string
  /** Lower-case hexadecimal. */
  readonly serialNumber?: string
}

/** The position of a certificate or an order in a listing: its sort key and its id. */
export interface Position {
  readonly key: number | string
  /** A number for a certificate, a text for an order. */
  readonly id: number | string
}

/** A page of a listing: at most `limit` after a position or, backwards, before it. */
export interface ListPage {
  readonly from?: Position | undefined
  readonly isBackwards?: boolean | undefined
  readonly limit: number
}
