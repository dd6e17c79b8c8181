import { AuthError } from '@gatehouse/auth-core'
import type { Resource } from '@gatehouse/gate'
import type { SeamlessProvider } from '@gatehouse/identity-providers'
import { parseOrigin } from '@gatehouse/net'
import type { Profile } from '@gatehouse/profile'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { FwaError } from '../errors.ts'
import { validateReturnUrl } from '../login/return-url.ts'
import { chooseLanguage, type Language } from '../pages/languages/index.ts'
import type { Reader } from '../pages/pages.ts'
import type { Portal } from '../portals.ts'
import type { Visitor } from '../session/visitor.ts'
import { portalUrl, type Site } from '../sites.ts'
import { clientIpOf } from '../trust.ts'

export interface PortalSite {
  readonly portal: Portal
  readonly site: Site
}

export function portalOf({ params, server }: FastifyRequest): Portal {
  const portal = server.portals.get((params as { portal: string }).portal)
  if (!portal) throw new FwaError('FWA_PORTAL_UNKNOWN', 'there is no portal of this name')
  return portal
}

/**
 * The portal and site of a page that belongs to the sign-in host. Scheme and port are those of the
 * configuration, whatever the request says.
 */
export function signInSiteOf(request: FastifyRequest): PortalSite {
  const host = hostOf(request)
  const site = request.server.sites.all.find(({ authOrigin }) => isHostOf(authOrigin, host))
  if (!site) throw unknownHost(host)
  return { portal: portalOf(request), site }
}

/** The portal and site of a page that every host of a cookie domain may show. */
export function portalSiteOf(request: FastifyRequest): PortalSite {
  const host = hostOf(request)
  const found = request.server.sites.find(host)
  if (!found) throw unknownHost(host)
  return { portal: portalOf(request), site: found.site }
}

/** Whether a request was sent to an origin, whatever it says of the scheme. */
export function isSentTo(origin: string, request: FastifyRequest): boolean {
  return isHostOf(origin, hostOf(request))
}

/** The language in which a person gets a page. */
export function languageOf({ headers }: FastifyRequest): Language {
  return chooseLanguage(headers['accept-language'])
}

/** Whom a page is for, and at which portal. */
export function readerOf(request: FastifyRequest, { portal, site }: PortalSite): Reader {
  return { portal, language: languageOf(request), imagesUrl: imagesUrl(site, portal) }
}

/** The images of a portal as an error page names them; undefined if its host is on no domain. */
export function imagesUrlFor(request: FastifyRequest, portal: Portal): string | undefined {
  const found = request.server.sites.find(hostOf(request))
  return found && imagesUrl(found.site, portal)
}

function imagesUrl(site: Site, portal: Portal): string {
  return portalUrl(site, portal, '/images/')
}

function hostOf({ raw: { headers, socket }, server }: FastifyRequest): string {
  const forwarded = server.trust.trusts(socket) ? headers['x-forwarded-host'] : undefined
  return String(forwarded ?? headers.host ?? '')
}

function isHostOf(origin: string, host: string): boolean {
  const scheme = origin.slice(0, origin.indexOf('//'))
  const requested = `${scheme}//${host}`
  return requested === origin || parseOrigin(requested) === origin
}

function unknownHost(host: string): FwaError {
  const quoted = JSON.stringify(host.slice(0, 100))
  return new FwaError('FWA_HOST_UNKNOWN', `${quoted} is not the host of this portal`)
}

/** The person of the session in the cookies of a request, if it may be used from its address. */
export async function visitorOf(
  request: FastifyRequest,
  { portal, site }: PortalSite,
): Promise<Visitor | undefined> {
  const visitor = await request.server.sessions.read(request, portal, site)
  return visitor?.isAllowedAt(() => clientIpOf(request)) ? visitor : undefined
}

export async function identify(
  provider: SeamlessProvider,
  request: FastifyRequest,
): Promise<Profile | undefined> {
  const clientIp = clientIpOf(request)
  return clientIp === undefined ? undefined : provider.identify(clientIp)
}

/** The error for programs when nobody is signed in; people are redirected to sign in instead. */
export function noSession({ portal, site }: PortalSite, resource?: Resource): FwaError {
  return new FwaError('FWA_NO_SESSION', `nobody is signed in at the portal ${portal.name}`, {
    members: { loginUrl: portalUrl(site, portal, '/signin') },
    headers: challengeHeaders(challenges(portal, resource), resource),
  })
}

/**
 * RFC 9110 section 11.6.1: every 401 has a challenge. No browser asks for a password on that of the
 * cookie.
 */
export function challenges(portal: Portal, resource?: Resource): string {
  const cookie = `Cookie realm="${portal.name}"`
  const others = portal.gate.programs.challenges(
    new AuthError('AUTH_CREDENTIALS_MISSING'),
    resource,
  )
  return others === '' ? cookie : `${others}, ${cookie}`
}

/** At a resource, scripts of any origin may read the challenge: its clients run in browsers too. */
export function challengeHeaders(
  challenge: string,
  resource: Resource | undefined,
): Record<string, string> {
  if (challenge === '') return {}
  const open = { 'access-control-allow-origin': '*', 'access-control-expose-headers': CHALLENGE }
  return { [CHALLENGE]: challenge, ...(resource && open) }
}

const CHALLENGE = 'www-authenticate'

/** The same error with the URL where to start again, which people see even with a 5xx. */
export function withLoginUrl(
  { code, message, cause, retryAfter, members }: FwaError,
  portalSite: PortalSite,
  returnTo: string | undefined,
  policy?: string,
): FwaError {
  const loginUrl = pageUrl(portalSite, '/signin', { rd: returnTo, policy })
  return new FwaError(code, message, {
    cause,
    expose: true,
    members: { ...members, loginUrl },
    ...(retryAfter !== undefined && { retryAfter }),
  })
}

/** Without a referrer, which would be the page of the provider after a sign-in. */
export function redirect(reply: FastifyReply, url: string): FastifyReply {
  const headers = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' }
  return reply.headers(headers).redirect(url, 303)
}

/** The validated return URL, or else the page of the portal. */
export function targetOf({ portal, site }: PortalSite, wanted: string | undefined): string {
  return validateReturnUrl(wanted, site)?.href ?? portalUrl(site, portal, '/signin')
}

export interface SignInQuery {
  readonly rd?: string | undefined
  /** Where the person came from. */
  readonly from?: string | undefined
  /** Present to sign in with another account. */
  readonly switch?: '1' | undefined
  /** The policies that demand to authenticate in their own way, with commas between them. */
  readonly policy?: string | undefined
}

/** From this length on, only what RFC 3986 demands is encoded, because proxies limit URLs. */
const LONG_QUERY = 2_048

export function pageUrl({ portal, site }: PortalSite, path: string, query: SignInQuery = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
  const search = given.length > 0 ? `?${encodeQuery(given)}` : ''
  return `${portalUrl(site, portal, path)}${search}`
}

function encodeQuery(given: [name: string, value: string][]): string {
  const search = String(new URLSearchParams(given))
  const isShort = search.length < LONG_QUERY || given.some(([, value]) => !/^[!-~]*$/.test(value))
  return isShort
    ? search
    : given.map(([name, value]) => `${name}=${encodeMinimally(value)}`).join('&')
}

/** Percent-encodes what a query must not contain (RFC 3986 section 3.4) and its delimiters. */
function encodeMinimally(value: string): string {
  return value.replace(
    /[^\w\-.~!$()*,;:@/?=]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}
