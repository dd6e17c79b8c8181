import type { KeyType, Name } from '@gatehouse/pki'

/** A certificate authority that cert-service can ask: the embedded CA today, ACME CAs beside it. */
export interface Issuer {
  /** As in the configuration; part of a certificate's lineage. */
  readonly name: string
  /** Whether it may sign this name at all, whoever asks. */
  permits(name: Name): boolean
  /**
   * Signs, at once or after a while. `report` tells what it is doing, for the order's progress.
   * Rejects with a coded error; work goes on though every caller has gone.
   */
  issue(request: IssuerRequest, report: (step: string) => void): Issued | Promise<Issued>
}

export interface IssuerRequest {
  readonly names: readonly Name[]
  readonly keyType: KeyType
  /** DER of the public key to certify (SubjectPublicKeyInfo). */
  readonly spki: Uint8Array
  /** DER of the caller's request, where the caller keeps the key. */
  readonly csr: Uint8Array | null
}

export interface Issued {
  readonly certificate: Uint8Array
  /** The direct issuer first, without the root. */
  readonly chain: readonly Uint8Array[]
  readonly serialNumber: string
  readonly notBefore: number
  readonly notAfter: number
}
