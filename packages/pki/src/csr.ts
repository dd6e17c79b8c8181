import { hash } from 'node:crypto'
import { readCsr } from './csr-fields.ts'
import { namesOf } from './csr-names.ts'
import { verifyCsr } from './csr-signature.ts'
import { PkiError } from './errors.ts'
import { type KeyType, readPublicKey } from './keys.ts'
import type { Name } from './names.ts'
import { askedBy } from './not-granted.ts'

/** What of a certificate request counts: its key, proven to be held by the sender, and names. */
export interface CertificateRequest {
  readonly der: Buffer
  /** SubjectPublicKeyInfo, DER, as OpenSSL writes it. */
  readonly spki: Buffer
  /** Hex, lower case. */
  readonly spkiSha256: string
  readonly keyType: KeyType
  /** Those of the subject alternative name, then the common name if it is one, each once. */
  readonly names: readonly Name[]
  /** What it asks for besides names: see `notGranted`. */
  readonly asks: ReadonlyMap<string, string>
}

/**
 * Reads a PKCS#10 request, in PEM or DER, and verifies that its own key signed it. Of the
 * extensions only the names count; `notGranted` tells what else it asks for.
 *
 * @throws PkiError `PKI_CSR_INVALID`, `PKI_CSR_SIGNATURE`, `PKI_KEY_WEAK`
 */
export function parseCsr(input: string | Uint8Array): CertificateRequest {
  return read(input, verifyCsr)
}

/**
 * Reads a request that was accepted before, perhaps by an older version, which knew more algorithms
 * and took `critical: FALSE` written out. Its signature is not judged again; its key is.
 *
 * @throws PkiError `PKI_CSR_INVALID`, `PKI_KEY_WEAK`
 */
export function readKnownCsr(input: Uint8Array): CertificateRequest {
  return read(input)
}

function read(input: string | Uint8Array, verify?: typeof verifyCsr): CertificateRequest {
  const { fields, names, asks } = orInvalid(() => {
    const fields = readCsr(input, { isKnown: !verify })
    return { fields, names: namesOf(fields), asks: askedBy(fields) }
  })
  const { spki, type: keyType } = orInvalid(() => {
    const key = readPublicKey(fields.spki)
    verify?.(fields, key)
    return key
  })
  return { der: fields.der, spki, spkiSha256: hash('sha256', spki), keyType, names, asks }
}

const OF_THE_KEY = ['PKI_KEY_WEAK', 'PKI_CSR_SIGNATURE']

/** Whatever is wrong with the form of a request is told as such. */
function orInvalid<T>(read: () => T): T {
  try {
    return read()
  } catch (cause) {
    if (!(cause instanceof PkiError) || OF_THE_KEY.includes(cause.code)) throw cause
    throw new PkiError('PKI_CSR_INVALID', cause.message, { cause })
  }
}
