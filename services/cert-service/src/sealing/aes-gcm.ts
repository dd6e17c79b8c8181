import { createCipheriv, createDecipheriv, type KeyObject } from 'node:crypto'

export const NONCE_BYTES = 12
const TAG_BYTES = 16

/** AES-256-GCM: gives nonce, ciphertext and tag in one. `associated` is authenticated, not kept. */
export function encrypt(
  key: KeyObject,
  nonce: Uint8Array,
  plain: Uint8Array,
  associated: readonly Uint8Array[],
): Buffer {
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  for (const part of associated) cipher.setAAD(part)
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

/** What {@link encrypt} was given. @throws Error when key, text or associated data are not the same */
export function decrypt(
  key: KeyObject,
  sealed: Uint8Array,
  associated: readonly Uint8Array[],
): Buffer {
  const nonce = sealed.subarray(0, NONCE_BYTES)
  const tag = sealed.subarray(-TAG_BYTES)
  const cipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
  for (const part of associated) cipher.setAAD(part)
  cipher.setAuthTag(tag)
  return Buffer.concat([cipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), cipher.final()])
}
