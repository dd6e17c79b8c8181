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

/** A proxy, as its example in `examples/proxies` sets it up. */
export interface ProxySetup {
  readonly dialect: Dialect
  /** The headers that only a proxy may set and that it sets in a check. It removes the others. */
  readonly sets: readonly string[]
  /** Those of them that it leaves to its client, whose request the check then refuses. */
  readonly leaves?: readonly string[]
  /** The line of the example to look at, by mistake. */
  readonly remedies: Readonly<Record<string, string>>
}

/** The headers of a check that Traefik, Caddy and HAProxy all set. */
export const FORWARDED = [
  'x-forwarded-method',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-uri',
  'x-forwarded-for',
]

/** Traefik, Caddy and HAProxy: every status but 2xx denies, and reaches the client unchanged. */
export const forwardDialect: Dialect = { source: 'x-forwarded', redirects: true }
