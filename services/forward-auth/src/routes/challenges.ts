import { AuthError } from '@gatehouse/auth-core'
import type { Resource } from '@gatehouse/gate'
import { FwaError } from '../errors.ts'
import type { PortalSite } from '../portal-site.ts'
import type { Portal } from '../portals.ts'
import { pageUrl } from '../sites.ts'

/** The error for programs when nobody is signed in; people are redirected to sign in instead. */
export function noSession(portalSite: PortalSite, resource?: Resource): FwaError {
  const { portal } = portalSite
  return new FwaError('FWA_NO_SESSION', `nobody is signed in at the portal ${portal.name}`, {
    members: { loginUrl: pageUrl(portalSite, '/signin') },
    headers: challengeHeaders(challenges(portal, resource), resource),
  })
}

/**
 * RFC 9110 section 11.6.1: every 401 has a challenge. No browser asks for a password on that of the
 * cookie.
 */
export function challenges(portal: Portal, resource?: Resource): string {
  const cookie = `Cookie realm="${portal.name}"`
  const others = portal.gate.programs.challenges(
    new AuthError('AUTH_CREDENTIALS_MISSING'),
    resource,
  )
  return others === '' ? cookie : `${others}, ${cookie}`
}

/** At a resource, scripts of any origin may read the challenge: its clients run in browsers too. */
export function challengeHeaders(
  challenge: string,
  resource: Resource | undefined,
): Record<string, string> {
  if (challenge === '') return {}
  const open = { 'access-control-allow-origin': '*', 'access-control-expose-headers': CHALLENGE }
  return { [CHALLENGE]: challenge, ...(resource && open) }
}

const CHALLENGE = 'www-authenticate'
