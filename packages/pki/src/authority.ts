import type { KeyObject } from 'node:crypto'
import {
  type CertificateInfo,
  createSerial,
  isSelfSigned,
  parseCertificate,
  readX509,
} from './certificate.ts'
import { encode } from './der.ts'
import { PkiError } from './errors.ts'
import {
  authorityKeyId,
  caConstraint,
  caKeyUsage,
  criticalExtension,
  crlDistributionPoint,
  keyIdentifier,
  OID,
  serverAuth,
  subjectKeyId,
} from './extensions.ts'
import { generateKeyPair, type KeyPair } from './keys.ts'
import { nameConstraint } from './name-constraints.ts'
import type { NameRule } from './name-rules.ts'
import { createSigner, distinguishedName, type Signer, signCertificate } from './signer.ts'

/** A certificate authority: a root or an intermediate. */
export interface Authority {
  /** DER. */
  readonly certificate: Buffer
  /** DER: itself, then what signed it and so on. A root is in it only as the first. */
  readonly chain: readonly Buffer[]
  readonly info: CertificateInfo
  /** Absent while the key is kept elsewhere; such an authority signs nothing. */
  readonly key?: KeyObject
}

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const YEAR = 365 * 24 * HOUR

/** Clocks of clients that are a little slow accept a certificate that begins this much earlier. */
const BACKDATE = MINUTE

/**
 * Makes a root: P-384 unless a key is given, 10 years. Times are epoch milliseconds.
 *
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
  return { certificate, chain: [certificate], info: parseCertificate(certificate), key: privateKey }
}

/**
 * Makes an intermediate that signs leaves only: P-256, 1 year or what is left of the root.
 * `permitted` becomes a critical name constraint, unless it is empty or has `*`: `x`, `*.x` and
 * `=*.x` are all "x and everything below" in it, and DNS names or addresses of which no rule speaks
 * are excluded.
 *
 * @throws PkiError `PKI_SUBJECT_INVALID`, `PKI_CA_KEY_MISSING`, `PKI_CA_PATH_LENGTH`,
 *   `PKI_CA_EXPIRING`
 */
export async function createIntermediate(options: {
  readonly root: Authority
  readonly commonName: string
  readonly now: number
  readonly lifetimeMs?: number
  readonly permitted?: readonly NameRule[]
  /** Where the CRL of the root is served. */
  readonly crlUrl?: string
}): Promise<Authority> {
  const { root, commonName, now, lifetimeMs = YEAR, permitted = [], crlUrl } = options
  if (root.info.pathLength === 0)
    throw new PkiError('PKI_CA_PATH_LENGTH', `${root.info.subject} may sign leaves only`)
  const signer = signerOf(root)
  const constraint = nameConstraint(permitted)
  const { spki, privateKey } = await generateKeyPair('p256')
  const certificate = signCertificate(signer, {
    serial: createSerial(now),
    subject: authorityName(commonName),
    spki,
    ...clampValidity(root, { notBefore: now - BACKDATE, notAfter: now + lifetimeMs }),
    extensions: [
      caConstraint(0),
      caKeyUsage(),
      serverAuth(),
      subjectKeyId(keyIdentifier(spki)),
      authorityKeyId(signer.keyId),
      ...(constraint ? [criticalExtension(OID.nameConstraints, constraint)] : []),
      ...(crlUrl ? [crlDistributionPoint(crlUrl)] : []),
    ],
  })
  const above = isSelfSigned(readX509(root.certificate)) ? [] : root.chain
  return {
    certificate,
    chain: [certificate, ...above],
    info: parseCertificate(certificate),
    key: privateKey,
  }
}

function authorityName(commonName: string): Buffer {
  // X.520 has 64 characters as the upper bound of a common name.
  if (commonName.length < 1 || commonName.length > 64)
    throw new PkiError('PKI_SUBJECT_INVALID', `${commonName.length} characters in a common name`)
  return encode(distinguishedName(commonName))
}

/** @throws PkiError `PKI_CA_KEY_MISSING` */
export function signerOf({ info, key }: Authority): Signer {
  if (!key) throw new PkiError('PKI_CA_KEY_MISSING', `there is no private key for ${info.subject}`)
  return createSigner(info.subjectDer, Buffer.from(info.skid ?? '', 'hex'), key)
}

/**
 * The part of a validity that lies within the authority's own, in whole seconds as a certificate
 * holds them. Refused where the authority cuts it to less than an hour, or begins after it.
 *
 * @throws PkiError `PKI_CA_EXPIRING`
 */
export function clampValidity(
  { info }: Authority,
  asked: { readonly notBefore: number; readonly notAfter: number },
): { notBefore: number; notAfter: number } {
  const notBefore = wholeSeconds(Math.max(asked.notBefore, info.notBefore))
  const notAfter = wholeSeconds(Math.min(asked.notAfter, info.notAfter))
  if (asked.notAfter > info.notAfter && notAfter - notBefore < HOUR)
    throw new PkiError(
      'PKI_CA_EXPIRING',
      `${info.subject} ends at ${new Date(info.notAfter).toISOString()}`,
    )
  if (notBefore >= notAfter)
    throw new PkiError(
      'PKI_CA_EXPIRING',
      `${info.subject} begins only at ${new Date(info.notBefore).toISOString()}`,
    )
  return { notBefore, notAfter }
}

const wholeSeconds = (ms: number) => Math.floor(ms / 1000) * 1000
