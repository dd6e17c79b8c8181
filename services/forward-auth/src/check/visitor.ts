import type { Condition } from '@gatehouse/profile'
import type { Portal } from '../portals.ts'
import type { Provider } from '../providers/provider.ts'
import type { Session } from '../session/session.ts'
import { type CheckHeaders, checkHeaders } from './headers.ts'

/**
 * A person with a session at a portal. Sessions and portals do not change, so each result is computed
 * once; an error is not kept.
 */
export class Visitor {
  readonly session: Session
  readonly portal: Portal
  readonly #provider: Provider
  #isAdmitted: boolean | undefined
  #condition: Condition | undefined
  #isMet = false
  #headers: CheckHeaders | undefined

  constructor(session: Session, portal: Portal, provider: Provider) {
    this.session = session
    this.portal = portal
    this.#provider = provider
  }

  /** Whether the session may be used from an address; only some providers bind it to one. */
  isAllowedAt(clientIp: () => string | undefined): boolean {
    if (this.#provider.type !== 'seamless') return true
    const address = clientIp()
    return address !== undefined && this.#provider.fits(this.session.profile, address)
  }

  /** Whether the portal admits the person. */
  get isAdmitted(): boolean {
    this.#isAdmitted ??= this.portal.admits(this.session.profile) === true
    return this.#isAdmitted
  }

  /** Whether the person meets a condition. The result of the last condition is kept. */
  meets(condition: Condition): boolean {
    if (this.#condition !== condition) {
      this.#isMet = condition(this.session.profile) === true
      this.#condition = condition
    }
    return this.#isMet
  }

  /**
   * The headers of a 200.
   *
   * @throws FwaError FWA_IDENTITY_UNSENDABLE
   */
  get headers(): CheckHeaders {
    this.#headers ??= checkHeaders(this.portal, this.session)
    return this.#headers
  }
}
