import { BACK_CHANNEL_PATH } from '../account/back-channel.ts'
import type { ForwardAuthConfig, PortalConfig } from '../config/schema.ts'
import { redirectUriOf } from '../sign-in/redirect-uri.ts'
import { pageUrl, type Site, sitesOf } from '../sites.ts'

/** The URIs of each provider, but for those of some types, at each sign-in host of a configuration without faults. */
function urisOf(
  config: ForwardAuthConfig,
  excludedTypes: readonly string[],
  urisAt: (portal: PortalConfig, site: Site, provider: string) => readonly string[],
) {
  return config.portals.flatMap((portal) =>
    portal.providers
      .filter(({ type }) => !excludedTypes.includes(type))
      .flatMap(({ name: provider }) =>
        sitesOf(config)
          .flatMap((site) => urisAt(portal, site, provider))
          .map((uri) => ({ portal: portal.name, provider, uri })),
      ),
  )
}

/** The redirect URIs, for each provider that people sign in at. */
export const redirectUris = (config: ForwardAuthConfig) =>
  urisOf(config, ['tailscaleWhois'], (portal, site, name) => [redirectUriOf(site, portal, name)])

/** The URIs of sign-out, for providers that have it: people return to the first, logout tokens go to the second. */
const signOutUris = (config: ForwardAuthConfig) =>
  urisOf(config, ['tailscaleWhois', 'github'], (portal, site, name) =>
    ['/logout', BACK_CHANNEL_PATH.replace(':provider', name)].map((path) =>
      pageUrl({ portal, site }, path),
    ),
  )

/** The places where rules name tools, so that every other request is refused. */
function closedPlaces({ portals }: ForwardAuthConfig) {
  return portals.flatMap(({ name, rules }) =>
    rules
      .filter(({ tools, mcpMethods }) => tools ?? mcpMethods)
      .flatMap(({ hosts = ['*'], paths = ['/*'] }) =>
        hosts.flatMap((host) => paths.map((path) => ({ portal: name, place: `${host}${path}` }))),
      ),
  )
}

/** Lines for the operator: what to register, and what is closed. */
export function describeConfig(config: ForwardAuthConfig): string {
  const places = closedPlaces(config).map(({ portal, place }) => `  ${portal}: ${place}\n`)
  const hasKeys = config.portals.some(({ callers }) => callers?.keys[0])
  return [
    describeUris('Redirect URI to register at each provider:', redirectUris(config)),
    describeUris(OF_SIGN_OUT, signOutUris(config)),
    places.length > 0 ? CLOSED : '',
    ...new Set(places),
    hasKeys ? KEYS : '',
  ].join('')
}

const OF_SIGN_OUT =
  'If the provider has sign-out, register where people return to, and its back channel:'

const KEYS =
  'API keys: the proxy has to give apps the `Authorization` of the check, or they get the keys.\n'

const CLOSED =
  'Only calls that a rule with `tools` or `mcpMethods` fits for certain pass here, and what an earlier rule fits:\n'

function describeUris(title: string, uris: ReturnType<typeof redirectUris>): string {
  const lines = uris.map(({ portal, provider, uri }) => `  ${portal}/${provider}: ${uri}\n`)
  return lines.length > 0 ? `${title}\n${[...new Set(lines)].join('')}` : ''
}
