import { type Condition, createConditions, ProfileError } from '@gatehouse/profile'
import { FwaError } from '../errors.ts'
import type { Portal } from '../portals.ts'
import { remember } from '../remember.ts'

const MAX_KNOWN = 200

/**
 * The condition that a check brings: `?policy=` names one of the portal, `?if=` spells one out, and so
 * does `X-Forward-Auth-If` where the portal reads it. Undefined when it brings none.
 *
 * @throws FwaError FWA_CONDITION_HEADER, FWA_PARAMETER_UNKNOWN, FWA_POLICY_UNKNOWN; ProfileError
 * PROFILE_CONDITION_TWICE, PROFILE_CONDITION_INVALID, PROFILE_CONDITION_TOO_LONG
 */
export type ConditionReader = (query: string, header: string | undefined) => Condition | undefined

/** Makes the {@link ConditionReader} of a portal; a query that came before costs one lookup. */
export function createConditionReader(portal: Portal): ConditionReader {
  const conditions = createConditions({ max: MAX_KNOWN })
  const known = new Map<string, () => Condition>()

  function readQuery(query: string): Condition | undefined {
    if (query === '') return undefined
    const before = known.get(query)
    if (before) return before()
    const found = attempt(() => makeCondition(query))
    remember(known, MAX_KNOWN, query, found)
    return found()
  }

  function makeCondition(query: string): Condition {
    const [given, ...others] = [...new URLSearchParams(query)]
    if (others.length > 0)
      throw new ProfileError('PROFILE_CONDITION_TWICE', 'the query holds more than one condition')
    const [name = '', value = ''] = given ?? []
    return name === 'policy' ? policyOf(portal, value) : compile(name, value)
  }

  function compile(name: string, source: string): Condition {
    if (name === 'if') return conditions.compile(source)
    const told = JSON.stringify(name.slice(0, 100))
    throw new FwaError('FWA_PARAMETER_UNKNOWN', `the parameter ${told} is not known`)
  }

  return (query, header) => {
    if (header === undefined) return readQuery(query)
    if (!portal.conditionHeader)
      throw new FwaError(
        'FWA_CONDITION_HEADER',
        `X-Forward-Auth-If was sent, but \`conditionHeader\` of the portal ${portal.name} is off`,
      )
    if (query !== '')
      throw new ProfileError(
        'PROFILE_CONDITION_TWICE',
        'there is a condition in the query and one in the header',
      )
    return conditions.compile(header)
  }
}

/** Gives again what an action gave, or throws again what it threw. */
function attempt<Value>(action: () => Value): () => Value {
  try {
    const value = action()
    return () => value
  } catch (error) {
    return () => {
      throw error
    }
  }
}

function policyOf({ name, policies }: Portal, policy: string): Condition {
  const condition = policy === ANY_POLICY ? anybody : policies.get(policy)
  if (condition) return condition
  const told = JSON.stringify(policy.slice(0, 100))
  throw new FwaError('FWA_POLICY_UNKNOWN', `the portal ${name} has no policy ${told}`)
}

/** The policy that every portal has. */
export const ANY_POLICY = 'any'

const anybody: Condition = () => true
