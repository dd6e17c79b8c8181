import { parseEndpointUrl, parseHostPort } from '@gatehouse/net'
import type { Site } from '../portal.ts'
import { isUnder } from '../sites.ts'

const MAX_LENGTH = 2_048
// White space, control characters, what is not ASCII, and `\`, which is `/` to some.
const UNSAFE = /[^!-[\]-~]/
// The same in percent-encoding, but for the space that many names of files hold.
const UNSAFE_ENCODED = /%(?:[01][0-9a-f]|7f|5c)/i

/**
 * Reads the URL that somebody wants to go to after signing in or out; nothing else makes a redirect
 * of what came with a request. It has to be https (http on loopback names), with neither user name
 * nor fragment, and on the cookie domain.
 */
export function validateReturnUrl(text: string | undefined, site: Site): URL | undefined {
  if (text === undefined || text.length > MAX_LENGTH) return undefined
  if (UNSAFE.test(text) || UNSAFE_ENCODED.test(text)) return undefined
  const url = parse(text)
  if (!url || url.href.length > MAX_LENGTH) return undefined
  const host = parseHostPort(url.host)?.host
  return host && isUnder(site.domain, host) ? url : undefined
}

function parse(text: string): URL | undefined {
  try {
    return parseEndpointUrl(text)
  } catch {
    return undefined
  }
}
