import { hash, randomBytes } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { LRUCache } from 'lru-cache'
import { isCurrent, type Times } from '../session/assertion-keys.ts'

/** The time for which an access token is valid, in seconds. */
export const ACCESS_LIFETIME = 600
/** Characters. */
const MAX_TOKEN = 4_096
/** Bytes of memory for access tokens that were verified: about 20,000. */
const CACHE_BYTES = 33_554_432
/** Bytes that one takes besides its characters. */
const CLAIMS_BYTES = 600

/** The claims of an access token (RFC 9068 section 2.2). */
export interface AccessClaims extends Times {
  readonly iss: string
  /** URL of the resource. */
  readonly aud: string
  /** `<provider>:<identifier at the provider>`. */
  readonly sub: string
  readonly client_id: string
  readonly scope: string
  /** ID of the agent. */
  readonly sid: string
}

/** Signs and verifies access tokens, by the keys of assertions. */
export function accessTokensOf(app: Pick<FastifyInstance, 'keys' | 'clock'>) {
  const verified = new LRUCache<string, AccessClaims>({
    maxSize: CACHE_BYTES,
    sizeCalculation: (_claims, token) => token.length + CLAIMS_BYTES,
  })

  function read(token: string, now: number): AccessClaims | undefined {
    if (token.length > MAX_TOKEN) return undefined
    const claims = app.keys.assertion.read<AccessClaims>('access', token, now)
    // A copy, since the token may be a slice that keeps the whole header in memory.
    if (claims) verified.set(Buffer.from(token).toString(), claims)
    return claims
  }

  return {
    sign(claims: Omit<AccessClaims, keyof Times>): string {
      const now = app.clock.now()
      const iat = Math.floor(now / 1_000)
      const jti = randomBytes(16).toString('base64url')
      const signed = { ...claims, jti, iat, exp: iat + ACCESS_LIFETIME }
      return app.keys.assertion.present(now).access.sign(signed)
    },
    /** The claims of a token that is valid now; else undefined. The same object for the same token, as far as kept. */
    verify(token: string): AccessClaims | undefined {
      const now = app.clock.now()
      const claims = verified.get(token) ?? read(token, now)
      return claims && isCurrent(claims, now) ? claims : undefined
    },
  }
}

/** Whether a verifier is that of a challenge by S256 (RFC 7636 section 4.6). */
export function isVerifierOf(verifier: string, challenge: string): boolean {
  return /^[\w.~-]{43,128}$/.test(verifier) && hash('sha256', verifier, 'base64url') === challenge
}
