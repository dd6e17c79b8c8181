import type { Profile } from '@gatehouse/profile'
import type { Portal } from '../portals.ts'
import type { Site } from '../sites.ts'
import type { Findings } from './findings.ts'
import type { SignToken } from './token.ts'

/** A person who signed in at a portal, as the verified session token says. It is shared. */
export interface Session extends Findings {
  /** Random, one per login; what logout revokes. */
  readonly sid: string
  readonly portal: string
  /** URL of the portal (claim `iss`). */
  readonly issuer: string
  /** Whose domain it is for (claim `aud`). */
  readonly site: Site
  readonly profile: Profile
  /** The token itself, its cookie chunks joined. */
  readonly token: string
  /** NumericDates (RFC 7519 section 2): seconds. */
  readonly iat: number
  readonly exp: number
  /** Counts how often sessions of the person were ended together before this one. */
  readonly generation: number
}

/** The sessions of all portals. */
export interface Sessions {
  /**
   * The session that a Cookie header holds: of this portal and site, unexpired, not revoked, of a
   * provider that the portal still has. Synchronous; on a repeated cookie one map lookup.
   */
  read(portal: Portal, site: Site, cookieHeader: string | undefined): Session | undefined
  /** The same for a bare token (verify), of any of the sites. */
  verify(portal: Portal, token: string): Session | undefined
  /**
   * Makes a session and the Set-Cookie values for it, those that clear left-over chunks included.
   *
   * @throws FwaError FWA_SESSION_TOO_LARGE
   */
  create(
    portal: Portal,
    site: Site,
    profile: Profile,
    cookieHeader: string | undefined,
    sign: SignToken,
  ): { session: Session; setCookies: string[] }
  /**
   * Ends a session, here from the call on. When the promise resolves it is for good: on every instance
   * that shares the folder within a second, and after a restart.
   *
   * @throws FwaError FWA_STORE_UNAVAILABLE, as a rejection: it has ended here and nowhere else
   */
  revoke(session: Session): Promise<void>
  /** Set-Cookie values that take every session cookie of the portal away, chunks included. */
  clear(portal: Portal, site: Site, cookieHeader: string | undefined): string[]
  /** Whether revocations can be written, and those of other instances read. */
  storeIsUp(): boolean
  close(): Promise<void>
}
