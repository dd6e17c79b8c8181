import { emailDomain, isEmailDomain, isUnknown } from './claims.ts'
import { ProfileError } from './errors.ts'
import type { Allow, Profile } from './schema.ts'

export { isUnknown } from './claims.ts'

/** A part of a rule: a condition, or a list that somebody has to be in. */
export interface Part {
  /** The texts that it names, such as groups. */
  readonly texts: readonly string[]
  /** Returns whether a profile meets it; undefined if that is not known. */
  holds(profile: Profile): boolean | undefined
  /** The part in words, for somebody whom it refuses. */
  refusingClause(profile: Profile): string | undefined
}

/** Groups and e-mail domains of an allow rule. */
export type AllowLists = Pick<Exclude<Allow, string>, 'emailDomains' | 'groups'>

/**
 * Compiles groups and e-mail domains, which must all hold. The test gives undefined if that is not known:
 * for somebody whose groups are elsewhere or were cut, or who has no address that is verified. Only true
 * allows; a denial stands unless it is false.
 * @throws ProfileError PROFILE_ALLOW_INVALID
 */
export function compileMembership(
  membership: AllowLists,
): (profile: Profile) => boolean | undefined {
  const parts = assertSome(partsOf(membership))
  return (profile) => {
    const results = parts.map(({ holds }) => holds(profile))
    return results.includes(false) ? false : results.includes(undefined) ? undefined : true
  }
}

export function partsOf({ emailDomains, groups }: AllowLists): Part[] {
  return [emailDomains ? hasEmailAt(emailDomains) : [], groups ? isInOneOf(groups) : []].flat()
}

/** Refuses an empty rule, which is more likely a mistake than meant as `anyone`. */
export function assertSome(parts: readonly Part[]): readonly Part[] {
  if (parts.length > 0) return parts
  throw new ProfileError('PROFILE_ALLOW_INVALID', 'the rule restricts nothing')
}

function hasEmailAt(emailDomains: readonly string[]): Part {
  for (const domain of emailDomains)
    if (!isEmailDomain(domain))
      throw new ProfileError(
        'PROFILE_ALLOW_INVALID',
        `${JSON.stringify(domain)} is not a domain in ASCII, such as example.com`,
      )
  const allowed = new Set(emailDomains.map((domain) => domain.toLowerCase()))
  const list = `emailDomains: ${emailDomains.join(', ')}`
  return {
    texts: emailDomains,
    holds: ({ email }) => (email?.verified ? allowed.has(emailDomain(email.address)) : undefined),
    refusingClause: ({ email }) => {
      if (!email) return `${list} (no e-mail address came)`
      return email.verified ? list : `${list} (the e-mail address is not verified)`
    },
  }
}

function isInOneOf(names: readonly string[]): Part {
  const allowed = new Set(names)
  const list = `groups: ${names.join(', ')}`
  return {
    texts: names,
    holds: ({ groups = [], claims }) =>
      isUnknown(claims, 'groups') ? undefined : groups.some((group) => allowed.has(group)),
    refusingClause: ({ groups, claims }) => {
      if (isUnknown(claims, 'groups')) return `${list} (the groups are not known)`
      return groups ? list : `${list} (no groups came)`
    },
  }
}
