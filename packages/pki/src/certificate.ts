import { X509Certificate } from 'node:crypto'
import { attempt } from '@gatehouse/net'
import {
  CLIENT_NAMES,
  children,
  type Element,
  OID,
  readAll,
  readClientName,
  readGeneralName,
} from './der.ts'
import { PkiError } from './errors.ts'
import type { Name } from './names.ts'

/** The fields of a certificate. */
export type CertificateInfo = Readonly<ReturnType<typeof parseCertificate>>

/** Parses one certificate in DER. @throws PkiError `PKI_CERTIFICATE_INVALID` */
export function parseCertificate(der: Uint8Array) {
  const x509 = readX509(der)
  const { subjectDer, spki, extension } = readFields(x509)
  const [, pathLength] = children(extension(OID.basicConstraints))
  const akid = children(extension(OID.authorityKeyIdentifier))
  return {
    /** The subject in OpenSSL's spelling, one attribute per line; empty if there is none. */
    subject: x509.subject ?? '',
    issuer: x509.issuer ?? '',
    /** The encoded subject, which is the issuer of the certificates that this one signs. */
    subjectDer,
    /** The DNS names, IP and e-mail addresses and SPIFFE IDs of the subject alternative name. */
    names: children(extension(OID.subjectAltName)).flatMap(nameOrNone),
    /** Hex, lower case, like the identifiers of keys and the fingerprint. */
    serialNumber: x509.serialNumber.toLowerCase(),
    /** Epoch milliseconds. */
    notBefore: x509.validFromDate.getTime(),
    /** Epoch milliseconds, inclusive. */
    notAfter: x509.validToDate.getTime(),
    /** SubjectPublicKeyInfo, DER. */
    spki,
    isCa: x509.ca,
    /** Greatest number of intermediates between this authority and a leaf; undefined: any number. */
    pathLength: pathLength && Number(`0x${pathLength.content.toString('hex')}`),
    /** Subject key identifier. */
    skid: extension(OID.subjectKeyIdentifier)?.content.toString('hex'),
    /** Authority key identifier. */
    akid: akid.find(({ tag }) => tag === KEY_IDENTIFIER)?.content.toString('hex'),
    /** SHA-256 of the certificate. */
    fingerprint256: x509.fingerprint256.replaceAll(':', '').toLowerCase(),
  }
}

/** The digest in a certificate that answers a tls-alpn-01 challenge: the extension has to be critical (RFC 8737 section 3). */
export function readAcmeIdentifier(der: Uint8Array): Buffer | undefined {
  const { critical, extension } = readFields(readX509(der))
  const isCritical = critical.some((id) => id.equals(OID.acmeIdentifier))
  return isCritical ? extension(OID.acmeIdentifier)?.content : undefined
}

/** OpenSSL parses a certificate first, so that our own reader gets well-formed DER only. */
export function readX509(der: Uint8Array): X509Certificate {
  const x509 = attempt(() => new X509Certificate(der))
  if (x509?.raw.length === der.length) return x509
  throw new PkiError('PKI_CERTIFICATE_INVALID', 'the bytes are not one X.509 certificate')
}

export const isSelfSigned = (x509: X509Certificate): boolean =>
  x509.checkIssued(x509) && x509.verify(x509.publicKey)

const VERSION = 0xa0
const EXTENSIONS = 0xa3
const KEY_IDENTIFIER = 0x80
const BOOLEAN = 0x01

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
    /** The identifiers of the critical extensions. */
    critical: extensions.flatMap(([id, flag]) => (id && flag?.tag === BOOLEAN ? id.raw : [])),
    extension(id: Buffer): Element | undefined {
      const value = extensions.find(([oid]) => oid?.raw.equals(id))?.at(-1)
      return value && readAll(value.content)[0]
    },
  }
}

const isOfClients = ({ tag }: Element) => tag === CLIENT_NAMES.email || tag === CLIENT_NAMES.uri

function nameOrNone(element: Element): Name | [] {
  const read = isOfClients(element) ? readClientName : readGeneralName
  return attempt(() => read(element)) ?? []
}
