import { KeyObject, type X509Certificate } from 'node:crypto'
import type { Authority } from './authority.ts'
import { isSelfSigned, parseCertificate, readFields, readX509 } from './certificate.ts'
import { PkiError } from './errors.ts'
import { OID } from './extensions.ts'
import { type KeyPair, keyPairFromPem } from './keys.ts'
import { fromPem } from './pem.ts'
import { algorithmFor } from './signer.ts'

/**
 * Takes an authority that was made before, here or elsewhere: its certificate in PEM or DER,
 * followed by those that signed it. It needs a P-256, P-384 or RSA key.
 *
 * @throws PkiError `PKI_CERTIFICATE_INVALID`, `PKI_PEM_INVALID`, `PKI_KEY_INVALID`,
 *   `PKI_KEY_WEAK`, `PKI_CA_INVALID`, `PKI_CA_CHAIN`, `PKI_CA_PATH_LENGTH`, `PKI_CA_EXPIRED`,
 *   `PKI_CA_KEY_MISMATCH`
 */
export function loadAuthority(options: {
  readonly certificate: string | Uint8Array | readonly Uint8Array[]
  /** PEM as `keyPairFromPem` reads it, or a key that was read before. */
  readonly key?: string | KeyPair | KeyObject
  /** Epoch milliseconds. */
  readonly now: number
}): Authority {
  const chain = derOf(options.certificate).map(readX509)
  const [own] = chain
  if (!own) throw new PkiError('PKI_CA_CHAIN', 'there is no certificate')
  for (const [below, x509] of chain.entries()) {
    checkAuthority(x509, below, options.now)
    checkSignature(x509, chain[below + 1])
  }
  algorithmFor(own.publicKey)
  // An empty file is a key that cannot be read, not the lack of one.
  const key = options.key === undefined ? undefined : privateKeyOf(options.key)
  const info = parseCertificate(own.raw)
  if (key && !own.checkPrivateKey(key))
    throw new PkiError('PKI_CA_KEY_MISMATCH', `the private key is not that of ${info.subject}`)
  const withoutRoot = chain.filter((x509, i) => i === 0 || !isSelfSigned(x509))
  return {
    certificate: own.raw,
    chain: withoutRoot.map(({ raw }) => raw),
    info,
    ...(key && { key }),
  }
}

function derOf(certificate: string | Uint8Array | readonly Uint8Array[]): readonly Uint8Array[] {
  if (typeof certificate === 'string') return fromPem(certificate, 'CERTIFICATE')
  return certificate instanceof Uint8Array ? [certificate] : certificate
}

function privateKeyOf(key: string | KeyPair | KeyObject): KeyObject {
  if (key instanceof KeyObject) return key
  return (typeof key === 'string' ? keyPairFromPem(key) : key).privateKey
}

const SERVER_AUTH_OR_ANY = ['1.3.6.1.5.5.7.3.1', '2.5.29.37.0']
const KEY_CERT_SIGN_AND_CRL_SIGN = 0x06

/** Whether a certificate may sign, now, with that many authorities below it. */
function checkAuthority(x509: X509Certificate, below: number, now: number): void {
  const { subject, isCa, skid, pathLength, notBefore, notAfter } = parseCertificate(x509.raw)
  const refuse = (why: string): never => {
    throw new PkiError('PKI_CA_INVALID', `${subject}: ${why}`)
  }
  if (!isCa) refuse('basicConstraints does not say CA:TRUE')
  const keyUsage = readFields(x509).extension(OID.keyUsage)?.content.at(1) ?? 0
  if ((keyUsage & KEY_CERT_SIGN_AND_CRL_SIGN) !== KEY_CERT_SIGN_AND_CRL_SIGN)
    refuse('keyUsage does not name keyCertSign and cRLSign')
  if (x509.keyUsage && !x509.keyUsage.some((purpose) => SERVER_AUTH_OR_ANY.includes(purpose)))
    refuse('extendedKeyUsage does not allow serverAuth')
  if (!skid) refuse('there is no subject key identifier')
  if (pathLength !== undefined && pathLength < below)
    throw new PkiError('PKI_CA_PATH_LENGTH', `${subject}: ${below} authorities are below it`)
  if (now < notBefore || now > notAfter)
    throw new PkiError('PKI_CA_EXPIRED', `${subject}: valid ${x509.validFrom} to ${x509.validTo}`)
}

const STRONG_SIGNATURE =
  /^(sha(256|384|512)WithRSAEncryption|ecdsa-with-SHA(256|384|512)|ED25519)$/i

function checkSignature(x509: X509Certificate, issuer: X509Certificate | undefined): void {
  if (issuer && !(x509.checkIssued(issuer) && x509.verify(issuer.publicKey)))
    throw new PkiError('PKI_CA_CHAIN', `${x509.subject} is not signed by ${issuer.subject}`)
  // Nobody relies on the signature of a root on itself.
  if (!isSelfSigned(x509) && !STRONG_SIGNATURE.test(x509.signatureAlgorithm ?? ''))
    throw new PkiError('PKI_CA_INVALID', `${x509.subject}: signed by ${x509.signatureAlgorithm}`)
}
