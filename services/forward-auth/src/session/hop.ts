import { hash, randomUUID } from 'node:crypto'
import { formatHostPort, parseHostPort } from '@gatehouse/net'
import { type KeyRing, readSigned, sealValue, signValue, unsealValue } from '../keys/key-ring.ts'
import type { Site } from '../sites.ts'
import { type HostCookie, readCookies } from '../web/cookies.ts'

/** The parameter of a target that brings a session from the sign-in host to the host of an app. */
export const TICKET = 'gatehouse-ticket'
const TICKET_PREFIX = `${TICKET}=`
/** The number of consecutive failed hops after which Gatehouse concludes that the browser keeps no cookies here. */
export const MAX_HOPS = 3

/** The time that somebody may take to sign in before the hop begins anew, in ms. */
const HOP_LIFETIME = 3_600_000
/** The lifetime of a ticket in ms, also of a hop that no cookie binds to the browser at the sign-in host. */
const TICKET_LIFETIME = 30_000
const COOKIE_LIFETIME = 600_000
/** Cookies of hops that a browser keeps, and that one answer removes: proxies limit headers. */
const MAX_COOKIES = 16

/**
 * A way from an app to the sign-in host and back, in the browser that has its cookie at both ends: that of the app
 * is a secret, and the sign-in binding at the sign-in host is made of it.
 */
export interface Hop {
  /** The app's host, with the port unless it is that of the scheme. */
  readonly host: string
  /** The digest of the sign-in binding, which names the browser. */
  readonly browser: string
  /** The number of failed hops before it. */
  readonly count: number
  /** The time at which it began, in ms. */
  readonly start: number
  /** The path of the call of a script that began it. */
  readonly path?: string | undefined
  /** The parameter that it was read from. */
  readonly signed: string
}

/** The scope of the cookie of a sign-in binding. */
type CookiePlace = Pick<HostCookie, 'domain' | 'path'>

export interface Ticket {
  /** The session; undefined unless the ticket fits this portal, host, browser and time. */
  readonly sid: string | undefined
  /** The URL that the check redirects to, in place of the one with the ticket. */
  readonly to?: string | undefined
  /** The number of failed hops, if this one fails too. */
  readonly count: number
  /** Its mark if it is burnt, and until when that matters; undefined if it fits nowhere any more. */
  readonly burn: { readonly key: string; readonly until: number } | undefined
}

interface HopContext {
  readonly portal: string
  readonly now: number
}

type SignedHop = Omit<Hop, 'host' | 'signed'> & { readonly isBound: boolean }
interface SignInPages {
  readonly portal: { readonly name: string }
  readonly site: Pick<Site, 'sharedDomain' | 'basePath'>
}
/** The part of a ticket that an app gets. */
type Bearing = Pick<Ticket, 'to'> & { readonly sid: string }
type SealedTicket = Omit<Hop, 'path' | 'signed'> & Bearing

/** Returns the domain and path of the sign-in binding: the sign-in host gets it for the pages of the portal. */
export function bindingPlace({ portal, site }: SignInPages): CookiePlace | undefined {
  const { sharedDomain: domain, basePath } = site
  return domain === undefined ? undefined : { domain, path: `${basePath}/portals/${portal.name}` }
}

/**
 * Begins a hop from an app at `origin`. A cookie of a hop that the browser already has serves for
 * this one too, so that tabs opened at once do not overwrite what the others need.
 *
 * @returns the parameter `hop` of the sign-in page, and the cookies to set
 */
export function beginHop(
  context: HopContext &
    Pick<Hop, 'count' | 'path'> & {
      readonly origin: string
      readonly cookieHeader: string
      /** Undefined if the app cannot set a cookie for the sign-in host. */
      readonly place: CookiePlace | undefined
    },
  keys: KeyRing,
): { readonly hop: string; readonly cookies: readonly HostCookie[] } {
  const { portal, origin, count, path, place, cookieHeader } = context
  const cookies = cookiesOf(portal, cookieHeader)
  const value = cookies.find(({ browser }) => browser)?.value ?? randomValue()
  const binding = bindingOf(value)
  const browser = digest(binding)
  const cookie = { name: cookieName(portal, browser), value, maxAge: COOKIE_LIFETIME }
  const surplus = clearHops(portal, cookieHeader).filter(({ name }) => name !== cookie.name)
  const hop: SignedHop = { browser, count, start: context.now, path, isBound: place !== undefined }
  const name = bindingName(portal, browser)
  const ends: HostCookie[] = place
    ? [cookie, { ...place, name, value: binding, maxAge: HOP_LIFETIME }]
    : [{ ...cookie, sameSite: 'none' }]
  return {
    hop: signValue(hop, keys, purposeOf(portal, origin)),
    cookies: cookies.length < MAX_COOKIES ? ends : [...ends, ...surplus],
  }
}

/**
 * The hop that led to the sign-in page, if it began for this portal and the origin of the return URL, and in this browser.
 *
 * @param context - without `cookieHeader` if the state of a login of this browser has brought the hop, which is proof
 */
export function readHop(
  signed: string | undefined,
  context: HopContext & { readonly returnTo: string; readonly cookieHeader?: string },
  keys: KeyRing,
): Hop | undefined {
  const { portal, returnTo, cookieHeader, now } = context
  const url = URL.parse(returnTo)
  const parsed = parseHostPort(url?.host ?? '')
  if (!url || !parsed || signed === undefined) return undefined
  const contents = readSigned<SignedHop>(signed, keys, purposeOf(portal, url.origin))
  if (!contents) return undefined
  const { isBound, ...hop } = contents
  const isProven =
    cookieHeader === undefined || (isBound && showsBinding(cookieHeader, portal, hop))
  if (isBound && !isProven) return undefined
  const lifetime = isProven ? HOP_LIFETIME : TICKET_LIFETIME
  return isWithin(lifetime, hop.start, now)
    ? { ...hop, host: formatHostPort(parsed), signed }
    : undefined
}

function purposeOf(portal: string, origin: string): string {
  return `hop ${portal} ${origin}`
}

/** Whether a browser has the binding, whatever other hosts of the domain have set beside it. */
function showsBinding(cookieHeader: string, portal: string, { browser }: Pick<Hop, 'browser'>) {
  const start = `${bindingName(portal, browser)}=`
  const values = cookieHeader.split(/; */).filter((cookie) => cookie.startsWith(start))
  return values.some((cookie) => digest(cookie.slice(start.length)) === browser)
}

/** Removes the sign-in bindings that a browser has got first, if it has many. */
export function clearBindings(portal: string, cookieHeader: string, place: CookiePlace) {
  const names = [...readCookies(cookieHeader, bindingName(portal, '')).keys()].filter(isName)
  const surplus = names.slice(0, -MAX_COOKIES).slice(0, MAX_COOKIES)
  return surplus.map((name): HostCookie => ({ ...place, name, value: '', maxAge: 0 }))
}

/** A return URL with the ticket of a hop. */
export function withTicket(
  returnTo: string,
  { host, browser, count }: Hop,
  { portal, sid, to, now }: HopContext & Bearing,
  keys: KeyRing,
): string {
  const ticket: SealedTicket = { host, browser, count, sid, to, start: now }
  return addTicket(returnTo, sealValue(ticket, keys, `ticket ${portal}`))
}

/** A URL as it is written, with a ticket as the last parameter of its query. An empty one has the check begin a hop. */
export function addTicket(url: string, ticket = ''): string {
  const end = url.includes('#') ? url.indexOf('#') : url.length
  const base = url.slice(0, end)
  return `${base}${base.includes('?') ? '&' : '?'}${TICKET_PREFIX}${ticket}${url.slice(end)}`
}

/**
 * A request target without tickets, so that none reaches an app; undefined if it has none. The rest
 * is unchanged. A ticket counts at any position, since a CDN may sort parameters, if it is the only one.
 */
export function splitTarget(target: string) {
  const start = target.indexOf('?')
  if (start < 0) return undefined
  const parameters = target.slice(start + 1).split('&')
  const isTicket = (text: string) => text === TICKET || text.startsWith(TICKET_PREFIX)
  const tickets = parameters.filter(isTicket)
  if (tickets.length === 0) return undefined
  const appParameters = parameters.filter((text) => !isTicket(text))
  const query = appParameters.length > 0 ? `?${appParameters.join('&')}` : ''
  const ticket = tickets.length === 1 ? tickets[0]?.slice(TICKET_PREFIX.length) : undefined
  return { target: `${target.slice(0, start)}${query}`, ticket }
}

/**
 * Reads a ticket. It is worth nothing but in the browser that began the hop, so neither one from a log
 * nor one that somebody sends to another person signs anybody in. One that does not fit must be burnt.
 */
export function readTicket(
  ticket: string,
  context: HopContext & { readonly host: string; readonly cookieHeader: string },
  keys: KeyRing,
): Ticket {
  const { portal, now, cookieHeader } = context
  const contents = unsealValue<SealedTicket>(ticket, keys, `ticket ${portal}`)
  if (!contents) return { sid: undefined, count: 1, burn: undefined }
  const { sid, to, host, browser, count, start } = contents
  const isLive = isWithin(TICKET_LIFETIME, start, now)
  const cookies = cookiesOf(portal, cookieHeader)
  const fits = host === context.host && cookies.some((cookie) => cookie.browser === browser)
  return {
    sid: isLive && fits ? sid : undefined,
    to: fits ? to : undefined,
    // A ticket in a bookmark is not part of a loop, nor is a late click of its browser.
    count: isWithin(COOKIE_LIFETIME, start, now) && (isLive || !fits) ? count + 1 : 1,
    burn: isLive ? { key: digest(ticket), until: start + TICKET_LIFETIME } : undefined,
  }
}

/** Removes the cookies of the hops of a browser. */
export function clearHops(portal: string, cookieHeader: string): readonly HostCookie[] {
  const cookies = cookiesOf(portal, cookieHeader)
  return cookies.slice(0, MAX_COOKIES).map(({ name }) => ({ name, value: '', maxAge: 0 }))
}

/** 122 random bits: Node takes those of many UUIDs at a time, and some for each cost ten times as much. */
function randomValue(): string {
  return Buffer.from(randomUUID().replaceAll('-', ''), 'hex').toString('base64url')
}

/**
 * The name of the cookie. With `__Host-` no other host can set it, and the name comes from the value, so no other value
 * counts.
 */
function cookieName(portal: string, browser: string): string {
  return `__Host-gatehouse-hop.${portal}.${browser.slice(0, 8)}`
}

/** The cookie of the sign-in host. Other hosts of the domain can set one, but none whose value counts. */
function bindingName(portal: string, browser: string): string {
  return `__Secure-gatehouse-binding.${portal}.${browser.slice(0, 8)}`
}

const NAME = /^[\w-]+\.[\w-]+\.[0-9a-f]{8}$/
const isName = (name: string) => NAME.test(name)
const VALUE = /^[\w-]{22}$/

/** The cookies of hops. Only one whose value counts has a `browser`. */
function cookiesOf(portal: string, header: string) {
  const cookies = [...readCookies(header, cookieName(portal, ''))].filter(([name]) => isName(name))
  return cookies.map(([name, value = '']) => {
    const browser = VALUE.test(value) ? digest(bindingOf(value)) : ''
    return { name, value, browser: name === cookieName(portal, browser) ? browser : undefined }
  })
}

/** The value of the sign-in binding, which tells nobody that of the cookie of the hop. */
function bindingOf(value: string): string {
  return hash('sha256', `binding ${value}`, 'base64url').slice(0, 22)
}

function digest(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 32)
}

/** Whether two times are close, in both directions, because the clocks of instances differ. */
function isWithin(lifetime: number, start: number, now: number): boolean {
  return Math.abs(now - start) < lifetime
}
