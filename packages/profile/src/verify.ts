import type { Claims, Profile, VerifyResult } from './schema.ts'

/** What of a session token is not in the profile. Times are seconds since 1970 (RFC 7519). */
export interface SessionToken {
  readonly iss: string
  readonly aud: string | readonly string[]
  readonly iat: number
  readonly nbf: number
  readonly exp: number
}

/**
 * What verify answers for a session token that is valid: all claims that the token holds of the
 * person. Claims of internal use are not in it; their names begin with `_`.
 */
export function verifyResult(portal: string, token: SessionToken, profile: Profile): VerifyResult {
  const { provider, id, name, email, picture, groups, roles, claims } = profile
  return {
    valid: true,
    portal,
    provider,
    claims: {
      ...furtherClaims(claims),
      aud: [token.aud].flat(),
      ...(email && { email: email.address, email_verified: email.verified }),
      exp: toDateTime(token.exp),
      ...(name?.last && { family_name: name.last }),
      ...(name?.first && { given_name: name.first }),
      ...(groups && { groups: [...groups] }),
      iat: toDateTime(token.iat),
      iss: token.iss,
      ...(name?.full && { name: name.full }),
      nbf: toDateTime(token.nbf),
      ...(picture && { picture }),
      ...(roles && { roles: [...roles] }),
      sub: id,
    },
  }
}

/** Claims that are answered as the profile has them, and not at all where it has none. */
const IN_PROFILE = new Set([
  ...['sub', 'name', 'given_name', 'family_name', 'email', 'email_verified', 'picture'],
  ...['groups', 'roles'],
])
/** Of OpenID Connect Core section 5.1: always text. */
const TEXTS = new Set(['nickname', 'preferred_username', 'locale', 'zoneinfo'])

function furtherClaims(claims: Claims): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(claims).filter(
      ([name, value]) =>
        !IN_PROFILE.has(name) &&
        !name.startsWith('_') &&
        (typeof value === 'string' || !TEXTS.has(name)),
    ),
  )
}

function toDateTime(seconds: number): string {
  return new Date(seconds * 1_000).toISOString().replace(/\.\d+Z$/, 'Z')
}
