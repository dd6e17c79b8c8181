import type { RenewalInfo, Solver } from '@gatehouse/acme'
import type { Csr, KeyType, Name, RevocationReason } from '@gatehouse/pki'
import type { Validity } from '../times.ts'

/** A certificate authority: the embedded CA, or one that speaks ACME. */
export interface Issuer {
  /** The name in the configuration, part of the request key of its certificates. */
  readonly name: string
  /** The directory and profile of an ACME CA, part of the request key as well. */
  readonly profile?: string
  /** Key type unless a request names one; default `p256`. */
  readonly keyType?: KeyType | undefined
  /** Default: all. */
  readonly keyTypes?: readonly KeyType[]
  /** Name of the issuer to use while this one has no certificate. */
  readonly fallback?: string | undefined
  /** The digest of what it is configured with: a failure of another configuration is no reason to wait. */
  readonly configuration?: string | undefined
  /** Whether it may sign this name for anyone. Default: all names. */
  readonly permits?: ((name: Name) => boolean) | undefined
  /** The longest lifetime that a request may ask for, in ms. Absent if requests cannot ask for one. */
  readonly longest?: number
  /** Returns the latest end of a certificate of that lifetime that is signed now, in ms since the epoch; likewise. */
  latestEnd?(lifetime?: number): number
  /** A description of its bounds, for a name that it may not sign. */
  scopeFor?(name: Name): string
  /** Returns why it cannot sign this request although it may sign each of the names. */
  objection?(names: readonly Name[], csr: Csr | null): string | undefined
  /** Returns why it cannot sign this request now, as far as that is known before it tries. */
  refusal?(request: Pick<IssuerRequest, 'notAfter'>): Error | undefined
  /**
   * Proves the names ahead, so that an `issue` for them only finalizes. Absent if the CA requires no proof.
   * Rejects with a coded error.
   */
  authorize?(request: NamesToProve, io: IssuerIo): Promise<void>
  /** Signs, at once or in the background of the requests for it. Rejects with a coded error. */
  issue(request: IssuerRequest, io: IssuerIo): SignedCertificate | Promise<SignedCertificate>
  /** The URL of the account at the CA once it is registered, for CAA records (RFC 8657). */
  accountUrl?(): Promise<string | undefined>
  /** The solver that would prove a name. Absent if the CA requires no proof. */
  solverFor?(name: Name): Solver | undefined
  /**
   * Revokes at the CA; `unknown` if that does not know it. Absent if revocations are rows of the store.
   * @throws AcmeError
   */
  revoke?(certificate: Uint8Array, reason: RevocationReason): Promise<'revoked' | 'unknown'>
  /** Returns the renewal information of the CA (RFC 9773); `undefined` without support. @throws AcmeError */
  renewalInfo?(certificate: Uint8Array, signal: AbortSignal): Promise<RenewalInfo | undefined>
  /** The parts that need an operator. */
  degraded?(): readonly string[]
}

export interface NamesToProve {
  readonly names: readonly Name[]
  /** The caller whose share of the limits of the CA it uses, `null` for none; default: whose it was before. */
  readonly askedBy?: string | null | undefined
  /** DER of the certificate that this one replaces. */
  readonly replaces?: Uint8Array | undefined
}

export interface IssuerRequest extends NamesToProve {
  readonly keyType: KeyType
  /** DER of the public key to certify (SubjectPublicKeyInfo). */
  readonly spki: Uint8Array
  /** DER of a CSR for that key: the caller's, or one created for this order. */
  csr(): Uint8Array
  /** The requested end, at most {@link Issuer.latestEnd}. */
  readonly notAfter?: number | undefined
  /** The longest that it may live, in ms. Default: as the issuer decides. */
  readonly lifetime?: number | undefined
}

export interface IssuerIo {
  /** Reports the current step as the progress of the order. */
  report(step: string): void
  /** The state that an earlier try saved: it is resumed with the same key. */
  readonly checkpoint: unknown
  /** Saves plain JSON and the key in the order before the next step; `undefined` deletes both. */
  save(state: unknown): Promise<void>
  /**
   * Saves what `goOn` makes of the state in which the names were proven ahead, and ends that preparation, in one
   * commit. Gives the saved state; `undefined` if nothing was prepared, or another replica works on it.
   */
  takeOver<State>(goOn: (prepared: unknown) => State): Promise<State | undefined>
  /** Aborted when the service stops: the order is resumed at the next start. */
  readonly signal: AbortSignal
  /** The time of the first request for the order. */
  readonly since: number
  /** The time for which transient errors are retried, in milliseconds. */
  readonly patience: number
}

export interface SignedCertificate extends Validity {
  readonly certificate: Uint8Array
  /** The direct issuer first, without the root. */
  readonly chain: readonly Uint8Array[]
  readonly serialNumber: string
}
