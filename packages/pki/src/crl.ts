import {
  authorityKeyId,
  context,
  type Der,
  element,
  extension,
  integer,
  OID,
  sequence,
  time,
} from './der.ts'
import { type Authority, signerOf } from './signer.ts'

/** Reasons for the revocation of a server certificate (RFC 5280 section 5.3.1). */
export const REVOCATION_REASONS = {
  unspecified: 0,
  keyCompromise: 1,
  cACompromise: 2,
  affiliationChanged: 3,
  superseded: 4,
  cessationOfOperation: 5,
  privilegeWithdrawn: 9,
} as const
export type RevocationReason = keyof typeof REVOCATION_REASONS

/** An entry of a CRL. */
export interface Revocation {
  /** Hex. */
  readonly serialNumber: string
  /** Epoch milliseconds. */
  readonly revokedAt: number
  readonly reason?: RevocationReason
}

const VERSION_2 = integer(1)
const ENUMERATED = 0x0a

/**
 * Signs a certificate revocation list of the authority, DER (RFC 5280 section 5). `number` must grow
 * from list to list; times are epoch milliseconds.
 * @throws PkiError `PKI_CA_KEY_INVALID`
 */
export function createCrl(options: {
  readonly authority: Authority
  readonly number: bigint
  readonly revoked: readonly Revocation[]
  readonly thisUpdate: number
  readonly nextUpdate: number
}): Buffer {
  const { authority, number, revoked, thisUpdate, nextUpdate } = options
  const signer = signerOf(authority)
  return signer.seal(
    sequence(
      VERSION_2,
      signer.algorithm,
      signer.issuer,
      time(thisUpdate),
      time(nextUpdate),
      // RFC 5280 section 5.1.2.6: absent if nothing is revoked.
      ...(revoked.length > 0 ? [sequence(...revoked.map(entry))] : []),
      context(0, sequence(authorityKeyId(signer.keyId), extension(OID.crlNumber, integer(number)))),
    ),
  )
}

function entry({ serialNumber, revokedAt, reason = 'unspecified' }: Revocation): Der {
  const fields = [integer(Buffer.from(serialNumber, 'hex')), time(revokedAt)]
  // RFC 5280 section 5.3.1: no reason instead of `unspecified`.
  if (reason === 'unspecified') return sequence(...fields)
  const code = element(ENUMERATED, Buffer.of(REVOCATION_REASONS[reason]))
  return sequence(...fields, sequence(extension(OID.reasonCode, code)))
}
