import { combineStepUps, type Policy } from '@gatehouse/gate'
import { isUnknown, type Profile } from '@gatehouse/profile'

/** The demands of policies on the authentication at the provider. A login keeps them in its state. */
export interface StepUpDemand extends NonNullable<Policy['stepUp']> {
  /** Their names, with commas between them. */
  readonly policy: string
}

/** The demands of policies on a sign-in; undefined if any sign-in will do. */
export function demandOf(policies: readonly Policy[]): StepUpDemand | undefined {
  const { name: policy = '', stepUp } = combineStepUps(policies) ?? {}
  return stepUp && { policy, ...stepUp }
}

/** The demands and what the provider said, for the log. */
export function describeUnmet({ acr, maxAge }: StepUpDemand, { claims }: Profile, now: number) {
  const readClaim = (name: string) => (isUnknown(claims, name) ? 'unknown' : claims[name])
  const time = readClaim('auth_time')
  return {
    ...(acr.length > 0 && { acrDemanded: acr, acr: readClaim('acr') ?? 'missing' }),
    ...(maxAge !== undefined && {
      maxAge: maxAge / 1_000,
      age: typeof time === 'number' ? Math.round(now / 1_000 - time) : 'auth_time missing',
    }),
  }
}
