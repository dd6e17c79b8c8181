import { Principal, type Refusal } from '@gatehouse/gate'
import type { Provider } from '@gatehouse/identity-providers'
import type { Portal } from '../portal/portals.ts'
import type { Session } from './session.ts'

/** A person with a session at a portal. */
export class Visitor extends Principal {
  readonly session: Session
  readonly portal: Portal
  /** The origin of the sign-in pages. */
  readonly authOrigin: string
  readonly #provider: Provider
  #isAdmitted: boolean | undefined

  constructor(session: Session, portal: Portal, provider: Provider, authOrigin: string) {
    const { profile, authentications } = session
    const subject = { claims: profile.claims, authentications }
    super({ method: 'session', portal: portal.name, profile, session }, subject, portal.gate)
    this.session = session
    this.portal = portal
    this.authOrigin = authOrigin
    this.#provider = provider
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
    return this.isAdmitted ? undefined : this.portal.refusalOf(this.session.profile)
  }
}
