import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { Key, KeyRing } from './key-ring.ts'

const ALGORITHM = 'aes-256-gcm'
const IV_LENGTH = 12
const TAG_LENGTH = 16

/** Longer texts are compressed before they are sealed. They are mostly URLs, which compress well. */
const COMPRESS_FROM = 1_024
/** Bytes, as an answer of a provider may have them: a session says all that is kept of a person. */
export const MAX_LENGTH = 1_048_576
/** First byte of compressed data. No text that is sealed starts with it. */
const COMPRESSED = 1

/** Encrypts a text for one purpose, which is needed again to decrypt it. */
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

/** Decrypts a text that was sealed for this purpose with one of the keys. Otherwise undefined. */
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

/** Seals a value, as JSON. */
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

/** Proves to whoever has the keys that nobody else wrote these values. They begin with what they are for. */
export function macOf(values: readonly unknown[], { first }: Pick<KeyRing, 'first'>): string {
  return createHmac('sha256', first.mac).update(JSON.stringify(values)).digest('base64url')
}

/** Whether one of the keys has made a MAC of these values. */
export function isMacOf(mac: string, values: readonly unknown[], { keys }: KeyRing): boolean {
  const candidate = Buffer.from(mac)
  const macs = keys.map((first) => Buffer.from(macOf(values, { first })))
  return macs.some(
    (bytes) => bytes.length === candidate.length && timingSafeEqual(bytes, candidate),
  )
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
