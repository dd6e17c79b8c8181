import type { RenewalInfo, Solver } from '@gatehouse/acme'
import type { Csr, KeyType, Name, RevocationReason } from '@gatehouse/pki'

/** A certificate authority that cert-service can ask: the embedded CA, and ACME CAs beside it. */
export interface Issuer {
  /** As in the configuration; part of a certificate's lineage. */
  readonly name: string
  /** What it signs, part of the lineage as well; for an ACME CA which one, and its profile. */
  readonly profile?: string
  /** Of keys that are not asked for otherwise; default `p256`. */
  readonly keyType?: KeyType | undefined
  /** Kinds of keys that it certifies; default all. */
  readonly keyTypes?: readonly KeyType[]
  /** Name of the issuer to ask while this one has no certificate to give. */
  readonly fallback?: string | undefined
  /** Whether it may sign this name at all, whoever asks. */
  permits(name: Name): boolean
  /** Why it cannot sign this, though it may sign each of the names. */
  objection?(names: readonly Name[], csr: Csr | null): string | undefined
  /**
   * Signs, at once or after a while. Rejects with a coded error; work goes on though every caller
   * has gone.
   */
  issue(request: IssuerRequest, io: IssuerIo): Issued | Promise<Issued>
  /** The account at the CA, once it is registered: what a CAA record may call it (RFC 8657). */
  accountUrl?(): Promise<string | undefined>
  /** What would prove a name to the CA. Absent where the CA asks for no proof. */
  solverFor?(name: Name): Solver | undefined
  /**
   * Revokes at the CA, where that is not the store itself; `unknown` if the CA has no such
   * certificate (any more).
   *
   * @throws AcmeError
   */
  revoke?(certificate: Uint8Array, reason: RevocationReason): Promise<'revoked' | 'unknown'>
  /** When the CA would have a certificate renewed; undefined if it does not say. @throws AcmeError */
  renewalInfo?(certificate: Uint8Array, signal: AbortSignal): Promise<RenewalInfo | undefined>
  /** What an operator has to see to. */
  degraded?(): readonly string[]
}

export interface IssuerRequest {
  readonly names: readonly Name[]
  readonly keyType: KeyType
  /** DER of the public key to certify (SubjectPublicKeyInfo). */
  readonly spki: Uint8Array
  /** DER of a request for that key: the caller's, or one made for the occasion. */
  csr(): Uint8Array
  /** DER of the certificate that this one is to replace, of the same lineage. */
  readonly replaces?: Uint8Array | undefined
}

/** What an issuer has beside the request. */
export interface IssuerIo {
  /** Tells what it is doing, for the order's progress. */
  report(step: string): void
  /** What an earlier try kept: it goes on from there, with the same key. */
  readonly checkpoint: unknown
  /**
   * Keeps plain JSON, and the key, in the order before the next step is taken; `undefined` forgets
   * both.
   */
  save(state: unknown): Promise<void>
  /** Aborted when the service ends: the order goes on at the next start. */
  readonly signal: AbortSignal
  /** When the order was first asked for. */
  readonly since: number
  /** For how long faults that pass are to be put up with, in milliseconds. */
  readonly patience: number
}

export interface Issued {
  readonly certificate: Uint8Array
  /** The direct issuer first, without the root. */
  readonly chain: readonly Uint8Array[]
  readonly serialNumber: string
  readonly notBefore: number
  readonly notAfter: number
}
