import { attempt } from '@gatehouse/net'
import {
  type Claims,
  type Condition,
  compileCondition,
  type StepUp,
  type Subject,
} from '@gatehouse/profile'
import type { PolicyConfig } from './options.ts'

/** The policy that demands nothing but a session. */
export const ANY_POLICY = 'any'

/** The demands of a route or rule on everybody who may pass. */
export interface Policy {
  /** The name of the policy; undefined for a condition in the query of a check. */
  readonly name: string | undefined
  readonly condition: Condition | undefined
  readonly stepUp: StepUp | undefined
}

/** @throws ProfileError PROFILE_CONDITION_… */
export function createPolicy(name: string, config: PolicyConfig): Policy {
  const { condition, acr, maxAge } = typeof config === 'string' ? { condition: config } : config
  return {
    name,
    condition: condition === undefined ? undefined : compileCondition(condition, 'request'),
    stepUp: acr || maxAge !== undefined ? { acr: acr ?? [], maxAge } : undefined,
  }
}

/** @throws ProfileError PROFILE_CONDITION_… */
export function createPolicies(
  configs: Readonly<Record<string, PolicyConfig>>,
): ReadonlyMap<string, Policy> {
  return new Map(
    Object.entries(configs).map(([name, config]) => [name, createPolicy(name, config)]),
  )
}

/** One policy for the demands of several on an authentication; undefined if there are none that can be met together. */
export function combineStepUps(policies: readonly Policy[]): Policy | undefined {
  const demanding = [...new Set(policies)].filter(({ stepUp }) => stepUp)
  if (demanding.length <= 1) return demanding[0]
  const stepUps = demanding.flatMap(({ stepUp }) => stepUp ?? [])
  const lists = stepUps.flatMap(({ acr }) => (acr.length > 0 ? [acr] : []))
  const acr = (lists[0] ?? []).filter((level) => lists.every((list) => list.includes(level)))
  if (lists.length > 0 && acr.length === 0) return undefined
  const ages = stepUps.flatMap(({ maxAge }) => maxAge ?? [])
  const maxAge = ages.length > 0 ? Math.min(...ages) : undefined
  const name = demanding.map((policy) => policy.name).join(',')
  return { name, condition: undefined, stepUp: { acr, maxAge } }
}

/** The allowed difference between the clocks of a provider and of this machine, in ms. */
const MAX_SKEW = 30_000

/**
 * Whether the claims `acr` and `auth_time` (OpenID Connect Core section 2) are what is demanded: those of one
 * authentication of a person, so that one for another policy takes nothing away, or of the token of a program.
 */
export function isSteppedUp(demand: StepUp, subject: Subject, now: number): boolean {
  const { claims, authentications = [], caller } = subject
  const candidates = caller?.method === 'jwt' ? [caller.claims] : [claims, ...authentications]
  // Reading a claim whose value is unknown throws.
  return candidates.some((candidate) => attempt(() => meets(demand, candidate, now)))
}

function meets({ acr, maxAge }: StepUp, claims: Claims, now: number): boolean {
  const { acr: level, auth_time: time } = claims
  if (acr.length > 0 && !acr.some((demanded) => demanded === level)) return false
  if (maxAge === undefined) return true
  if (typeof time !== 'number') return false
  const age = now - time * 1_000
  return age >= -MAX_SKEW && age <= maxAge + MAX_SKEW
}
