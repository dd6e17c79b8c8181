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

  const { condition, emailDomains, groups } = allow
  const restrictions = [
    condition === undefined ? [] : restrictionOf(condition, conditions),
    emailDomains ? hasEmailAt(emailDomains) : [],
    groups ? isInOneOf(groups) : [],
  ].flat()
  // An empty rule is more likely a mistake than meant as `anyone`.
  if (restrictions.length === 0)
    throw new ProfileError('PROFILE_ALLOW_INVALID', 'the rule restricts nothing')
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
