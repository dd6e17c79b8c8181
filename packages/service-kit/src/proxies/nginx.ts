import type { Dialect, ReverseProxy } from './proxy.ts'

/** nginx `auth_request` drops the answer, but for one header of it. */
const nginxDialect: Dialect = {
  name: 'nginx',
  title: 'nginx',
  source: 'x-original',
  redirects: true,
  isSealed: true,
}

/** ingress-nginx writes its configuration itself: 401 and 403 deny, everything else becomes a 500. */
const ingressNginxDialect: Dialect = {
  name: 'ingress-nginx',
  title: 'ingress-nginx',
  source: 'x-original',
  redirects: false,
  denialStatus: (status) => (status === 401 ? 401 : 403),
}

export const nginx = {
  title: 'nginx',
  example: 'nginx.conf',
  dialects: [nginxDialect, ingressNginxDialect],
  sets: ['x-original-method', 'x-original-url', 'x-forwarded-for'],
  copies: ['auth_request_set', 'proxy_set_header'],
  clientCertificate: { header: 'X-SSL-Client-Cert', encoding: 'escaped-pem' },
  remedies: {
    'set-cookie': 'proxy_hide_header Set-Cookie; in @refused: remove it',
    'check-shown': 'location = /_gatehouse and @refused: copy both from the example',
    stripped: 'proxy_set_header X-Original-URL $scheme://$host$request_uri; not $uri',
    upgrade: 'proxy_set_header Upgrade $upgrade; with its map, not $http_upgrade',
    overrides: 'proxy_set_header X-Original-URL ""; in the location of the app',
    believed: 'proxy_set_header … ""; in the location of the app',
    'app-host': 'proxy_set_header Host $host; in the location of the app',
    unreachable: 'proxy_pass http://gatehouse/portals/<portal>/authz/nginx?policy=… in /_gatehouse',
    unprotected: 'auth_request /_gatehouse; in the location of the app',
    target: 'proxy_set_header X-Original-URL $scheme://$host$request_uri; in /_gatehouse',
    host: 'proxy_set_header X-Original-URL $scheme://$host$request_uri; in /_gatehouse',
    scheme: 'proxy_set_header X-Original-URL $scheme://$host$request_uri; in /_gatehouse',
    method: 'proxy_set_header X-Original-Method $request_method; in /_gatehouse',
    cookie: 'proxy_pass_request_headers off and Cookie in /_gatehouse: remove them',
    calls: 'proxy_set_header Mcp-… and Last-Event-ID in /_gatehouse: remove them',
    client: 'proxy_set_header X-Forwarded-For $remote_addr; in /_gatehouse',
    navigation: 'proxy_pass_request_headers off and Accept in /_gatehouse: remove them',
    forged: 'X-Forwarded-For $remote_addr; and X-Original-URL $scheme://$host…; not $http_…',
    redirect: 'error_page 403 = @refused; in the location of the app',
    status: 'error_page 403 = @refused; in the location of the app',
    challenge: 'error_page 403 = @refused; and auth_request_set $refusal …;',
    'request-size': 'large_client_header_buffers 4 32k;',
    'answer-size': 'proxy_buffer_size 32k; and proxy_buffers 8 32k;',
    'auth-protected': 'auth_request in the server of the sign-in pages: remove it',
    'auth-host': 'proxy_set_header Host and X-Forwarded-Host $host; of the sign-in pages',
    'auth-missing': 'server_name and proxy_pass http://gatehouse; of the sign-in pages',
    'not-stripped': 'proxy_set_header <header> $variable; for every header of the portal',
    'not-copied': 'auth_request_set $variable …; and proxy_set_header <header> $variable;',
    aliases: 'underscores_in_headers off;',
    'session-shown': 'proxy_set_header Cookie $own_cookies; with its maps: see the guide',
  },
} as const satisfies ReverseProxy
