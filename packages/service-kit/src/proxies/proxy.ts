/** The headers, or the request line, in which a proxy describes the request that it asks about. */
export type RequestSource = 'x-forwarded' | 'x-original' | 'request-line'

/** The form in which a proxy sends its checks, and the answers that it understands. */
export interface Dialect {
  /** The last part of the route of its checks, `/authz/NAME` of a portal; `forward` stands for `/`. */
  readonly name: string
  /** The name of the proxies that speak it. */
  readonly title: string
  readonly source: RequestSource
  /** Whether the proxy passes a redirect on to the browser. */
  readonly redirects: boolean
  /** The status of an error, if the proxy would misread some. */
  readonly denialStatus?: (status: number) => number
  /** Whether the proxy gets the answer for its client sealed, and has it unpacked. */
  readonly isSealed?: true
}

/** The header in which a proxy tells the whole certificate of its client. */
interface CertificateHeader {
  readonly header: string
  /**
   * `byte-sequence`: of RFC 9440. `escaped-pem`: PEM, percent-encoded. `chain`: the bodies of PEM blocks. `elements`: of
   * X-Forwarded-Client-Cert.
   */
  readonly encoding: 'byte-sequence' | 'escaped-pem' | 'chain' | 'elements'
}

/** A reverse proxy, as its examples set it up. Its guide is `docs/NAME.md`. */
export interface ReverseProxy {
  readonly title: string
  /** Its configuration in `examples/proxies`, and in `examples/certificates/mtls`. */
  readonly example: string
  readonly dialects: readonly Dialect[]
  /** A header that no other proxy sends in a check, if it shares a dialect. */
  readonly mark?: string
  /** The headers that only a proxy may set and that it sets in a check. It removes the others. */
  readonly sets: readonly string[]
  /** The headers of `sets` that it passes on from its client. The check then refuses the request. */
  readonly leaves?: readonly string[]
  /** The parts of its configuration that list the headers of an answer that the app gets. */
  readonly copies: readonly string[]
  readonly clientCertificate: CertificateHeader
  /** The line of the example to look at, by mistake. Without `session-shown`, the proxy cannot hide a cookie. */
  readonly remedies: Readonly<Record<string, string>>
}

/** The headers of a check that describe the request by `X-Forwarded-*`. */
export const FORWARDED = [
  'x-forwarded-method',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-uri',
  'x-forwarded-for',
]

/** Every status but 2xx denies, and reaches the client unchanged. */
export const forwardDialect: Dialect = {
  name: 'forward',
  title: 'Traefik and Caddy',
  source: 'x-forwarded',
  redirects: true,
}
