export const PROXIES = ['nginx', 'caddy', 'traefik', 'envoy', 'haproxy'] as const
export type ProxyName = (typeof PROXIES)[number]

/** Lines of the examples in `examples/proxies`, by mistake. */
const OF_PROXY = {
  nginx: {
    stripped: 'proxy_set_header X-Original-URL $scheme://$host$request_uri; not $uri',
    upgrade: 'proxy_set_header Upgrade $upgrade; with its map, not $http_upgrade',
    overrides: 'proxy_set_header X-Original-URL ""; in the location of the app',
    believed: 'proxy_set_header … ""; in the location of the app',
    'app-host': 'proxy_set_header Host $host; in the location of the app',
    unreachable:
      'proxy_pass http://gatehouse/portals/<portal>/authz/nginx?policy=… in the location of the check',
    unprotected: 'auth_request /_gatehouse; in the location of the app',
    target:
      'proxy_set_header X-Original-URL $scheme://$host$request_uri; in the location of the check',
    host: 'proxy_set_header X-Original-URL $scheme://$host$request_uri; in the location of the check',
    scheme:
      'proxy_set_header X-Original-URL $scheme://$host$request_uri; in the location of the check',
    method: 'proxy_set_header X-Original-Method $request_method; in the location of the check',
    cookie:
      'proxy_pass_request_headers off and proxy_set_header Cookie in the location of the check: remove them',
    calls:
      'proxy_set_header Mcp-… and Last-Event-ID, and proxy_pass_request_headers off in the location of the check: remove them',
    client: 'proxy_set_header X-Forwarded-For $remote_addr; in the location of the check',
    navigation:
      'proxy_set_header Accept and proxy_pass_request_headers off in the location of the check: remove them',
    forged:
      'proxy_set_header X-Forwarded-For $remote_addr; and X-Original-URL $scheme://$host$request_uri; not $http_…',
    redirect: 'error_page 403 = @refused; in the location of the app',
    status: 'error_page 403 = @refused; in the location of the app',
    challenge:
      'error_page 403 = @refused; and auth_request_set $refusal; in the location of the app',
    'request-size': 'large_client_header_buffers 4 32k;',
    'answer-size': 'proxy_buffer_size 32k; and proxy_buffers 8 32k;',
    'auth-protected': 'auth_request in the server of the sign-in pages: remove it',
    'auth-host':
      'proxy_set_header Host $host; and X-Forwarded-Host $host; in the server of the sign-in pages',
    'auth-missing': 'server_name and proxy_pass http://gatehouse; of the sign-in pages',
    'not-stripped':
      'proxy_set_header <header> $variable; in the location of the app, for every header of the portal',
    'not-copied':
      'auth_request_set $variable $upstream_http_<header>; and proxy_set_header <header> $variable;',
    aliases: 'underscores_in_headers off;',
    'session-shown':
      'proxy_set_header Cookie $own_cookies; in the location of the app, with its maps: see the guide',
  },
  caddy: {
    stripped: 'header_up X-Forwarded-Uri {http.request.orig_uri} in forward_auth',
    query: 'uri in forward_auth: give it a query, such as ?policy=any',
    upgrade: 'import guard: request_header @other -Upgrade',
    overrides: 'header_up in forward_auth: remove what takes them away',
    believed: 'import guard: request_header -Forwarded and others',
    taken: 'import guard: request_header @other -Connection',
    'app-host': 'header_up Host in the reverse_proxy of the app: remove it',
    unreachable: 'the address after forward_auth',
    unprotected: 'forward_auth in the site of the app',
    target: 'header_up X-Forwarded-Uri {http.request.orig_uri} in forward_auth',
    host: 'header_up X-Forwarded-Host in forward_auth: remove it',
    scheme: 'header_up X-Forwarded-Proto in forward_auth, and http:// before the site: remove them',
    method: 'header_up X-Forwarded-Method in forward_auth: remove it',
    cookie: 'header_up -Cookie in forward_auth: remove it',
    calls: 'header_up and request_header -Mcp-… and -Last-Event-ID: remove them',
    client: 'header_up -X-Forwarded-For in forward_auth: remove it',
    navigation: 'header_up -Accept and -Sec-Fetch-Mode in forward_auth: remove them',
    forged:
      'trusted_proxies in the global options: only addresses of your own proxies; header_up in forward_auth: no {header.…}',
    redirect:
      'handle_response in forward_auth: remove it, so that the answer of the check reaches the client',
    status: 'handle_response in forward_auth: remove it',
    challenge: 'header -WWW-Authenticate: remove it',
    'request-size': 'servers { max_header_size } in the global options',
    'answer-size': 'transport http { max_response_header } in forward_auth',
    'auth-protected': 'forward_auth in the site of the sign-in pages: remove it',
    'auth-host':
      'header_up Host and X-Forwarded-Host in the site of the sign-in pages: remove them',
    'auth-missing': 'the site of the sign-in pages, with reverse_proxy to the service',
    'not-stripped': 'copy_headers in forward_auth: list every header of the portal',
    'not-copied': 'copy_headers in forward_auth: list every header of the portal',
    aliases: 'copy_headers in forward_auth: list every header of the portal',
    'session-shown':
      'header_up Cookie "__(?:Host|Secure)-gatehouse[^;]*;? ?()" "$1" in reverse_proxy',
  },
  traefik: {
    stripped:
      'middlewares of the router of the app: the check before stripPrefix, [gatehouse, strip]',
    upgrade: 'the router upgrades, and its priority above all others',
    overrides: 'authRequestHeaders of forwardAuth: remove the list',
    believed: 'middlewares of the router of the app: [without-forged, gatehouse]',
    'app-host': 'passHostHeader of the service of the app: true',
    unreachable: 'address of forwardAuth',
    unprotected: 'middlewares of the router of the app',
    target:
      'trustForwardHeader of forwardAuth, and X-Forwarded-Uri in authRequestHeaders: remove what replaces it',
    host: 'trustForwardHeader of forwardAuth, and headers middlewares that set X-Forwarded-Host',
    scheme: 'headers middlewares that set X-Forwarded-Proto: remove them',
    method: 'headers middlewares that set X-Forwarded-Method: remove them',
    cookie: 'authRequestHeaders of forwardAuth: add Cookie, or remove the list',
    calls:
      'authRequestHeaders of forwardAuth: add Mcp-Method, Mcp-Name, MCP-Protocol-Version, Mcp-Session-Id, Last-Event-ID, or remove it',
    client: 'headers middlewares that remove X-Forwarded-For',
    navigation:
      'authRequestHeaders of forwardAuth: add Accept and Sec-Fetch-Mode, or remove the list',
    forged:
      'forwardedHeaders.insecure of the entry point: false; trustedIPs: only your own proxies',
    redirect: 'headers or errors middlewares before forwardAuth: remove them',
    status: 'errors middlewares before forwardAuth: remove them',
    challenge: 'customResponseHeaders of headers middlewares: WWW-Authenticate',
    'request-size': 'http.maxHeaderBytes of the entry point',
    'answer-size': 'maxResponseBodySize of forwardAuth, and http.maxHeaderBytes',
    'auth-protected': 'middlewares of the router of the sign-in pages: remove forwardAuth',
    'auth-host': 'passHostHeader of the service of the sign-in pages: true',
    'auth-missing': 'rule and service of the router of the sign-in pages',
    'not-stripped': 'authResponseHeaders of forwardAuth: list every header of the portal',
    'not-copied': 'authResponseHeaders of forwardAuth: list every header of the portal',
    aliases: 'a headers middleware that removes X_Forwarded_User; see the guide',
    'session-shown': 'a plugin that removes cookies: Traefik has none of its own; see the guide',
  },
  envoy: {
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
    calls:
      'allowed_headers of ext_authz: { exact: … } of mcp-method, mcp-name, mcp-protocol-version, mcp-session-id and last-event-id',
    client:
      'headers_to_add of authorization_request: x-forwarded-for "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%"',
    navigation: 'allowed_headers of ext_authz: { exact: accept } and { exact: sec-fetch-mode }',
    forged:
      'use_remote_address: true, and headers_to_add of authorization_request instead of allowed_headers',
    redirect: 'allowed_client_headers of authorization_response: { exact: location }',
    status: 'status_on_error and failure_mode_allow of ext_authz',
    challenge: 'allowed_client_headers of authorization_response: { exact: www-authenticate }',
    'request-size': 'max_request_headers_kb of the connection manager',
    'answer-size': 'http_protocol_options of the cluster of the service: max_response_headers_kb',
    'auth-protected': 'typed_per_filter_config of the sign-in pages: disabled: true',
    'auth-host': 'host_rewrite of the route of the sign-in pages: remove it',
    'auth-missing': 'domains and cluster of the virtual host of the sign-in pages',
    'not-stripped':
      'allowed_upstream_headers of authorization_response: list every header of the portal',
    'not-copied':
      'allowed_upstream_headers of authorization_response: list every header of the portal',
    aliases: 'headers_with_underscores_action: REJECT_REQUEST',
    'session-shown': 'ext_authz over gRPC, which takes it out: see the guide',
  },
  haproxy: {
    stripped: 'http-request set-path and replace-path: after http-request lua.gatehouse',
    upgrade: 'http-request deny deny_status 400 if … !for-websocket',
    overrides: 'ASKED in haproxy.lua: list them',
    believed: 'http-request del-header ^(forwarded|http2-settings|x-real-ip|…)$ -m reg',
    taken: 'http-request del-header Connection',
    'app-host': 'http-request set-header Host in the backend of the app: remove it',
    unreachable: 'the address after http-request lua.gatehouse',
    unprotected: 'http-request lua.gatehouse in the backend of the app',
    target: "['x-forwarded-uri'] = { txn.sf:pathq() } in haproxy.lua",
    host: 'http-request set-header X-Forwarded-Host %[req.hdr(host)]',
    scheme: 'http-request set-header X-Forwarded-Proto https',
    method: "['x-forwarded-method'] = { txn.sf:method() } in haproxy.lua",
    cookie: "'cookie' in ASKED of haproxy.lua",
    calls: "'last-event-id' and each 'mcp-…' in ASKED of haproxy.lua",
    client: 'http-request set-header X-Forwarded-For %[src]',
    navigation: "'accept' and 'sec-fetch-mode' in ASKED of haproxy.lua",
    forged:
      'http-request set-header X-Forwarded-For %[src], X-Forwarded-Host and X-Forwarded-Proto, before the check',
    redirect: 'headers = answer.headers in refuse() of haproxy.lua',
    status: 'status = answer.status in refuse() of haproxy.lua',
    challenge: 'headers = answer.headers in refuse() of haproxy.lua',
    'request-size': 'tune.bufsize 65536',
    'answer-size': 'tune.bufsize 65536',
    'auth-protected': 'http-request lua.gatehouse in the backend of the sign-in pages: remove it',
    'auth-host': 'http-request set-header Host in the backend of the sign-in pages: remove it',
    'auth-missing': 'use_backend gatehouse if for-auth',
    'not-stripped': 'IDENTITY in haproxy.lua: list every header of the portal',
    'not-copied': 'IDENTITY in haproxy.lua: list every header of the portal',
    aliases: 'http-request del-header [^a-zA-Z0-9-] -m reg',
    'session-shown': "http-request set-header Cookie %[req.fhdr(cookie),'regsub(…)']",
  },
} as const satisfies Readonly<Record<ProxyName, Readonly<Record<string, string>>>>

type Remedies = typeof OF_PROXY

/** The faults of a proxy: those that a line cures, and those that none does. */
export type Mistake =
  | { [Proxy in ProxyName]: keyof Remedies[Proxy] }[ProxyName]
  | 'untrusted'
  | 'assertion'
  | 'sign-out'
  | 'signed-in'
  | 'other'

/** The line to look at; undefined if the finding says all there is. */
export function remedyFor(mistake: Mistake, proxy: ProxyName | undefined): string | undefined {
  if (mistake === 'untrusted') return 'server.trustedProxies in the configuration of forward-auth'
  if (mistake === 'sign-out')
    return 'the guide of the provider: where people return to after signing out'
  if (mistake === 'assertion')
    return 'assertion.hosts of the portal: add the host of the app; and audience in the app'
  const remedies: Partial<Record<Mistake, string>> = proxy ? OF_PROXY[proxy] : {}
  return remedies[mistake]
}
