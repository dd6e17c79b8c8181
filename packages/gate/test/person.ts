import { fromClaims, type Profile } from '@gatehouse/profile'
import { Principal, type Refusal } from '../src/decide.ts'
import type { HeaderSettings } from '../src/headers.ts'

/** The profile of somebody with these claims. */
export const profileOf = (claims: object = {}, provider = 'corp'): Profile =>
  fromClaims(provider, { sub: 'ada', ...claims })

/** Somebody with a session at a portal, which admits them or not. */
export class Person extends Principal {
  readonly #admits: () => boolean
  #isAdmitted: boolean | undefined

  constructor(
    profile: Profile,
    settings: HeaderSettings = { headers: [], dynamicHeaders: [] },
    admits: () => boolean = () => true,
  ) {
    super({ method: 'session', portal: 'main', profile }, profile, settings)
    this.#admits = admits
  }

  refusal(): Refusal | undefined {
    this.#isAdmitted ??= this.#admits() === true
    return this.#isAdmitted ? undefined : { reason: 'allow' }
  }
}
