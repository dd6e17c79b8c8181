import { ProfileError } from './errors.ts'
import type { Claims, Profile } from './schema.ts'

const MAX_TEXT_LENGTH = 256
const MAX_PICTURE_LENGTH = 2_048
// OpenID Connect Core, 2: at most 255 ASCII characters.
const SUBJECT = /^[!-~](?:[ -~]{0,253}[!-~])?$/

/**
 * Makes a profile from claims: those of an ID token, of UserInfo, of both merged, or those that
 * {@link Profile.claims} has put into a session token. README.md has the rules in a table.
 * @param provider - name of the provider, as configured
 * @throws ProfileError PROFILE_ID_INVALID, PROFILE_CLAIMS_INVALID
 */
export function fromClaims(provider: string, raw: Claims): Profile {
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

function readName(claims: Claims): Profile['name'] {
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

/** Reads one printable line; undefined if the value is no text, too long, or has nothing to print. */
function readLine(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > MAX_TEXT_LENGTH) return undefined
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

const MAX_CLAIMS = 200
const MAX_NAME_LENGTH = 256
/** Characters of one claim as JSON. */
const MAX_SIZE = 4_096
const MAX_DEPTH = 4
const MAX_ENTRIES = 1_000
const MAX_ENTRY_LENGTH = 256

// Names with a meaning in JavaScript, whichever library reads them.
const UNSAFE_NAMES = ['__proto__', 'constructor', 'prototype']
// Unsafe names, and claims about the provider's token instead of the person. Conditions call `sub` `id`;
// `_claim_sources` holds secrets.
const NOT_KEPT = new Set([
  ...UNSAFE_NAMES,
  'id',
  'iss',
  'aud',
  'azp',
  'exp',
  'nbf',
  'iat',
  'jti',
  'sid',
  'nonce',
  'at_hash',
  'c_hash',
  's_hash',
  '_claim_names',
  '_claim_sources',
])

/** A claim that the provider has, but elsewhere, or in a form or size that is not kept. */
const UNKNOWN = Symbol('unknown')

/** A prototype without members. Objects with a prototype of null are slower. */
const NOTHING = Object.freeze(Object.create(null))

/** Claims with rules of their own. */
const KEEPERS = new Map<string, (value: unknown) => unknown>([
  ['email', (value) => (isEmailAddress(value) ? value : UNKNOWN)],
  ['email_verified', keepFlag],
  ['groups', keepList],
  ['roles', keepList],
])

/** Keeps a flag, which some providers write as a text (Cognito, JumpCloud). */
function keepFlag(value: unknown): unknown {
  if (value === 'true' || value === 'false') return value === 'true'
  return typeof value === 'boolean' ? value : UNKNOWN
}

/**
 * Copies the claims that can be kept; README.md has the rules in a table.
 *
 * A claim that the provider has but that is not kept is unknown, not missing: reading it throws
 * PROFILE_CLAIM_UNKNOWN, so that no decision takes it for missing. Its name is listed in
 * `_claim_names`, as OpenID Connect Core (5.6.2) does with claims that a token does not hold.
 */
export function keepClaims(raw: Claims): Claims {
  const candidates = inOneSpelling(raw)
  const names = namesOf(candidates)
  const unknown = namesOf(inOneSpelling(elsewhere(raw))).filter(
    (name) => !hasValue(candidates, name),
  )
  assertBounded([...names, ...unknown])

  const claims: Record<string, unknown> = Object.create(NOTHING)
  for (const name of names) {
    const kept = (KEEPERS.get(name) ?? keepJson)(candidates[name])
    if (kept === UNKNOWN) unknown.push(name)
    else claims[name] = kept
  }
  refuseUnknown(claims, unknown)
  if (unknown.length > 0)
    claims._claim_names = Object.fromEntries(unknown.map((name) => [name, 'unknown']))
  return claims
}

/** Whether somebody has a claim whose value was not sent, or that a token for them leaves out. */
export function isUnknown({ _claim_names: names }: Claims, name: string): boolean {
  return typeof names === 'object' && names !== null && Object.hasOwn(names, name)
}

/** The claims of a token, of which those that it leaves out are unknown, not missing. */
export function withUnknown(claims: Claims): Claims {
  const names = Object.keys(elsewhere(claims)).filter((name) => !hasValue(claims, name))
  return names.length === 0 ? claims : refuseUnknown({ ...claims }, names)
}

function refuseUnknown(claims: Record<string, unknown>, names: readonly string[]): Claims {
  for (const name of names) Object.defineProperty(claims, name, { get: () => refuse(name) })
  return claims
}

function refuse(name: string): never {
  throw new ProfileError('PROFILE_CLAIM_UNKNOWN', `the claim ${JSON.stringify(name)} is not known`)
}

function assertBounded(names: readonly string[]): void {
  const refuse = (why: string) => new ProfileError('PROFILE_CLAIMS_INVALID', why)
  if (names.length > MAX_CLAIMS) throw refuse(`there are more than ${MAX_CLAIMS} claims`)
  if (names.some((name) => name.length > MAX_NAME_LENGTH))
    throw refuse(`a claim has a name of more than ${MAX_NAME_LENGTH} characters`)
}

/** The claims that `_claim_names` lists. */
function elsewhere({ _claim_names: names }: Claims): Claims {
  if (typeof names !== 'object' || names === null) return {}
  return Object.fromEntries(Object.keys(names).map((name) => [name, UNKNOWN]))
}

/** The names of claims about the person that have a value. */
function namesOf(claims: Claims): string[] {
  return Object.keys(claims).filter((name) => !NOT_KEPT.has(name) && hasValue(claims, name))
}

function hasValue(claims: Claims, name: string): boolean {
  return Object.hasOwn(claims, name) && claims[name] != null && claims[name] !== ''
}

/** Merges the claims that providers spell in two ways. */
function inOneSpelling(raw: Claims): Claims {
  if (raw.group == null && raw.role == null && raw.verified_email == null) return raw
  const { group, role, verified_email, ...plain } = raw
  return {
    ...plain,
    groups: join(raw.groups, group),
    roles: join(raw.roles, role),
    email_verified: raw.email_verified ?? verified_email,
  }
}

function join(list: unknown, single: unknown): unknown {
  if (list == null || single == null) return list ?? single
  return [list, single].flat()
}

/** Keeps a list of names. One string is one name, including its spaces: `Not admin` is not `admin`. */
function keepList(value: unknown): unknown {
  const entries = Array.isArray(value) ? value : [value]
  if (entries.length > MAX_ENTRIES) return UNKNOWN
  if (!entries.every((entry) => typeof entry === 'string' || Number.isFinite(entry))) return UNKNOWN
  // Never cleaned, so that a name cannot turn into another one.
  const names = entries.map(String).filter((name) => isPrintable(name, MAX_ENTRY_LENGTH))
  return [...new Set(names)]
}

function keepJson(value: unknown): unknown {
  if (typeof value === 'boolean') return value
  // Within the limit in any case: JSON writes a character in at most six.
  if (typeof value === 'string' && value.length <= (MAX_SIZE - 2) / 6) return value
  try {
    const json = JSON.stringify(value)
    if (json.length > MAX_SIZE) return UNKNOWN
    const copy = JSON.parse(json, (name, member) =>
      UNSAFE_NAMES.includes(name) ? undefined : member,
    )
    return depthOf(copy) > MAX_DEPTH ? UNKNOWN : copy
  } catch {
    return UNKNOWN
  }
}

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

// Control characters, line separators, lone surrogates, marks that change the direction of writing.
const NOT_PRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\p{Bidi_Control}]/u

/** Whether a text is one line that shows all it holds. */
function isPrintable(text: string, maxLength: number): boolean {
  return text.length > 0 && text.length <= maxLength && !NOT_PRINTABLE.test(text)
}

// Dot-string and domain of RFC 5321, without quotes, comments, address literals and internationalised forms.
const LOCAL = /^[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*$/
const DOMAIN = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i

/** Whether the value is a plain e-mail address with exactly one `@`. */
function isEmailAddress(value: unknown): value is string {
  if (typeof value !== 'string' || value.length > 254) return false
  const [local = '', domain = '', ...extra] = value.split('@')
  return extra.length === 0 && local.length <= 64 && LOCAL.test(local) && isEmailDomain(domain)
}

/** Whether the text is a domain in ASCII, as after the `@` of an address. */
export function isEmailDomain(text: string): boolean {
  return text.length <= 253 && DOMAIN.test(text)
}

/** The domain of an address, in lower case. */
export function emailDomain(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1).toLowerCase()
}
