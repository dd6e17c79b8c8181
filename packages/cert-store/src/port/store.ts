import type { RevocationReason } from '@gatehouse/pki'
import type { EventStore } from '@gatehouse/service-kit/events'
import type { Probes } from './probes.ts'
import type {
  AccountRecord,
  AuditEntry,
  AuditRecord,
  AuthorityRecord,
  CertificateRecord,
  Counted,
  Coverage,
  CrlRecord,
  DataKeyRecord,
  Expiry,
  Head,
  InForce,
  InService,
  IssuedCertificate,
  KeyringRecord,
  Lease,
  Listing,
  ListPage,
  NewAuthority,
  NewCertificate,
  OrderRecord,
  PastCertificate,
  RenewalWindow,
  ReplicaChange,
  Retention,
  RevokedCertificate,
  RollRecord,
  RootHolder,
  ServedAccount,
  ServedOrder,
  SignInRecord,
  Succession,
  Tally,
  Transition,
  Waiting,
  Work,
} from './records.ts'
import type { Usage } from './usage.ts'

export { CLIENT_ISSUER } from '../schema/coverage.ts'
export * from './probes.ts'
export type * from './records.ts'
export * from './times.ts'
export type { Usage } from './usage.ts'

/** The maximum number of successive certificates of a lineage that nobody fetched. */
export const MAX_FOLLOWED = 100
/** Certificates of a name per page. */
export const NAME_PAGE = 100
/** Entries of the audit trail that are searched for a name: it has no index for that. */
export const AUDIT_LOOKED_AT = 5_000

/**
 * The store of cert-service, in SQLite for one process or in PostgreSQL for any number of equal replicas.
 * Every method that writes is atomic and resolves after its commit. Times are epoch milliseconds,
 * certificates are DER, private keys are sealed before they get here.
 *
 * @throws StoreError STORE_UNAVAILABLE, STORE_CORRUPT
 */
export interface Store
  extends Certificates,
    Listings,
    Renewals,
    Withdrawals,
    Leases,
    Orders,
    Events,
    Limits,
    Authorities,
    Probes,
    KeyStore,
    AuditLog,
    Replicas,
    AsyncDisposable {
  /** The accounts and orders of ACME clients. */
  readonly acme: AcmeServerStore
  addSignIn(session: SignInRecord): Promise<void>
  /** Moves when a session was last used. One that was deleted stays deleted. */
  touchSignIn(id: string, usedAt: number): Promise<void>
  findSignIn(id: string): Promise<SignInRecord | undefined>
  deleteSignIn(id: string): Promise<void>
  /** Keeps what is known of these, at most once an hour if it is not new: the last seen 1,000 addresses of a caller, and 10,000 of all. */
  addRootHolders(holders: readonly RootHolder[]): Promise<void>
  /** Lists those that were seen since then, the last seen first. */
  listRootHolders(since: number): Promise<readonly RootHolder[]>

  /**
   * Deletes what ended longer ago than its retention, by the clock and by the run time: a wrong clock
   * deletes nothing. Deletes a bounded number of rows at a time and gives how many.
   */
  prune(now: number, retention: Retention): Promise<number>
  /** Milliseconds that the service has run on this store, over all starts. The system clock has no influence on it. */
  runTime(): number
  /** Resolves if the store can be written, and each failed read works again. */
  check(): Promise<void>
  /** Reads the whole store. If it is damaged, nothing more is written. */
  inspect(signal: AbortSignal): Promise<void>
  /** The last failure of a write, or of a read that has not succeeded since. */
  failure(): Error | undefined
  close(): Promise<void>
}

/** Finds certificates, puts them into service, and counts what callers hold. */
export interface Certificates {
  /** The current certificate of a request key: the newest one, neither revoked nor deleted. */
  findCurrent(requestKey: string): Promise<CertificateRecord | undefined>
  /**
   * A page of at most {@link NAME_PAGE} current certificates whose first name is `domain`: those with a
   * stored key first, then by age, newest first.
   */
  findByDomain(domain: string, skip?: number): Promise<readonly CertificateRecord[]>
  /** A page of the current certificates with this name in any position. */
  findByName(name: string, skip?: number): Promise<readonly CertificateRecord[]>
  /**
   * A page of at most {@link NAME_PAGE} unrevoked certificates whose first name is `domain`, by their end: those in
   * service; with `isOut` also all others that have not expired, whether they were replaced or deleted.
   */
  listIssued(
    domain: string,
    scope: {
      readonly now: number
      readonly isOut: boolean
      /** The last one of the page before. */
      readonly after?: Pick<IssuedCertificate, 'notAfter' | 'id'> | undefined
    },
  ): Promise<readonly IssuedCertificate[]>
  /**
   * The newest {@link NAME_PAGE} certificates whose first name is `domain`, in service or not, newest
   * first.
   */
  listHistory(domain: string): Promise<readonly PastCertificate[]>
  /** Whether a certificate of TLS clients with this first name was revoked since then, but not as superseded. */
  hasRevokedOfClient(name: string, since: number): Promise<boolean>
  /** Finds one of the certificates whose first name is `domain`, in service or not. */
  findBySerial(
    domain: string,
    serialNumber: string,
  ): Promise<(CertificateRecord & InService) | undefined>
  /** The certificate with this SHA-256, in hexadecimal, in service or not. */
  findIssued(sha256: string): Promise<(CertificateRecord & InService) | undefined>
  /** The certificates with this serial number, in service or not: one of each direct issuer. */
  listBySerial(serialNumber: string): Promise<readonly (CertificateRecord & InService)[]>
  findById(id: number): Promise<(CertificateRecord & InService) | undefined>
  /**
   * Lists at most {@link NAME_PAGE} current certificates that ACME clients of one caller have with one of these first names:
   * those of this account and address first, then those of this address, then the oldest.
   */
  listHeads(
    askedBy: string,
    names: readonly string[],
    client: { readonly account: string; readonly address: string },
  ): Promise<readonly Head[]>
  /** Lists the changes of a certificate's state, the newest first. */
  listTransitions(id: number): Promise<readonly Transition[]>
  /** A page of the unrevoked certificates of an ACME account that have not expired, in service or not, by their end. */
  listIssuedTo(
    account: string,
    page: Omit<Parameters<Certificates['listIssued']>[1], 'isOut'>,
  ): Promise<readonly IssuedCertificate[]>
  /**
   * A page of the certificates that count for a caller and have not expired, by their end, in service or not: revoked ones
   * too, as what they have replaced may not be.
   */
  listRequested(
    askedBy: string,
    page: Omit<Parameters<Certificates['listIssued']>[1], 'isOut'>,
  ): Promise<readonly IssuedCertificate[]>
  /** All current certificates by id. */
  list(page: { after: number; limit: number }): Promise<readonly CertificateRecord[]>
  /**
   * Certificates with less than a third of their lifetime left, the first to expire first, but for those that are covered:
   * each of their names is in a certificate that ends later. Those of another caller do not count, or alone if `isCovered`.
   */
  listLate(now: number, limit: number, isCovered?: boolean): Promise<readonly CertificateRecord[]>
  /** The certificates with less than a third of their lifetime left that are covered, by one of the same caller or only by others. */
  countCovered(now: number): Promise<Readonly<Record<Coverage, number>>>
  /** Whether a certificate is covered. */
  findCoverage(id: number): Promise<Coverage | undefined>
  /** The renewed certificates that expire first, but for late ones that are covered, and how many are renewed. */
  listEnding(
    now: number,
    limit: number,
  ): Promise<{ readonly soonest: readonly Expiry[]; readonly total: number }>
  /**
   * Stores an issued certificate as the current one of its request key, ends the order of the request key, that
   * of an ACME client and its lease, and audits it.
   * @throws CertStoreError CERT_LEASE_LOST if `lease` is not in force, or another certificate than the one
   * that it names is current; CERT_ORDER_ENDED if the order of the ACME client has ended before
   */
  addCertificate(
    certificate: NewCertificate,
    entry: AuditEntry,
    options?: Succession & { readonly lease?: Lease | undefined },
  ): Promise<CertificateRecord>
  /** Keeps when the ACME client of a certificate has fetched it first. */
  setDownloaded(id: number, now: number): Promise<void>
  /**
   * Puts a certificate that was replaced, and that its client has fetched only now, into service again, as the first of a
   * lineage. One that was fetched before or revoked stays as it is.
   */
  reinstate(
    certificate: Pick<CertificateRecord, 'id' | 'names' | 'requestKey' | 'notAfter'>,
    cause: Pick<Transition, 'at' | 'actor' | 'account'>,
  ): Promise<void>
  /**
   * The number of names that count against the quota of a caller: those of all certificates that it asked for,
   * until they expire or are renewed, and of those that are being issued for it. A name in two of them
   * counts twice. `until` is the first expiry. With `upTo`, what is being issued under later leases does
   * not count.
   */
  countNames(askedBy: string, now: number, upTo?: Lease): Promise<Counted>
  /**
   * The number of certificates in use under a first name or being issued, and the first expiry. One
   * for a CSR is in use while it was last fetched within its lifetime: it is renewed for longer, but
   * its machine may be gone. With `upTo`, what is being issued under later leases does not count.
   */
  countInUse(domain: string, now: number, upTo?: Lease): Promise<Counted>
}

/** Lists certificates, and orders that have none, for people. */
export interface Listings {
  /**
   * Counts all that is listed, but what is `without`. Of the spans ahead, which begin at `starts` with `now`, the last
   * has no end.
   */
  tally(now: number, starts: readonly number[], without?: string): Promise<Tally>
  /** A page of the certificates of a listing. Backwards, what is nearest to the position comes first. */
  listCertificates(listing: Listing, page: ListPage): Promise<readonly CertificateRecord[]>
  /** A page of the failed orders of a listing whose request key has no current certificate: see `listAll`. */
  listFailedOrders(listing: Listing, page: ListPage): Promise<readonly OrderRecord[]>
  /** The number of orders that have failed, by their issuer. */
  countFailedOrders(): Promise<Readonly<Record<string, number>>>
}

/** What certificates in service have in common: as much as there is of it here. */
export interface RenewalScope {
  /** The caller whom they count for. */
  readonly askedBy?: string | undefined
  /** Their first name. */
  readonly domain?: string | undefined
  readonly issuer?: string | undefined
  readonly keyType?: string | undefined
  /** One of these authorities, DER, has signed them. */
  readonly signers?: readonly Uint8Array[] | undefined
  /** They were made before this time, in ms since the epoch. */
  readonly madeBefore?: number | undefined
}

/** Keeps when certificates are to be renewed. */
export interface Renewals {
  /**
   * Claims certificates whose renewal is due: no other replica gets them while this one works on them. Those of ACME
   * clients are not among them.
   */
  claimDue(now: number, limit: number): Promise<readonly CertificateRecord[]>
  /** Claims certificates whose CA is to be asked about their renewal: for other replicas they are due again at `until`. */
  claimUnchecked(now: number, limit: number, until: number): Promise<readonly CertificateRecord[]>
  /** Claims certificates of servers under whose names it is time to look at what is served, likewise. */
  claimUnprobed(now: number, limit: number, until: number): Promise<readonly CertificateRecord[]>
  /** Lists at most {@link NAME_PAGE} certificates in service of a scope that end later than `after`, by their end. */
  listInService(
    scope: RenewalScope,
    after?: Pick<CertificateRecord, 'notAfter' | 'id'>,
  ): Promise<readonly CertificateRecord[]>
  /** Keeps from when on ACME clients are asked to renew certificates, by their ids. */
  requestRenewals(moments: ReadonlyMap<number, number>, entry: AuditEntry): Promise<void>
  /** Keeps when the ACME clients of certificates asked when to renew them. */
  setRenewalInfoRead(read: ReadonlyMap<number, number>): Promise<void>
  /** Moves the renewal of a certificate; `null` stops renewing it. */
  setRenewAt(id: number, renewAt: number | null): Promise<void>
  setRenewalWindow(id: number, window: RenewalWindow & { readonly renewAt: number }): Promise<void>
  /** Makes due what a clock that was ahead put off. */
  bringForward(now: number): Promise<void>
  /** Makes due what a clock that was ahead dated more than a minute from now. Gives the request keys. */
  makeFutureDue(now: number): Promise<readonly string[]>
  /** Whether a renewed certificate becomes valid more than a minute from now. */
  hasFuture(now: number): Promise<boolean>
  /** Stores the times at which certificates were last fetched, by their ids. */
  setFetchedAt(fetched: ReadonlyMap<number, number>): Promise<void>
}

/** Takes certificates out of service. */
export interface Withdrawals {
  /**
   * Revokes certificates, in service or not: they are no longer current and stay in the CRL until they expire.
   * Gives the serial numbers of those that it has revoked: unexpired ones that were not revoked before.
   */
  revoke(
    ids: readonly number[],
    now: number,
    reason: RevocationReason,
    entry: AuditEntry,
  ): Promise<readonly string[]>
  /** Refuses the keys of these certificates for good. */
  compromise(certificates: readonly Uint8Array[], now: number): Promise<void>
  /** Takes certificates out of service: they are neither answered nor renewed. */
  remove(ids: readonly number[], entry: AuditEntry): Promise<void>
  /** The unexpired revoked certificates that `issuer`, the DER of their direct issuer, signed. */
  listRevoked(issuer: Uint8Array, now: number): Promise<readonly RevokedCertificate[]>
  /** Whether a key was revoked as compromised, by the SHA-256 of its SubjectPublicKeyInfo in hex. */
  isCompromised(spkiSha256: string): Promise<boolean>
}

/** Work on a request key: one piece at a time, whichever replica does it. */
interface Leases {
  /**
   * Takes the lease of a request key; `undefined` while another replica has it. It is renewed until it is
   * released, or a certificate is stored with it.
   */
  takeLease(work: Work): Promise<Lease | undefined>
  releaseLease(lease: Lease): Promise<void>
  /** Whether another replica works on a certificate with this first name. */
  isBusyElsewhere(domain: string): Promise<boolean>
}

/** Orders, and what ACME needs beside them: accounts at CAs and responses to their challenges. */
export interface Orders {
  /**
   * Saves the order of a request key, which keeps the id that it has. Gives that id. With `ended`, deletes the
   * order of that lease and ends the lease.
   * @throws CertStoreError CERT_LEASE_LOST if one of the leases is not in force
   */
  saveOrder(order: OrderRecord, lease?: Lease, ended?: Lease): Promise<string>
  /** Saves an order unless the request key has one that is not done. Gives the one that it has. */
  fileOrder(order: OrderRecord): Promise<OrderRecord>
  findOrder(id: string): Promise<OrderRecord | undefined>
  findOrderByRequestKey(requestKey: string): Promise<OrderRecord | undefined>
  findOrders(requestKeys: readonly string[]): Promise<ReadonlyMap<string, OrderRecord>>
  /** Finds an order by its URL at the CA. */
  findOrderByUrl(url: string): Promise<OrderRecord | undefined>
  /** Orders that were in progress when their process ended: no other replica works on them. */
  listPendingOrders(): Promise<readonly OrderRecord[]>
  /** Failed orders that an issuer can take up again, whose next try is due. */
  listResumableOrders(now: number): Promise<readonly OrderRecord[]>
  /** Makes failed orders due that wait for their next try, at most 250 at a time. Gives them as they were. */
  voidWaits(waiting: Waiting, now: number): Promise<readonly OrderRecord[]>
  /** Has no failed order of a caller resumed. Gives the names of those that are under way. */
  abandonOrders(askedBy: string): Promise<readonly (readonly string[])[]>
  findAccount(directory: string): Promise<AccountRecord | undefined>
  /** Adds the account at a CA unless there is one. Gives the one that there is. */
  addAccount(account: AccountRecord): Promise<AccountRecord>
  saveAccount(account: AccountRecord): Promise<void>
  putChallenge(key: string, value: string, now: number): Promise<void>
  findChallenge(key: string): Promise<string | undefined>
  deleteChallenge(key: string): Promise<void>
}

/** The accounts and orders of ACME clients, for which this service is the CA (RFC 8555). */
export interface AcmeServerStore {
  /** The number of the key that binds accounts to a caller, by all names that it has and had; 1 until it is renewed. */
  counterOf(names: readonly string[]): Promise<number>
  /**
   * Ends the accounts of a caller but for the kept ones: those of its name, which is the first one, and those that the
   * values of its API key have bound. Gives the number of its next key. Entries of the audit trail are part of each write.
   */
  renewExternalAccount(
    caller: Readonly<Record<'names' | 'digests' | 'kept', readonly string[]>>,
    entry: AuditEntry,
  ): Promise<number>
  /**
   * Adds an account, or puts it in the place of one with this key and caller that has ended. Gives the
   * one in force of this key; undefined if the caller has too many. One that has ended makes room, or one without a valid
   * certificate that was unused for a day or is of the same address. `isInForce` may run more than once; by default,
   * an account is in force that is valid.
   */
  addAccount(
    account: ServedAccount,
    entry: AuditEntry,
    isInForce?: (registered: ServedAccount) => boolean,
  ): Promise<ServedAccount | undefined>
  findAccount(id: string): Promise<ServedAccount | undefined>
  /** Finds accounts by the thumbprints of their keys. */
  findAccounts(ids: readonly string[]): Promise<readonly ServedAccount[]>
  findAccountByKey(thumbprint: string): Promise<ServedAccount | undefined>
  /** Lists accounts, the last used first; without a caller, those of all. */
  listAccounts(caller: string | undefined, limit: number): Promise<readonly ServedAccount[]>
  endAccount(id: string, status: 'deactivated' | 'revoked', entry: AuditEntry): Promise<void>
  /** Binds accounts of a caller to a value of its API key: the named ones, or all. Gives how many. */
  adoptAccounts(
    binding: Omit<Binding, 'accounts'> & {
      readonly ids?: readonly string[] | undefined
      /** The values whose accounts stay as they are. */
      readonly kept?: readonly string[]
    },
    entry: AuditEntry,
  ): Promise<number>
  /** Lists the values by which the valid accounts of each caller are bound. */
  listBindings(): Promise<readonly Binding[]>
  /** Moves what belongs to one name of a caller to another: accounts, certificates and the number of its key. */
  renameCaller(former: string, present: string, actorOf: (caller: string) => string): Promise<void>
  /** The names of orders of an account that are being issued. */
  listIssuing(account: string): Promise<readonly (readonly string[])[]>
  changeContact(id: string, contact: readonly string[]): Promise<void>
  /**
   * Replaces the key with the thumbprint `from`. Gives the id of the account that prevents it: another one
   * that has the key, or this one if it does not have the key `from` any more.
   */
  changeKey(
    id: string,
    from: string,
    to: Pick<ServedAccount, 'thumbprint' | 'jwk'>,
    entry: AuditEntry,
  ): Promise<string | undefined>
  /** Moves when accounts were last used, and from where, by their ids. */
  touchAccounts(
    used: ReadonlyMap<string, Pick<ServedAccount, 'usedAt' | 'client' | 'remoteAddress'>>,
  ): Promise<void>
  /** Adds an order. Gives it, or the open one of the account for the same; undefined if too many are open. */
  addOrder(order: ServedOrder): Promise<ServedOrder | undefined>
  findOrder(id: string): Promise<ServedOrder | undefined>
  /** The ids of the orders of an account, in their order. */
  listOrders(account: string, after: string, limit: number): Promise<readonly string[]>
  /** Gives an order that is ready its CSR; false if it is not ready. */
  claimOrder(id: string, csr: Uint8Array): Promise<boolean>
  /**
   * Ends an order that has not ended, with a problem or a certificate that was issued for another one;
   * false if it has ended.
   */
  endOrder(
    id: string,
    outcome: { readonly fingerprint: string } | { readonly error: object },
  ): Promise<boolean>
  /** Changes an order, one change after the other. `change` may run more than once; undefined changes nothing. */
  changeOrder(
    id: string,
    change: (order: ServedOrder) => Pick<ServedOrder, 'status' | 'proofs' | 'error'> | undefined,
  ): Promise<void>
}

export interface Binding {
  readonly caller: string
  /** SHA-256 of the value of its API key. */
  readonly boundBy: string
  readonly accounts: number
}

/** The outbox: what receivers have not accepted yet. */
export interface Events extends EventStore {
  /** The number of events that wait, by the name of the receiver. */
  countEvents(): Promise<Readonly<Record<string, number>>>
  /** Forgets which events were sent where they may be sent again, and old ones for nobody of `receivers`. */
  pruneEvents(
    now: number,
    orphans: { readonly receivers: readonly string[]; readonly olderThan: number },
  ): Promise<void>
}

/** The used share of limits. */
export interface Limits {
  /**
   * Reads the use of these keys, and changes what `change` changes of it, in one transaction. `change`
   * may run more than once.
   */
  changeUsage<T>(keys: readonly string[], change: (usage: Usage) => T): Promise<T>
  /** The keys that end with this word. */
  listUsage(word: string): Promise<readonly string[]>
  /** Deletes rows that expired 7 days of run time ago, and reservations that are older than a day. */
  pruneUsage(now: number): Promise<void>
}

/** The embedded CA with its revocation lists. */
export interface Authorities {
  /**
   * Adds the authority that follows `previous`, the id of the newest one of its role; `undefined` if
   * another one follows that already.
   */
  addAuthority(
    authority: Omit<AuthorityRecord, 'id'>,
    previous: number | null,
  ): Promise<AuthorityRecord | undefined>
  /** Newest first. */
  listAuthorities(): Promise<readonly AuthorityRecord[]>
  /** The newest first. */
  listRolls(): Promise<readonly RollRecord[]>
  /**
   * Begins a roll to the first of the authorities, which are added with it and with their lists; `false` if one
   * began from that root before and was not cancelled.
   */
  beginRoll(
    authorities: readonly [NewAuthority, ...NewAuthority[]],
    roll: Pick<RollRecord, 'fromRoot' | 'begunAt'>,
    entry: AuditEntry,
  ): Promise<boolean>
  /** Changes a roll that is as it was read; `false` if another replica was faster. */
  changeRoll(
    roll: RollRecord,
    change: Pick<RollRecord, 'stage' | 'usedAt'>,
    entry: AuditEntry,
  ): Promise<boolean>
  /** The certificates that these authorities have signed, DER, and that are neither expired nor revoked. */
  findInForce(authorities: readonly Uint8Array[], now: number): Promise<InForce>
  /** Removes the sealed key of an authority for good: it is kept offline from now on. `entry` tells of it, if there was one. */
  dropAuthorityKey(id: number, entry?: AuditEntry): Promise<void>
  findCrl(authorityId: number): Promise<CrlRecord | undefined>
  /**
   * Replaces the CRL of an authority by what `next` makes of it and of what is revoked; none is made
   * meanwhile. `next` may run more than once, and gives the stored one to keep it.
   */
  replaceCrl(
    authority: Pick<AuthorityRecord, 'id' | 'certificate'>,
    now: number,
    next: (stored: CrlRecord | undefined, revoked: readonly RevokedCertificate[]) => CrlRecord,
  ): Promise<CrlRecord>
}

/** The keyring: data keys are added, and never replaced but by a rotation of the master key. */
export interface KeyStore {
  loadKeyring(): Promise<KeyringRecord | undefined>
  /** Begins a keyring; `false` if there is one. */
  createKeyring(check: Uint8Array): Promise<boolean>
  /** Adds a data key wrapped by the master key of `check`; `false` if its id is taken or the master key is another. */
  addDataKey(key: DataKeyRecord, check: Uint8Array): Promise<boolean>
  /** Counts seals of a data key before they are made; gives the count with them. */
  countSeals(id: number, seals: number): Promise<number>
  /** Puts all data keys, wrapped anew, in the place of those under the master key of `check`; `false` if it is another. */
  replaceKeyring(keyring: KeyringRecord, check: Uint8Array): Promise<boolean>
}

interface AuditLog {
  addAudit(entries: readonly AuditEntry[]): Promise<void>
  /** Newest first. */
  listAudit(page: { before?: number; limit: number }): Promise<readonly AuditRecord[]>
  /** Entries about a name among the newest ones of all, which are {@link AUDIT_LOOKED_AT}; newest first. */
  listAuditOf(name: string, limit: number): Promise<readonly AuditRecord[]>
}

/** The state of the replicas on one store. A store of one process has none. */
interface Replicas {
  /** Whether other replicas may use this store: it may be away for a while then, and comes back. */
  readonly isShared: boolean
  /** The clock of a shared store, which decides for all replicas. */
  readonly now?: () => number
  /** Whether upkeep that one replica does for all is up to this one. */
  isLeader(): boolean
  /** Calls `listener` with each change that another replica made, and waits for it before confirming that. */
  onChange(listener: (change: ReplicaChange) => void | Promise<void>): void
  /**
   * Waits until each live replica has taken note of what this one wrote, for two seconds at most. Gives
   * the names of those that have not, or `*` if that cannot be found out.
   */
  awaitReplicas(): Promise<readonly string[]>
}
