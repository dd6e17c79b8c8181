import { type Reader, readForwarded, readOriginal, readRequestLine } from '../forwarded/read.ts'

/** How a proxy asks, and which answers it understands. */
export interface Dialect {
  readonly read: Reader
  /** Whether it hands a redirect to the browser. */
  readonly redirects: boolean
  /** The status that a problem gets instead of one that it would misread; absent: it misreads none. */
  readonly status?: (wanted: number) => number
}

/** Traefik, Caddy and HAProxy: whatever is not 2xx denies, and reaches the client as it is. */
export const forwardDialect: Dialect = {
  read: readForwarded,
  redirects: true,
}

/** nginx `auth_request`: 401 and 403 deny, all else becomes its own 500. */
export const nginxDialect: Dialect = {
  read: readOriginal,
  redirects: false,
  status: (wanted) => (wanted === 401 ? 401 : 403),
}

/** Envoy `ext_authz` over HTTP: a 5xx would let pass under `failure_mode_allow`. */
export const envoyDialect: Dialect = {
  read: readRequestLine,
  redirects: true,
  status: (wanted) => (wanted >= 500 ? 403 : wanted),
}
