import { AuthError } from '../errors.ts'

/** How far clocks may differ, in milliseconds. */
export const CLOCK_SKEW_MS = 30_000

/**
 * Checks the registered claims of a token whose signature and issuer are right (RFC 7519 section
 * 4.1). Gives the subject, and the time in milliseconds from which the token counts no more.
 *
 * @throws AuthError AUTH_TOKEN_CLAIMS, AUTH_TOKEN_AUDIENCE, AUTH_TOKEN_EXPIRED, AUTH_TOKEN_NOT_YET_VALID
 */
export function checkClaims(
  claims: Readonly<Record<string, unknown>>,
  audience: readonly string[],
  now: number,
): { subject: string; expiresAt: number } {
  const { sub, aud } = claims
  if (typeof sub !== 'string' || sub === '') throw wrongClaim('sub')

  const audiences = Array.isArray(aud) ? aud : [aud]
  if (!audiences.every((one) => typeof one === 'string')) throw wrongClaim('aud')
  if (!audiences.some((one) => audience.includes(one)))
    throw new AuthError('AUTH_TOKEN_AUDIENCE', { detail: `aud is ${JSON.stringify(aud)}` })

  const exp = readTime(claims, 'exp')
  if (exp === undefined) throw wrongClaim('exp')
  const expiresAt = exp + CLOCK_SKEW_MS
  if (now >= expiresAt)
    throw new AuthError('AUTH_TOKEN_EXPIRED', { detail: `exp is ${exp - now} ms away` })

  for (const claim of ['nbf', 'iat']) {
    const from = readTime(claims, claim)
    if (from !== undefined && now < from - CLOCK_SKEW_MS)
      throw new AuthError('AUTH_TOKEN_NOT_YET_VALID', {
        detail: `${claim} is ${from - now} ms away`,
      })
  }
  return { subject: sub, expiresAt }
}

const MAX_SECONDS = 8.64e12 // the largest time of a Date

/** A NumericDate (seconds, possibly with a fraction) in milliseconds. */
function readTime(claims: Readonly<Record<string, unknown>>, claim: string): number | undefined {
  const value = claims[claim]
  if (value === undefined) return undefined
  if (typeof value !== 'number' || !(value >= 0 && value <= MAX_SECONDS)) throw wrongClaim(claim)
  return value * 1_000
}

function wrongClaim(claim: string): AuthError {
  return new AuthError('AUTH_TOKEN_CLAIMS', { detail: `${claim} is missing or of the wrong type` })
}
