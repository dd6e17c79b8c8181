import type { Portal } from '../portal/portals.ts'
import { pageUrl, type Site } from '../sites.ts'

/** Path of the redirect URI, which differs for each provider (RFC 9700 section 4.4.2.1). */
export const CALLBACK_PATH = '/providers/:provider/callback'
/** Path of the redirect URI of a portal that keeps that of traefik-forward-auth. */
export const SHARED_CALLBACK_PATH = '/oauth2/callback'

export function redirectUriOf(
  site: Site,
  portal: Pick<Portal, 'name' | 'sharedCallback'>,
  provider: string,
): string {
  const path = portal.sharedCallback
    ? SHARED_CALLBACK_PATH
    : CALLBACK_PATH.replace(':provider', provider)
  return pageUrl({ portal, site }, path)
}

/**
 * The provider of the shared redirect URI: the only one of the portal with a sign-in page. With
 * several, their callbacks could not be told apart.
 */
export function soleRedirectProvider({ providers }: Pick<Portal, 'providers'>): string | undefined {
  const redirectProviders = [...providers.values()].filter(({ type }) => type === 'redirect')
  return redirectProviders.length === 1 ? redirectProviders[0]?.name : undefined
}
