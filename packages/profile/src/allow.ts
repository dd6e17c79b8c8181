import { emailDomain, isEmailDomain, isUnknown } from './claims.ts'
import type { Conditions } from './conditions.ts'
import { ProfileError } from './errors.ts'
import type { Allow, Profile } from './schema.ts'

export { isUnknown } from './claims.ts'

type Restriction = (profile: Profile) => boolean
/** Undefined if it is not known. */
type MembershipTest = (profile: Profile) => boolean | undefined

/**
 * Compiles an allow rule. All restrictions of an object must hold; only a verified e-mail address
 * counts.
 * @throws ProfileError PROFILE_ALLOW_INVALID, PROFILE_CONDITION_INVALID, PROFILE_CONDITION_TOO_LONG
 */
export function compileAllow(allow: Allow, conditions: Conditions): Restriction {
  if (allow === 'anyone') return () => true
  if (typeof allow === 'string') return restrictionOf(allow, conditions)

  const { condition, ...membership } = allow
  const tests: MembershipTest[] = testsOf(membership)
  if (condition !== undefined) tests.unshift(restrictionOf(condition, conditions))
  const holds = all(tests)
  return (profile) => holds(profile) === true
}

/** Groups and e-mail domains of an allow rule. */
export type Membership = Pick<Exclude<Allow, string>, 'emailDomains' | 'groups'>

/**
 * Compiles groups and e-mail domains, which must all hold. The test gives undefined if that is not known:
 * for somebody whose groups are elsewhere or were cut, or who has no address that is verified. Only true
 * allows; a denial stands unless it is false.
 * @throws ProfileError PROFILE_ALLOW_INVALID
 */
export function compileMembership(membership: Membership): MembershipTest {
  return all(testsOf(membership))
}

function testsOf({ emailDomains, groups }: Membership): MembershipTest[] {
  return [emailDomains ? hasEmailAt(emailDomains) : [], groups ? isInOneOf(groups) : []].flat()
}

function all(tests: readonly MembershipTest[]): MembershipTest {
  // An empty rule is more likely a mistake than meant as `anyone`.
  if (tests.length === 0)
    throw new ProfileError('PROFILE_ALLOW_INVALID', 'the rule restricts nothing')
  return (profile) => {
    const results = tests.map((holds) => holds(profile))
    return results.includes(false) ? false : results.includes(undefined) ? undefined : true
  }
}

function restrictionOf(source: string, conditions: Conditions): Restriction {
  const condition = conditions.compile(source)
  return (profile) => condition.holds(profile)
}

function hasEmailAt(emailDomains: readonly string[]): MembershipTest {
  for (const domain of emailDomains)
    if (!isEmailDomain(domain))
      throw new ProfileError(
        'PROFILE_ALLOW_INVALID',
        `${JSON.stringify(domain)} is not a domain in ASCII, such as example.com`,
      )
  const allowed = new Set(emailDomains.map((domain) => domain.toLowerCase()))
  return ({ email }) => (email?.verified ? allowed.has(emailDomain(email.address)) : undefined)
}

function isInOneOf(wanted: readonly string[]): MembershipTest {
  const allowed = new Set(wanted)
  return ({ groups = [], claims }) =>
    isUnknown(claims, 'groups') ? undefined : groups.some((group) => allowed.has(group))
}
