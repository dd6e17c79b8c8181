import { keepClaims } from './claims.ts'
import { ProfileError } from './errors.ts'
import type { Profile } from './schema.ts'

const MAX_NAME_LENGTH = 256
const MAX_PICTURE_LENGTH = 2_048
// OpenID Connect Core, 2: at most 255 ASCII characters.
const SUBJECT = /^[!-~](?:[ -~]{0,253}[!-~])?$/

/**
 * Makes a profile from claims: those of an ID token, of UserInfo, of both merged, or those that
 * {@link Profile.claims} has put into a session token. README.md has the rules in a table.
 * @param provider - name of the provider, as configured
 * @throws ProfileError PROFILE_ID_INVALID, PROFILE_CLAIMS_INVALID
 */
export function fromClaims(provider: string, raw: Readonly<Record<string, unknown>>): Profile {
  const claims = keepClaims(raw)
  // A copy without the claims whose reading throws.
  const readable: Record<string, unknown> = { ...claims }
  const id = readSubject(readable.sub)
  const name = readName(readable)
  const picture = readPicture(readable.picture)

  // For conditions. They follow from the others, so a session token need not hold them.
  Object.defineProperty(claims, 'id', { value: id })
  if (name?.full && !Object.hasOwn(claims, 'name'))
    Object.defineProperty(claims, 'name', { value: name.full })

  return {
    provider,
    id,
    ...(name && { name }),
    ...(typeof readable.email === 'string' && {
      email: { address: readable.email, verified: readable.email_verified === true },
    }),
    ...(picture && { picture }),
    ...(isFilled(readable.groups) && { groups: readable.groups }),
    ...(isFilled(readable.roles) && { roles: readable.roles }),
    claims,
  }
}

function readSubject(sub: unknown): string {
  if (typeof sub === 'string' && SUBJECT.test(sub)) return sub
  throw new ProfileError(
    'PROFILE_ID_INVALID',
    'the claim "sub" is not 1 to 255 printable ASCII characters',
  )
}

function readName(claims: Readonly<Record<string, unknown>>): Profile['name'] {
  const read = (claim: string) => readLine(claims[claim])
  const givenName = read('given_name')
  const familyName = read('family_name')
  const parts = [givenName, read('middle_name'), familyName].filter((part) => part !== undefined)
  const full = read('name') ?? read('nickname') ?? (parts.join(' ') || read('preferred_username'))
  const name = {
    ...(full && { full }),
    ...(givenName && { first: givenName }),
    ...(familyName && { last: familyName }),
  }
  return Object.keys(name).length > 0 ? name : undefined
}

/** One printable line, or undefined if the value is no text, too long, or has nothing to print. */
function readLine(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > MAX_NAME_LENGTH) return undefined
  const line = value
    .replace(/[\p{Bidi_Control}\p{Cs}]/gu, '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
  return line || undefined
}

function readPicture(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > MAX_PICTURE_LENGTH) return undefined
  // Checked here, since the URL parser removes control characters and white space.
  if (!/^https?:\/\/[!-~]+$/i.test(value)) return undefined
  return URL.parse(value)?.href
}

function isFilled(list: unknown): list is string[] {
  return Array.isArray(list) && list.length > 0
}
