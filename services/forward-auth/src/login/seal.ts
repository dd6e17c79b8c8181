import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { Key, KeyRing } from '../session/keys.ts'

const ALGORITHM = 'aes-256-gcm'
const IV_LENGTH = 12
const TAG_LENGTH = 16

/** Texts from here on are compressed first: they are URLs, which get much shorter. */
const COMPRESS_FROM = 1_024
const MAX_LENGTH = 65_536
/** Begins what is compressed; no text of ours begins with it. */
const COMPRESSED = 1

/** Encrypts a text for one purpose, which has to be named again to open it. */
export function seal(text: string, { first }: KeyRing, purpose: string): string {
  const iv = randomBytes(IV_LENGTH)
  const cipher = createCipheriv(ALGORITHM, first.secret, iv).setAAD(Buffer.from(purpose))
  const sealed = Buffer.concat([cipher.update(pack(text)), cipher.final()])
  return Buffer.concat([iv, sealed, cipher.getAuthTag()]).toString('base64url')
}

/** The text that was sealed with one of the keys for this purpose, or undefined. */
export function unseal(sealed: string, { all }: KeyRing, purpose: string): string | undefined {
  const bytes = Buffer.from(sealed, 'base64url')
  // Node reads other texts as the same bytes: of each there is one that was made here.
  if (bytes.toString('base64url') !== sealed) return undefined
  if (bytes.length < IV_LENGTH + TAG_LENGTH) return undefined
  for (const key of all) {
    const text = open(bytes, key, purpose)
    if (text !== undefined) return text
  }
  return undefined
}

function open(bytes: Buffer, { secret }: Key, purpose: string): string | undefined {
  try {
    const decipher = createDecipheriv(ALGORITHM, secret, bytes.subarray(0, IV_LENGTH), {
      authTagLength: TAG_LENGTH,
    })
    decipher.setAAD(Buffer.from(purpose)).setAuthTag(bytes.subarray(-TAG_LENGTH))
    const packed = decipher.update(bytes.subarray(IV_LENGTH, -TAG_LENGTH))
    return unpack(Buffer.concat([packed, decipher.final()]))
  } catch {
    return undefined
  }
}

function pack(text: string): Buffer {
  const bytes = Buffer.from(text)
  if (bytes.length < COMPRESS_FROM) return bytes
  return Buffer.concat([Buffer.of(COMPRESSED), deflateRawSync(bytes)])
}

function unpack(bytes: Buffer): string {
  if (bytes[0] !== COMPRESSED) return bytes.toString()
  return inflateRawSync(bytes.subarray(1), { maxOutputLength: MAX_LENGTH }).toString()
}
