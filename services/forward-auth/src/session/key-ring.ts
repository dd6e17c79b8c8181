import { hash, hkdfSync } from 'node:crypto'
import { FwaError } from '../errors.ts'

/** 32 bytes for one purpose, and their key ID. */
export interface Key {
  readonly kid: string
  readonly secret: Buffer
}

export interface KeyRing {
  readonly first: Key
  /** Verify or open; includes the first one. */
  readonly all: readonly Key[]
}

/** Characters that a secret has at least. */
export const MIN_LENGTH = 32

/** What keys are for: a key for one purpose is of no use for the others. */
type Purpose = 'session' | 'login' | 'store'

/**
 * Derives a key of each secret for one purpose.
 *
 * @throws FwaError FWA_KEY_UNUSABLE
 */
export function deriveKeys(secrets: readonly string[], purpose: Purpose): KeyRing {
  const all = secrets.map((secret) => deriveKey(secret, purpose))
  const [first] = all
  if (!first) throw new FwaError('FWA_KEY_UNUSABLE', 'no secret is given')
  return { first, all }
}

/** RFC 5869. Tokens show the key ID, so it is a digest of the derived key, not of the secret. */
function deriveKey(secret: string, purpose: Purpose): Key {
  if (secret.length < MIN_LENGTH)
    throw new FwaError('FWA_KEY_UNUSABLE', `a secret has fewer than ${MIN_LENGTH} characters`)
  const key = Buffer.from(hkdfSync('sha256', secret, '', `gatehouse forward-auth ${purpose}`, 32))
  return { kid: hash('sha256', key, 'base64url').slice(0, 16), secret: key }
}
