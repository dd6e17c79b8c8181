import { type KeyObject, sign } from 'node:crypto'
import {
  bits,
  context,
  type Der,
  encode,
  integer,
  NULL,
  oid,
  sequence,
  set,
  time,
  utf8,
} from './der.ts'
import { PkiError } from './errors.ts'
import { keyTypeOf } from './keys.ts'

/** What stands in everything that an authority signs, and the signing itself. */
export interface Signer {
  /** Name of the authority, DER. */
  readonly issuer: Buffer
  /** Its subject key identifier. */
  readonly keyId: Der
  /** AlgorithmIdentifier of its signatures, DER. */
  readonly algorithm: Buffer
  /** Content, algorithm and signature in one SEQUENCE: a certificate, or a CRL. */
  seal(content: Der): Buffer
}

const ECDSA_SHA256 = encode(sequence(oid('1.2.840.10045.4.3.2')))
const ECDSA_SHA384 = encode(sequence(oid('1.2.840.10045.4.3.3')))
const RSA_SHA256 = encode(sequence(oid('1.2.840.113549.1.1.11'), NULL))

/** @throws PkiError `PKI_KEY_WEAK` */
export function createSigner(issuer: Buffer, keyId: Der, key: KeyObject): Signer {
  const [algorithm, digest] = algorithmFor(key)
  return {
    issuer,
    keyId,
    algorithm,
    seal(content) {
      const bytes = encode(content)
      return encode(sequence(bytes, algorithm, bits(sign(digest, bytes, key))))
    },
  }
}

/** The signatures that an authority with this public or private key makes. */
export function algorithmFor(key: KeyObject): [algorithm: Buffer, digest: string] {
  switch (keyTypeOf(key)) {
    case 'p256':
      return [ECDSA_SHA256, 'sha256']
    case 'p384':
      return [ECDSA_SHA384, 'sha384']
    case 'ed25519':
      throw new PkiError('PKI_KEY_WEAK', 'an authority cannot have an Ed25519 key')
    default:
      return [RSA_SHA256, 'sha256']
  }
}

const COMMON_NAME = oid('2.5.4.3')
const VERSION_3 = encode(context(0, integer(2)))

/** A subject with a common name and nothing else, or the empty one. */
export const distinguishedName = (commonName?: string): Der =>
  commonName === undefined ? sequence() : sequence(set(sequence(COMMON_NAME, utf8(commonName))))

/** A certificate of version 3 (RFC 5280 4.1). Times are epoch milliseconds. */
export function signCertificate(
  signer: Signer,
  certificate: {
    readonly serial: Uint8Array
    readonly subject: Der
    readonly spki: Uint8Array
    readonly notBefore: number
    readonly notAfter: number
    readonly extensions: readonly Der[]
  },
): Buffer {
  const { serial, subject, spki, notBefore, notAfter, extensions } = certificate
  return signer.seal(
    sequence(
      VERSION_3,
      integer(serial),
      signer.algorithm,
      signer.issuer,
      validity(notBefore, notAfter),
      subject,
      spki,
      context(3, sequence(...extensions)),
    ),
  )
}

let last: { notBefore: number; notAfter: number; der: Buffer } | undefined

/** What is issued within one second has the same validity, so the last one is kept. */
function validity(notBefore: number, notAfter: number): Buffer {
  if (last?.notBefore !== notBefore || last.notAfter !== notAfter)
    last = { notBefore, notAfter, der: encode(sequence(time(notBefore), time(notAfter))) }
  return last.der
}
