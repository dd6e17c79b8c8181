import {
  type Claims,
  type Condition,
  createConditions,
  ProfileError,
  type Subject,
} from '@gatehouse/profile'
import { LRUCache } from 'lru-cache'
import { FwaError } from '../errors.ts'

/** The policy that demands nothing but a session. */
export const ANY_POLICY = 'any'
const MAX_QUERIES = 200

/** What a route or a rule demands of everybody who may pass. */
export interface Policy {
  /** Undefined for a condition in the query of a check. */
  readonly name: string | undefined
  readonly condition: Condition | undefined
  readonly stepUp: StepUp | undefined
}

/** How, and how lately, a person must have authenticated. */
export interface StepUp {
  /** Authentication context classes, of which one is enough; empty for any. */
  readonly acr: readonly string[]
  /** Since the person authenticated at the provider, in ms. */
  readonly maxAge: number | undefined
}

/** A policy as configured: a condition, or demands that must all be met. */
export type PolicyConfig =
  | string
  | {
      readonly condition?: string
      readonly acr?: readonly string[]
      readonly maxAge?: number
    }

/** @throws ProfileError PROFILE_CONDITION_… */
export function createPolicy(name: string, config: PolicyConfig): Policy {
  const { condition, acr, maxAge } = typeof config === 'string' ? { condition: config } : config
  return {
    name,
    condition: condition === undefined ? undefined : createConditions().compile(condition),
    stepUp: acr || maxAge !== undefined ? { acr: acr ?? [], maxAge } : undefined,
  }
}

/**
 * One policy for the demands of several on an authentication, its name being theirs with commas
 * between them. Undefined if there are no demands, or none that can be met together.
 */
export function combineStepUps(policies: readonly Policy[]): Policy | undefined {
  const demanding = [...new Set(policies)].filter(({ stepUp }) => stepUp)
  if (demanding.length <= 1) return demanding[0]
  const stepUps = demanding.flatMap(({ stepUp }) => stepUp ?? [])
  const lists = stepUps.flatMap(({ acr }) => (acr.length > 0 ? [acr] : []))
  const [first = [], ...others] = lists
  const acr = first.filter((one) => others.every((list) => list.includes(one)))
  if (lists.length > 0 && acr.length === 0) return undefined
  const ages = stepUps.flatMap(({ maxAge }) => maxAge ?? [])
  const maxAge = ages.length > 0 ? Math.min(...ages) : undefined
  const name = demanding.map((policy) => policy.name).join(',')
  return { name, condition: undefined, stepUp: { acr, maxAge } }
}

/** How far the clocks of a provider and of this machine may differ, in ms. */
const MAX_SKEW = 30_000

/**
 * Whether the claims `acr` and `auth_time` (OpenID Connect Core section 2) are what is demanded: those
 * of a person, or of the token of a program.
 */
export function isSteppedUp(demand: StepUp, { claims, caller }: Subject, now: number): boolean {
  try {
    return meets(demand, caller?.method === 'jwt' ? caller.claims : claims, now)
  } catch {
    // Reading a claim whose value is unknown throws.
    return false
  }
}

function meets({ acr, maxAge }: StepUp, claims: Claims, now: number): boolean {
  const { acr: level, auth_time: time } = claims
  if (acr.length > 0 && !acr.some((one) => one === level)) return false
  if (maxAge === undefined) return true
  if (typeof time !== 'number') return false
  const age = now - time * 1_000
  return age >= -MAX_SKEW && age <= maxAge + MAX_SKEW
}

interface PolicyPortal {
  readonly name: string
  readonly policies: ReadonlyMap<string, Policy>
}

/**
 * The policy of a route: `?policy=` names one of the portal, and `?if=` is a condition itself.
 * Undefined for an empty query and for `any`.
 */
export type PolicyReader = (portal: PolicyPortal, query: string) => Policy | undefined

/** Makes a {@link PolicyReader} that keeps what it has read of the last queries, errors too. */
export function createPolicyReader(): PolicyReader {
  const conditions = createConditions({ max: MAX_QUERIES })
  function readQuery(query: string): (portal: PolicyPortal) => Policy | undefined {
    const [parameter, ...others] = new URLSearchParams(query)
    if (others.length > 0)
      throw new ProfileError('PROFILE_CONDITION_TWICE', 'the query holds more than one condition')
    const [name = '', value = ''] = parameter ?? []
    if (name === 'policy') return (portal) => policyOf(portal, value)
    if (name !== 'if')
      throw new FwaError('FWA_PARAMETER_UNKNOWN', `the parameter ${quote(name)} is not known`)
    const condition = conditions.compile(value)
    const policy: Policy = { name: undefined, condition, stepUp: undefined }
    return () => policy
  }

  const queries = new LRUCache<string, (portal: PolicyPortal) => Policy | undefined>({
    max: MAX_QUERIES,
    memoMethod: (query) => orThrow(() => readQuery(query)),
  })
  return (portal, query) => (query === '' ? undefined : queries.memo(query)(portal))
}

/** The result of a function, or a function that throws its error again. */
function orThrow<Portal>(action: () => (portal: Portal) => Policy | undefined) {
  try {
    return action()
  } catch (error) {
    return () => {
      throw error
    }
  }
}

function policyOf({ name, policies }: PolicyPortal, wanted: string): Policy | undefined {
  if (wanted === ANY_POLICY) return undefined
  const policy = policies.get(wanted)
  if (policy) return policy
  throw new FwaError('FWA_POLICY_UNKNOWN', `the portal ${name} has no policy ${quote(wanted)}`)
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 100))
}
