import type { Profile, VerifyResult } from './schema.ts'

/** What of a session token is not in the profile. Times are seconds since 1970 (RFC 7519). */
export interface SessionToken {
  readonly iss: string
  readonly aud: string | readonly string[]
  readonly iat: number
  readonly nbf: number
  readonly exp: number
}

/** What verify answers for a session token that is valid. Claims of internal use are not in it. */
export function verifyResult(portal: string, token: SessionToken, profile: Profile): VerifyResult {
  const { provider, id, name, email, picture, groups } = profile
  return {
    valid: true,
    portal,
    provider,
    claims: {
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
      sub: id,
    },
  }
}

function toDateTime(seconds: number): string {
  return new Date(seconds * 1_000).toISOString().replace(/\.\d+Z$/, 'Z')
}
