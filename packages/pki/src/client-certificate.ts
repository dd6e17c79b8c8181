import { type KeyObject, X509Certificate } from 'node:crypto'
import { assertPurpose, STRONG_SIGNATURE } from './authority.ts'
import { parseCertificate, readFields, readX509 } from './certificate.ts'
import { readConstraints } from './constraints.ts'
import { OID, PURPOSE_IDS } from './der.ts'
import { PkiError } from './errors.ts'
import type { Name } from './names.ts'

const DIGITAL_SIGNATURE = 0x80
/** The extensions that are read here. Any other critical one refuses (RFC 5280 section 4.2). */
const READ = [OID.keyUsage, OID.subjectAltName, OID.basicConstraints, OID.extendedKeyUsage]

/** The same of what signed it. */
const READ_ABOVE = [...READ, OID.nameConstraints]
const CURVES = ['prime256v1', 'secp384r1', 'secp521r1']
/** Bits of an RSA key, as SP 800-131A section 3 has them. */
const LEAST_RSA = 2_048

/** A certificate of a TLS client that one of the authorities signed. */
export interface ClientCertificate {
  /** The names, as `parseCertificate` reads them. */
  readonly names: readonly Name[]
  /** Hexadecimal, lower case. */
  readonly serialNumber: string
  /** The time in which it and the authority are both valid: epoch milliseconds, inclusive. */
  readonly notBefore: number
  readonly notAfter: number
}

/**
 * Checks the certificate of a TLS client (RFC 5280 section 6) whose key the connection has proved: one of
 * the authorities signed it itself, so that no chain is needed, and it is for clients alone and valid now.
 *
 * @param authorities - DER; all are trusted as they are, without what signed them
 * @param now - epoch milliseconds
 * @throws PkiError `PKI_CLIENT_REFUSED`; `PKI_CERTIFICATE_INVALID` if it is none, `PKI_CA_INVALID` if what signed it
 *   is not for clients
 */
export function readClientCertificate(
  der: Uint8Array,
  authorities: readonly Uint8Array[],
  now: number,
): ClientCertificate {
  const x509 = readX509(der)
  const fields = readFields(x509)
  const issuers = authorities
    .map((authority) => new X509Certificate(authority))
    .filter((authority) => x509.checkIssued(authority) && x509.verify(authority.publicKey))
  // Several if an authority was certified again for its key: the one that ends last.
  const issuer = issuers.toSorted((a, b) => +b.validToDate - +a.validToDate)[0]
  if (!issuer?.ca) throw refusal('no certificate authority for callers signed it')
  assertPurpose(issuer, 'clientAuth')
  assertStrong(x509, issuer)
  if (hasUnknown(fields, READ)) throw refusal('it has a critical extension that is not known here')
  if (hasUnknown(readFields(issuer), READ_ABOVE))
    throw refusal('what signed it has a critical extension that is not known here')
  if (x509.ca) throw refusal('it is that of a certificate authority')
  // Node calls the extended key usage so.
  const { keyUsage: purposes = [] } = x509
  if (purposes.length !== 1 || purposes[0] !== PURPOSE_IDS.clientAuth)
    throw refusal('its extended key usage is not clientAuth alone')
  const usage = fields.extension(OID.keyUsage)?.content.at(1) ?? DIGITAL_SIGNATURE
  if ((usage & DIGITAL_SIGNATURE) === 0) throw refusal('its key is not for signatures')
  return within(parseCertificate(der), parseCertificate(issuer.raw), issuer, now)
}

function assertStrong(leaf: X509Certificate, issuer: X509Certificate): void {
  if (!STRONG_SIGNATURE.test(leaf.signatureAlgorithm ?? '')) throw refusal('its signature is weak')
  if (!isStrong(leaf.publicKey)) throw refusal('its key is weak')
  if (!isStrong(issuer.publicKey)) throw refusal('the key of what signed it is weak')
}

type Info = ReturnType<typeof parseCertificate>

function hasUnknown({ critical }: ReturnType<typeof readFields>, supported: readonly Buffer[]) {
  return critical.some((id) => !supported.some((supportedId) => supportedId.equals(id)))
}

function isStrong({ asymmetricKeyType: type, asymmetricKeyDetails: details = {} }: KeyObject) {
  if (type === 'rsa' || type === 'rsa-pss') return (details.modulusLength ?? 0) >= LEAST_RSA
  return type === 'ec' ? CURVES.includes(details.namedCurve ?? '') : type === 'ed25519'
}

function within(leaf: Info, above: Info, { raw }: X509Certificate, now: number): ClientCertificate {
  const notBefore = Math.max(leaf.notBefore, above.notBefore)
  const notAfter = Math.min(leaf.notAfter, above.notAfter)
  if (now < notBefore) throw refusal('it is not valid yet')
  if (now > notAfter) throw refusal('it has expired')
  const { names, serialNumber, subject } = leaf
  const { permits, isSubjectLimited } = readConstraints([raw])
  // What constraints say about subjects is not read, so none is within.
  if (!names.every(permits) || (isSubjectLimited && subject !== ''))
    throw refusal('what signed it may not sign its names')
  return { names, serialNumber, notBefore, notAfter }
}

function refusal(why: string): PkiError {
  return new PkiError('PKI_CLIENT_REFUSED', why)
}
