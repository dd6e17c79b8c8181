import type { RevocationReason } from '@gatehouse/pki'
import type { CertError } from '../errors.ts'
import type {
  AccountRecord,
  AddedCertificate,
  AuditEntry,
  AuditRecord,
  AuthorityRecord,
  CertificateRecord,
  CrlRecord,
  Ending,
  EventRecord,
  IssuedCertificate,
  KeyringRecord,
  NewAuthority,
  NewCertificate,
  NewEvent,
  OrderRecord,
  RenewalWindow,
  RevokedCertificate,
} from './records.ts'

export type * from './records.ts'

/**
 * What cert-service keeps. Every method that writes resolves after its commit, and is atomic.
 * Times are epoch milliseconds, certificates DER, private keys sealed: nothing secret gets here in the clear.
 */
export interface Store {
  /** The certificate answered for a lineage: its newest, neither revoked nor deleted. */
  findCurrent(lineage: string): Promise<CertificateRecord | undefined>
  /**
   * A page of at most 100 current certificates whose first name is `domain`: those with a key of
   * ours first, the newest first among them.
   */
  findByDomain(domain: string, skip?: number): Promise<readonly CertificateRecord[]>
  /** The same for certificates that hold this name, first or not. */
  findByName(name: string, skip?: number): Promise<readonly CertificateRecord[]>
  /**
   * The current certificates whose first name is `domain`, newest first; with `isOut` also those
   * that were taken out of service without having been revoked or replaced, and have not ended.
   */
  listIssued(
    domain: string,
    options: { readonly now: number; readonly isOut: boolean },
  ): Promise<readonly IssuedCertificate[]>
  /**
   * How many names the certificates hold that count for a caller: all that it asked for, until they
   * end or are renewed. A name in two of them counts twice. `until`: when the first of them ends.
   */
  countNames(askedBy: string, now: number): Promise<{ names: number; until: number | null }>
  /** How many certificates with a key of ours are live under a first name, and when the first ends. */
  countKeysHeld(
    domain: string,
    now: number,
  ): Promise<{ certificates: number; until: number | null }>
  /** Whether a key was revoked as compromised; by the SHA-256 of its SubjectPublicKeyInfo, in hex. */
  isCompromised(spkiSha256: string): Promise<boolean>
  /** Current certificates in order of id, those after `after`. */
  list(page: { after: number; limit: number }): Promise<readonly CertificateRecord[]>
  /**
   * Current certificates with `text` in one of their names or as their serial number, in order of
   * what comes next, renewal or else end; those after `after`.
   */
  listUpcoming(page: {
    text: string
    after: Upcoming
    limit: number
  }): Promise<readonly CertificateRecord[]>
  /** Current certificates with `renewAt <= now`, earliest first. */
  listDue(now: number, limit: number): Promise<readonly CertificateRecord[]>
  /** When the next current certificate is due; `undefined` if none ever is. */
  nextDue(): Promise<number | undefined>

  /**
   * Stores an issued certificate as its lineage's current one, ends the lineage's order, and audits
   * it. If more than `perName` are then live under its first name, the oldest of those for CSRs go
   * out of service; one with a key of ours never does.
   */
  addCertificate(
    certificate: NewCertificate,
    audit: AuditEntry,
    perName?: number,
  ): Promise<AddedCertificate>
  /** Moves a certificate's renewal; `null` stops it. */
  setRenewAt(id: number, renewAt: number | null): Promise<void>
  /** Makes due what was put off by a clock that was ahead. */
  bringForward(now: number): Promise<void>
  /**
   * Makes due at once what begins more than a minute from now, as a clock dated it that was ahead.
   * Gives the lineages.
   */
  makeFutureDue(now: number): Promise<readonly string[]>
  /** Whether anything that is kept renewed begins more than a minute from now. */
  hasFuture(now: number): Promise<boolean>
  /** Notes that certificates were handed out. */
  setFetchedAt(fetched: ReadonlyMap<number, number>): Promise<void>
  /**
   * Revokes certificates and, as clients may still have them, the ones that they replaced and that
   * have not ended for certain: no longer current, in the CRL to their end. With the reason
   * `keyCompromise` their keys are remembered for good. Gives the serial numbers.
   */
  revoke(
    ids: readonly number[],
    at: number,
    reason: RevocationReason,
    audit: AuditEntry,
  ): Promise<readonly string[]>
  /** Takes certificates out of service: no longer answered nor renewed. */
  remove(ids: readonly number[], audit: AuditEntry): Promise<void>
  /** Revoked certificates that `issuer` (DER of the direct issuer) signed and that have not ended for certain. */
  listRevoked(issuer: Uint8Array, now: number): Promise<readonly RevokedCertificate[]>

  /** Creates or overwrites an order (one per lineage). */
  saveOrder(order: OrderRecord): Promise<void>
  findOrder(id: string): Promise<OrderRecord | undefined>
  findOrderByLineage(lineage: string): Promise<OrderRecord | undefined>
  /** Orders that failed and have not come to an end since, the latest first. */
  listFailedOrders(limit: number): Promise<readonly OrderRecord[]>
  /** Orders that were under way when the process ended. */
  listPendingOrders(): Promise<readonly OrderRecord[]>
  /** Orders that failed where the CA may well go on with them, and whose next try is due. */
  listResumableOrders(now: number): Promise<readonly OrderRecord[]>

  /** The order that keeps a state with this URL of an order at a CA. */
  findOrderByUrl(url: string): Promise<OrderRecord | undefined>

  /** Current certificates with `checkAt <= now` that are to be renewed at all, earliest first. */
  listUnchecked(now: number, limit: number): Promise<readonly CertificateRecord[]>
  /** Notes when the CA would have a certificate renewed, and when to ask again. */
  setRenewalWindow(id: number, window: RenewalWindow & { readonly renewAt: number }): Promise<void>
  /** The unexpired certificates of a lineage that are not revoked, current or replaced. */
  listUnexpired(
    of: Pick<CertificateRecord, 'names' | 'lineage'>,
    now: number,
  ): Promise<readonly CertificateRecord[]>

  findAccount(directory: string): Promise<AccountRecord | undefined>
  saveAccount(account: AccountRecord): Promise<void>

  putChallenge(key: string, value: string, at: number): Promise<void>
  findChallenge(key: string): Promise<string | undefined>
  deleteChallenge(key: string): Promise<void>

  /** Rows of the ledger of limits: when a bucket is full again, or a fact no longer told. */
  listUsage(limit: number): Promise<readonly (readonly [key: string, until: number])[]>
  saveUsage(rows: readonly (readonly [key: string, until: number])[]): Promise<void>
  /** Forgets rows that ended, a while of run time later; gives their keys. */
  pruneUsage(now: number): Promise<readonly string[]>

  /** Keeps an event until it is delivered; of too many the oldest go. */
  addEvent(event: NewEvent): Promise<void>
  /** Events whose next try is due, the longest waiting first. */
  listDueEvents(now: number, limit: number): Promise<readonly EventRecord[]>
  /** How many events are kept until they are delivered. */
  countEvents(): Promise<number>
  /** Counts a try that failed. */
  delayEvent(id: number, nextAt: number): Promise<void>
  deleteEvent(id: number): Promise<void>
  pruneEvents(now: number): Promise<void>

  /** The current certificates that are kept renewed and end first, and how many there are in all. */
  listEnding(
    limit: number,
  ): Promise<{ readonly soonest: readonly Ending[]; readonly total: number }>
  /** Of those, the ones in the last third of their lifetime, the soonest to end first. */
  listLate(now: number, limit: number): Promise<readonly CertificateRecord[]>

  addAuthority(authority: NewAuthority): Promise<AuthorityRecord>
  /** Newest first. */
  listAuthorities(): Promise<readonly AuthorityRecord[]>
  /** Takes the sealed key out of an authority for good (its key moved offline). */
  dropAuthorityKey(id: number): Promise<void>
  /** The CRL last made for an issuer, and its number. */
  findCrl(authorityId: number): Promise<CrlRecord | undefined>
  saveCrl(crl: CrlRecord): Promise<void>

  addAudit(entries: readonly AuditEntry[]): Promise<void>
  /** Newest first. */
  listAudit(page: { before?: number; limit: number }): Promise<readonly AuditRecord[]>

  loadKeyring(): Promise<KeyringRecord | undefined>
  /** Overwrites the check value and each data key of its id; never takes a data key away. */
  saveKeyring(keyring: KeyringRecord): Promise<void>

  /**
   * Deletes what ended longer ago than it is kept for (ms), both by the clock and by the run time of
   * this store: a clock that is wrong deletes nothing. A bounded number a call; gives how many rows went.
   */
  prune(
    now: number,
    keptFor: { audit: number; certificates: number; orders: number; challenges: number },
  ): Promise<number>
  /** Milliseconds that the service has really been running on this store, all starts together. */
  runTime(): number
  /**
   * Resolves when the store is where it was, can be written, and each read that failed works again.
   *
   * @throws CertError CERT_STORE_UNAVAILABLE, CERT_STORE_CORRUPT
   */
  check(): Promise<void>
  /**
   * Reads the whole store, in a thread of its own. Once it is found damaged nothing more is written.
   *
   * @throws CertError CERT_STORE_CORRUPT, CERT_STORE_UNAVAILABLE
   */
  inspect(signal: AbortSignal): Promise<void>
  /** What failed and has not been done with success since. */
  failure(): CertError | undefined
  close(): Promise<void>
}

/** A place in the order of what comes next. */
export interface Upcoming {
  readonly at: number
  readonly id: number
}
