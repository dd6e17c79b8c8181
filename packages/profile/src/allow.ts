import { emailDomain, isEmailDomain } from './claims.ts'
import type { Conditions } from './conditions.ts'
import { ProfileError } from './errors.ts'
import type { Allow, Profile } from './schema.ts'

type Restriction = (profile: Profile) => boolean

/**
 * Compiles an allow rule. All restrictions of an object must hold; only a verified e-mail address
 * counts.
 * @throws ProfileError PROFILE_ALLOW_INVALID, PROFILE_CONDITION_INVALID, PROFILE_CONDITION_TOO_LONG
 */
export function compileAllow(allow: Allow, conditions: Conditions): Restriction {
  if (allow === 'anyone') return () => true
  if (typeof allow === 'string') return restrictionOf(allow, conditions)

  const { condition, ...membership } = allow
  if (condition === undefined) return compileMembership(membership)
  return all([restrictionOf(condition, conditions), ...restrictionsOf(membership)])
}

/** Groups and e-mail domains of an allow rule. */
export type Membership = Pick<Exclude<Allow, string>, 'emailDomains' | 'groups'>

/**
 * Compiles an allow rule that has no condition.
 * @throws ProfileError PROFILE_ALLOW_INVALID
 */
export function compileMembership(membership: Membership): Restriction {
  const restrictions = restrictionsOf(membership)
  // An empty rule is more likely a mistake than meant as `anyone`.
  if (restrictions.length === 0)
    throw new ProfileError('PROFILE_ALLOW_INVALID', 'the rule restricts nothing')
  return all(restrictions)
}

function restrictionsOf({ emailDomains, groups }: Membership): Restriction[] {
  return [emailDomains ? hasEmailAt(emailDomains) : [], groups ? isInOneOf(groups) : []].flat()
}

function all(restrictions: readonly Restriction[]): Restriction {
  return (profile) => restrictions.every((holds) => holds(profile))
}

function restrictionOf(source: string, conditions: Conditions): Restriction {
  const condition = conditions.compile(source)
  return (profile) => condition.holds(profile)
}

function hasEmailAt(emailDomains: readonly string[]): Restriction {
  for (const domain of emailDomains)
    if (!isEmailDomain(domain))
      throw new ProfileError(
        'PROFILE_ALLOW_INVALID',
        `${JSON.stringify(domain)} is not a domain in ASCII, such as example.com`,
      )
  const allowed = new Set(emailDomains.map((domain) => domain.toLowerCase()))
  return ({ email }) => email?.verified === true && allowed.has(emailDomain(email.address))
}

function isInOneOf(groups: readonly string[]): Restriction {
  const allowed = new Set(groups)
  return (profile) => profile.groups?.some((group) => allowed.has(group)) === true
}
