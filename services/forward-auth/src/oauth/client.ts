import { hash } from 'node:crypto'
import { isLoopback, isObject, parseHostPort, parseJson } from '@gatehouse/net'
import { FwaError } from '../errors.ts'

/** What a client says of itself. */
export interface Registration {
  readonly name: string | undefined
  readonly redirectUris: readonly string[]
}

/** A client of the authorization server. */
export interface Client extends Registration {
  /** The URL of its client ID metadata document, or what it was given when it registered. */
  readonly id: string
  /** Digest of what was read, so that a changed document is another one. */
  readonly digest: string
}

const MAX_ID = 1_024
const MAX_NAME = 100
const MAX_URIS = 20
const MAX_URI = 2_048

/** What RFC 3986 allows in URLs, so nothing that the URL parser would rewrite or a header cannot hold. */
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

/**
 * Reads a client ID metadata document (section 4, RFC 7591 section 2) of a public client.
 * @throws FwaError FWA_CLIENT_INVALID, which says what its developer must change, without its content
 */
export function readDocument(clientId: string, body: Buffer): Client {
  const refuse = (why: string) =>
    new FwaError('FWA_CLIENT_INVALID', `the document of ${new URL(clientId).host} ${why}`)
  const document = parseObject(body)
  if (!document) throw refuse('must be a JSON object in UTF-8')
  if (document.client_id !== clientId)
    throw refuse('must have exactly the URL that it was requested at as `client_id`')
  const registration = readRegistration(document, MAX_URIS, (_member, why) => refuse(why))
  return describeClient(clientId, registration)
}

/**
 * Reads what a public client says of itself (RFC 7591 section 2).
 *
 * @param most - how many redirect URIs it may have
 * @param refuse - makes the error that is thrown, which says what is wrong with a member
 */
export function readRegistration(
  said: Readonly<Record<string, unknown>>,
  most: number,
  refuse: (member: string, why: string) => Error,
): Registration {
  for (const [member, { isValid, must }] of Object.entries(MEMBERS))
    if (!isValid(said[member]))
      throw refuse(member, `has a \`${member}\` that is not valid: ${must}`)

  const { client_name: name, redirect_uris: redirectUris } = said
  const refuseUris = (why: string) => refuse('redirect_uris', why)
  if (!isUriList(redirectUris, most))
    throw refuseUris(`needs \`redirect_uris\`, 1 to ${most} texts`)
  const refused = redirectUris.findIndex((uri) => !isAllowedRedirect(uri))
  if (refused >= 0)
    throw refuseUris(`has a redirect URI, number ${refused + 1}, that is not ${A_URI}`)
  return { name: typeof name === 'string' ? clip(name) : undefined, redirectUris }
}

export function describeClient(id: string, { name, redirectUris }: Registration): Client {
  const digest = hash('sha256', JSON.stringify([id, name, redirectUris]), 'base64url')
  return { id, name, redirectUris, digest }
}

const A_URI =
  'https, http on localhost, 127.0.0.1 or [::1], or of a scheme of its own that goes on with a `/`; ' +
  `without user name, password or fragment, at most ${MAX_URI} characters of RFC 3986`

const isAbsent = (value: unknown) => value === undefined
const isAbsentOrHas = (text: string) => (value: unknown) =>
  isAbsent(value) || (Array.isArray(value) && value.includes(text))

const isName = (value: unknown) =>
  typeof value === 'string' && value.trim() !== '' && !NOT_IN_NAME.test(value)

/** A name, cut to the length that people read. */
function clip(name: string): string {
  return [...name].slice(0, MAX_NAME).join('')
}

const MEMBERS: Readonly<Record<string, { isValid(value: unknown): boolean; must: string }>> = {
  client_name: {
    isValid: (value) => isAbsent(value) || isName(value),
    must: 'use text without control, invisible or bidirectional characters, `<` and `>`, or omit it',
  },
  token_endpoint_auth_method: {
    isValid: (value) => isAbsent(value) || value === 'none',
    must: 'use `none`, because clients are public here',
  },
  client_secret: { isValid: isAbsent, must: 'remove it, because anybody can read it there' },
  client_secret_expires_at: { isValid: isAbsent, must: 'remove it, because there is no secret' },
  grant_types: { isValid: isAbsentOrHas('authorization_code'), must: 'add `authorization_code`' },
  response_types: { isValid: isAbsentOrHas('code'), must: 'add `code`' },
}

function parseObject(body: Buffer): Readonly<Record<string, unknown>> | undefined {
  try {
    // A byte order mark stays, and is no JSON.
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
    const value = parseJson(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function isUriList(value: unknown, most: number): value is readonly string[] {
  const isSized = Array.isArray(value) && value.length > 0 && value.length <= most
  return isSized && value.every((uri) => typeof uri === 'string')
}

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

/** Whether the client registered this redirect URI, to the letter but for the port of http on loopback. */
export function fitsRedirect({ redirectUris }: Client, uri: string): boolean {
  const withoutPort = (text: string) => text.replace(LOOPBACK, 'http://$1')
  if (!isLoopbackRedirect(uri)) return redirectUris.includes(uri)
  return redirectUris.some((each) => withoutPort(each) === withoutPort(uri))
}
