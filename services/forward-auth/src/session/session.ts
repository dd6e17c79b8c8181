import type { Profile } from '@gatehouse/profile'
import type { Site } from '../sites.ts'

/** A person who signed in at a portal, as the verified session token says. Immutable and shared. */
export interface Session {
  /** Random, one per login; logout revokes it. */
  readonly sid: string
  readonly portal: string
  /** URL of the portal (claim `iss`). */
  readonly issuer: string
  /** The cookie domain of the session (claim `aud`). */
  readonly site: Site
  readonly profile: Profile
  /** A digest of the portal and the person, for the list of ended sessions. */
  readonly person: string
  readonly token: string
  /** NumericDates (RFC 7519 section 2), in seconds. */
  readonly iat: number
  readonly exp: number
  /** Number of times that sessions of the person were revoked together before this one. */
  readonly generation: number
}
