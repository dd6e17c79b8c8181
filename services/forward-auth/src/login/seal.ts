import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { Key, KeyRing } from '../session/keys.ts'

const ALGORITHM = 'aes-256-gcm'
const IV_LENGTH = 12
const TAG_LENGTH = 16

/** Encrypts a text for one purpose, which has to be named again to open it. */
export function seal(text: string, { first }: KeyRing, purpose: string): string {
  const iv = randomBytes(IV_LENGTH)
  const cipher = createCipheriv(ALGORITHM, first.secret, iv).setAAD(Buffer.from(purpose))
  const sealed = Buffer.concat([cipher.update(text), cipher.final()])
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
    const text = decipher.update(bytes.subarray(IV_LENGTH, -TAG_LENGTH))
    return Buffer.concat([text, decipher.final()]).toString()
  } catch {
    return undefined
  }
}
