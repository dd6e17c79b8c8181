import { isFlags, isVariables, joined, readFlags, readToml, readVariables } from '../formats.ts'
import { type GivenSetting, readYamlSettings, type Written } from '../given.ts'
import { LISTS, OAUTH2_PROXY } from './settings.ts'

const PREFIX = 'OAUTH2_PROXY_'
const FLAGS = OAUTH2_PROXY.flatMap(({ names }) => names)
/** The flags by their names in files: with underscores, and lists in the plural. */
const BY_FILE_NAME = new Map(
  FLAGS.flatMap((flag) => {
    const name = flag.replaceAll('-', '_')
    return LISTS.has(flag) && !name.endsWith('s')
      ? [[`${name}s`, flag] as const, [name, flag] as const]
      : [[name, flag] as const]
  }),
)

/** The settings of the structured configuration (`--alpha-config`) that are also flags. */
const ALPHA: Readonly<Record<string, string>> = {
  'providers.0.provider': 'provider',
  'providers.0.name': 'provider-display-name',
  'providers.0.clientID': 'client-id',
  'providers.0.clientSecret': 'client-secret',
  'providers.0.clientSecretFile': 'client-secret-file',
  'providers.0.caFiles': 'provider-ca-file',
  'providers.0.loginURL': 'login-url',
  'providers.0.redeemURL': 'redeem-url',
  'providers.0.profileURL': 'profile-url',
  'providers.0.validateURL': 'validate-url',
  'providers.0.scope': 'scope',
  'providers.0.resource': 'resource',
  'providers.0.allowedGroups': 'allowed-group',
  'providers.0.code_challenge_method': 'code-challenge-method',
  'providers.0.backendLogoutURL': 'backend-logout-url',
  'providers.0.useSystemTrustStore': 'use-system-trust-store',
  'providers.0.skipClaimsFromProfileURL': 'skip-claims-from-profile-url',
  'providers.0.oidcConfig.issuerURL': 'oidc-issuer-url',
  'providers.0.oidcConfig.insecureAllowUnverifiedEmail': 'insecure-oidc-allow-unverified-email',
  'providers.0.oidcConfig.insecureSkipIssuerVerification': 'insecure-oidc-skip-issuer-verification',
  'providers.0.oidcConfig.insecureSkipNonce': 'insecure-oidc-skip-nonce',
  'providers.0.oidcConfig.skipDiscovery': 'skip-oidc-discovery',
  'providers.0.oidcConfig.jwksURL': 'oidc-jwks-url',
  'providers.0.oidcConfig.publicKeyFiles': 'oidc-public-key-file',
  'providers.0.oidcConfig.emailClaim': 'oidc-email-claim',
  'providers.0.oidcConfig.groupsClaim': 'oidc-groups-claim',
  'providers.0.oidcConfig.userIDClaim': 'user-id-claim',
  'providers.0.oidcConfig.audienceClaims': 'oidc-audience-claim',
  'providers.0.oidcConfig.extraAudiences': 'oidc-extra-audience',
  'providers.0.oidcConfig.enabledSigningAlgs': 'oidc-enabled-signing-alg',
  'providers.0.githubConfig.org': 'github-org',
  'providers.0.githubConfig.team': 'github-team',
  'providers.0.githubConfig.repo': 'github-repo',
  'providers.0.githubConfig.token': 'github-token',
  'providers.0.githubConfig.users': 'github-user',
  'providers.0.gitlabConfig.group': 'gitlab-group',
  'providers.0.gitlabConfig.projects': 'gitlab-project',
  'providers.0.googleConfig.group': 'google-group',
  'providers.0.googleConfig.adminEmail': 'google-admin-email',
  'providers.0.googleConfig.serviceAccountJson': 'google-service-account-json',
  'providers.0.keycloakConfig.groups': 'keycloak-group',
  'providers.0.keycloakConfig.roles': 'allowed-role',
  'providers.0.bitbucketConfig.team': 'bitbucket-team',
  'providers.0.bitbucketConfig.repository': 'bitbucket-repository',
  'providers.0.azureConfig.tenant': 'azure-tenant',
  'providers.0.azureConfig.graphGroupField': 'azure-graph-group-field',
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
/** Parts of the structured configuration without a flag of their own, by their start. */
const ALPHA_PARTS: readonly [start: string, flag: string][] = [
  ['upstreamConfig.', 'upstream'],
  ['injectRequestHeaders.', 'pass-user-headers'],
  ['injectResponseHeaders.', 'pass-user-headers'],
  ['providers.0.loginURLParameters.', 'approval-prompt'],
]

/**
 * Reads the settings of oauth2-proxy, by their flags: a `.cfg` file, environment variables, flags in lines, or a
 * structured configuration.
 * @throws ConfigError CONFIG_NOT_THEIRS
 */
export async function readOauth2Proxy(text: string, file: string): Promise<GivenSetting[]> {
  if (isFlags(text))
    return joined(
      readFlags(text).map((one) => named(one, one.written, `--${one.written}`)),
      (name) => LISTS.has(name),
    )
  if (isVariables(text) && text.includes(PREFIX))
    return readVariables(text)
      .filter(({ written }) => written.startsWith(PREFIX))
      .map((one) => named(one, one.written.slice(PREFIX.length).toLowerCase()))
  if (/^(providers|upstreamConfig|injectRe\w+Headers|server):/m.test(text))
    return readYamlSettings(text, file).flatMap(fromAlpha)
  return (await readToml(text, file)).map((one) => named(one, one.written))
}

function named({ values, line, written }: Written, name: string, shown = written): GivenSetting {
  const flag = FLAGS.includes(name)
    ? name
    : (BY_FILE_NAME.get(name.replaceAll('-', '_')) ?? name.replaceAll('_', '-'))
  // Lists are separated by commas wherever a value is one text.
  const all = LISTS.has(flag) ? values.flatMap((value) => value.split(',')) : values
  return { name: flag, written: shown, values: all.map((value) => value.trim()), line }
}

function fromAlpha(setting: GivenSetting): GivenSetting[] {
  if (setting.name === 'providers.0.id') return []
  const part = ALPHA_PARTS.find(([start]) => setting.name.startsWith(start))?.[1]
  return [{ ...setting, name: ALPHA[setting.name] ?? part ?? setting.name }]
}
