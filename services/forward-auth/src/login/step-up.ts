import type { Profile } from '@gatehouse/profile'
import type { Portal } from '../portals.ts'
import type { Provider, RedirectProvider, StepUp } from '../providers/provider.ts'

/** How far the clocks of a provider and of this machine may differ, in ms. */
const MAX_SKEW = 30_000

/** A policy, as far as a sign-in has to do with it. */
export interface SignInPolicy {
  readonly stepUp?: StepUp | undefined
}

/** What a policy demands of the authentication at the provider. A login keeps it in its state. */
export interface StepUpDemand extends StepUp {
  readonly policy: string
}

/** What a sign-in for a policy demands; undefined if any sign-in will do. */
export function demandOf(
  { policies }: Pick<Portal, 'policies'>,
  policy = '',
): StepUpDemand | undefined {
  const found = policies.get(policy) as unknown as SignInPolicy | undefined
  return found?.stepUp && { policy, ...found.stepUp }
}

export function meetsDemand(demand: StepUpDemand, profile: Profile, now: number): boolean {
  try {
    return isSteppedUp(demand, profile, now)
  } catch {
    // Reading a claim whose value is unknown throws.
    return false
  }
}

/** Whether the claims `acr` and `auth_time` (OpenID Connect Core section 2) are what is demanded. */
function isSteppedUp({ acr, maxAge }: StepUp, { claims }: Profile, now: number): boolean {
  const { acr: level, auth_time: time } = claims
  if (acr.length > 0 && !acr.some((one) => one === level)) return false
  if (maxAge === undefined) return true
  return typeof time === 'number' && now - time * 1_000 <= maxAge + MAX_SKEW
}

/** Whether the provider has a way to meet demands: `acr_values` and `max_age` of OpenID Connect. */
export function canStepUp(provider: Provider): provider is RedirectProvider {
  return provider.type === 'redirect' && provider.stepsUp
}

/** What is demanded and what the provider said, for the log. */
export function describeUnmet({ acr, maxAge }: StepUpDemand, { claims }: Profile, now: number) {
  const read = (name: string) => {
    try {
      return claims[name]
    } catch {
      return 'unknown'
    }
  }
  const time = read('auth_time')
  return {
    ...(acr.length > 0 && { acrDemanded: acr, acr: read('acr') ?? 'missing' }),
    ...(maxAge !== undefined && {
      maxAge: maxAge / 1_000,
      age: typeof time === 'number' ? Math.round(now / 1_000 - time) : 'auth_time missing',
    }),
  }
}
