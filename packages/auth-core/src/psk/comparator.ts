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

/**
 * Compares offered keys with the configured ones. Only digests are kept, and which digest a guess
 * has cannot be steered: the time says nothing about keys, their number or their length.
 */
export function createComparator(keys: readonly PskKey[]): (offered: string) => KeyCaller {
  const entries = new Map(
    keys.map(({ sha256, name, scopes, domains }) => [
      sha256,
      {
        digest: Buffer.from(sha256),
        caller: Object.freeze<KeyCaller>({
          method: 'psk',
          subject: name,
          ...(scopes && { scopes: Object.freeze([...scopes]) }),
          ...(domains && { domains: Object.freeze([...domains]) }),
        }),
      },
    ]),
  )
  const nothing = { digest: Buffer.alloc(64), caller: undefined }

  return function compare(offered) {
    const sha256 = hash('sha256', offered, 'hex')
    const { digest, caller } = entries.get(sha256) ?? nothing
    if (!timingSafeEqual(digest, Buffer.from(sha256)) || caller === undefined)
      throw new AuthError('AUTH_KEY_INVALID')
    return caller
  }
}
