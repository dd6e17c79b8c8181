import type { Gate } from '@gatehouse/gate'

/** The form in which a proxy sends its checks, and the answers that it understands. */
export interface Dialect {
  readonly source: Parameters<Gate['read']>[0]
  /** Whether the proxy passes a redirect on to the browser. */
  readonly redirects: boolean
  /** The status of an error, if the proxy would misread some. */
  readonly denialStatus?: (status: number) => number
  /** Whether the proxy gets the answer for its client sealed, and has it unpacked. */
  readonly isSealed?: true
}

/** Traefik, Caddy and HAProxy: every status but 2xx denies, and reaches the client unchanged. */
export const forwardDialect: Dialect = { source: 'x-forwarded', redirects: true }

/** nginx `auth_request` drops the answer, but for one header of it. */
export const nginxDialect: Dialect = { source: 'x-original', redirects: true, isSealed: true }

/** ingress-nginx writes its configuration itself: 401 and 403 deny, everything else becomes a 500. */
export const ingressNginxDialect: Dialect = {
  source: 'x-original',
  redirects: false,
  denialStatus: (status) => (status === 401 ? 401 : 403),
}

/** Envoy `ext_authz` over HTTP: a 5xx would let the request pass under `failure_mode_allow`. */
export const envoyDialect: Dialect = {
  source: 'request-line',
  redirects: true,
  denialStatus: (status) => (status >= 500 ? 403 : status),
}
