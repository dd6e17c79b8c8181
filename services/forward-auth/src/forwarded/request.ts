import type { Site } from '../sites.ts'

/** What a person asked a proxy for, as the proxy tells it. Everything in it has been checked. */
export interface ForwardedRequest {
  readonly method: string
  readonly scheme: 'http' | 'https'
  /** Canonical host, with the port if one was given. */
  readonly authority: string
  /** Path and query: printable ASCII, one `/` first, no backslash, no fragment. */
  readonly target: string
  /** The cookie domain that the host is on. */
  readonly site: Site
  /** Whether the host is one of the sign-in pages alone. */
  readonly isAuthHost: boolean
}

/** The URL that a person asked for. */
export function urlOf({ scheme, authority, target }: ForwardedRequest): string {
  return new URL(`${scheme}://${authority}${target}`).href
}
