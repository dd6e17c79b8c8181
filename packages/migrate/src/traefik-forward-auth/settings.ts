import { type SettingTable, settings, words } from '../table.ts'

const provider = (names: string) =>
  words(names)
    .map((name) => `portals.$.providers.$.*.${name}`)
    .join(' ')

/** Every setting of ItalyPaleAle/traefik-forward-auth 4, and what it becomes. */
export const VERSION_4: SettingTable = settings({
  'server.port': { becomes: '`server.port`', note: '4181 for both' },
  'server.bind': { becomes: '`server.host`', note: '0.0.0.0 there; default 127.0.0.1 here' },
  'server.basePath': { becomes: '`server.basePath`' },
  'server.domains.$.domain cookies.domain': { becomes: '`domains[].domain`', note: 'required' },
  'server.domains.$.authHost server.hostname': {
    becomes: '`domains[].authHost`',
    note: 'people always sign in at this host, also with a base path',
  },
  'server.tlsPath server.tlsCertPEM server.tlsKeyPEM': {
    becomes: '`server.tls.certFile`, `server.tls.keyFile`',
    note: 'files, watched for changes',
  },
  'server.tlsClientAuth server.tlsCAPEM': {
    becomes: '`server.tls.clientCaFile`, `server.trustedProxies: []`',
  },
  'server.trustedRequestIdHeader': 'requests are known by `traceparent`',
  'server.favicon': 'pages have the icon of Gatehouse',
  'cookies.namePrefix cookies.insecure':
    'each host has a cookie of its own, which begins with `__Host-gatehouse` and is always Secure',
  'tokens.sessionLifetime': { becomes: '`session.lifetime`', note: '2h there; default 8h here' },
  'tokens.signingKey tokens.signingKeyFile':
    'a key is made at the first start; several instances share `session.keys`, of at least 32 characters',
  'tokens.sessionTokenAudience': 'the audience is the host, or the domain with `scope: domain`',
  'logs.level logs.json': { becomes: '`log.level`, `log.format`' },
  'logs.omitHealthChecks': 'health checks are never logged',
  defaultPortal: 'a portal has one address: use `/portals/<portal>`',
  'portals.$.name': { becomes: '`portals[].name`', note: 'lower-case letters, digits and hyphens' },
  'portals.$.displayName': { becomes: '`portals[].title`' },
  'portals.$.authenticationTimeout': {
    becomes: '`portals[].loginLifetime`',
    note: '5m there; default 10m here',
  },
  'portals.$.sessionLifetime': { becomes: '`portals[].session.lifetime`' },
  'portals.$.alwaysShowProvidersPage': { becomes: '`portals[].alwaysShowProviders`' },
  'portals.$.backgroundMedium portals.$.backgroundLarge': 'pages have an `accent`, a colour',
  'portals.$.headers portals.$.headers.$.name portals.$.headers.$.claim': {
    becomes: '`portals[].headers`',
    note: 'or presets; each header is always sent',
  },
  'portals.$.headers.$.property': {
    becomes: '`portals[].headers`',
    note: '`portal.name` is `portal`, `provider.name` is `provider`',
  },
  [provider('name')]: {
    becomes: '`portals[].providers[].name`',
    note: 'the kind if there is none; it also says the `type`',
  },
  [provider('displayName')]: { becomes: '`title`' },
  [provider('clientID')]: { becomes: '`clientId`' },
  [provider('clientSecret clientSecretFile')]: {
    becomes: '`clientSecretFile`',
    note: 'the secret itself is never printed',
  },
  [provider('clientAssertion azureFederatedIdentity')]: {
    becomes: '`clientAssertion`',
    note: '`tsiam` has no counterpart',
  },
  [provider('requestTimeout')]: { becomes: '`timeout`' },
  [provider('scopes')]: { becomes: '`scopes`', note: 'a list' },
  [provider('tokenIssuer')]: { becomes: '`issuerUrl`' },
  [provider('tenantID')]: { becomes: '`tenantId`' },
  [provider('endpoint')]: { becomes: '`url`' },
  [provider('tlsCACertificatePEM tlsCACertificatePath')]: { becomes: '`ca`, `caFile`' },
  [provider('allowedTailnet')]: { becomes: '`tailnet`' },
  [provider('capabilityNames')]: { becomes: '`capabilities`' },
  [provider('icon')]: { becomes: '`icon`', note: 'those that Gatehouse has' },
  [provider('color')]: { becomes: '`color`', note: 'such as `#1a73e8`, not a name' },
  [provider('enablePKCE')]: 'PKCE is always on',
  [provider('tlsInsecureSkipVerify')]: 'certificates are always verified: give the CA',
})

/** Every setting of thomseddon/traefik-forward-auth 2, by its flag, and what it becomes. */
export const VERSION_2: SettingTable = settings({
  'auth-host': { becomes: '`domains[].authHost`' },
  'cookie-domain cookie-domains': {
    becomes: '`domains[].domain`',
    note: 'required: people sign in at one host, not at each app',
  },
  'whitelist domain match-whitelist-or-domain': {
    becomes: '`allow`',
    note: 'without addresses that the provider says are not verified',
  },
  'default-action': { becomes: '`rules`', note: '`allow` becomes a last rule' },
  'rule.*.action rule.*.rule': {
    becomes: '`rules`',
    note: '`Host`, `Path`, `PathPrefix` and `Method` with `&&` and `||`',
  },
  'rule.*.whitelist rule.*.domains': { becomes: '`policies`, `rules`' },
  'rule.*.provider default-provider': {
    becomes: '`portals[].providers[].type`',
    note: 'rules with several providers become portals, by hand',
  },
  lifetime: { becomes: '`session.lifetime`', note: '12h there; default 8h here' },
  port: { becomes: '`server.port`', note: '4181 for both' },
  'log-level log-format': { becomes: '`log.level`, `log.format`' },
  'providers.google.client-id providers.oidc.client-id client-id': { becomes: '`clientId`' },
  'providers.google.client-secret providers.oidc.client-secret client-secret': {
    becomes: '`clientSecretFile`',
    note: 'the secret itself is never printed',
  },
  'providers.oidc.issuer-url': { becomes: '`issuerUrl`' },
  'providers.google.prompt prompt providers.oidc.resource': {
    becomes: '`authorizationParameters`',
  },
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
  config: 'see `--config`',
})
