import { BACK_CHANNEL_PATH } from '../account/back-channel.ts'
import type { ForwardAuthConfig, PortalConfig } from '../config/schema.ts'
import { redirectUriOf } from '../sign-in/redirect-uri.ts'
import { pageUrl, type Site, sitesOf } from '../sites.ts'

/** Lines with the URIs of each provider, but for those of some types, at each sign-in host of a configuration without faults. */
function urisOf(
  config: ForwardAuthConfig,
  excludedTypes: readonly string[],
  urisAt: (portal: PortalConfig, site: Site, provider: string) => readonly string[],
): readonly string[] {
  return config.portals.flatMap((portal) =>
    portal.providers
      .filter(({ type }) => !excludedTypes.includes(type))
      .flatMap(({ name: provider }) =>
        sitesOf(config)
          .flatMap((site) => urisAt(portal, site, provider))
          .map((uri) => `${portal.name}/${provider}: ${uri}`),
      ),
  )
}

/** The redirect URIs, for each provider that people sign in at. */
const redirectUris = (config: ForwardAuthConfig) =>
  urisOf(config, ['tailscaleWhois'], (portal, site, name) => [redirectUriOf(site, portal, name)])

/** The URIs of sign-out, for providers that have it: people return to the first, logout tokens go to the second. */
const signOutUris = (config: ForwardAuthConfig) =>
  urisOf(config, ['tailscaleWhois', 'github'], (portal, site, name) =>
    ['/logout', BACK_CHANNEL_PATH.replace(':provider', name)].map((path) =>
      pageUrl({ portal, site }, path),
    ),
  )

/** The places where rules name tools, so that every other request is refused. */
function closedPlaces({ portals }: ForwardAuthConfig): readonly string[] {
  return portals.flatMap(({ name, rules }) =>
    rules
      .filter(({ tools, mcpMethods }) => tools ?? mcpMethods)
      .flatMap(({ hosts = ['*'], paths = ['/*'] }) =>
        hosts.flatMap((host) => paths.map((path) => `${name}: ${host}${path}`)),
      ),
  )
}

/** Where the MCP proxy serves resources. */
function proxiedResources({ portals, server }: ForwardAuthConfig): readonly string[] {
  return portals.flatMap(({ name, resources }) =>
    resources.flatMap(({ url, upstream }) =>
      upstream
        ? `${url} to ${server.basePath}/portals/${name}/mcp-proxy${new URL(url).pathname}`
        : [],
    ),
  )
}

/** Lines for the operator: what to register, what the proxy has to do, and what is closed. */
export function describeConfig(config: ForwardAuthConfig): string {
  const hasKeys = config.portals.some(({ callers }) => callers?.keys[0])
  return [
    describeLines('Redirect URI to register at each provider:', redirectUris(config)),
    describeLines(OF_SIGN_OUT, signOutUris(config)),
    describeLines(CLOSED, closedPlaces(config)),
    describeLines('Resources that the proxy sends to Gatehouse:', proxiedResources(config)),
    hasKeys ? KEYS : '',
  ].join('')
}

const OF_SIGN_OUT =
  'If the provider has sign-out, register where people return to, and its back channel:'

const KEYS =
  'API keys: the proxy has to give apps the `Authorization` of the check, or they get the keys.\n'

const CLOSED =
  'Only calls that a rule with `tools` or `mcpMethods` fits for certain pass here, and what an earlier rule fits:'

function describeLines(title: string, lines: readonly string[]): string {
  const texts = [title, ...new Set(lines.map((line) => `  ${line}`))]
  return lines.length > 0 ? `${texts.join('\n')}\n` : ''
}
