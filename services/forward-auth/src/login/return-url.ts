import { parseEndpointUrl, parseHostPort } from '@gatehouse/net'
import type { Site } from '../sites.ts'
import { isUnder } from '../sites.ts'

/** As long as the requests that proxies take; links of dashboards have some thousand characters. */
export const MAX_RETURN_URL = 8_192
// White space, control characters, what is not ASCII, and `\`, which is `/` to some.
const UNSAFE = /[^!-[\]-~]/
// The same in percent-encoding, but for the space that many names of files hold: some decode a path
// before they look at it. In a query they are what a person has typed, and steer nothing.
const UNSAFE_ENCODED = /%(?:[01][0-9a-f]|7f|5c)/i

/**
 * Reads the URL that somebody wants to go to after signing in or out; nothing else makes a redirect
 * of what came with a request. It has to be https (http on loopback names), with neither user name
 * nor fragment, and on the cookie domain.
 */
export function validateReturnUrl(text: string | undefined, site: Site): URL | undefined {
  if (text === undefined || text.length > MAX_RETURN_URL) return undefined
  if (UNSAFE.test(text) || UNSAFE_ENCODED.test(withoutQuery(text))) return undefined
  const url = parse(text)
  if (!url || url.href.length > MAX_RETURN_URL) return undefined
  const host = parseHostPort(url.host)?.host
  return host && isUnder(site.domain, host) ? url : undefined
}

function withoutQuery(text: string): string {
  const start = text.indexOf('?')
  return start < 0 ? text : text.slice(0, start)
}

function parse(text: string): URL | undefined {
  try {
    return parseEndpointUrl(text)
  } catch {
    return undefined
  }
}
