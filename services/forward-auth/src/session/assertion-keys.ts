import {
  createCipheriv,
  createDecipheriv,
  createECDH,
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  hash,
  hkdfSync,
  type KeyObject,
} from 'node:crypto'
import { attempt } from '@gatehouse/net'
import { createSigner, createVerifier } from 'fast-jwt'
import { LRUCache } from 'lru-cache'

/** The time for which a key signs, in ms. It is published for as long before that. */
const PERIOD = 30 * 24 * 3_600_000
/** The time for which it stays published after that, in ms: longer than an assertion is valid. */
const OVERLAP = 3_600_000
const MAX_KEYS = 10
const MAX_APPS = 1_000
/** Order of the curve P-256 (SEC 2, section 2.4.2). */
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
/** The largest difference between the clocks of instances, in ms. */
export const MAX_SKEW = 30_000
/** Header `typ` of assertions and access tokens (RFC 9068): nothing else that is signed passes for one. */
const ASSERTION_TYPE = 'gatehouse-assertion+jwt'
const ACCESS_TYPE = 'at+jwt'

type AssertionKey = Readonly<ReturnType<typeof deriveKey>>

/** NumericDates (RFC 7519 section 2), in seconds. */
export type Times = Readonly<Record<'iat' | 'exp', number>>

/** Whether a token is valid at a time, in ms since the epoch. */
export function isCurrent({ iat, exp }: Times, now: number): boolean {
  return now >= iat * 1_000 - MAX_SKEW && now < exp * 1_000 + MAX_SKEW
}

/**
 * The keys that sign assertions and access tokens, a new one every 30 days. They are derived from a secret and the time,
 * so that instances with the same secret have the same keys and change them together.
 */
export class AssertionKeys {
  readonly #secret: string
  /** The keys by period. Only a clock that is set again and again needs more of them. */
  readonly #keys = new LRUCache<number, AssertionKey>({
    max: MAX_KEYS,
    memoMethod: (period) => deriveKey(this.#secret, period),
  })
  /** The key of each app for the IDs of sessions. */
  readonly #concealing = new LRUCache<string, KeyObject>({
    max: MAX_APPS,
    memoMethod: (audience) => {
      const info = `gatehouse forward-auth assertion sid ${audience}`
      return createSecretKey(Buffer.from(hkdfSync('sha256', this.#secret, '', info, 32)))
    },
  })

  /** @param secret - random; anybody can test a guess of it, because public keys are derived from it */
  constructor(secret: string) {
    this.#secret = secret
  }

  /** The key that signs at a time, in ms since the epoch. */
  present(now: number): AssertionKey {
    return this.#keys.memo(Math.floor(now / PERIOD))
  }

  /** The present key and the next one; for an hour also the previous one. */
  published(now: number): readonly AssertionKey[] {
    const period = Math.floor(now / PERIOD)
    const previous = Math.floor((now - OVERLAP) / PERIOD)
    const periods = [period, period + 1, ...(previous < period ? [previous] : [])]
    return periods.map((key) => this.#keys.memo(key))
  }

  /** The claims of a token of a kind that one of the published keys has signed, whenever; otherwise undefined. */
  read<Claims>(kind: 'assertion' | 'access', token: string, now: number): Claims | undefined {
    for (const key of this.published(now)) {
      // Undefined if it is of another key, or no token of ours.
      const claims = attempt(() => key[kind].verify(token) as Claims)
      if (claims) return claims
    }
    return undefined
  }

  /**
   * The ID of a session as one app alone knows it, as pairwise identifiers are (OpenID Connect Core, section
   * 8.1). An ID has 128 random bits: one block of AES, which needs no mode.
   */
  conceal(sid: string, audience: string): string {
    return this.#encipher(createCipheriv, sid, audience)
  }

  reveal(concealed: string, audience: string): string {
    return this.#encipher(createDecipheriv, concealed, audience)
  }

  #encipher(create: typeof createCipheriv | typeof createDecipheriv, id: string, audience: string) {
    const key = this.#concealing.memo(audience)
    const block = create('aes-256-ecb', key, null).setAutoPadding(false)
    return block.update(Buffer.from(id, 'base64url')).toString('base64url')
  }
}

function deriveKey(secret: string, period: number) {
  const scalar = deriveScalar(secret, `gatehouse forward-auth assertion ${period}`)
  const pair = createECDH('prime256v1')
  pair.setPrivateKey(scalar)
  const point = pair.getPublicKey()
  const x = point.subarray(1, 33).toString('base64url')
  const y = point.subarray(33).toString('base64url')
  const curve = { crv: 'P-256', kty: 'EC', x, y } as const
  // RFC 7638: the members in this order.
  const kid = hash('sha256', JSON.stringify(curve), 'base64url')
  const d = scalar.toString('base64url')
  const privateKey = createPrivateKey({ key: { ...curve, d }, format: 'jwk' })
  const publicKey = createPublicKey({ key: curve, format: 'jwk' })
  const jwtOf = (typ: string) => ({
    sign: createSigner({
      key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
      header: { alg: 'ES256', typ },
      kid,
    }),
    /** Gives the claims of a token of this type with this signature, and throws for any other token. */
    // The times are compared with the clock of the service.
    verify: createVerifier({
      key: publicKey.export({ type: 'spki', format: 'pem' }),
      algorithms: ['ES256'],
      checkTyp: typ,
      ignoreExpiration: true,
      ignoreNotBefore: true,
    }),
  })
  return {
    /** The public key (RFC 7517). */
    jwk: { ...curve, use: 'sig', alg: 'ES256', kid } as const,
    assertion: jwtOf(ASSERTION_TYPE),
    access: jwtOf(ACCESS_TYPE),
  }
}

/** A scalar from 1 to the order minus 1, with 64 bits more than it takes (FIPS 186-5, A.2.1). */
function deriveScalar(secret: string, info: string): Buffer {
  const bytes = Buffer.from(hkdfSync('sha256', secret, '', info, 40))
  const scalar = (BigInt(`0x${bytes.toString('hex')}`) % (ORDER - 1n)) + 1n
  return Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex')
}
