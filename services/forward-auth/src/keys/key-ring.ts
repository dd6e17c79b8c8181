import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hash,
  hkdfSync,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { FwaError } from '../errors.ts'

/** 32 bytes for one purpose, and their key ID. */
interface Key {
  readonly kid: string
  readonly secret: Buffer
  /** The same for node:crypto, where bytes cost ten times as much. */
  readonly object: KeyObject
  /** The key for MACs of values that are not encrypted. */
  readonly mac: KeyObject
}

export interface KeyRing {
  readonly first: Key
  /** All keys that verify or decrypt, with the first one. */
  readonly keys: readonly Key[]
}

/** The minimum length of a secret, in characters. */
export const MIN_SECRET_LENGTH = 32

/** The purpose of a key: it is of no use for the others. */
type KeyPurpose = 'session' | 'record' | 'login' | 'store'

/** Derives a key of each secret for one purpose. @throws FwaError FWA_KEY_UNUSABLE */
export function deriveKeys(secrets: readonly string[], purpose: KeyPurpose): KeyRing {
  const keys = secrets.map((secret) => deriveKey(secret, purpose))
  const [first] = keys
  if (!first) throw new FwaError('FWA_KEY_UNUSABLE', 'no secret is configured')
  return { first, keys }
}

/** RFC 5869. Tokens show the key ID, so it is a digest of the derived key, not of the secret. */
function deriveKey(secret: string, purpose: KeyPurpose): Key {
  if (secret.length < MIN_SECRET_LENGTH)
    throw new FwaError(
      'FWA_KEY_UNUSABLE',
      `a secret has fewer than ${MIN_SECRET_LENGTH} characters`,
    )
  const bytes = Buffer.from(hkdfSync('sha256', secret, '', `gatehouse forward-auth ${purpose}`, 64))
  const [key, mac] = [bytes.subarray(0, 32), createSecretKey(bytes.subarray(32))]
  const kid = hash('sha256', key, 'base64url').slice(0, 16)
  return { kid, secret: key, object: createSecretKey(key), mac }
}

/**
 * Whether one of the keys has signed a token in compact form with HS256 (RFC 7515 section 5.2). JWT libraries
 * refuse with an error, which costs ten times as much, and anybody can send a cookie that they made up.
 */
export function isSigned(token: string, { keys }: KeyRing): boolean {
  const header = Buffer.from(token.slice(0, token.indexOf('.')), 'base64url').toString()
  const [, kid] = /"kid":"([\w-]{16})"/.exec(header) ?? []
  const key = keys.find((candidate) => candidate.kid === kid)
  if (!key) return false
  const end = token.lastIndexOf('.')
  const mac = createHmac('sha256', key.object).update(token.slice(0, end)).digest('base64url')
  const [expected, signature] = [Buffer.from(mac), Buffer.from(token.slice(end + 1))]
  return signature.length === expected.length && timingSafeEqual(signature, expected)
}

const ALGORITHM = 'aes-256-gcm'
const IV_LENGTH = 12
const TAG_LENGTH = 16

/** The length from which texts are compressed before they are sealed. They are mostly URLs, which compress well. */
const COMPRESS_FROM = 1_024
/** Bytes, as an answer of a provider may have them: a session says all that is kept of a person. */
export const MAX_LENGTH = 1_048_576
/** First byte of compressed data. No text that is sealed starts with it. */
const COMPRESSED = 1

/** Encrypts a text for one purpose. To decrypt it takes the same purpose. */
export function seal(text: string, { first }: KeyRing, purpose: string): string {
  const iv = randomBytes(IV_LENGTH)
  const cipher = createCipheriv(ALGORITHM, first.object, iv).setAAD(Buffer.from(purpose))
  const bytes = Buffer.from(text)
  const packed =
    bytes.length < COMPRESS_FROM
      ? bytes
      : Buffer.concat([Buffer.of(COMPRESSED), deflateRawSync(bytes)])
  const sealed = Buffer.concat([cipher.update(packed), cipher.final()])
  return Buffer.concat([iv, sealed, cipher.getAuthTag()]).toString('base64url')
}

/** Decrypts a text that was sealed for this purpose with one of the keys. Returns undefined for another one. */
export function unseal(sealed: string, { keys }: KeyRing, purpose: string): string | undefined {
  const bytes = Buffer.from(sealed, 'base64url')
  // Several texts decode to the same bytes; only the canonical one is accepted.
  if (bytes.toString('base64url') !== sealed) return undefined
  if (bytes.length < IV_LENGTH + TAG_LENGTH) return undefined
  for (const key of keys) {
    const text = open(bytes, key, purpose)
    if (text !== undefined) return text
  }
  return undefined
}

export function sealValue<T>(value: T, keys: KeyRing, purpose: string): string {
  return seal(JSON.stringify(value), keys, purpose)
}

/** The value that was sealed for this purpose with one of the keys. Otherwise undefined. */
export function unsealValue<T>(sealed: unknown, keys: KeyRing, purpose: string): T | undefined {
  const text = typeof sealed === 'string' ? unseal(sealed, keys, purpose) : undefined
  return text === undefined ? undefined : JSON.parse(text)
}

/** Signs a value that anybody may read, as JSON, for one purpose. */
export function signValue<T>(value: T, keys: KeyRing, purpose: string): string {
  const text = Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${text}.${macOf([purpose, text], keys)}`
}

/** The value that was signed for this purpose with one of the keys. Otherwise undefined. */
export function readSigned<T>(signed: unknown, keys: KeyRing, purpose: string): T | undefined {
  const [text = '', mac = '', more] = typeof signed === 'string' ? signed.split('.', 3) : []
  if (more !== undefined || !isMacOf(mac, [purpose, text], keys)) return undefined
  return JSON.parse(Buffer.from(text, 'base64url').toString())
}

/** Returns the MAC of these values, the first of which is their purpose. */
export function macOf(values: readonly unknown[], { first }: Pick<KeyRing, 'first'>): string {
  return createHmac('sha256', first.mac).update(JSON.stringify(values)).digest('base64url')
}

/** Whether one of the keys has made a MAC of these values. */
export function isMacOf(mac: string, values: readonly unknown[], { keys }: KeyRing): boolean {
  const bytes = Buffer.from(mac)
  const macs = keys.map((first) => Buffer.from(macOf(values, { first })))
  return macs.some((own) => own.length === bytes.length && timingSafeEqual(own, bytes))
}

function open(bytes: Buffer, { object }: Key, purpose: string): string | undefined {
  try {
    const decipher = createDecipheriv(ALGORITHM, object, bytes.subarray(0, IV_LENGTH), {
      authTagLength: TAG_LENGTH,
    })
    decipher.setAAD(Buffer.from(purpose)).setAuthTag(bytes.subarray(-TAG_LENGTH))
    const opened = decipher.update(bytes.subarray(IV_LENGTH, -TAG_LENGTH))
    const packed = Buffer.concat([opened, decipher.final()])
    if (packed[0] !== COMPRESSED) return packed.toString()
    return inflateRawSync(packed.subarray(1), { maxOutputLength: MAX_LENGTH }).toString()
  } catch {
    return undefined
  }
}
