import { X509Certificate } from 'node:crypto'
import { children, type Element, readAll } from './der.ts'
import { PkiError } from './errors.ts'
import { OID, readGeneralName } from './extensions.ts'
import type { Name } from './names.ts'

/** The fields of a certificate. */
export interface CertificateInfo {
  /** In OpenSSL's spelling, one attribute per line; empty if there is none. */
  readonly subject: string
  readonly issuer: string
  /** The encoded subject, which is the issuer of the certificates that this one signs. */
  readonly subjectDer: Buffer
  /** The DNS names and IP addresses of the subject alternative name. */
  readonly names: readonly Name[]
  /** Hex, lower case. */
  readonly serialNumber: string
  /** Epoch milliseconds. */
  readonly notBefore: number
  /** Epoch milliseconds, inclusive. */
  readonly notAfter: number
  /** SubjectPublicKeyInfo, DER. */
  readonly spki: Buffer
  readonly isCa: boolean
  /** Greatest number of intermediates between this authority and a leaf; undefined: any number. */
  readonly pathLength: number | undefined
  /** Subject key identifier, hex, lower case. */
  readonly skid: string | undefined
  /** Authority key identifier, hex, lower case. */
  readonly akid: string | undefined
  /** SHA-256 of the certificate, hex, lower case. */
  readonly fingerprint256: string
}

/** Parses one certificate in DER. @throws PkiError `PKI_CERTIFICATE_INVALID` */
export function parseCertificate(der: Uint8Array): CertificateInfo {
  const x509 = readX509(der)
  const { subjectDer, spki, extension } = readFields(x509)
  const [, pathLength] = children(extension(OID.basicConstraints))
  return {
    subject: x509.subject ?? '',
    issuer: x509.issuer ?? '',
    subjectDer,
    names: children(extension(OID.subjectAltName)).flatMap(nameOrNone),
    serialNumber: x509.serialNumber.toLowerCase(),
    notBefore: x509.validFromDate.getTime(),
    notAfter: x509.validToDate.getTime(),
    spki,
    isCa: x509.ca,
    pathLength: pathLength && Number(`0x${pathLength.content.toString('hex')}`),
    skid: extension(OID.subjectKeyIdentifier)?.content.toString('hex'),
    akid: children(extension(OID.authorityKeyIdentifier))
      .find(({ tag }) => tag === KEY_IDENTIFIER)
      ?.content.toString('hex'),
    fingerprint256: x509.fingerprint256.replaceAll(':', '').toLowerCase(),
  }
}

/** OpenSSL parses a certificate first, so that our own reader gets well-formed DER only. */
export function readX509(der: Uint8Array): X509Certificate {
  try {
    const x509 = new X509Certificate(der)
    if (x509.raw.length === der.length) return x509
  } catch {
    // Thrown below.
  }
  throw new PkiError('PKI_CERTIFICATE_INVALID', 'the bytes are not one X.509 certificate')
}

export const isSelfSigned = (x509: X509Certificate): boolean =>
  x509.checkIssued(x509) && x509.verify(x509.publicKey)

const VERSION = 0xa0
const EXTENSIONS = 0xa3
const KEY_IDENTIFIER = 0x80

/** Reads the fields that `X509Certificate` does not expose. */
export function readFields({ raw }: X509Certificate) {
  const [toBeSigned] = children(readAll(raw)[0])
  const fields = children(toBeSigned)
  // Before them come serial, algorithm, issuer and validity, and the version unless it is 1.
  const [subject, spki] = fields.slice(fields[0]?.tag === VERSION ? 5 : 4)
  const [list] = children(fields.find(({ tag }) => tag === EXTENSIONS))
  const extensions = children(list).map(children)
  return {
    subjectDer: subject?.raw ?? Buffer.alloc(0),
    spki: spki?.raw ?? Buffer.alloc(0),
    extension(id: Buffer): Element | undefined {
      const value = extensions.find(([oid]) => oid?.raw.equals(id))?.at(-1)
      return value && readAll(value.content)[0]
    },
  }
}

function nameOrNone(element: Element): Name | [] {
  try {
    return readGeneralName(element)
  } catch {
    return []
  }
}
