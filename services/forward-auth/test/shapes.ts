import { type Dialect, forwardDialect, PROXIES } from '@gatehouse/service-kit/proxies'

const [nginxDialect, ingressNginxDialect] = PROXIES.nginx.dialects as [Dialect, Dialect]
const [envoyDialect] = PROXIES.envoy.dialects as [Dialect]

/** What the browser of somebody who opens a page sends; proxies pass it on. */
export const BROWSER = {
  'User-Agent': 'Mozilla/5.0',
  Accept: 'text/html,application/xhtml+xml,*/*;q=0.8',
  'Accept-Encoding': 'gzip, br',
  'Accept-Language': 'en',
  'Sec-Fetch-Mode': 'navigate',
}

export type RequestHeaders = Record<string, string>

/** How one proxy asks whether `POST https://app.example.com/a/b?q=1` may pass. */
export interface Shape {
  readonly proxy: string
  readonly dialect: Dialect
  readonly method: string
  /** Behind the portal. */
  readonly path: string
  readonly headers: RequestHeaders
  /** The headers without which the check is refused, in lower case. */
  readonly needs: readonly string[]
}

const FORWARDED = {
  'X-Forwarded-Method': 'POST',
  'X-Forwarded-Proto': 'https',
  'X-Forwarded-Host': 'app.example.com',
  'X-Forwarded-Uri': '/a/b?q=1',
  'X-Forwarded-For': '203.0.113.7',
}
const NEEDS_FORWARDED = [
  'x-forwarded-method',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-uri',
]
const forward = (proxy: string, rest: Partial<Shape>, headers: RequestHeaders = {}): Shape => ({
  proxy,
  dialect: forwardDialect,
  method: 'GET',
  path: '',
  headers: { Host: 'auth.example.com', ...FORWARDED, ...headers },
  needs: NEEDS_FORWARDED,
  ...rest,
})

/** The exact request of each proxy, by its documentation. */
export const SHAPES: readonly Shape[] = [
  forward('traefik, trustForwardHeader unset', {}, { 'X-Forwarded-Server': 'edge' }),
  forward('traefik, trustForwardHeader false', {}, { 'X-Forwarded-Port': '443' }),
  forward(
    'traefik, trustForwardHeader true behind another proxy',
    {},
    {
      'X-Forwarded-Port': '8443',
      'X-Forwarded-Prefix': '/evil',
      'X-Forwarded-For': '203.0.113.7, 10.0.0.9',
      'X-Real-Ip': '10.0.0.9',
    },
  ),
  forward('traefik, preserveRequestMethod', { method: 'POST' }, { 'Content-Length': '0' }),
  forward('traefik, websocket', {}, { 'X-Forwarded-Proto': 'wss' }),
  forward('caddy', {}, { Via: '2.0 Caddy' }),
  forward('haproxy', { path: '/authz/haproxy', method: 'HEAD' }),
  {
    proxy: 'nginx',
    dialect: nginxDialect,
    method: 'GET',
    path: '/authz/nginx',
    headers: {
      Host: '127.0.0.1:4181',
      'X-Gatehouse-Answer': 'sealed',
      'X-Original-Method': 'POST',
      'X-Original-URL': 'https://app.example.com/a/b?q=1',
      'X-Forwarded-For': '203.0.113.7',
    },
    needs: ['x-original-method', 'x-original-url'],
  },
  {
    proxy: 'ingress-nginx',
    dialect: ingressNginxDialect,
    method: 'GET',
    path: '/authz/ingress-nginx',
    headers: {
      Host: '127.0.0.1:4181',
      'X-Original-Method': 'POST',
      'X-Original-URL': 'https://app.example.com/a/b?q=1',
      'X-Auth-Request-Redirect': '/a/b?q=1',
      'X-Sent-From': 'nginx-ingress-controller',
      'X-Real-IP': '203.0.113.7',
    },
    needs: ['x-original-method', 'x-original-url'],
  },
  {
    proxy: 'envoy, by default',
    dialect: envoyDialect,
    method: 'POST',
    path: '/authz/envoy/policy/any/a/b?q=1',
    headers: { Host: 'app.example.com', 'Content-Length': '0' },
    needs: [],
  },
  {
    proxy: 'envoy, with headers_to_add',
    dialect: envoyDialect,
    method: 'POST',
    path: '/authz/envoy/policy/any/a/b?q=1',
    headers: {
      Host: 'app.example.com:443',
      'Content-Length': '0',
      'X-Forwarded-Proto': 'https',
      'X-Envoy-Internal': 'true',
    },
    needs: [],
  },
]
