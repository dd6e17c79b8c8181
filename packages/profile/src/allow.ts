import { emailDomain, isEmailDomain, isUnknown } from './claims.ts'
import type { Conditions } from './conditions.ts'
import { ProfileError } from './errors.ts'
import type { Allow, Profile } from './schema.ts'

export { isUnknown } from './claims.ts'

interface Restriction {
  (profile: Profile): boolean
  /** The part that does not hold, and what is missing; undefined if all hold. */
  refusingClause(profile: Profile): string | undefined
}

/** A part of a rule: a condition, or a list that somebody has to be in. */
interface Part {
  /** Undefined if it is not known. */
  holds(profile: Profile): boolean | undefined
  /** The part in words, for somebody whom it refuses. */
  refusingClause(profile: Profile): string | undefined
}

/**
 * Compiles an allow rule. All restrictions of an object must hold; only a verified e-mail address
 * counts.
 * @throws ProfileError PROFILE_ALLOW_INVALID, PROFILE_CONDITION_INVALID, PROFILE_CONDITION_TOO_LONG
 */
export function compileAllow(allow: Allow, conditions: Conditions): Restriction {
  if (allow === 'anyone') return restriction([])
  if (typeof allow === 'string') return restriction([conditions.compile(allow)])
  const { condition, ...membership } = allow
  const parts = partsOf(membership)
  if (condition !== undefined) parts.unshift(conditions.compile(condition))
  return restriction(assertSome(parts))
}

function restriction(parts: readonly Part[]): Restriction {
  const refusing = (profile: Profile) => parts.find(({ holds }) => holds(profile) !== true)
  return Object.assign((profile: Profile) => refusing(profile) === undefined, {
    refusingClause: (profile: Profile) => refusing(profile)?.refusingClause(profile),
  })
}

/** Groups and e-mail domains of an allow rule. */
export type Membership = Pick<Exclude<Allow, string>, 'emailDomains' | 'groups'>

/**
 * Compiles groups and e-mail domains, which must all hold. The test gives undefined if that is not known:
 * for somebody whose groups are elsewhere or were cut, or who has no address that is verified. Only true
 * allows; a denial stands unless it is false.
 * @throws ProfileError PROFILE_ALLOW_INVALID
 */
export function compileMembership(
  membership: Membership,
): (profile: Profile) => boolean | undefined {
  const parts = assertSome(partsOf(membership))
  return (profile) => {
    const results = parts.map(({ holds }) => holds(profile))
    return results.includes(false) ? false : results.includes(undefined) ? undefined : true
  }
}

function partsOf({ emailDomains, groups }: Membership): Part[] {
  return [emailDomains ? hasEmailAt(emailDomains) : [], groups ? isInOneOf(groups) : []].flat()
}

/** An empty rule is more likely a mistake than meant as `anyone`. */
function assertSome(parts: readonly Part[]): readonly Part[] {
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
    holds: ({ email }) => (email?.verified ? allowed.has(emailDomain(email.address)) : undefined),
    refusingClause: ({ email }) => {
      if (!email) return `${list} (no e-mail address came)`
      return email.verified ? list : `${list} (the e-mail address is not verified)`
    },
  }
}

function isInOneOf(wanted: readonly string[]): Part {
  const allowed = new Set(wanted)
  const list = `groups: ${wanted.join(', ')}`
  return {
    holds: ({ groups = [], claims }) =>
      isUnknown(claims, 'groups') ? undefined : groups.some((group) => allowed.has(group)),
    refusingClause: ({ groups, claims }) => {
      if (isUnknown(claims, 'groups')) return `${list} (the groups are not known)`
      return groups ? list : `${list} (no groups came)`
    },
  }
}
