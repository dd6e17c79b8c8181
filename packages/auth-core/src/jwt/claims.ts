import { AuthError } from '../errors.ts'

/** How far clocks may differ, in milliseconds. */
const CLOCK_SKEW_MS = 30_000

type Claims = Readonly<Record<string, unknown>>

/**
 * Checks the audience and the times of a token whose signature and issuer are right (RFC 7519 section
 * 4.1). Gives the milliseconds between which it is valid, with the skew that clocks may have.
 *
 * @throws AuthError AUTH_TOKEN_CLAIMS, AUTH_TOKEN_AUDIENCE, AUTH_TOKEN_EXPIRED, AUTH_TOKEN_NOT_YET_VALID
 */
export function checkClaims(
  claims: Claims,
  audience: readonly string[],
  now: number,
): { validFrom: number; expiresAt: number } {
  const { aud } = claims
  const audiences = Array.isArray(aud) ? aud : [aud]
  if (!audiences.every((one) => typeof one === 'string')) throw wrongClaim('aud')
  if (!audiences.some((one) => audience.includes(one)))
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

/** `nonce` and the hashes are claims of ID tokens, `events` of logout tokens and other event tokens. */
const OTHER_PURPOSE = ['nonce', 'at_hash', 'c_hash', 's_hash', 'events']
/** How Amazon Cognito and Keycloak mark ID tokens that have none of those. */
const ID_TOKEN_MARKS = [
  ['token_use', 'id'],
  ['typ', 'ID'],
] as const

/**
 * Refuses a token that the issuer made for something else than access to an API (RFC 8725 section
 * 3.12). An issuer may sign those with the same key, for the same audience.
 *
 * @throws AuthError AUTH_TOKEN_PURPOSE
 */
export function checkPurpose(claims: Claims): void {
  const mark =
    OTHER_PURPOSE.find((claim) => claim in claims) ??
    ID_TOKEN_MARKS.find(([claim, value]) => claims[claim] === value)?.join(' ')
  if (mark !== undefined)
    throw new AuthError('AUTH_TOKEN_PURPOSE', { detail: `the token has the claim ${mark}` })
}

/** Before a client's id that stands for a missing subject. No `sub` may look like that. */
const CLIENT = 'client_id='
/** Claims of tokens that a person signed in for. */
const LOGIN_CLAIMS = ['sid', 'auth_time']

/**
 * Reads whom an access token is for: `sub`. Some issuers leave it out where a client acts for itself;
 * then it is `client_id=` and the claim `client_id`. A token of a person must have `sub`, since the
 * client's id says nothing of the person.
 *
 * @throws AuthError AUTH_TOKEN_CLAIMS
 */
export function readSubject(claims: Claims): string {
  const { sub, client_id: clientId } = claims
  if (sub === undefined && isText(clientId) && !LOGIN_CLAIMS.some((claim) => claim in claims))
    return CLIENT + clientId
  if (!isText(sub) || sub.startsWith(CLIENT)) throw wrongClaim('sub')
  return sub
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

const MAX_SECONDS = 8.64e12 // the largest time of a Date

/** A NumericDate (seconds, possibly with a fraction) in milliseconds. */
function readTime(claims: Claims, claim: string): number | undefined {
  const value = claims[claim]
  if (value === undefined) return undefined
  if (typeof value !== 'number' || !(value >= 0 && value <= MAX_SECONDS)) throw wrongClaim(claim)
  return value * 1_000
}

function wrongClaim(claim: string): AuthError {
  return new AuthError('AUTH_TOKEN_CLAIMS', { detail: `${claim} is missing or not as it must be` })
}
