import { KeyObject, type X509Certificate } from 'node:crypto'
import { isSelfSigned, parseCertificate, readFields, readX509 } from './certificate.ts'
import { nameConstraint } from './constraints.ts'
import {
  authorityKeyId,
  caConstraint,
  caKeyUsage,
  criticalExtension,
  type Der,
  distributionPoints,
  encode,
  extendedKeyUsage,
  extension,
  fromPem,
  type KeyPurpose,
  keyIdentifier,
  OID,
  PURPOSE_IDS,
  subjectKeyId,
} from './der.ts'
import { PkiError } from './errors.ts'
import { generateKeyPair, type KeyPair, keyPairFromPem } from './keys.ts'
import type { NameRule } from './names.ts'
import {
  type Authority,
  algorithmFor,
  clampValidity,
  createSerial,
  createSigner,
  distinguishedName,
  signCertificate,
  signerOf,
} from './signer.ts'

const YEAR = 365 * 86_400_000
/** Time by which a certificate begins before it is made, in ms: for clients whose clocks are behind. */
export const BACKDATE = 5 * 60_000

/**
 * Creates a root: a P-384 key unless one is given, and 10 years by default. Times are epoch
 * milliseconds.
 * @throws PkiError `PKI_SUBJECT_INVALID`, `PKI_KEY_WEAK`
 */
export async function createRoot(options: {
  readonly commonName: string
  readonly now: number
  readonly lifetimeMs?: number
  readonly key?: KeyPair
}): Promise<Authority> {
  const { commonName, now, lifetimeMs = 10 * YEAR } = options
  const subject = authorityName(commonName)
  const { spki, privateKey } = options.key ?? (await generateKeyPair('p384'))
  const keyId = keyIdentifier(spki)
  const certificate = signCertificate(createSigner(subject, keyId, privateKey), {
    serial: createSerial(now),
    subject,
    spki,
    notBefore: now - BACKDATE,
    notAfter: now + lifetimeMs,
    extensions: [caConstraint(), caKeyUsage(), subjectKeyId(keyId)],
  })
  return authorityOf([certificate], privateKey)
}

/**
 * Creates an intermediate that signs leaves for one purpose only, by default TLS servers: a P-256 key,
 * and 1 year by default or what is left of the root. `permitted` becomes a critical name constraint
 * unless it is empty or contains `*`. In it `x`, `*.x` and `=*.x` all mean "x and everything below"; DNS
 * names or addresses without any rule are excluded.
 * @throws PkiError `PKI_SUBJECT_INVALID`, `PKI_CA_KEY_INVALID`, `PKI_CA_PATH_LENGTH`,
 *   `PKI_CA_EXPIRED`; `PKI_CA_INVALID` if the root is not for this purpose
 */
export async function createIntermediate(options: {
  readonly root: Authority
  readonly commonName: string
  readonly now: number
  readonly lifetimeMs?: number
  readonly permitted?: readonly NameRule[]
  /** URL of the CRL of the root. */
  readonly crlUrl?: string
  readonly purpose?: KeyPurpose
}): Promise<Authority> {
  const { root, commonName, now, lifetimeMs = YEAR, purpose = 'serverAuth' } = options
  assertPurpose(readX509(root.certificate), purpose)
  if (root.info.pathLength === 0)
    throw new PkiError('PKI_CA_PATH_LENGTH', `${root.info.subject} may sign leaves only`)
  const signer = signerOf(root)
  const { constraint, list } = configuredExtensions(options)
  const { spki, privateKey } = await generateKeyPair('p256')
  const certificate = signCertificate(signer, {
    serial: createSerial(now),
    subject: authorityName(commonName),
    spki,
    ...clampValidity(root, { notBefore: now - BACKDATE, notAfter: now + lifetimeMs }),
    extensions: [
      caConstraint(0),
      caKeyUsage(),
      extendedKeyUsage(purpose),
      subjectKeyId(keyIdentifier(spki)),
      authorityKeyId(signer.keyId),
      ...(constraint ? [criticalExtension(OID.nameConstraints, constraint)] : []),
      ...(list ? [extension(OID.crlDistributionPoints, list)] : []),
    ],
  })
  return placeBelow(root, authorityOf([certificate], privateKey))
}

/**
 * Creates a cross certificate (RFC 5280 section 3.2): the name and key of a root, signed by another one until that one
 * ends. Clients that trust only `signer` then accept what is below `root`. It has the name constraints of `root`, and a
 * path as long as that of `signer` allows. Gives DER.
 * @throws PkiError `PKI_CA_KEY_INVALID`, `PKI_CA_EXPIRED`; `PKI_CA_PATH_LENGTH` if no intermediate fits below it
 */
export function createCross(options: {
  readonly signer: Authority
  readonly root: Authority
  readonly now: number
  /** URL of the CRL of `signer`. */
  readonly crlUrl?: string
}): Buffer {
  const { signer: upper, root, now } = options
  // The cross certificate and an intermediate are below it.
  if ((upper.info.pathLength ?? Infinity) < 2)
    throw new PkiError(
      'PKI_CA_PATH_LENGTH',
      `${upper.info.subject} may not sign a cross certificate`,
    )
  const signer = signerOf(upper)
  const { list } = configuredExtensions(options)
  const constraints = readFields(readX509(root.certificate)).extension(OID.nameConstraints)
  return signCertificate(signer, {
    serial: createSerial(now),
    subject: root.info.subjectDer,
    spki: root.info.spki,
    ...clampValidity(upper, { notBefore: now - BACKDATE, notAfter: upper.ends }),
    extensions: [
      caConstraint(),
      caKeyUsage(),
      subjectKeyId(Buffer.from(root.info.skid ?? '', 'hex')),
      authorityKeyId(signer.keyId),
      ...(constraints ? [criticalExtension(OID.nameConstraints, constraints.raw)] : []),
      ...(list ? [extension(OID.crlDistributionPoints, list)] : []),
    ],
  })
}

/** The options of an intermediate that the configuration sets. */
type IntermediateOptions = Pick<Parameters<typeof createIntermediate>[0], 'permitted' | 'crlUrl'>

const configuredExtensions = ({ permitted = [], crlUrl }: IntermediateOptions) => ({
  constraint: nameConstraint(permitted),
  list: crlUrl === undefined ? undefined : distributionPoints(crlUrl),
})

/**
 * Completes an authority that another one signed by what is known of that one. `cross` are the certificates by which
 * those come to its key who trust another root.
 */
export function placeBelow(
  upper: Authority,
  authority: Authority,
  cross: readonly Buffer[] = [],
): Authority {
  const { certificate, info } = authority
  return {
    ...authority,
    chain: [certificate, ...upper.chain.filter((der) => !upper.anchor?.equals(der)), ...cross],
    ends: Math.min(info.notAfter, upper.ends),
    ...(upper.anchor && { anchor: upper.anchor }),
  }
}

function authorityOf(
  [certificate, ...above]: readonly [Buffer, ...Buffer[]],
  key?: KeyObject,
): Authority {
  const certificates = [certificate, ...above]
  const roots = certificates.filter((der) => isSelfSigned(readX509(der)))
  const [anchor] = roots
  return {
    certificate,
    chain: [certificate, ...above.filter((der) => !roots.includes(der))],
    info: parseCertificate(certificate),
    ends: Math.min(...certificates.map((der) => parseCertificate(der).notAfter)),
    ...(anchor && { anchor }),
    ...(key && { key }),
  }
}

function authorityName(commonName: string): Buffer {
  // X.520 limits a common name to 64 characters.
  if (commonName.length < 1 || commonName.length > 64)
    throw new PkiError('PKI_SUBJECT_INVALID', `the common name has ${commonName.length} characters`)
  return encode(distinguishedName(commonName))
}

/**
 * Loads an existing authority: its certificate in PEM or DER, followed by those that signed it. It
 * needs a P-256, P-384 or RSA key.
 * @throws PkiError `PKI_CERTIFICATE_INVALID`, `PKI_PEM_INVALID`, `PKI_KEY_INVALID`,
 *   `PKI_KEY_WEAK`, `PKI_CA_INVALID`, `PKI_CA_CHAIN`, `PKI_CA_PATH_LENGTH`, `PKI_CA_EXPIRED`,
 *   `PKI_CA_KEY_INVALID`
 */
export function loadAuthority(options: {
  readonly certificate: string | Uint8Array | readonly Uint8Array[]
  /** PEM as for `keyPairFromPem`, or a parsed key. */
  readonly key?: string | KeyPair | KeyObject
  /** Epoch milliseconds. */
  readonly now: number
  /** The purpose of its certificates; default: TLS servers. */
  readonly purpose?: KeyPurpose
}): Authority {
  const { certificate, purpose = 'serverAuth' } = options
  const ders =
    typeof certificate === 'string' ? fromPem(certificate, 'CERTIFICATE') : [certificate].flat()
  const chain = ders.map(readX509)
  const [target] = chain
  if (!target) throw new PkiError('PKI_CA_CHAIN', 'there is no certificate')
  for (const [below, x509] of chain.entries()) {
    checkAuthority(x509, below, options.now)
    assertPurpose(x509, purpose)
    checkSignature(x509, chain[below + 1])
  }
  algorithmFor(target.publicKey)
  // An empty text is an unreadable key, not a missing one.
  const key = options.key === undefined ? undefined : privateKeyOf(options.key)
  if (key && !target.checkPrivateKey(key))
    throw new PkiError('PKI_CA_KEY_INVALID', `the private key is not that of ${target.subject}`)
  return authorityOf([target.raw, ...chain.slice(1).map(({ raw }) => raw)], key)
}

function privateKeyOf(key: string | KeyPair | KeyObject): KeyObject {
  if (key instanceof KeyObject) return key
  return (typeof key === 'string' ? keyPairFromPem(key) : key).privateKey
}

const KEY_CERT_SIGN_AND_CRL_SIGN = 0x06

/** Checks that a certificate may sign at this time, with that many authorities below it. */
function checkAuthority(x509: X509Certificate, below: number, now: number): void {
  const { subject, isCa, skid, pathLength, notBefore, notAfter } = parseCertificate(x509.raw)
  const refuse = (why: string): never => {
    throw new PkiError('PKI_CA_INVALID', `${subject}: ${why}`)
  }
  if (!isCa) refuse('basicConstraints does not say CA:TRUE')
  const keyUsage = readFields(x509).extension(OID.keyUsage)?.content.at(1) ?? 0
  if ((keyUsage & KEY_CERT_SIGN_AND_CRL_SIGN) !== KEY_CERT_SIGN_AND_CRL_SIGN)
    refuse('keyUsage does not name keyCertSign and cRLSign')
  if (!skid) refuse('there is no subject key identifier')
  if (pathLength !== undefined && pathLength < below)
    throw new PkiError('PKI_CA_PATH_LENGTH', `${subject}: ${below} authorities are below it`)
  if (now < notBefore || now > notAfter)
    throw new PkiError('PKI_CA_EXPIRED', `${subject}: valid ${x509.validFrom} to ${x509.validTo}`)
}

const ANY_PURPOSE = '2.5.29.37.0'

export function assertPurpose(x509: X509Certificate, purpose: KeyPurpose): void {
  // Node calls the extended key usage so.
  const usage = x509.keyUsage
  if (usage && !usage.includes(PURPOSE_IDS[purpose]) && !usage.includes(ANY_PURPOSE))
    throw new PkiError(
      'PKI_CA_INVALID',
      `${x509.subject}: extendedKeyUsage does not allow ${purpose}`,
    )
}

export const STRONG_SIGNATURE =
  /^(sha(256|384|512)WithRSAEncryption|ecdsa-with-SHA(256|384|512)|ED25519)$/i

function checkSignature(x509: X509Certificate, issuer: X509Certificate | undefined): void {
  if (issuer && !(x509.checkIssued(issuer) && x509.verify(issuer.publicKey)))
    throw new PkiError('PKI_CA_CHAIN', `${x509.subject} is not signed by ${issuer.subject}`)
  // Nobody relies on the self-signature of a root.
  if (!STRONG_SIGNATURE.test(x509.signatureAlgorithm ?? '') && !isSelfSigned(x509))
    throw new PkiError('PKI_CA_INVALID', `${x509.subject}: signed by ${x509.signatureAlgorithm}`)
}

/**
 * Whether an intermediate has exactly the name constraints and CRL that `createIntermediate` gives it
 * today.
 * @throws PkiError `PKI_CERTIFICATE_INVALID`
 */
export function isAsConfigured(certificate: Uint8Array, options: IntermediateOptions): boolean {
  const fields = readFields(readX509(certificate))
  const { constraint, list } = configuredExtensions(options)
  const isSame = (id: Buffer, configured: Der | undefined) => {
    const present = fields.extension(id)
    return present && configured ? present.raw.equals(encode(configured)) : !present && !configured
  }
  return isSame(OID.nameConstraints, constraint) && isSame(OID.crlDistributionPoints, list)
}
