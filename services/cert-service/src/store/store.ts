import type { KeyType, RevocationReason } from '@gatehouse/pki'

/**
 * What cert-service keeps. Every method that writes resolves after its commit, and is atomic.
 * Times are epoch milliseconds, certificates DER, private keys sealed: nothing secret gets here in the clear.
 */
export interface Store {
  /** The certificate answered for a lineage: its newest, neither revoked nor deleted. */
  findCurrent(lineage: string): Promise<CertificateRecord | undefined>
  /** The current certificates whose first name is `domain`, newest first. */
  findByDomain(domain: string): Promise<readonly CertificateRecord[]>
  /** Current certificates in order of id, those after `after`. */
  list(page: { after: number; limit: number }): Promise<readonly CertificateRecord[]>
  /** Current certificates with `renewAt <= now`, earliest first. */
  listDue(now: number, limit: number): Promise<readonly CertificateRecord[]>
  /** When the next current certificate is due; `undefined` if none ever is. */
  nextDue(): Promise<number | undefined>

  /** Stores an issued certificate as its lineage's current one, ends the lineage's order, and audits it. */
  addCertificate(certificate: NewCertificate, audit: AuditEntry): Promise<CertificateRecord>
  /** Moves a certificate's renewal; `null` stops it. */
  setRenewAt(id: number, renewAt: number | null): Promise<void>
  /** Notes that certificates were handed out. */
  setFetchedAt(fetched: ReadonlyMap<number, number>): Promise<void>
  /**
   * Revokes certificates and, as clients may still have them, the unexpired ones that they replaced:
   * no longer current, in the CRL to their end. Gives the serial numbers.
   */
  revoke(
    ids: readonly number[],
    at: number,
    reason: RevocationReason,
    audit: AuditEntry,
  ): Promise<readonly string[]>
  /** Takes certificates out of service: no longer answered nor renewed. */
  remove(ids: readonly number[], audit: AuditEntry): Promise<void>
  /** Unexpired revoked certificates that `issuer` (DER of the direct issuer) signed. */
  listRevoked(issuer: Uint8Array, now: number): Promise<readonly RevokedCertificate[]>

  /** Creates or overwrites an order (one per lineage). */
  saveOrder(order: Order): Promise<void>
  findOrder(id: string): Promise<Order | undefined>
  findOrderByLineage(lineage: string): Promise<Order | undefined>
  /** Orders that were under way when the process ended. */
  listPendingOrders(): Promise<readonly Order[]>

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

  /** Deletes audit rows and what expired before these moments, a bounded number a call; gives how many rows went. */
  prune(before: { audit: number; certificates: number; orders: number }): Promise<number>
  /** Resolves when the store answers and can write; rejects with CERT_STORE_UNAVAILABLE. */
  check(): Promise<void>
  close(): Promise<void>
}

export interface NewCertificate {
  /** What makes two requests the same certificate: see issuance/lineage.ts. */
  readonly lineage: string
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
  /** When it was last handed out. */
  readonly fetchedAt: number
}

export interface CertificateRecord extends NewCertificate {
  readonly id: number
}

export interface RevokedCertificate {
  readonly serialNumber: string
  readonly revokedAt: number
  readonly reason: RevocationReason
}

/** Work on a lineage that outlives a request: under way, or failed and waiting for its next try. */
export interface Order {
  readonly id: string
  readonly lineage: string
  readonly issuer: string
  readonly names: readonly string[]
  readonly keyType: KeyType
  readonly csr: Uint8Array | null
  readonly status: 'pending' | 'failed' | 'done'
  /** What it is doing, or was doing when it failed. */
  readonly step: string
  readonly since: number
  /** Failures in a row. */
  readonly failures: number
  readonly lastError: { readonly code: string; readonly detail: string } | null
  /** When a failed order may be tried again. */
  readonly nextTryAt: number | null
}

export interface NewAuthority {
  readonly role: 'root' | 'intermediate'
  readonly certificate: Uint8Array
  readonly sealedKey: Uint8Array | null
  readonly notAfter: number
}

export interface AuthorityRecord extends NewAuthority {
  readonly id: number
}

export interface CrlRecord {
  readonly authorityId: number
  readonly number: bigint
  readonly crl: Uint8Array
  readonly nextUpdate: number
}

export interface AuditEntry {
  readonly at: number
  readonly action: 'issue' | 'hand-out' | 'renew' | 'revoke' | 'delete' | 'refuse' | 'fail'
  /** Who: `psk:<key name>`, `jwt:<issuer>#<subject>` or `system`. */
  readonly actor: string
  readonly names: readonly string[]
  readonly serialNumber?: string
  readonly remoteAddress?: string
  readonly requestId?: string
  /** One plain sentence, or an error code. */
  readonly detail?: string
  /** How many times, for what is told once an hour. */
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

export interface DataKeyRecord {
  readonly id: number
  readonly purpose: string
  readonly wrapped: Uint8Array
  /** How often it may have sealed: counted before use, so never too low. */
  readonly seals: number
}
