import {
  createHmac,
  createSecretKey,
  hash,
  hkdfSync,
  type KeyObject,
  timingSafeEqual,
} from 'node:crypto'
import { FwaError } from '../errors.ts'

/** 32 bytes for one purpose, and their key ID. */
export interface Key {
  readonly kid: string
  readonly secret: Buffer
  /** The same for node:crypto, where bytes cost ten times as much. */
  readonly object: KeyObject
  /** Another one, for what is not encrypted. */
  readonly mac: KeyObject
}

export interface KeyRing {
  readonly first: Key
  /** Verify or open; includes the first one. */
  readonly keys: readonly Key[]
}

/** Characters that a secret has at least. */
export const MIN_LENGTH = 32

/** The purpose of a key: it is of no use for the others. */
type KeyPurpose = 'session' | 'record' | 'login' | 'store'

/**
 * Derives a key of each secret for one purpose.
 *
 * @throws FwaError FWA_KEY_UNUSABLE
 */
export function deriveKeys(secrets: readonly string[], purpose: KeyPurpose): KeyRing {
  const keys = secrets.map((secret) => deriveKey(secret, purpose))
  const [first] = keys
  if (!first) throw new FwaError('FWA_KEY_UNUSABLE', 'no secret is given')
  return { first, keys }
}

/** RFC 5869. Tokens show the key ID, so it is a digest of the derived key, not of the secret. */
function deriveKey(secret: string, purpose: KeyPurpose): Key {
  if (secret.length < MIN_LENGTH)
    throw new FwaError('FWA_KEY_UNUSABLE', `a secret has fewer than ${MIN_LENGTH} characters`)
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
