import { type ForwardedReader, readForwarded, readOriginal, readRequestLine } from '../forwarded.ts'

/** The form in which a proxy sends its checks, and the answers that it understands. */
export interface Dialect {
  readonly read: ForwardedReader
  /** A header that names the URL to the check, and would name another one to an app. */
  readonly urlHeader?: string
  /** Whether the proxy passes a redirect on to the browser. */
  readonly redirects: boolean
  /** The status of an error, if the proxy would misread some. */
  readonly denialStatus?: (status: number) => number
}

/** Traefik, Caddy and HAProxy: every status but 2xx denies, and reaches the client unchanged. */
export const forwardDialect: Dialect = { read: readForwarded, redirects: true }

/** nginx `auth_request`: 401 and 403 deny, everything else becomes its own 500. */
export const nginxDialect: Dialect = {
  read: readOriginal,
  urlHeader: 'x-original-url',
  redirects: false,
  denialStatus: (status) => (status === 401 ? 401 : 403),
}

/** Envoy `ext_authz` over HTTP: a 5xx would let the request pass under `failure_mode_allow`. */
export const envoyDialect: Dialect = {
  read: readRequestLine,
  redirects: true,
  denialStatus: (status) => (status >= 500 ? 403 : status),
}
