import type { Portal } from '../portals.ts'
import { portalUrl, type Site } from '../sites.ts'

/** Where providers send people back to: each to a path of its own (RFC 9700 section 4.4.2.1). */
export const CALLBACK_PATH = '/providers/:provider/callback'
/** The one path that all providers shared before. */
export const SHARED_CALLBACK_PATH = '/oauth2/callback'

/** As much of a portal as its redirect URIs depend on. */
export interface CallbackPortal extends Pick<Portal, 'name'> {
  readonly sharedCallback: boolean
}

/** The redirect URI of a provider, which has to be registered there. */
export function redirectUriOf(site: Site, portal: CallbackPortal, provider: string): string {
  const path = portal.sharedCallback
    ? SHARED_CALLBACK_PATH
    : CALLBACK_PATH.replace(':provider', provider)
  return portalUrl(site, portal, path)
}

/**
 * The provider that the shared callback belongs to: the only one of a portal that sends people back.
 * With several, nothing there would tell which of them has sent a person.
 */
export function soleRedirectProvider({ providers }: Pick<Portal, 'providers'>): string | undefined {
  const [only, ...others] = [...providers.values()].filter(({ type }) => type === 'redirect')
  return others.length === 0 ? only?.name : undefined
}
