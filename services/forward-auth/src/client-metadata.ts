import { isLoopback, parseHostPort } from '@gatehouse/net'

const MAX_ID = 1_024
/** Characters of a redirect URI. */
const MAX_URI = 2_048

/** The characters that RFC 3986 allows in URLs, so that the URL parser rewrites nothing and a header can hold it. */
const CLIENT_ID = /^https:\/\/[a-z0-9.:[\]-]+\/(?:[\w.~!$&'()*+,;=:@/?-]|%[\dA-Fa-f]{2})+$/
const URI = /^([a-z][a-z0-9+.-]*):\/(?:[\w.~!$&'()*+,;=:@/?[\]-]|%[\dA-Fa-f]{2})*$/
const USER = /^[^:]+:\/\/[^/?]*@/
const LOOPBACK = /^http:\/\/(localhost|127\.0\.0\.1|\[::1\])(?::[1-9]\d{0,4})?(?=[/?]|$)/

/** Schemes that belong to the web, to browsers or to the system, and so to no client alone. */
const FOREIGN_SCHEMES = new Set(
  (
    'ftp ftps sftp file data javascript livescript vbscript blob about ws wss view-source filesystem content ' +
    'jar resource res mhtml mk urn cid mid news nntp gopher ldap ldaps telnet ssh smb nfs dav rtsp mailto ' +
    'tel sms callto sip sips facetime intent android-app market shell search edge opera brave vivaldi'
  ).split(' '),
)
const FOREIGN_SCHEME = /^(?:chrome|moz|safari|ms|search-ms|x-apple|itms)(?:-|$)/

/** Characters that hide or reorder others, or begin an element. */
const NOT_IN_NAME = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}<>]/u

/**
 * Parses the URL that is a client ID (draft-ietf-oauth-client-id-metadata-document section 3): https, a
 * host with a dot or an address, a path, maybe a port and a query. It must be spelled as the URL parser
 * writes it, which has no dot segments, and has at most 1,024 characters.
 */
export function parseClientId(text: string): URL | undefined {
  if (text.length > MAX_ID || !CLIENT_ID.test(text)) return undefined
  const url = URL.parse(text)
  if (!url || url.href !== text || url.pathname === '/') return undefined
  const { name, ip } = parseHostPort(url.host)?.host ?? {}
  return ip || (name === url.hostname && name.includes('.')) ? url : undefined
}

/** The description of the URIs that {@link isAllowedRedirect} allows. */
export const REDIRECT_URI =
  'https, http on localhost, 127.0.0.1 or [::1], or of a scheme of its own that goes on with a `/`; ' +
  `without user name, password or fragment, at most ${MAX_URI} characters of RFC 3986`

/**
 * Whether a client may register this redirect URI: https, http on loopback, or a private-use scheme
 * (RFC 8252 section 7), in characters of RFC 3986, without fragment, user name and password.
 */
export function isAllowedRedirect(uri: string): boolean {
  const [, scheme = ''] = (uri.length <= MAX_URI && URI.exec(uri)) || []
  // The URL parser would not tell of an empty user name.
  if (!scheme || USER.test(uri) || !URL.canParse(uri)) return false
  if (scheme === 'http') return LOOPBACK.test(uri)
  const [, authority] = /^https:\/\/([^/?]+)/.exec(uri) ?? []
  if (scheme === 'https') return authority !== undefined && parseHostPort(authority) !== undefined
  return !FOREIGN_SCHEMES.has(scheme) && !FOREIGN_SCHEME.test(scheme)
}

/** Whether a program on the person's own machine receives the code, over http (RFC 8252 section 7.3) or https. */
export function isLoopbackRedirect(uri: string): boolean {
  if (!/^https?:/.test(uri) || !isAllowedRedirect(uri)) return false
  const { host } = parseHostPort(new URL(uri).host) ?? {}
  return host !== undefined && isLoopback(host)
}

/**
 * Whether the client alone gets the answer. Any program of a device can listen on loopback or take a scheme, and say
 * that it is this client (RFC 8252 section 8.6): its people are asked each time.
 */
export function isProven(redirectUri: string): boolean {
  return redirectUri.startsWith('https:') && !isLoopbackRedirect(redirectUri)
}

/** Whether a redirect URI is one of those that a client registered, to the letter but for the port of http on loopback. */
export function fitsRedirect(redirectUris: readonly string[], uri: string): boolean {
  const withoutPort = (text: string) => text.replace(LOOPBACK, 'http://$1')
  if (!isLoopbackRedirect(uri)) return redirectUris.includes(uri)
  return redirectUris.some((redirectUri) => withoutPort(redirectUri) === withoutPort(uri))
}

/** Whether people can read a name as it is. */
export const isClientName = (value: unknown): value is string =>
  typeof value === 'string' && value.trim() !== '' && !NOT_IN_NAME.test(value)
