import { assertSome, type Part, partsOf } from './allow.ts'
import { compileCondition } from './conditions.ts'
import type { Allow, Profile } from './schema.ts'

interface Restriction extends Pick<Part, 'texts'> {
  (profile: Profile): boolean
  /** The part that does not hold, and what is missing; undefined if all hold. */
  refusingClause(profile: Profile): string | undefined
}

/**
 * Compiles an allow rule. All restrictions of an object must hold; only a verified e-mail address
 * counts.
 * @throws ProfileError PROFILE_ALLOW_INVALID, PROFILE_CONDITION_INVALID
 */
export function compileAllow(allow: Allow): Restriction {
  if (allow === 'anyone') return restriction([])
  if (typeof allow === 'string') return restriction([compileCondition(allow)])
  const { condition, ...membership } = allow
  const parts = partsOf(membership)
  if (condition !== undefined) parts.unshift(compileCondition(condition))
  return restriction(assertSome(parts))
}

function restriction(parts: readonly Part[]): Restriction {
  const refusing = (profile: Profile) => parts.find(({ holds }) => holds(profile) !== true)
  return Object.assign((profile: Profile) => refusing(profile) === undefined, {
    texts: parts.flatMap(({ texts }) => texts),
    refusingClause: (profile: Profile) => refusing(profile)?.refusingClause(profile),
  })
}
