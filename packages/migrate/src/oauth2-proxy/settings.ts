import { type SettingTable, settings, words } from '../table.ts'

/** The flags that take several values. Their names in files and variables end with an `s`. */
export const LISTS: ReadonlySet<string> = new Set(
  words(`
    allowed-group allowed-role api-route cookie-domain email-domain entra-id-allowed-tenant
    exclude-logging-path github-user gitlab-group gitlab-project google-group htpasswd-user-group
    keycloak-group oidc-audience-claim oidc-enabled-signing-alg oidc-extra-audience
    oidc-public-key-file provider-ca-file skip-auth-regex skip-auth-route tls-cipher-suite
    trusted-ip trusted-proxy-ip upstream whitelist-domain extra-jwt-issuers
    redis-cluster-connection-urls redis-sentinel-connection-urls
  `),
)

/** Every setting of oauth2-proxy 7.15, by its flag, and what it becomes. */
export const OAUTH2_PROXY: SettingTable = settings({
  provider: [
    '`portals[].providers[].type`',
    '`oidc`, `keycloak`, `keycloak-oidc` and `adfs` become `openIDConnect`, `azure` and ' +
      '`entra-id` `microsoftEntraID`; `google`, `github` and `gitlab` keep their names; the ' +
      'others need an OpenID Connect provider',
  ],
  'provider-display-name': ['`title` of the provider'],
  'oidc-issuer-url': ['`issuerUrl`, `tenantId` or `url` of the provider'],
  'client-id': ['`clientId`'],
  'client-secret client-secret-file': ['`clientSecretFile`', 'the secret itself is never printed'],
  'entra-id-federated-token-auth': ['`clientAssertion: { type: azureWorkloadIdentity }`'],
  'azure-tenant': ['`tenantId`', 'one tenant, by its ID'],
  scope: ['`scopes`', 'GitHub needs none'],
  'prompt acr-values resource': [
    '`authorizationParameters`',
    'a policy with `acr` also demands what `acr_values` asks for',
  ],
  'provider-ca-file': ['`caFile`', 'one file; several have to be joined'],
  'login-url': ['`issuerUrl`', 'of Keycloak; other endpoints are found by discovery'],
  'oidc-groups-claim': ['`groupsClaim`'],
  'oidc-email-claim user-id-claim': [
    '`allow`',
    'another claim than `email` is read by the condition; headers for apps always have `email`',
  ],
  'insecure-oidc-allow-unverified-email': [
    '`trustEmail`',
    'OpenID Connect and Entra ID; without it, addresses count unless the provider says that they are not verified',
  ],
  'email-domain authenticated-emails-file': [
    '`allow`',
    'see `trustEmail`; the file is read, and its addresses become a condition',
  ],
  'allowed-group keycloak-group gitlab-group allowed-role': [
    '`allow`, with `groups` of GitLab and `rolesClaim` of Keycloak',
    'one of them is enough',
  ],
  'github-org github-team github-user': [
    '`allow`, with `organizations`',
    'teams are groups such as `acme/ops`; a user name can change hands, so prefer teams',
  ],
  'google-group': {
    note: 'Google sends no groups: list people by `emailDomains` or a condition, or sign in at a provider that knows groups',
    restricts: true,
  },
  'github-repo gitlab-project bitbucket-team bitbucket-repository': {
    note: 'who may use a repository is not asked: use organizations, teams or groups',
    restricts: true,
  },
  'entra-id-allowed-tenant': {
    note: 'a provider is for one tenant: make one provider for each',
    restricts: true,
  },
  'azure-graph-group-field': {
    note: 'groups are in the ID token, by the IDs that Entra ID sends',
    restricts: true,
  },
  'cookie-domain': ['`domains[].domain`', 'without it, the host of `redirect-url`'],
  'redirect-url': ['`domains[].authHost`', 'the redirect URI follows'],
  'whitelist-domain': ['`domains[].domain`', 'people are only sent back to hosts of `domains`'],
  'cookie-expire': ['`session.lifetime`', '168h there, 8h here'],
  'http-address https-address': [
    '`server.host`, `server.port`',
    'TCP only; while both run on one machine, one of them needs another port',
  ],
  'tls-cert-file tls-key-file': ['`server.tls.certFile`, `server.tls.keyFile`'],
  'trusted-proxy-ip': ['`server.trustedProxies`', 'loopback alone if there is none, not everybody'],
  'metrics-address': ['`metrics.host`, `metrics.port`'],
  'set-xauthrequest': ['`headers: x-auth-request-*`'],
  'prefer-email-to-user': ['`userHeader: email`'],
  'trusted-ip': ['`rules` with `from` and `require: anyone`'],
  'skip-auth-route skip-auth-regex': [
    '`rules` with `paths`, `methods` and `require: anyone`',
    'only expressions such as `^/x$`, which also opens `/x/`, and `^/x/` or `GET=^/x/.*$`, ' +
      'which open what is below `/x/`; the others keep asking for a session',
  ],
  'skip-auth-preflight': ['`preflight`', 'real CORS preflights only'],
  'cookie-secret cookie-secret-file':
    'a key is made at the first start; several instances share `session.keys`, and everybody signs in once more',
  'cookie-refresh':
    'the provider is asked again by itself, see `refresh` in `portals[].session`; the lifetime stays',
  'cookie-name cookie-path cookie-secure cookie-httponly cookie-samesite':
    'each host has a cookie of its own, which begins with `__Host-gatehouse`; Secure, HttpOnly, SameSite=Lax',
  'cookie-csrf-* encode-state':
    'sign-ins in any number of tabs work; `loginLifetime` limits their time',
  'session-store-type session-cookie-minimal redis-*':
    'sessions are in `storage`, in a folder, or in PostgreSQL, which several instances share',
  'code-challenge-method force-code-challenge-method insecure-oidc-skip-nonce':
    'PKCE with S256 and the nonce are always on',
  [`skip-oidc-discovery oidc-jwks-url oidc-public-key-file redeem-url profile-url validate-url
    skip-claims-from-profile-url`]:
    'endpoints and keys are found by discovery, and UserInfo is asked when the ID token lacks claims',
  'insecure-oidc-skip-issuer-verification ssl-insecure-skip-verify':
    'the issuer and its certificate are always verified: give `caFile` for a private CA',
  'use-system-trust-store':
    '`caFile` replaces the CAs of the system: add those that are needed to the file',
  'oidc-audience-claim oidc-extra-audience oidc-enabled-signing-alg':
    'the ID token must be for `clientId`, and be signed with a strong algorithm that the provider announces',
  'approval-prompt auth-request-response-mode': 'set by Gatehouse itself',
  'backend-logout-url': 'signing out leads to the sign-out page of the provider, if it has one',
  'jwt-key jwt-key-file pubjwk-url':
    'login.gov is not supported: use `clientSecretFile` or `clientAssertion`',
  'google-* github-token': 'only sign-in is asked of the provider, not its API for administrators',
  'reverse-proxy real-client-ip-header force-https relative-redirect-url':
    'there always is a proxy, which is listed in `server.trustedProxies` and sends `X-Forwarded-` headers',
  'api-route force-json-errors':
    'programs get 401 and JSON by themselves; only pages in a browser lead to the sign-in',
  'skip-jwt-bearer-tokens extra-jwt-issuers bearer-token-login-fallback':
    'programs are let in by `portals[].callers`, where you list issuers and who may call',
  'htpasswd-file htpasswd-user-group display-htpasswd-form':
    'there are no local passwords: people need accounts at the provider, and programs a key in `portals[].callers` with `basic`',
  'pass-access-token pass-authorization-header set-authorization-header':
    'write `providerToken` with the hosts of the apps that need a token, and `token: id` for the ID token',
  'signature-key': 'apps that `assertion.hosts` names get a signed assertion',
  'pass-basic-auth set-basic-auth basic-auth-password':
    'apps get identity headers in place of Basic authentication',
  'pass-user-headers skip-auth-strip-headers':
    'identity headers are always sent, and empty if there is no value; the proxy passes them on',
  [`upstream upstream-timeout pass-host-header proxy-websockets flush-interval
    disable-keep-alives ssl-upstream-insecure-skip-verify allow-query-semicolons`]:
    'Gatehouse forwards nothing but calls of MCP: a proxy in front of the apps asks it',
  'proxy-prefix': 'the paths are other ones; `server.basePath` is a prefix for all of them',
  'ping-path ready-path ping-user-agent gcp-healthchecks': '`/healthz` and `/readyz`',
  'skip-provider-button':
    'with one provider there is no page to choose, unless `alwaysShowProviders` is set',
  'banner footer custom-sign-in-logo custom-templates-dir': 'pages have a `title` and an `accent`',
  'show-debug-on-error': 'error pages say what to do, and the log has the cause',
  [`*-logging *-logging-format logging-* errors-to-info-log exclude-logging-path
    request-id-header`]:
    'the log goes to stdout, see `log`; `gatehouse-auth audit` lists who signed in, and health checks are not logged',
  'metrics-secure-address metrics-tls-cert-file metrics-tls-key-file':
    'metrics are served in plain HTTP on a port of their own',
  'tls-cipher-suite tls-min-version': 'those of Node, with TLS 1.2 or newer',
  'config alpha-config': { note: 'is not read: migrate it too, and join both', restricts: true },
  'convert-config-to-alpha config-test version':
    'see `gatehouse-auth --help`; `check-config` tests a configuration',
})
