import type { ForwardAuthConfig } from '../config/schema.ts'
import { redirectUriOf } from '../login/redirect-uri.ts'
import { BACK_CHANNEL_PATH } from '../routes/back-channel.ts'
import { pageUrl, sitesOf } from '../sites.ts'

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

/** The URIs of sign-out, for providers that have it: people return to the first, logout tokens go to the second. */
function signOutUris(config: ForwardAuthConfig) {
  return config.portals.flatMap((portal) =>
    portal.providers
      .filter(({ type }) => type !== 'tailscaleWhois' && type !== 'github')
      .flatMap(({ name: provider }) =>
        sitesOf(config).flatMap((site) => {
          const urlOf = (path: string) => pageUrl({ portal, site }, path)
          const named = { portal: portal.name, provider }
          return [
            { ...named, uri: urlOf('/logout') },
            { ...named, uri: urlOf(BACK_CHANNEL_PATH.replace(':provider', provider)) },
          ]
        }),
      ),
  )
}

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
  const closed = closedPlaces(config).map(({ portal, place }) => `  ${portal}: ${place}\n`)
  const hasKeys = config.portals.some(({ callers }) => callers?.keys[0])
  return `${describeRedirectUris(config)}${closed.length > 0 ? CLOSED : ''}${[...new Set(closed)].join('')}${hasKeys ? KEYS : ''}`
}

const KEYS =
  'API keys: the proxy has to give apps the `Authorization` of the check, or they get the keys.\n'

const CLOSED =
  'Only calls that a rule with `tools` or `mcpMethods` fits for certain pass here, and what an earlier rule fits:\n'

function describeRedirectUris(config: ForwardAuthConfig): string {
  return [
    ['Redirect URI to register at each provider:', redirectUris(config)] as const,
    [
      'If the provider has sign-out, register where people return to, and its back channel:',
      signOutUris(config),
    ] as const,
  ]
    .filter(([, uris]) => uris.length > 0)
    .map(([title, uris]) => {
      const lines = uris.map(({ portal, provider, uri }) => `  ${portal}/${provider}: ${uri}\n`)
      return `${title}\n${[...new Set(lines)].join('')}`
    })
    .join('')
}
