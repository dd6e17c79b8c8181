import { type SettingTable, settings, words } from '../table.ts'

const provider = (names: string) =>
  words(names)
    .map((name) => `portals.$.providers.$.*.${name}`)
    .join(' ')

/** Every setting of ItalyPaleAle/traefik-forward-auth 4, and what it becomes. */
export const VERSION_4: SettingTable = settings({
  'server.port': ['`server.port`', '4181 for both'],
  'server.bind': ['`server.host`', '0.0.0.0 there; default 127.0.0.1 here'],
  'server.basePath': ['`server.basePath`'],
  'server.domains.$.domain cookies.domain': ['`domains[].domain`', 'required'],
  'server.domains.$.authHost server.hostname': [
    '`domains[].authHost`',
    'people always sign in at this host, also with a base path',
  ],
  'server.tlsPath server.tlsCertPEM server.tlsKeyPEM': [
    '`server.tls.certFile`, `server.tls.keyFile`',
    'files, watched for changes',
  ],
  'server.tlsClientAuth server.tlsCAPEM': [
    '`server.tls.clientCaFile`, `server.trustedProxies: []`',
  ],
  'server.trustedRequestIdHeader': 'requests are known by `traceparent`',
  'server.favicon': 'pages have the icon of Gatehouse',
  'cookies.namePrefix cookies.insecure':
    'each host has a cookie of its own, which begins with `__Host-gatehouse` and is always Secure',
  'tokens.sessionLifetime': ['`session.lifetime`', '2h there; default 8h here'],
  'tokens.signingKey tokens.signingKeyFile':
    'a key is made at the first start; several instances share `session.keys`, of at least 32 characters',
  'tokens.sessionTokenAudience': 'the audience is the host, or the domain with `scope: domain`',
  'logs.level logs.json': ['`log.level`, `log.format`'],
  'logs.omitHealthChecks': 'health checks are never logged',
  defaultPortal: 'a portal has one address: use `/portals/<portal>`',
  'portals.$.name': ['`portals[].name`', 'lower-case letters, digits and hyphens'],
  'portals.$.displayName': ['`portals[].title`'],
  'portals.$.authenticationTimeout': ['`portals[].loginLifetime`', '5m there; default 10m here'],
  'portals.$.sessionLifetime': ['`portals[].session.lifetime`'],
  'portals.$.alwaysShowProvidersPage': ['`portals[].alwaysShowProviders`'],
  'portals.$.backgroundMedium portals.$.backgroundLarge': 'pages have an `accent`, a colour',
  'portals.$.headers portals.$.headers.$.name portals.$.headers.$.claim': [
    '`portals[].headers`',
    'or presets; each header is always sent',
  ],
  'portals.$.headers.$.property': [
    '`portals[].headers`',
    '`portal.name` is `portal`, `provider.name` is `provider`',
  ],
  [provider('name')]: [
    '`portals[].providers[].name`',
    'the kind if there is none; it also says the `type`',
  ],
  [provider('displayName')]: ['`title`'],
  [provider('clientID')]: ['`clientId`'],
  [provider('clientSecret clientSecretFile')]: [
    '`clientSecretFile`',
    'the secret itself is never printed',
  ],
  [provider('clientAssertion azureFederatedIdentity')]: [
    '`clientAssertion`',
    '`tsiam` has no counterpart',
  ],
  [provider('requestTimeout')]: ['`timeout`'],
  [provider('scopes')]: ['`scopes`', 'a list'],
  [provider('tokenIssuer')]: ['`issuerUrl`'],
  [provider('tenantID')]: ['`tenantId`'],
  [provider('endpoint')]: ['`url`'],
  [provider('tlsCACertificatePEM tlsCACertificatePath')]: ['`ca`, `caFile`'],
  [provider('allowedTailnet')]: ['`tailnet`'],
  [provider('capabilityNames')]: ['`capabilities`'],
  [provider('icon')]: ['`icon`', 'those that Gatehouse has'],
  [provider('color')]: ['`color`', 'such as `#1a73e8`, not a name'],
  [provider('enablePKCE')]: 'PKCE is always on',
  [provider('tlsInsecureSkipVerify')]: 'certificates are always verified: give the CA',
})

const SERVER_KEYS = words(
  'hostname port bind basePath tlsPath tlsCertPEM tlsKeyPEM tlsCAPEM tlsClientAuth trustedRequestIdHeader',
)
/** The settings of ItalyPaleAle/traefik-forward-auth 3, by their names in version 4. */
export const RENAMED_IN_4: Readonly<Record<string, string>> = {
  ...Object.fromEntries(SERVER_KEYS.map((key) => [key, `server.${key}`])),
  cookieDomain: 'cookies.domain',
  cookieName: 'cookies.namePrefix',
  cookieInsecure: 'cookies.insecure',
  sessionLifetime: 'tokens.sessionLifetime',
  tokenSigningKey: 'tokens.signingKey',
  sessionTokenAudience: 'tokens.sessionTokenAudience',
  logLevel: 'logs.level',
  logAsJson: 'logs.json',
  omitHealthCheckLogs: 'logs.omitHealthChecks',
  authenticationTimeout: 'portals.0.authenticationTimeout',
}

/** Every setting of ItalyPaleAle/traefik-forward-auth 3, and what it becomes. */
export const VERSION_3: SettingTable = settings({
  [Object.keys(RENAMED_IN_4).join(' ')]: ['as in version 4', 'by another name there'],
  'auth*_allowedUsers auth*_allowedEmails auth*_allowedDomains': {
    becomes: '`allow`',
    note: 'all lists must hold; users of Entra ID and Tailscale have other IDs here, so say who may come in',
    restricts: true,
  },
  'authProvider auth*_*': ['`portals[].providers[]`', 'those of `authProvider` alone'],
  [`metricsServerEnabled metricsServerPort metricsServerBind metricsPort metricsBind enableMetrics
    metricsOtelCollectorEndpoint logsOtelCollectorEndpoint tracingOtelCollectorEndpoint tracingSampling`]:
    'set `metrics` for Prometheus, and the variables `OTEL_*` for traces; the log goes to stdout',
})

/** Every setting of thomseddon/traefik-forward-auth 2, by its flag, and what it becomes. */
export const VERSION_2: SettingTable = settings({
  'auth-host': ['`domains[].authHost`'],
  'cookie-domain cookie-domains': [
    '`domains[].domain`',
    'required: people sign in at one host, not at each app',
  ],
  'whitelist domain match-whitelist-or-domain': [
    '`allow`',
    'without addresses that the provider says are not verified',
  ],
  'default-action': ['`rules`', '`allow` becomes a last rule'],
  'rule.*.action rule.*.rule': [
    '`rules`',
    '`Host`, `Path`, `PathPrefix` and `Method` with `&&` and `||`',
  ],
  'rule.*.whitelist rule.*.domains': ['`policies`, `rules`'],
  'rule.*.provider default-provider': [
    '`portals[].providers[].type`',
    'rules with several providers become portals, by hand',
  ],
  lifetime: ['`session.lifetime`', '12h there; default 8h here'],
  port: ['`server.port`', '4181 for both'],
  'log-level log-format': ['`log.level`, `log.format`'],
  'providers.google.client-id providers.oidc.client-id client-id': ['`clientId`'],
  'providers.google.client-secret providers.oidc.client-secret client-secret': [
    '`clientSecretFile`',
    'the secret itself is never printed',
  ],
  'providers.oidc.issuer-url': ['`issuerUrl`'],
  'providers.google.prompt prompt providers.oidc.resource': ['`authorizationParameters`'],
  [`providers.generic-oauth.auth-url providers.generic-oauth.token-url
    providers.generic-oauth.user-url providers.generic-oauth.client-id
    providers.generic-oauth.client-secret providers.generic-oauth.scope
    providers.generic-oauth.token-style providers.generic-oauth.resource`]:
    'plain OAuth is only for GitHub: use an OpenID Connect provider',
  'secret cookie-secret':
    'a key is made at the first start; several instances share `session.keys`, of at least 32 characters',
  'cookie-name csrf-cookie-name insecure-cookie cookie-secure':
    'each host has a cookie of its own, which begins with `__Host-gatehouse` and is always Secure',
  'url-path': 'the redirect URI is a path of `domains[].authHost`',
  'logout-redirect': 'signing out ends with a page',
  config: { note: 'is not read: migrate it too, and join both', restricts: true },
})
