import { LRUCache } from 'lru-cache'
import { evaluate } from './condition/language.ts'
import { parseCondition } from './condition/parse.ts'
import { ProfileError } from './errors.ts'
import type { Profile } from './schema.ts'

/** Decides on a person. It never throws: what fails or is not a boolean is `false`. */
export type Condition = (profile: Pick<Profile, 'claims'>) => boolean

/** Compiles conditions and keeps the most recently used ones. */
export interface Conditions {
  /** @throws ProfileError PROFILE_CONDITION_INVALID, PROFILE_CONDITION_TOO_LONG */
  compile(source: string): Condition
}

/** Makes a {@link Conditions} that keeps up to `max` compiled conditions. */
export function createConditions({ max = 200 }: { max?: number } = {}): Conditions {
  const cache = new LRUCache<string, Condition>({ max })
  return {
    compile(source) {
      const known = cache.get(source)
      if (known) return known
      const condition = compileCondition(source)
      cache.set(source, condition)
      return condition
    },
  }
}

/**
 * The condition of a request that may bring one in its query or in a header.
 *
 * @throws ProfileError PROFILE_CONDITION_TWICE
 */
export function soleCondition(
  query: string | undefined,
  header: string | undefined,
): string | undefined {
  if (query !== undefined && header !== undefined)
    throw new ProfileError(
      'PROFILE_CONDITION_TWICE',
      'there is a condition in the query and one in the header',
    )
  return query ?? header
}

function compileCondition(source: string): Condition {
  const expression = parseCondition(source)
  return ({ claims }) => {
    try {
      return evaluate(expression, claims) === true
    } catch {
      return false
    }
  }
}
