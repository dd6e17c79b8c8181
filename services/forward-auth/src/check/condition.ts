import { type Condition, createConditions, ProfileError } from '@gatehouse/profile'
import { LRUCache } from 'lru-cache'
import { FwaError } from '../errors.ts'

export const ANY_POLICY = 'any'
const anybody: Condition = () => true
const MAX_QUERIES = 200

interface PolicyPortal {
  readonly name: string
  readonly policies: ReadonlyMap<string, Condition>
}

/**
 * The condition of a route: `?policy=` names one of the portal, and `?if=` is one itself. Undefined
 * for an empty query.
 */
export type ConditionReader = (portal: PolicyPortal, query: string) => Condition | undefined

/** Makes a {@link ConditionReader} that keeps what it has read of the last queries, errors too. */
export function createConditionReader(): ConditionReader {
  const conditions = createConditions({ max: MAX_QUERIES })
  function readQuery(query: string): (portal: PolicyPortal) => Condition {
    const [parameter, ...others] = new URLSearchParams(query)
    if (others.length > 0)
      throw new ProfileError('PROFILE_CONDITION_TWICE', 'the query holds more than one condition')
    const [name = '', value = ''] = parameter ?? []
    if (name === 'policy') return (portal) => policyOf(portal, value)
    if (name !== 'if')
      throw new FwaError('FWA_PARAMETER_UNKNOWN', `the parameter ${quote(name)} is not known`)
    const condition = conditions.compile(value)
    return () => condition
  }

  const queries = new LRUCache<string, (portal: PolicyPortal) => Condition>({
    max: MAX_QUERIES,
    memoMethod: (query) => orThrow(() => readQuery(query)),
  })
  return (portal, query) => (query === '' ? undefined : queries.memo(query)(portal))
}

/** The result of a function, or a function that throws its error again. */
function orThrow<Portal>(action: () => (portal: Portal) => Condition) {
  try {
    return action()
  } catch (error) {
    return () => {
      throw error
    }
  }
}

function policyOf({ name, policies }: PolicyPortal, policy: string): Condition {
  const condition = policy === ANY_POLICY ? anybody : policies.get(policy)
  if (condition) return condition
  throw new FwaError('FWA_POLICY_UNKNOWN', `the portal ${name} has no policy ${quote(policy)}`)
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 100))
}
