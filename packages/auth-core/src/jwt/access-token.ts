import type { Caller, TokenCaller } from '../caller.ts'
import { AuthError } from '../errors.ts'
import type { IssuerKeys } from '../oidc/issuer-keys.ts'
import { ALGORITHMS } from '../oidc/keys.ts'
import { type Claims, checkClaims, readTime, wrongClaim, wrongPurpose } from './token.ts'
import type { TokenSource } from './verify.ts'

/** The requirements for the access tokens of an issuer. */
export interface AccessTokenDemands {
  /** The claim `aud` contains one of these. */
  readonly audience: readonly string[]
  /** Every token must grant these. */
  readonly requiredScopes: readonly string[]
  /** Whether the header `typ` must be `at+jwt` (RFC 9068 section 2.1). */
  readonly requireAccessTokenType: boolean
  /** Longest time from `iat` to `exp`, in milliseconds. */
  readonly maxTokenLifetime: number | undefined
}

/** The access tokens of an issuer, with the caller that each is of. */
export function accessTokensOf(
  keys: IssuerKeys,
  demands: AccessTokenDemands,
): TokenSource<TokenCaller> {
  const { issuer } = keys
  const { audience, requiredScopes, requireAccessTokenType, maxTokenLifetime } = demands
  return {
    issuer,
    keys,
    algorithms: ALGORITHMS,
    isTyped(typ) {
      const type = typeof typ === 'string' ? typ.toLowerCase().replace(/^application\//, '') : typ
      if (type === 'at+jwt') return true
      return !requireAccessTokenType && (type === undefined || type === 'jwt')
    },
    admit(claims, now) {
      checkPurpose(claims)
      const times = checkClaims(claims, audience, now)
      if (maxTokenLifetime !== undefined) checkLifetime(claims, maxTokenLifetime, now)
      const subject = readSubject(claims)
      const caller = { method: 'jwt', issuer, subject, scopes: scopesOf(claims), claims } as const
      demandScopes(caller, requiredScopes)
      return { value: Object.freeze(caller), ...times }
    },
  }
}

/** ID tokens have `nonce` and the hashes, logout tokens and other event tokens have `events`. */
const OTHER_PURPOSE = ['nonce', 'at_hash', 'c_hash', 's_hash', 'events']
/** Marks of ID tokens of Amazon Cognito and Keycloak without these claims. */
const ID_TOKEN_MARKS = [
  ['token_use', 'id'],
  ['typ', 'ID'],
] as const

/**
 * Refuses a token that was issued for another purpose than access to an API (RFC 8725 section 3.12).
 * An issuer may sign such tokens with the same key, for the same audience.
 *
 * @throws AuthError AUTH_TOKEN_TYPE
 */
function checkPurpose(claims: Claims): void {
  const mark =
    OTHER_PURPOSE.find((claim) => claim in claims) ??
    ID_TOKEN_MARKS.find(([claim, value]) => claims[claim] === value)?.join(' ')
  if (mark !== undefined) throw wrongPurpose(mark)
}

/**
 * Refuses a token that is valid for longer than `max`, in milliseconds. Without `iat` the time that is
 * left counts. The claims have passed {@link checkClaims}.
 *
 * @throws AuthError AUTH_TOKEN_LIFETIME
 */
function checkLifetime(claims: Claims, max: number, now: number): void {
  const lifetime = (readTime(claims, 'exp') ?? 0) - (readTime(claims, 'iat') ?? now)
  if (lifetime > max)
    throw new AuthError('AUTH_TOKEN_LIFETIME', { detail: `valid for ${lifetime} ms, not ${max}` })
}

/** Prefix of a client's id in place of a missing subject. No `sub` may begin with it. */
const CLIENT = 'client_id='
/** Claims that only tokens of a person have. */
const LOGIN_CLAIMS = ['sid', 'auth_time']

/**
 * Reads the subject: the claim `sub`. Some issuers omit it if a client acts for itself; then it is
 * `client_id=` and the claim `client_id`. A token of a person must have `sub`, since the client's id
 * does not identify the person.
 *
 * @throws AuthError AUTH_TOKEN_CLAIMS
 */
function readSubject(claims: Claims): string {
  const { sub, client_id: clientId } = claims
  if (sub === undefined && isText(clientId) && !LOGIN_CLAIMS.some((claim) => claim in claims))
    return CLIENT + clientId
  if (!isText(sub) || sub.startsWith(CLIENT)) throw wrongClaim('sub')
  return sub
}

export function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

const SCOPE_CLAIMS = ['scope', 'scp', 'scopes', 'roles', 'permissions']
const NONE: readonly string[] = Object.freeze([])

/** The scopes that a token grants: each claim is a space-separated string or a list. */
function scopesOf(claims: Claims): readonly string[] {
  if (!SCOPE_CLAIMS.some((claim) => claim in claims)) return NONE
  const granted = SCOPE_CLAIMS.flatMap((claim) => {
    const value = claims[claim]
    return typeof value === 'string' ? value.split(' ') : value
  })
  return Object.freeze([...new Set(granted)].filter(isText))
}

/** Refuses a caller that lacks a scope. A key without `scopes` has every scope. @throws AuthError AUTH_SCOPE_MISSING */
export function demandScopes(caller: Caller, scopes: readonly string[]): void {
  const granted = caller.scopes ?? (caller.method === 'psk' ? scopes : NONE)
  const missing = scopes.filter((scope) => !granted.includes(scope))
  if (missing.length === 0) return
  throw new AuthError('AUTH_SCOPE_MISSING', {
    message: `Scope is missing: ${missing.join(' ')}`,
    scopes,
  })
}
