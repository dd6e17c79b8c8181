import { attempt, isUnder, parseEndpointUrl, parseHostPort } from '@gatehouse/net'
import type { Site } from '../sites.ts'

/** The longest request line of common proxies. Links of dashboards have thousands of characters. */
const MAX_RETURN_URL = 8_192
// White space, control characters, non-ASCII characters, and `\`, which some parsers read as `/`.
const UNSAFE = /[^!-[\]-~]/
// The same percent-encoded, except for the space, which is common in file names: some servers decode
// a path before they parse it. In a query they are harmless input of a person.
const UNSAFE_ENCODED = /%(?:[01][0-9a-f]|7f|5c)/i

/**
 * Validates the return URL of a sign-in or sign-out. All redirects to a URL from a request go through
 * it. The URL must be https (http for loopback names) and on one of the domains of the sign-in pages, without
 * user name. Its fragment, which some apps route by, stays.
 */
export function validateReturnUrl(
  text: string | undefined,
  { domain, authOrigin, otherDomains = [] }: Pick<Site, 'domain' | 'authOrigin' | 'otherDomains'>,
): URL | undefined {
  if (text === undefined || text.length > MAX_RETURN_URL) return undefined
  if (UNSAFE.test(text) || UNSAFE_ENCODED.test(text.split('?', 1)[0] ?? '')) return undefined
  const url = attempt(() => parse(text))
  if (!url || url.href.length > MAX_RETURN_URL) return undefined
  const host = parseHostPort(url.host)?.host
  const isOurs =
    url.origin === authOrigin ||
    [domain, ...otherDomains].some((parent) => host && isUnder(parent, host))
  return host && isOurs ? url : undefined
}

function parse(text: string): URL {
  const [base = '', ...fragment] = text.split('#')
  const url = parseEndpointUrl(base)
  url.hash = fragment.join('#')
  return url
}
