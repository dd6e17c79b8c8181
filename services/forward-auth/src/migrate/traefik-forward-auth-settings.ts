import type { SettingTable } from '@gatehouse/service-kit'

const portal = (name: string) => `portals.$.${name}`
const provider = (...names: string[]) => names.map((name) => portal(`providers.$.*.${name}`))

/** Every setting of ItalyPaleAle/traefik-forward-auth 4, and what it becomes. */
export const VERSION_4: SettingTable = [
  { names: ['server.port'], becomes: '`server.port`', note: '4181 for both' },
  {
    names: ['server.bind'],
    becomes: '`server.host`',
    note: '0.0.0.0 there; default 127.0.0.1 here',
  },
  { names: ['server.basePath'], becomes: '`server.basePath`' },
  {
    names: ['server.domains.$.domain', 'cookies.domain'],
    becomes: '`domains[].domain`',
    note: 'required',
  },
  {
    names: ['server.domains.$.authHost', 'server.hostname'],
    becomes: '`domains[].authHost`',
    note: 'people always sign in at this host, also with a base path',
  },
  {
    names: ['server.tlsPath', 'server.tlsCertPEM', 'server.tlsKeyPEM'],
    becomes: '`server.tls.certFile`, `server.tls.keyFile`',
    note: 'files, watched for changes',
  },
  {
    names: ['server.tlsClientAuth', 'server.tlsCAPEM'],
    becomes: '`server.tls.clientCaFile`, `server.trustedProxies: []`',
  },
  {
    names: ['server.trustedRequestIdHeader'],
    note: 'requests are known by `traceparent`',
  },
  { names: ['server.favicon'], note: 'pages have the icon of Gatehouse' },
  {
    names: ['cookies.namePrefix', 'cookies.insecure'],
    note: 'the cookie is `__Secure-gatehouse.<portal>`, always Secure',
  },
  {
    names: ['tokens.sessionLifetime'],
    becomes: '`session.lifetime`',
    note: '2h there; default 8h here',
  },
  {
    names: ['tokens.signingKey', 'tokens.signingKeyFile'],
    note: 'a key is made at the first start; several instances share `session.keys`, of at least 32 characters',
  },
  { names: ['tokens.sessionTokenAudience'], note: 'the audience is the cookie domain' },
  { names: ['logs.level', 'logs.json'], becomes: '`log.level`, `log.format`' },
  { names: ['logs.omitHealthChecks'], note: 'health checks are never logged' },
  { names: ['defaultPortal'], note: 'a portal has one address: use `/portals/<portal>`' },
  {
    names: [portal('name')],
    becomes: '`portals[].name`',
    note: 'lower-case letters, digits and hyphens',
  },
  { names: [portal('displayName')], becomes: '`portals[].title`' },
  {
    names: [portal('authenticationTimeout')],
    becomes: '`portals[].loginLifetime`',
    note: '5m there; default 10m here',
  },
  { names: [portal('sessionLifetime')], becomes: '`portals[].sessionLifetime`' },
  { names: [portal('alwaysShowProvidersPage')], becomes: '`portals[].alwaysShowProviders`' },
  {
    names: [portal('backgroundMedium'), portal('backgroundLarge')],
    note: 'pages have an `accent`, a colour',
  },
  {
    names: [portal('headers'), portal('headers.$.name'), portal('headers.$.claim')],
    becomes: '`portals[].headers`',
    note: 'or presets; each header is always sent',
  },
  {
    names: [portal('headers.$.property')],
    becomes: '`portals[].headers`',
    note: '`portal.name` is `portal`, `provider.name` is `provider`',
  },
  {
    names: provider('name'),
    becomes: '`portals[].providers[].name`',
    note: 'the kind if there is none; it also says the `type`',
  },
  { names: provider('displayName'), becomes: '`title`' },
  { names: provider('clientID'), becomes: '`clientId`' },
  {
    names: provider('clientSecret', 'clientSecretFile'),
    becomes: '`clientSecretFile`',
    note: 'the secret itself is never printed',
  },
  {
    names: provider('clientAssertion', 'azureFederatedIdentity'),
    becomes: '`clientAssertion`',
    note: '`tsiam` has no counterpart',
  },
  { names: provider('requestTimeout'), becomes: '`timeout`' },
  { names: provider('scopes'), becomes: '`scopes`', note: 'a list' },
  { names: provider('tokenIssuer'), becomes: '`issuerUrl`' },
  { names: provider('tenantID'), becomes: '`tenantId`' },
  { names: provider('endpoint'), becomes: '`url`' },
  {
    names: provider('tlsCACertificatePEM', 'tlsCACertificatePath'),
    becomes: '`ca`, `caFile`',
  },
  { names: provider('allowedTailnet'), becomes: '`tailnet`' },
  { names: provider('capabilityNames'), becomes: '`capabilities`' },
  {
    names: provider('icon'),
    becomes: '`icon`',
    note: 'those that Gatehouse has',
  },
  { names: provider('color'), becomes: '`color`', note: 'such as `#1a73e8`, not a name' },
  { names: provider('enablePKCE'), note: 'PKCE is always on' },
  {
    names: provider('tlsInsecureSkipVerify'),
    note: 'certificates are always verified: give the CA',
  },
]

/** Every setting of thomseddon/traefik-forward-auth 2, by its flag, and what it becomes. */
export const VERSION_2: SettingTable = [
  { names: ['auth-host'], becomes: '`domains[].authHost`' },
  {
    names: ['cookie-domain', 'cookie-domains'],
    becomes: '`domains[].domain`',
    note: 'required: people sign in at one host, not at each app',
  },
  {
    names: ['whitelist', 'domain', 'match-whitelist-or-domain'],
    becomes: '`allow`',
    note: 'without addresses that the provider says are not verified',
  },
  { names: ['default-action'], becomes: '`rules`', note: '`allow` becomes a last rule' },
  {
    names: ['rule.*.action', 'rule.*.rule'],
    becomes: '`rules`',
    note: '`Host`, `Path`, `PathPrefix` and `Method` with `&&` and `||`',
  },
  {
    names: ['rule.*.whitelist', 'rule.*.domains'],
    becomes: '`policies`, `rules`',
  },
  {
    names: ['rule.*.provider', 'default-provider'],
    becomes: '`portals[].providers[].type`',
    note: 'rules with several providers become portals, by hand',
  },
  { names: ['lifetime'], becomes: '`session.lifetime`', note: '12h there; default 8h here' },
  { names: ['port'], becomes: '`server.port`', note: '4181 for both' },
  { names: ['log-level', 'log-format'], becomes: '`log.level`, `log.format`' },
  {
    names: ['providers.google.client-id', 'providers.oidc.client-id', 'client-id'],
    becomes: '`clientId`',
  },
  {
    names: ['providers.google.client-secret', 'providers.oidc.client-secret', 'client-secret'],
    becomes: '`clientSecretFile`',
    note: 'the secret itself is never printed',
  },
  { names: ['providers.oidc.issuer-url'], becomes: '`issuerUrl`' },
  {
    names: ['providers.google.prompt', 'prompt', 'providers.oidc.resource'],
    becomes: '`authorizationParameters`',
  },
  {
    names: [
      'providers.generic-oauth.auth-url',
      'providers.generic-oauth.token-url',
      'providers.generic-oauth.user-url',
      'providers.generic-oauth.client-id',
      'providers.generic-oauth.client-secret',
      'providers.generic-oauth.scope',
      'providers.generic-oauth.token-style',
      'providers.generic-oauth.resource',
    ],
    note: 'plain OAuth is only for GitHub: use an OpenID Connect provider',
  },
  {
    names: ['secret', 'cookie-secret'],
    note: 'a key is made at the first start; several instances share `session.keys`, of at least 32 characters',
  },
  {
    names: ['cookie-name', 'csrf-cookie-name', 'insecure-cookie', 'cookie-secure'],
    note: 'the cookie is `__Secure-gatehouse.<portal>`, always Secure',
  },
  {
    names: ['url-path'],
    note: 'the redirect URI is a path of `domains[].authHost`',
  },
  { names: ['logout-redirect'], note: 'signing out ends with a page' },
  { names: ['config'], note: 'see `--config`' },
]
