import {
  isFlags,
  isVariables,
  mergeRepeated,
  readFlags,
  readToml,
  readVariables,
} from '../formats.ts'
import { type RawSetting, readYamlSettings, type SourceSetting } from '../source.ts'
import { rowOf } from '../table.ts'
import { isChart, readChart } from './chart.ts'
import { LISTS, OAUTH2_PROXY } from './settings.ts'

const PREFIX = 'OAUTH2_PROXY_'
/** The flags of lists by their names in files, which are in the plural. */
const BY_PLURAL = new Map(
  [...LISTS].filter((flag) => !flag.endsWith('s')).map((flag) => [`${flag}s`, flag]),
)
const flagOf = (name: string) => BY_PLURAL.get(name) ?? name

/** The settings of the structured configuration (`--alpha-config`) that are flags of another name. */
const ALPHA: Readonly<Record<string, string>> = {
  'providers.0.name': 'provider-display-name',
  'providers.0.caFiles': 'provider-ca-file',
  'providers.0.oidcConfig.insecureAllowUnverifiedEmail': 'insecure-oidc-allow-unverified-email',
  'providers.0.oidcConfig.insecureSkipIssuerVerification': 'insecure-oidc-skip-issuer-verification',
  'providers.0.oidcConfig.insecureSkipNonce': 'insecure-oidc-skip-nonce',
  'providers.0.oidcConfig.skipDiscovery': 'skip-oidc-discovery',
  'providers.0.oidcConfig.userIDClaim': 'user-id-claim',
  'providers.0.keycloakConfig.roles': 'allowed-role',
  'providers.0.microsoftEntraIDConfig.allowedTenants': 'entra-id-allowed-tenant',
  'providers.0.microsoftEntraIDConfig.federatedTokenAuth': 'entra-id-federated-token-auth',
  'server.bindAddress': 'http-address',
  'server.secureBindAddress': 'https-address',
  'server.tls.cert.fromFile': 'tls-cert-file',
  'server.tls.key.fromFile': 'tls-key-file',
  'server.tls.minVersion': 'tls-min-version',
  'server.tls.cipherSuites': 'tls-cipher-suite',
  'metricsServer.bindAddress': 'metrics-address',
}
/** The settings of a provider that are flags, such as `github-org` for `githubConfig.org`. */
const ALPHA_PROVIDER = /^providers\.0\.(?:([a-z]+)Config\.)?(\w+)$/
/** Parts of the structured configuration without a flag of their own, by their start. */
const ALPHA_PARTS: readonly [start: string, flag: string][] = [
  ['upstreamConfig.', 'upstream'],
  ['injectRequestHeaders.', 'pass-user-headers'],
  ['injectResponseHeaders.', 'pass-user-headers'],
  ['providers.0.loginURLParameters.', 'approval-prompt'],
]

/**
 * Reads the settings of oauth2-proxy, by their flags: a `.cfg` file, environment variables, flags in lines, a
 * structured configuration, or values of the Helm chart.
 * @throws ConfigError CONFIG_NOT_THEIRS
 */
export async function readOauth2Proxy(text: string, file: string): Promise<SourceSetting[]> {
  if (isFlags(text))
    return mergeRepeated(
      readFlags(text).map((setting) =>
        settingOf(setting, setting.spelling, `--${setting.spelling}`),
      ),
      (name) => LISTS.has(name),
    )
  if (isVariables(text) && text.includes(PREFIX))
    return readVariables(text)
      .filter(({ spelling }) => spelling.startsWith(PREFIX))
      .map((setting) => settingOf(setting, setting.spelling.slice(PREFIX.length).toLowerCase()))
  if (/^(providers|upstreamConfig|injectRe\w+Headers|server):/m.test(text))
    return readYamlSettings(text, file).flatMap(fromAlpha)
  if (isChart(text)) return fromChart(await readChart(text, file))
  return (await readToml(text, file)).map((setting) => settingOf(setting, setting.spelling))
}

function settingOf(
  { values, line, spelling }: RawSetting,
  name: string,
  shown = spelling,
): SourceSetting {
  const flag = flagOf(name.replaceAll('_', '-'))
  // Lists are separated by commas wherever a value is one text.
  const items = LISTS.has(flag) ? values.flatMap((value) => value.split(',')) : values
  return { name: flag, spelling: shown, values: items.map((value) => value.trim()), line }
}

/** Takes each setting from the first source that has it. */
function fromChart(sources: readonly (readonly SourceSetting[])[]): SourceSetting[] {
  const taken = new Set<string>()
  return sources.flatMap((source) => {
    const settings = mergeRepeated(
      source.map((setting) => settingOf(setting, setting.name, setting.spelling)),
      (name) => LISTS.has(name),
    ).filter(({ name }) => !taken.has(name))
    for (const { name } of settings) taken.add(name)
    return settings
  })
}

function fromAlpha(setting: SourceSetting): SourceSetting[] {
  const { name } = setting
  if (name === 'providers.0.id') return []
  const part = ALPHA_PARTS.find(([start]) => name.startsWith(start))?.[1]
  return [{ ...setting, name: ALPHA[name] ?? part ?? providerFlag(name) ?? name }]
}

function providerFlag(name: string): string | undefined {
  const [, kind, key] = ALPHA_PROVIDER.exec(name) ?? []
  if (key === undefined) return undefined
  const kebab = key.replaceAll(/(?<=[a-z])(?=[A-Z])|_/g, '-').toLowerCase()
  const flag = flagOf(kind === undefined ? kebab : `${kind}-${kebab}`)
  return rowOf(OAUTH2_PROXY, flag) && flag
}
