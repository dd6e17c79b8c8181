import { isObject } from '@gatehouse/net'
import { type Claims, fromClaims, type Profile } from '@gatehouse/profile'
import type { Static, TObject } from 'typebox'
import type { claimPaths } from './options.ts'

/** The places of groups and roles in the claims of a provider, if not `groups` and `roles`. */
export type ClaimPaths = Static<TObject<typeof claimPaths>>

/** Whether an ID token lacks what is wanted of a person, so that it may be in UserInfo. */
export function lacksClaims(
  idToken: Claims,
  { groupsClaim = 'groups', rolesClaim }: ClaimPaths,
  scopes: readonly string[],
): boolean {
  const paths = [
    groupsClaim,
    rolesClaim,
    ...(scopes.includes('email') ? ['email', 'email_verified'] : []),
    ...(scopes.includes('profile') ? ['name'] : []),
  ]
  return paths.some((path) => path !== undefined && !take(idToken, path))
}

/** The claims of the ID token, and those of UserInfo that it lacks, with groups and roles where they are configured. */
export function mergeClaims(idToken: Claims, userInfo: Claims, paths: ClaimPaths): Claims {
  const { groupsClaim, rolesClaim } = paths
  const sources = [idToken, userInfo]
  const merged = merge(withoutList(idToken, paths), withoutList(userInfo, paths))
  return {
    ...merged,
    ...(groupsClaim !== undefined && { group: undefined, groups: find(sources, groupsClaim) }),
    ...(rolesClaim !== undefined && { role: undefined, roles: find(sources, rolesClaim) }),
    ...elsewhere(merged, paths),
  }
}

/** `email` and `email_verified` are of one source, or both name the same address. Only the ID token tells of the sign-in. */
function merge(idToken: Claims, { acr, amr, auth_time, ...userInfo }: Claims): Claims {
  if (!('email' in idToken)) return { ...userInfo, ...withoutEmail(idToken) }
  const isSame = idToken.email === userInfo.email
  return { ...(isSame ? userInfo : withoutEmail(userInfo)), ...idToken }
}

function withoutEmail({ email, email_verified, verified_email, ...claims }: Claims): Claims {
  return claims
}

/** A claim that is missing now is unknown: it may be left out for other reasons. How they signed in stays, unless done anew. */
export function profileAgain(provider: string, newClaims: Claims, storedProfile: Profile): Profile {
  // A copy without the claims whose reading throws.
  const { _claim_names: names, ...storedClaims }: Claims = { ...storedProfile.claims }
  const { acr, amr, auth_time = null } = storedClaims
  const isAnew = (newClaims.auth_time ?? auth_time) !== auth_time
  const claims = isAnew
    ? newClaims
    : { ...newClaims, acr: newClaims.acr ?? acr, amr: newClaims.amr ?? amr, auth_time }
  const { claims: now } = fromClaims(provider, claims)
  const missing = Object.keys({ ...storedClaims, ...Object(names) })
    .filter((name) => !Object.hasOwn(now, name))
    .map((name) => [name, 'unknown'])
  const _claim_names = { ...Object.fromEntries(missing), ...Object(claims._claim_names) }
  return fromClaims(provider, { ...claims, _claim_names })
}

function find(sources: readonly Claims[], path: string): unknown {
  return asList(sources.map((claims) => take(claims, path)).find((taken) => taken)?.value)
}

/**
 * ZITADEL has an object for each role, under the name of the role, with the organizations that grant it.
 * Other objects stay what they are, since `{"admin": false}` may mean the opposite of a role.
 */
function asList(value: unknown): unknown {
  const isRole = (role: unknown) => isObject(role) && Object.values(role).every(isText)
  return isObject(value) && Object.values(value).every(isRole) ? Object.keys(value) : value
}

const isText = (value: unknown) => typeof value === 'string'

/** Leaves out the lists that become groups and roles, so that a session does not hold them twice. */
function withoutList(claims: Claims, { groupsClaim, rolesClaim }: ClaimPaths): Claims {
  return [groupsClaim, rolesClaim].reduce<Claims>((remainder, path) => {
    const taken = path === undefined ? undefined : take(remainder, path)
    return taken && Array.isArray(asList(taken.value)) ? taken.remainder : remainder
  }, claims)
}

/** The value at a path, and the claims without it. A name may hold dots: the longest one that leads to a value counts. */
function take(
  claims: unknown,
  path: string,
): { readonly value: unknown; readonly remainder: Claims } | undefined {
  if (!isObject(claims)) return undefined
  for (let end = path.length; end > 0; end = path.lastIndexOf('.', end - 1)) {
    const name = path.slice(0, end)
    const { [name]: member, ...siblings } = claims as Claims
    if (member == null || !Object.hasOwn(claims, name)) continue
    if (end === path.length) return { value: member, remainder: siblings }
    const inner = take(member, path.slice(end + 1))
    if (inner) return { value: inner.value, remainder: { ...siblings, [name]: inner.remainder } }
  }
  return undefined
}

/** A list that the provider has elsewhere (OpenID Connect Core section 5.6.2) is not an empty one. */
function elsewhere({ _claim_names: names }: Claims, { groupsClaim, rolesClaim }: ClaimPaths) {
  const isElsewhere = (path = '') =>
    Object.keys(Object(names)).some((name) => path === name || path.startsWith(`${name}.`))
  const moved = {
    ...(isElsewhere(groupsClaim) && { groups: 'elsewhere' }),
    ...(isElsewhere(rolesClaim) && { roles: 'elsewhere' }),
  }
  return Object.keys(moved).length > 0 ? { _claim_names: { ...Object(names), ...moved } } : {}
}
