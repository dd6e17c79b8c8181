import { redirectUriOf } from '../login/redirect-uri.ts'
import { sitesOf } from '../sites.ts'
import type { ForwardAuthConfig } from './schema.ts'

/** What to register at a provider. */
export interface RedirectUri {
  readonly portal: string
  readonly provider: string
  readonly uri: string
}

/** The redirect URIs of a configuration without faults, for each provider that people sign in at. */
export function redirectUris(config: ForwardAuthConfig): readonly RedirectUri[] {
  return config.portals.flatMap((portal) =>
    portal.providers
      .filter(({ type }) => type !== 'tailscaleWhois')
      .flatMap(({ name }) =>
        sitesOf(config).map((site) => ({
          portal: portal.name,
          provider: name,
          uri: redirectUriOf(site, portal, name),
        })),
      ),
  )
}

/** Lines for the operator who registers them. */
export function describeRedirectUris(config: ForwardAuthConfig): string {
  const lines = redirectUris(config).map(
    ({ portal, provider, uri }) => `  ${portal}/${provider}: ${uri}\n`,
  )
  return lines.length === 0 ? '' : `Redirect URI to register at each provider:\n${lines.join('')}`
}
