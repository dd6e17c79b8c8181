import type { Profile } from '@gatehouse/profile'
import type { Portal } from '../portals.ts'
import type { Provider } from '../providers/provider.ts'
import type { Session } from '../session/session.ts'
import type { Refusal, Requester } from './decide.ts'
import { type CheckHeaders, checkHeaders, type Identity } from './headers.ts'
import type { Policy } from './policy.ts'

const NOT_ADMITTED: Refusal = { by: 'allow' }

/**
 * A person with a session at a portal. Sessions and portals do not change, so each result is computed
 * once; an error is not kept.
 */
export class Visitor implements Requester {
  readonly session: Session
  readonly portal: Portal
  readonly identity: Identity
  readonly #provider: Provider
  #isAdmitted: boolean | undefined
  #policy: Policy | undefined
  #isMet = false
  #headers: CheckHeaders | undefined

  constructor(session: Session, portal: Portal, provider: Provider) {
    this.session = session
    this.portal = portal
    this.identity = { method: 'session', portal: portal.name, profile: session.profile, session }
    this.#provider = provider
  }

  get subject(): Profile {
    return this.session.profile
  }

  /** Whether the session may be used from an address; only some providers bind it to one. */
  isAllowedAt(clientIp: () => string | undefined): boolean {
    if (this.#provider.type !== 'seamless') return true
    const address = clientIp()
    return address !== undefined && this.#provider.fits(this.session.profile, address)
  }

  get isAdmitted(): boolean {
    this.#isAdmitted ??= this.portal.admits(this.session.profile) === true
    return this.#isAdmitted
  }

  refusal(): Refusal | undefined {
    return this.isAdmitted ? undefined : NOT_ADMITTED
  }

  /** The result of the last policy is kept. */
  meets(policy: Policy): boolean {
    if (this.#policy !== policy) {
      this.#isMet = policy.condition?.holds(this.session.profile) !== false
      this.#policy = policy
    }
    return this.#isMet
  }

  get headers(): CheckHeaders {
    this.#headers ??= checkHeaders(this.portal, this.identity)
    return this.#headers
  }
}
