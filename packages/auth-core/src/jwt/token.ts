import { decodeBase64url, isObject, parseStrictJson } from '@gatehouse/net'
import { LRUCache } from 'lru-cache'
import { AuthError } from '../errors.ts'

/** Characters. */
const MAX_TOKEN_LENGTH = 16_384

export type Claims = Readonly<Record<string, unknown>>

/** A decoded JWT. Nothing in it is verified. */
export type DecodedToken = ReturnType<typeof decodeToken>

/**
 * Decodes a JWT in compact form (RFC 7515 section 7.1). It is strict where parsers differ, so that
 * every reader of a token sees the same content: canonical base64url, valid UTF-8, no duplicate members.
 *
 * @throws AuthError AUTH_TOKEN_TOO_LARGE, AUTH_TOKEN_MALFORMED
 */
export function decodeToken(token: string) {
  if (token.length > MAX_TOKEN_LENGTH)
    throw new AuthError('AUTH_TOKEN_TOO_LARGE', { detail: `${token.length} characters` })
  try {
    const parts = token.split('.')
    const [header = '', claims = '', signature = ''] = parts
    if (parts.length !== 3) throw new SyntaxError('not three parts')
    decodeBase64url(signature)
    return { header: headers.memo(header), claims: parseObject(claims) }
  } catch (error) {
    throw new AuthError('AUTH_TOKEN_MALFORMED', { detail: (error as Error).message })
  }
}

/** Cached, since all tokens of a key have the same header. */
const headers = new LRUCache<string, Claims>({ max: 100, memoMethod: parseObject })

function parseObject(part: string): Claims {
  const value = parseStrictJson(decodeBase64url(part))
  if (!isObject(value)) throw new SyntaxError('not a JSON object')
  return value
}

/** Accepted difference of clocks, in milliseconds. */
const CLOCK_SKEW_MS = 30_000

/**
 * Checks the audience and the times of a token whose signature and issuer are verified (RFC 7519
 * section 4.1), and that it is for whoever bears it: nobody here proves the key of one that is bound to a
 * key by `cnf` (RFC 7800, RFC 8705 section 3, RFC 9449 section 7). Gives its period of validity in
 * milliseconds, with the accepted clock skew.
 *
 * @throws AuthError AUTH_TOKEN_TYPE, AUTH_TOKEN_CLAIMS, AUTH_TOKEN_AUDIENCE, AUTH_TOKEN_EXPIRED, AUTH_TOKEN_NOT_YET_VALID
 */
export function checkClaims(
  claims: Claims,
  audience: readonly string[],
  now: number,
): { validFrom: number; expiresAt: number } {
  if ('cnf' in claims) throw wrongPurpose('cnf')
  const { aud } = claims
  const audiences = Array.isArray(aud) ? aud : [aud]
  if (!audiences.every((entry) => typeof entry === 'string')) throw wrongClaim('aud')
  if (!audiences.some((entry) => audience.includes(entry)))
    throw new AuthError('AUTH_TOKEN_AUDIENCE', { detail: `aud is ${JSON.stringify(aud)}` })

  const exp = readTime(claims, 'exp')
  if (exp === undefined) throw wrongClaim('exp')
  const expiresAt = exp + CLOCK_SKEW_MS
  if (now >= expiresAt)
    throw new AuthError('AUTH_TOKEN_EXPIRED', { detail: `exp is ${exp - now} ms away` })

  let validFrom = 0
  for (const claim of ['nbf', 'iat']) {
    const from = readTime(claims, claim)
    if (from === undefined) continue
    if (now < from - CLOCK_SKEW_MS)
      throw new AuthError('AUTH_TOKEN_NOT_YET_VALID', {
        detail: `${claim} is ${from - now} ms away`,
      })
    validFrom = Math.max(validFrom, from - CLOCK_SKEW_MS)
  }
  return { validFrom, expiresAt }
}

const MAX_SECONDS = 8.64e12 // the latest time of a Date

/** Reads a NumericDate (seconds, possibly with a fraction), in milliseconds. */
export function readTime(claims: Claims, claim: string): number | undefined {
  const value = claims[claim]
  if (value === undefined) return undefined
  if (typeof value !== 'number' || !(value >= 0 && value <= MAX_SECONDS)) throw wrongClaim(claim)
  return value * 1_000
}

export function wrongPurpose(claim: string): AuthError {
  return new AuthError('AUTH_TOKEN_TYPE', { detail: `it has the claim ${claim}` })
}

export function wrongClaim(claim: string): AuthError {
  return new AuthError('AUTH_TOKEN_CLAIMS', { detail: `${claim} is missing or not valid` })
}
