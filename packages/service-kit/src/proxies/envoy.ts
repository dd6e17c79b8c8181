import type { Dialect, ReverseProxy } from './proxy.ts'

/** Envoy `ext_authz` over HTTP: a 5xx would let the request pass under `failure_mode_allow`. */
const envoyDialect: Dialect = {
  name: 'envoy',
  title: 'Envoy',
  source: 'request-line',
  redirects: true,
  denialStatus: (status) => (status >= 500 ? 403 : status),
}

export const envoy = {
  title: 'Envoy',
  example: 'envoy.yaml',
  dialects: [envoyDialect],
  sets: ['x-forwarded-proto', 'x-forwarded-for'],
  clientCertificate: { header: 'X-Forwarded-Client-Cert', encoding: 'elements' },
  remedies: {
    'set-cookie': 'allowed_client_headers of authorization_response: { exact: set-cookie }',
    stripped: 'filters before ext_authz that change the path: remove them',
    upgrade: 'upgrade_configs: only websocket',
    overrides: 'allowed_headers of ext_authz: list them',
    believed: 'request_headers_to_remove: list it',
    'app-host': 'host_rewrite of the route of the app: remove it',
    unreachable: 'the cluster of server_uri of ext_authz',
    unprotected: 'ext_authz in http_filters, and disabled in typed_per_filter_config of the route',
    target: 'path_prefix of http_service: /portals/<portal>/authz/envoy/policy/<policy>',
    host: 'host_rewrite_literal of the route, and Host of the listener',
    scheme: 'headers_to_add of authorization_request: x-forwarded-proto "%REQ(:SCHEME)%"',
    method: 'http_service of ext_authz passes the method; remove filters before it that change it',
    cookie: 'allowed_headers of ext_authz: { exact: cookie }',
    calls: 'allowed_headers of ext_authz: { exact: … } of each mcp-… and last-event-id',
    client: 'headers_to_add: x-forwarded-for "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%"',
    navigation: 'allowed_headers of ext_authz: { exact: accept } and { exact: sec-fetch-mode }',
    forged: 'use_remote_address: true, and headers_to_add instead of allowed_headers',
    redirect: 'allowed_client_headers of authorization_response: { exact: location }',
    status: 'status_on_error and failure_mode_allow of ext_authz',
    challenge: 'allowed_client_headers of authorization_response: { exact: www-authenticate }',
    'request-size': 'max_request_headers_kb of the connection manager',
    'answer-size': 'http_protocol_options of the cluster of the service: max_response_headers_kb',
    'auth-protected': 'typed_per_filter_config of the sign-in pages: disabled: true',
    'auth-host': 'host_rewrite of the route of the sign-in pages: remove it',
    'auth-missing': 'domains and cluster of the virtual host of the sign-in pages',
    'not-stripped': 'allowed_upstream_headers: list every header of the portal',
    'not-copied': 'allowed_upstream_headers: list every header of the portal',
    aliases: 'headers_with_underscores_action: REJECT_REQUEST',
    'session-shown': 'ext_authz over gRPC, which takes it out: see the guide',
  },
} as const satisfies ReverseProxy
