import { hash, timingSafeEqual } from 'node:crypto'
import type { KeyCaller } from '../caller.ts'
import { AuthError } from '../errors.ts'

/** One API key. */
export interface PskKey {
  readonly name: string
  /** SHA-256 of the key, in hex. */
  readonly sha256: string
  readonly scopes?: readonly string[] | undefined
  readonly domains?: readonly string[] | undefined
}

/** Finds the caller of an API key. */
export interface Comparator {
  /** @throws AuthError AUTH_KEY_INVALID */
  compare(offered: string): KeyCaller
  /** Finds a caller by the SHA-256 of a key, one character for each byte. */
  find(sha256: string): KeyCaller | undefined
}

/**
 * Compares offered keys with the configured ones by their digests. Nobody can choose the digest of a
 * guess, so the time of a comparison reveals nothing about the keys, their number or their length.
 */
export function createComparator(keys: readonly PskKey[]): Comparator {
  const entries = new Map(
    keys.map(({ sha256, name, scopes, domains }) => [
      Buffer.from(sha256, 'hex').toString('latin1'),
      {
        digest: Buffer.from(sha256, 'hex'),
        caller: Object.freeze<KeyCaller>({
          method: 'psk',
          subject: name,
          ...(scopes && { scopes: Object.freeze([...scopes]) }),
          ...(domains && { domains: Object.freeze([...domains]) }),
        }),
      },
    ]),
  )
  const nothing = { digest: Buffer.alloc(32), caller: undefined }
  const offeredDigest = Buffer.alloc(32)

  function find(sha256: string): KeyCaller | undefined {
    const { digest, caller } = entries.get(sha256) ?? nothing
    offeredDigest.write(sha256, 'latin1')
    return timingSafeEqual(digest, offeredDigest) ? caller : undefined
  }

  function compare(offered: string): KeyCaller {
    const caller = find(hash('sha256', offered, 'binary'))
    if (caller === undefined) throw new AuthError('AUTH_KEY_INVALID')
    return caller
  }

  return { compare, find }
}
