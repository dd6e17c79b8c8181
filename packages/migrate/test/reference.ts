/** The names of all settings in the references of other programs, without anything else of them. */
const words = (text: string) => text.trim().split(/\s+/)

/** Flags of oauth2-proxy 7.15: its page of options, the pages of its providers, and older spellings it reads. */
export const OAUTH2_PROXY_FLAGS = words(`
  config config-test version alpha-config convert-config-to-alpha
  acr-values allowed-group approval-prompt backend-logout-url client-id client-secret-file client-secret
  code-challenge-method insecure-oidc-allow-unverified-email insecure-oidc-skip-issuer-verification
  insecure-oidc-skip-nonce jwt-key-file jwt-key login-url auth-request-response-mode oidc-audience-claim
  oidc-email-claim oidc-extra-audience oidc-groups-claim oidc-issuer-url oidc-jwks-url oidc-public-key-file
  oidc-enabled-signing-alg profile-url prompt provider-ca-file provider-display-name provider pubjwk-url
  redeem-url scope skip-claims-from-profile-url skip-oidc-discovery use-system-trust-store validate-url
  cookie-csrf-expire cookie-csrf-per-request cookie-csrf-per-request-limit cookie-csrf-samesite cookie-domain
  cookie-expire cookie-httponly cookie-name cookie-path cookie-refresh cookie-samesite cookie-secret
  cookie-secret-file cookie-secure
  basic-auth-password set-xauthrequest set-authorization-header set-basic-auth skip-auth-strip-headers
  pass-access-token pass-authorization-header pass-basic-auth prefer-email-to-user pass-user-headers
  auth-logging-format auth-logging errors-to-info-log exclude-logging-path logging-compress logging-filename
  logging-local-time logging-max-age logging-max-backups logging-max-size request-id-header
  request-logging-format request-logging silence-ping-logging standard-logging-format standard-logging
  banner custom-sign-in-logo custom-templates-dir display-htpasswd-form footer show-debug-on-error
  ping-path ping-user-agent ready-path gcp-healthchecks
  allow-query-semicolons api-route authenticated-emails-file bearer-token-login-fallback email-domain
  encode-state extra-jwt-issuers force-https force-json-errors htpasswd-file htpasswd-user-group proxy-prefix
  real-client-ip-header redirect-url relative-redirect-url reverse-proxy trusted-proxy-ip signature-key
  skip-auth-preflight skip-auth-regex skip-auth-route skip-jwt-bearer-tokens skip-provider-button
  ssl-insecure-skip-verify trusted-ip whitelist-domain
  http-address https-address metrics-address metrics-secure-address metrics-tls-cert-file
  metrics-tls-key-file tls-cert-file tls-key-file tls-cipher-suite tls-min-version
  session-cookie-minimal session-store-type redis-cluster-connection-urls redis-connection-url redis-ca-path
  redis-insecure-skip-tls-verify redis-password redis-sentinel-password redis-sentinel-master-name
  redis-sentinel-connection-urls redis-use-cluster redis-use-sentinel redis-connection-idle-timeout
  flush-interval pass-host-header proxy-websockets ssl-upstream-insecure-skip-verify disable-keep-alives
  upstream-timeout upstream
  keycloak-group azure-tenant azure-graph-group-field entra-id-allowed-tenant entra-id-federated-token-auth
  bitbucket-team bitbucket-repository github-org github-team github-repo github-token github-user
  gitlab-group gitlab-project google-group google-admin-email google-service-account-json
  google-use-application-default-credentials google-target-principal google-use-organization-id
  google-admin-api-user-scope resource user-id-claim allowed-role force-code-challenge-method
`)

const kinds = {
  github: 'clientID clientSecret clientSecretFile requestTimeout',
  google: 'clientID clientSecret clientSecretFile requestTimeout scopes',
  microsoftEntraID: `tenantID clientID clientSecret clientSecretFile clientAssertion azureFederatedIdentity
    requestTimeout scopes`,
  openIDConnect: `clientID clientSecret clientSecretFile tokenIssuer clientAssertion requestTimeout scopes
    enablePKCE tlsInsecureSkipVerify tlsCACertificatePEM tlsCACertificatePath`,
  pocketID: `endpoint clientID clientSecret clientSecretFile requestTimeout scopes enablePKCE
    clientAssertion tlsInsecureSkipVerify tlsCACertificatePEM tlsCACertificatePath`,
  tailscaleWhois: 'allowedTailnet requestTimeout capabilityNames',
}

/** Keys of ItalyPaleAle/traefik-forward-auth 4, with those of older versions that it reads. */
export const VERSION_4_KEYS = [
  ...words(`
    server.domains.$.domain server.domains.$.authHost server.port server.bind server.basePath server.tlsPath
    server.tlsCertPEM server.tlsKeyPEM server.tlsCAPEM server.tlsClientAuth server.trustedRequestIdHeader
    server.favicon server.hostname cookies.domain cookies.namePrefix cookies.insecure tokens.sessionLifetime
    tokens.signingKey tokens.signingKeyFile tokens.sessionTokenAudience logs.level logs.omitHealthChecks
    logs.json defaultPortal
    portals.$.name portals.$.displayName portals.$.alwaysShowProvidersPage portals.$.authenticationTimeout
    portals.$.sessionLifetime portals.$.backgroundMedium portals.$.backgroundLarge portals.$.headers
    portals.$.headers.$.name portals.$.headers.$.claim portals.$.headers.$.property
  `),
  ...Object.entries(kinds).flatMap(([kind, keys]) =>
    words(`name displayName icon color ${keys}`).map(
      (key) => `portals.$.providers.$.${kind}.${key}`,
    ),
  ),
]

/** Keys of ItalyPaleAle/traefik-forward-auth 3.6, with the deprecated ones. */
export const VERSION_3_KEYS = words(`
  hostname cookieDomain cookieName cookieInsecure sessionLifetime port bind basePath logLevel
  omitHealthCheckLogs logAsJson logsOtelCollectorEndpoint metricsServerEnabled metricsServerPort
  metricsServerBind metricsOtelCollectorEndpoint metricsPort metricsBind enableMetrics tokenSigningKey
  authenticationTimeout tlsPath tlsCertPEM tlsKeyPEM tlsCAPEM tlsClientAuth trustedRequestIdHeader
  tracingSampling tracingOtelCollectorEndpoint sessionTokenAudience authProvider
  authGoogle_clientID authGoogle_clientSecret authGoogle_allowedUsers authGoogle_allowedEmails
  authGoogle_allowedDomains authGoogle_requestTimeout
  authGitHub_clientID authGitHub_clientSecret authGitHub_allowedUsers authGitHub_requestTimeout
  authMicrosoftEntraID_tenantID authMicrosoftEntraID_clientID authMicrosoftEntraID_clientSecret
  authMicrosoftEntraID_azureFederatedIdentity authMicrosoftEntraID_allowedUsers
  authMicrosoftEntraID_allowedEmails authMicrosoftEntraID_requestTimeout
  authOpenIDConnect_clientID authOpenIDConnect_clientSecret authOpenIDConnect_tokenIssuer
  authOpenIDConnect_allowedUsers authOpenIDConnect_allowedEmails authOpenIDConnect_requestTimeout
  authOpenIDConnect_enablePKCE authOpenIDConnect_tlsInsecureSkipVerify
  authOpenIDConnect_tlsCACertificatePEM authOpenIDConnect_tlsCACertificatePath
  authTailscaleWhois_allowedTailnet authTailscaleWhois_allowedUsers
  authTailscaleWhois_requestTimeout
`)

/** Flags of thomseddon/traefik-forward-auth 2, with the deprecated ones. */
export const VERSION_2_FLAGS = words(`
  log-level log-format auth-host config cookie-domain insecure-cookie cookie-name csrf-cookie-name
  default-action default-provider domain lifetime logout-redirect match-whitelist-or-domain url-path secret
  whitelist port rule.x.action rule.x.rule rule.x.provider rule.x.whitelist rule.x.domains
  providers.google.client-id providers.google.client-secret providers.google.prompt
  providers.oidc.issuer-url providers.oidc.client-id providers.oidc.client-secret providers.oidc.resource
  providers.generic-oauth.auth-url providers.generic-oauth.token-url providers.generic-oauth.user-url
  providers.generic-oauth.client-id providers.generic-oauth.client-secret providers.generic-oauth.scope
  providers.generic-oauth.token-style providers.generic-oauth.resource
  cookie-domains cookie-secret cookie-secure client-id client-secret prompt
`)

/** Keys of Authelia 4.37 to 4.39, with older names. Of a section that has no counterpart, some. */
export const AUTHELIA_KEYS = words(`
  access_control.default_policy access_control.networks.$.name access_control.networks.$.networks
  access_control.rules.$.domain access_control.rules.$.domain_regex access_control.rules.$.methods
  access_control.rules.$.networks access_control.rules.$.policy access_control.rules.$.resources
  access_control.rules.$.subject access_control.rules.$.subject.$ access_control.rules.$.query.$.$.key
  access_control.rules.$.query.$.$.operator access_control.rules.$.query.$.$.value
  session.domain session.name session.same_site session.secret session.expiration session.inactivity
  session.remember_me session.remember_me_duration session.cookies.$.domain session.cookies.$.authelia_url
  session.cookies.$.default_redirection_url session.cookies.$.name session.cookies.$.same_site
  session.cookies.$.expiration session.cookies.$.inactivity session.cookies.$.remember_me
  session.redis.host session.redis.password session.redis.tls.server_name
  session.redis.high_availability.nodes.$.host
  server.address server.host server.port server.path server.asset_path server.buffers.read server.timeouts.read
  server.headers.csp_template server.disable_healthcheck server.tls.certificate server.tls.key
  server.tls.client_certificates server.endpoints.enable_pprof server.endpoints.authz.x.implementation
  server.endpoints.authz.x.authn_strategies.$.name
  log.level log.format log.file_path log.keep_stdout telemetry.metrics.enabled telemetry.metrics.address
  identity_providers.oidc.hmac_secret identity_providers.oidc.jwks.$.key
  identity_providers.oidc.clients.$.client_id identity_providers.oidc.clients.$.id
  identity_providers.oidc.clients.$.redirect_uris identity_providers.oidc.cors.endpoints
  authentication_backend.file.path authentication_backend.file.password.algorithm
  authentication_backend.ldap.address authentication_backend.ldap.password
  authentication_backend.password_reset.disable password_policy.zxcvbn.enabled
  identity_validation.reset_password.jwt_secret jwt_secret
  totp.issuer totp.period webauthn.disable webauthn.display_name duo_api.hostname duo_api.secret_key
  default_2fa_method default_redirection_url notifier.smtp.address notifier.smtp.password
  notifier.filesystem.filename regulation.max_retries regulation.ban_time storage.encryption_key
  storage.local.path storage.postgres.password theme ntp.address definitions.network.x
  definitions.user_attributes.x.expression privacy_policy.enabled certificates_directory
`)
