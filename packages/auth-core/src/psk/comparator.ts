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

  return function compare(offered) {
    const sha256 = hash('sha256', offered, 'binary')
    const { digest, caller } = entries.get(sha256) ?? nothing
    offeredDigest.write(sha256, 'latin1')
    if (!timingSafeEqual(digest, offeredDigest) || caller === undefined)
      throw new AuthError('AUTH_KEY_INVALID')
    return caller
  }
}
