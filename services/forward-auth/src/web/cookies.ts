import cookie from '@fastify/cookie'
import type { FastifyReply } from 'fastify'
import type { Portal } from '../portal/portals.ts'
import type { Site } from '../sites.ts'

/** A cookie that scripts cannot read. */
export interface HostCookie {
  readonly name: string
  /** Characters of RFC 6265 section 4.1.1, which need no encoding. '' removes the cookie. */
  readonly value: string
  /** Milliseconds. */
  readonly maxAge: number
  /** The path to which it is sent. Default: all of the host. */
  readonly path?: string
  /** The domain whose hosts all receive it. Default: the host that sets it. */
  readonly domain?: string
  /** `high`: the last to go if a domain sets more cookies than a browser keeps. */
  readonly priority?: 'high'
  /** `none`: other sites may send it along in any way. Default: `lax`. */
  readonly sameSite?: 'none'
}

/**
 * The value of Set-Cookie. Works once @fastify/cookie is registered somewhere in the process, not only
 * where it is: checks do without its hooks.
 *
 * @throws TypeError if a cookie could not have this name or value
 */
export function serializeCookie({ name, value, maxAge, ...options }: HostCookie): string {
  return cookie.fastifyCookie.serialize(name, value, {
    path: '/',
    sameSite: 'lax',
    ...options,
    maxAge: Math.floor(maxAge / 1_000),
    httpOnly: true,
    secure: true,
    encode: String,
  })
}

/** Sets cookies in an answer, of a page or of a check. */
export function setHostCookies(reply: FastifyReply, cookies: readonly HostCookie[]): void {
  for (const hostCookie of cookies) reply.header('set-cookie', serializeCookie(hostCookie))
}

/** The longest token of a cookie: browsers keep 4,096 characters of its name and value. */
export const MAX_TOKEN_LENGTH = 3_800

type NamedPortal = Pick<Portal, 'name'>
type CookieSite = Pick<Site, 'domain' | 'scope'>

/** The cookie of the sign-in host. With `__Host-` no other host can set or replace it. */
export function sessionCookieName({ name }: NamedPortal): string {
  return `__Host-gatehouse.${name}`
}

/** The session on the sign-in host. Without a token: removes it. */
export function sessionCookie(portal: NamedPortal, token = '', maxAge = 0): HostCookie {
  return { name: sessionCookieName(portal), value: token, maxAge, priority: 'high' }
}

/**
 * Returns the name of an app's cookie. It contains a port other than the default, since browsers send cookies to all ports
 * of a host.
 *
 * @param authority - the host of the app with its port, or the domain
 */
export function appCookieName(
  { name }: NamedPortal,
  { scope }: CookieSite,
  authority: string,
): string {
  if (scope === 'domain') return `__Secure-gatehouse-app.${name}`
  const colon = authority.lastIndexOf(':')
  return `__Host-gatehouse-app.${name}${colon < 0 ? '' : `.${authority.slice(colon + 1)}`}`
}

/** The session on the host of an app, or on all of the domain. Without a token: removes it. */
export function appCookie(
  portal: NamedPortal,
  site: CookieSite,
  authority: string,
  token = '',
  maxAge = 0,
): HostCookie {
  const { domain, scope } = site
  const name = appCookieName(portal, site, authority)
  return { name, value: token, maxAge, ...(scope === 'domain' && { domain }) }
}

// At any position and in any spelling: apps differ in what they take for a name.
const OURS = /__(?:host|secure)-gatehouse/i

/** A Cookie header without those that look like cookies of Gatehouse; '' if none is left. */
export function withoutSessionCookies(header: string): string {
  const cookies = header.split(';').map(trimBlanks)
  return cookies.filter((cookie) => cookie !== '' && !OURS.test(cookie)).join('; ')
}

/**
 * Reads a cookie from a Cookie header. Undefined also if the name occurs twice, because then one of
 * the two was set by somebody else; the parsers of libraries take the first one.
 */
export function readCookie(header: string, name: string): string | undefined {
  return readCookies(header, name).get(name)
}

/**
 * Whether a Cookie header has a name twice. Another site below the domain can do that to a cookie
 * of the domain, and a sign-in does not help: its cookie would remain beside the new one.
 */
export function isDoubled(header: string, name: string): boolean {
  const cookies = readCookies(header, name)
  return cookies.has(name) && cookies.get(name) === undefined
}

/** The cookies whose names begin like this; without a value if the name occurs twice. */
export function readCookies(header: string, prefix: string): Map<string, string | undefined> {
  const values = new Map<string, string | undefined>()
  for (const pair of header.split(';')) {
    const equals = pair.indexOf('=')
    const name = trimBlanks(pair.slice(0, Math.max(equals, 0)))
    if (name.startsWith(prefix))
      values.set(name, values.has(name) ? undefined : pair.slice(equals + 1))
  }
  return values
}

/** Takes off only what RFC 6265 does: a name behind another space of Unicode is another name. */
function trimBlanks(text: string): string {
  let start = 0
  let end = text.length
  while (isBlank(text[start])) start++
  while (end > start && isBlank(text[end - 1])) end--
  return text.slice(start, end)
}

const isBlank = (character: string | undefined) => character === ' ' || character === '\t'
