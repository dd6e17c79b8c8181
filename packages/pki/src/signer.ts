import { type KeyObject, randomFillSync, sign } from 'node:crypto'
import type { CertificateInfo } from './certificate.ts'
import {
  authorityKeyId,
  bits,
  context,
  criticalExtension,
  crlDistributionPoint,
  type Der,
  encode,
  extendedKeyUsage,
  integer,
  type KeyPurpose,
  keyIdentifier,
  leafKeyUsage,
  NULL,
  OID,
  octets,
  oid,
  sequence,
  set,
  subjectAltName,
  subjectKeyId,
  time,
  utf8,
} from './der.ts'
import { PkiError } from './errors.ts'
import { type KeyPair, type KeyType, keyTypeOf } from './keys.ts'
import type { Name } from './names.ts'

/** A certificate authority: a root or an intermediate. */
export interface Authority {
  /** DER. */
  readonly certificate: Buffer
  /** DER, its own certificate first. A root is included only as the first one. */
  readonly chain: readonly Buffer[]
  readonly info: CertificateInfo
  /** The end of the first of it and those above it, as far as they are known; epoch milliseconds. */
  readonly ends: number
  /** DER of the self-signed root above it, or of itself, if that is known. */
  readonly anchor?: Buffer
  /** Absent if the key is stored elsewhere; such an authority cannot sign. */
  readonly key?: KeyObject
}

const ECDSA_SHA256 = encode(sequence(oid('1.2.840.10045.4.3.2')))
const ECDSA_SHA384 = encode(sequence(oid('1.2.840.10045.4.3.3')))
const RSA_SHA256 = encode(sequence(oid('1.2.840.113549.1.1.11'), NULL))

/** Signs certificates and CRLs in the name of an authority. */
export type AuthoritySigner = ReturnType<typeof createSigner>

/** @param issuer - DER @param keyId - the subject key identifier */
export function createSigner(issuer: Buffer, keyId: Der, key: KeyObject) {
  const [algorithm, digest] = algorithmFor(key)
  return {
    issuer,
    keyId,
    /** AlgorithmIdentifier, DER. */
    algorithm,
    /** Gives the content, the algorithm and the signature in one SEQUENCE. */
    seal(content: Der): Buffer {
      const bytes = encode(content)
      return encode(sequence(bytes, algorithm, bits(sign(digest, bytes, key))))
    },
  }
}

/** @throws PkiError `PKI_CA_KEY_INVALID` */
export function signerOf({ info, key }: Authority): AuthoritySigner {
  if (!key) throw new PkiError('PKI_CA_KEY_INVALID', `there is no private key for ${info.subject}`)
  return createSigner(info.subjectDer, Buffer.from(info.skid ?? '', 'hex'), key)
}

/** The signature algorithm and digest for a public or private key of an authority. */
export function algorithmFor(key: KeyObject): [algorithm: Buffer, digest: string] {
  const type = keyTypeOf(key)
  if (type === 'ed25519')
    throw new PkiError('PKI_KEY_WEAK', 'an authority cannot have an Ed25519 key')
  if (type === 'p384') return [ECDSA_SHA384, 'sha384']
  return [type === 'p256' ? ECDSA_SHA256 : RSA_SHA256, 'sha256']
}

const COMMON_NAME = oid('2.5.4.3')
const VERSION_3 = encode(context(0, integer(2)))

/** A subject with only a common name, or an empty one. */
export const distinguishedName = (commonName?: string): Der =>
  commonName === undefined ? sequence() : sequence(set(sequence(COMMON_NAME, utf8(commonName))))

type TbsCertificate = Omit<Leaf, 'keyType' | 'names'> & {
  subject: Der
  extensions: readonly Der[]
}

/** Signs a version 3 certificate (RFC 5280 section 4.1). Times are epoch milliseconds. */
export function signCertificate(
  signer: AuthoritySigner,
  { serial, subject, spki, notBefore, notAfter, extensions }: TbsCertificate,
): Buffer {
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

let cachedValidity: { notBefore: number; notAfter: number; der: Buffer } | undefined

/** Keeps the last encoding: certificates issued within the same second have the same validity. */
function validity(notBefore: number, notAfter: number): Buffer {
  if (cachedValidity?.notBefore !== notBefore || cachedValidity.notAfter !== notAfter)
    cachedValidity = { notBefore, notAfter, der: encode(sequence(time(notBefore), time(notAfter))) }
  return cachedValidity.der
}

const TIME_BYTES = 5
const RANDOM_BYTES = 11
const random = Buffer.alloc(256 * RANDOM_BYTES)
let used = random.length

/**
 * Creates a serial number of 16 bytes, of which 11 are random (the CA/Browser Forum demands 8). They
 * follow the second of issue, so that an index of serials grows at its end. The first two bits are
 * `01`, so that the number is positive and has always the same length.
 * @param now - milliseconds since the epoch
 */
export function createSerial(now: number): Buffer {
  if (used === random.length) {
    randomFillSync(random)
    used = 0
  }
  const serial = Buffer.allocUnsafe(TIME_BYTES + RANDOM_BYTES)
  serial.writeUIntBE(2 ** 38 + Math.floor(now / 1000), 0, TIME_BYTES)
  random.copy(serial, TIME_BYTES, used, used + RANDOM_BYTES)
  used += RANDOM_BYTES
  return serial
}

const HOUR = 3_600_000

/**
 * Limits a validity period to that of the authority, in whole seconds. It fails if less than an
 * hour is left before the authority ends, or if the authority is not valid before the period ends.
 * @throws PkiError `PKI_CA_EXPIRED`
 */
export function clampValidity(
  { info, ends }: Authority,
  period: { readonly notBefore: number; readonly notAfter: number },
): { notBefore: number; notAfter: number } {
  const notBefore = wholeSeconds(Math.max(period.notBefore, info.notBefore))
  const notAfter = wholeSeconds(Math.min(period.notAfter, ends))
  const refuse = (verb: string, instant: number) =>
    new PkiError('PKI_CA_EXPIRED', `${info.subject} ${verb} at ${new Date(instant).toISOString()}`)
  if (period.notAfter > ends && notAfter - notBefore < HOUR) throw refuse('ends', ends)
  if (notBefore >= notAfter) throw refuse('begins only', info.notBefore)
  return { notBefore, notAfter }
}

const wholeSeconds = (ms: number) => Math.floor(ms / 1000) * 1000

/** The content of a leaf certificate. */
export interface Leaf {
  /** SubjectPublicKeyInfo, DER. */
  readonly spki: Uint8Array
  readonly keyType: KeyType
  /** The names, at least one. */
  readonly names: readonly Name[]
  /** Epoch milliseconds, from `clampValidity`. */
  readonly notBefore: number
  readonly notAfter: number
  /** The serial number, from `createSerial`. */
  readonly serial: Uint8Array
}

/** Signs leaf certificates. */
export type LeafSigner = ReturnType<typeof createLeafSigner>

/**
 * Creates a signer of TLS certificates, by default of servers, which encodes their common extensions only once.
 *
 * The common name is the first DNS name of at most 64 characters, for people to read; without one
 * the subject is empty. Software uses the subject alternative name, which is always present.
 * @throws PkiError `PKI_CA_KEY_INVALID`
 */
export function createLeafSigner(
  authority: Authority,
  {
    crlUrl,
    withoutSubject,
    purpose = 'serverAuth',
  }: {
    readonly crlUrl?: string
    readonly purpose?: KeyPurpose
    /** Whether each subject is empty: what is above may limit subjects. */
    readonly withoutSubject?: boolean
  } = {},
) {
  const signer = signerOf(authority)
  const constant = (rsa: boolean) =>
    Buffer.concat(
      [
        leafKeyUsage(rsa),
        extendedKeyUsage(purpose),
        authorityKeyId(signer.keyId),
        ...(crlUrl ? [crlDistributionPoint(crlUrl)] : []),
      ].map(encode),
    )
  const forRsa = constant(true)
  const forOthers = constant(false)

  return {
    /** Gives DER. */
    sign({ spki, keyType, names, notBefore, notAfter, serial }: Leaf): Buffer {
      if (names.length === 0) throw new PkiError('PKI_NAME_INVALID', 'a certificate needs a name')
      const stray = names.find(({ kind }) => !KINDS[purpose].includes(kind))
      if (stray) throw new PkiError('PKI_NAME_INVALID', `${stray.text} is no name for ${purpose}`)
      const named = names.find(({ kind, text }) => isOfDns(kind) && text.length <= 64)
      const commonName = withoutSubject ? undefined : named?.text
      return signCertificate(signer, {
        serial,
        subject: distinguishedName(commonName),
        spki,
        notBefore,
        notAfter,
        extensions: [
          keyType.startsWith('rsa') ? forRsa : forOthers,
          subjectKeyId(keyIdentifier(spki)),
          subjectAltName(names, commonName === undefined),
        ],
      })
    },
  }
}

const KINDS: Readonly<Record<KeyPurpose, readonly Name['kind'][]>> = {
  serverAuth: ['dns', 'wildcard', 'ip'],
  clientAuth: ['dns', 'email', 'uri'],
}

const isOfDns = (kind: Name['kind']) => kind === 'dns' || kind === 'wildcard'

/**
 * Creates the self-signed certificate that answers a tls-alpn-01 challenge (RFC 8737 section 3), DER.
 * @throws PkiError `PKI_KEY_WEAK` for an Ed25519 key
 */
export function createAcmeAlpnCertificate(certificate: {
  readonly name: Name
  /** SHA-256 of the key authorization. */
  readonly digest: Uint8Array
  readonly key: KeyPair
  /** Epoch milliseconds. */
  readonly now: number
}): Buffer {
  const { name, digest, key, now } = certificate
  const subject = distinguishedName('ACME challenge')
  const signer = createSigner(encode(subject), keyIdentifier(key.spki), key.privateKey)
  return signCertificate(signer, {
    serial: createSerial(now),
    subject,
    spki: key.spki,
    notBefore: now - HOUR,
    notAfter: now + HOUR,
    extensions: [
      subjectAltName([name], false),
      criticalExtension(OID.acmeIdentifier, octets(digest)),
    ],
  })
}
