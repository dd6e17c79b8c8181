import type { Claims, Profile, ProfileJson, VerifyResult } from './schema.ts'

/** The profile as plain text. A field that the provider did not share has no line. */
export function toText({ id, provider, name, email, picture, groups }: Profile): string {
  const lines = [
    'Authenticated',
    '',
    `ID: ${id}`,
    `Provider: ${provider}`,
    ...section('Name:', [
      name?.full && `   Full Name: ${name.full}`,
      name?.first && `   First: ${name.first}`,
      name?.last && `   Last: ${name.last}`,
    ]),
    ...section('Email:', [
      email && `   Address: ${email.address}`,
      email && `   Verified: ${email.verified}`,
    ]),
    ...(picture ? [`Picture: ${picture}`] : []),
    ...section('Groups:', groups?.map((group) => `  - ${group}`) ?? []),
  ]
  return `${lines.join('\n')}\n`
}

/** The heading and its lines; without lines, nothing. */
function section(heading: string, lines: readonly (string | undefined)[]): string[] {
  const shared = lines.filter((line) => line !== undefined)
  return shared.length > 0 ? [heading, ...shared] : []
}

/** The answer of `profile.json`: the profile without roles and other claims. */
export function toJson({ roles, claims, ...shared }: Profile): ProfileJson {
  return { authenticated: true, ...shared }
}

/** Claims of a session token that are not in the profile. Times are seconds since 1970 (RFC 7519). */
export interface SessionToken {
  readonly iss: string
  readonly aud: string | readonly string[]
  readonly iat: number
  readonly nbf: number
  readonly exp: number
}

/**
 * The answer of verify for a valid session token: all claims about the person that the token holds,
 * without those of internal use, whose names begin with `_`.
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

/** Claims that are answered as the profile has them; those that it lacks are left out. */
const IN_PROFILE = new Set([
  'sub',
  'name',
  'given_name',
  'family_name',
  'email',
  'email_verified',
  'picture',
  'groups',
  'roles',
])
/** Claims that are always text (OpenID Connect Core section 5.1). */
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
