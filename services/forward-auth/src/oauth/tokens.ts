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
export class AccessTokens {
  readonly #app: Pick<FastifyInstance, 'keys' | 'clock'>
  readonly #verified = new LRUCache<string, AccessClaims>({
    maxSize: CACHE_BYTES,
    sizeCalculation: (_claims, token) => token.length + CLAIMS_BYTES,
  })

  constructor(app: Pick<FastifyInstance, 'keys' | 'clock'>) {
    this.#app = app
  }

  sign(claims: Omit<AccessClaims, keyof Times>): string {
    const { keys, clock } = this.#app
    const now = clock.now()
    const iat = Math.floor(now / 1_000)
    const jti = randomBytes(16).toString('base64url')
    return keys.assertion
      .present(now)
      .access.sign({ ...claims, jti, iat, exp: iat + ACCESS_LIFETIME })
  }

  /** The claims of a token that is valid now; else undefined. The same object for the same token, as far as kept. */
  verify(token: string): AccessClaims | undefined {
    const now = this.#app.clock.now()
    const claims = this.#verified.get(token) ?? this.#read(token, now)
    return claims && isCurrent(claims, now) ? claims : undefined
  }

  #read(token: string, now: number): AccessClaims | undefined {
    if (token.length > MAX_TOKEN) return undefined
    const claims = this.#app.keys.assertion.read<AccessClaims>('access', token, now)
    // A copy, since the token may be a slice that keeps the whole header in memory.
    if (claims) this.#verified.set(Buffer.from(token).toString(), claims)
    return claims
  }
}

/** Whether a verifier is that of a challenge by S256 (RFC 7636 section 4.6). */
export function isVerifierOf(verifier: string, challenge: string): boolean {
  return /^[\w.~-]{43,128}$/.test(verifier) && hash('sha256', verifier, 'base64url') === challenge
}
