import type { ForwardAuthConfig } from '../config/schema.ts'
import { redirectUriOf } from '../login/redirect-uri.ts'
import { sitesOf } from '../sites.ts'

/** The redirect URIs of a configuration without faults, for each provider that people sign in at. */
export function redirectUris(config: ForwardAuthConfig) {
  return config.portals.flatMap((portal) =>
    portal.providers
      .filter(({ type }) => type !== 'tailscaleWhois')
      .flatMap(({ name: provider }) =>
        sitesOf(config).map((site) => ({
          portal: portal.name,
          provider,
          uri: redirectUriOf(site, portal, provider),
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
