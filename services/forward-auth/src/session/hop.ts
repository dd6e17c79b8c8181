import { hash, randomBytes } from 'node:crypto'
import { parseHostPort } from '@gatehouse/net'
import type { HostCookie } from '../cookies.ts'
import type { KeyRing } from '../key-ring.ts'
import { sealValue, unsealValue } from '../seal.ts'
import { readCookies } from './cookie.ts'

/** The parameter of a target that brings a session from the sign-in host to the host of an app. */
export const TICKET = 'gatehouse-ticket'
const GIVEN = `${TICKET}=`
/** After so many hops that failed one after the other, the browser keeps no cookies here. */
export const MAX_HOPS = 3

/** In ms: how long somebody may take to sign in before the hop begins anew. */
const HOP_LIFETIME = 3_600_000
const TICKET_LIFETIME = 30_000
const COOKIE_LIFETIME = 600_000
/** Cookies of hops that a browser keeps, and that one answer removes: proxies limit headers. */
const MAX_COOKIES = 16

/** A way from an app to the sign-in host and back, in the browser that has its cookie. */
export interface Hop {
  /** The name of the app's host. */
  readonly host: string
  /** The digest of the value of a cookie of that host, which names the browser. */
  readonly browser: string
  /** How many hops failed before it. */
  readonly count: number
  /** When it began, in ms. */
  readonly at: number
}

export interface Ticket {
  /** The session; undefined unless the ticket fits this portal, host, browser and time. */
  readonly sid: string | undefined
  /** How many hops have failed if this one has. */
  readonly count: number
  /** Its mark if it is burnt, and until when that matters; undefined if it fits nowhere any more. */
  readonly burn: { readonly key: string; readonly until: number } | undefined
}

interface At {
  readonly portal: string
  readonly now: number
}

/** The return URL is sealed as its digest: it travels beside the hop. */
type SealedHop = Omit<Hop, 'host'> & { readonly target: string }
type SealedTicket = Hop & { readonly sid: string }

/**
 * Begins a hop to the absolute URL `target`. A cookie of a hop that the browser already has serves for
 * this one too, so that tabs opened at once do not overwrite what the others need.
 *
 * @returns the parameter `hop` of the sign-in page, and the cookies to set
 */
export function beginHop(
  at: At & { readonly target: string; readonly count: number; readonly cookieHeader: string },
  keys: KeyRing,
): { readonly hop: string; readonly cookies: readonly HostCookie[] } {
  const held = cookiesOf(at.portal, at.cookieHeader)
  const known = held.find((each) => each.browser)?.value
  const value = known ?? randomBytes(16).toString('base64url')
  const browser = digest(value)
  const own = { name: cookieName(at.portal, browser), value, maxAge: COOKIE_LIFETIME }
  const hop: SealedHop = { browser, count: at.count, target: digestOf(at.target), at: at.now }
  const sealed = sealValue(hop, keys, `hop ${at.portal}`)
  if (held.length < MAX_COOKIES) return { hop: sealed, cookies: [own] }
  const others = clearHops(at.portal, at.cookieHeader).filter(({ name }) => name !== own.name)
  return { hop: sealed, cookies: [own, ...others] }
}

/** The hop that led to the sign-in page, if it began for this portal and return URL. */
export function readHop(
  sealed: string | undefined,
  of: At & { readonly returnTo: string },
  keys: KeyRing,
): Hop | undefined {
  const hop = unsealValue<SealedHop>(sealed, keys, `hop ${of.portal}`)
  const host = parseHostPort(URL.parse(of.returnTo)?.host ?? '')?.host.name
  if (!hop || host === undefined || hop.target !== digestOf(of.returnTo)) return undefined
  const { browser, count, at } = hop
  return isWithin(HOP_LIFETIME, at, of.now) ? { host, browser, count, at } : undefined
}

/** The return URL as it is written, with a ticket as its last parameter. */
export function withTicket(returnTo: string, hop: Hop, of: At & { sid: string }, keys: KeyRing) {
  const ticket: SealedTicket = { ...hop, sid: of.sid, at: of.now }
  const sealed = sealValue(ticket, keys, `ticket ${of.portal}`)
  return `${returnTo}${returnTo.includes('?') ? '&' : '?'}${GIVEN}${sealed}`
}

/**
 * A request target without tickets, so that none reaches an app; undefined if it has none. The rest
 * stays as it was sent. A ticket that is not the last parameter, or not alone, does not count.
 */
export function splitTarget(target: string) {
  const start = target.indexOf('?')
  if (start < 0) return undefined
  const all = target.slice(start + 1).split('&')
  const rest = all.filter((each) => each !== TICKET && !each.startsWith(GIVEN))
  if (rest.length === all.length) return undefined
  const last = all.at(-1) ?? ''
  const counts = last.startsWith(GIVEN) && rest.length === all.length - 1
  const query = rest.length > 0 ? `?${rest.join('&')}` : ''
  const ticket = counts ? last.slice(GIVEN.length) : undefined
  return { target: `${target.slice(0, start)}${query}`, ticket }
}

/**
 * Reads a ticket. It is worth nothing but in the browser that began the hop, so neither one from a log
 * nor one that somebody sends to another person signs anybody in. One that does not fit must be burnt.
 */
export function readTicket(
  ticket: string,
  of: At & { readonly host: string; readonly cookieHeader: string },
  keys: KeyRing,
): Ticket {
  const given = unsealValue<SealedTicket>(ticket, keys, `ticket ${of.portal}`)
  if (!given) return { sid: undefined, count: 1, burn: undefined }
  const { sid, host, browser, count, at } = given
  const isLive = isWithin(TICKET_LIFETIME, at, of.now)
  const held = cookiesOf(of.portal, of.cookieHeader)
  const fits = host === of.host && held.some((each) => each.browser === browser)
  return {
    sid: isLive && fits ? sid : undefined,
    // A ticket in a bookmark is not part of a loop.
    count: isWithin(COOKIE_LIFETIME, at, of.now) ? count + 1 : 1,
    burn: isLive ? { key: digest(ticket), until: at + TICKET_LIFETIME } : undefined,
  }
}

/** Removes the cookies of the hops of a browser. */
export function clearHops(portal: string, cookieHeader: string): readonly HostCookie[] {
  const held = cookiesOf(portal, cookieHeader)
  return held.slice(0, MAX_COOKIES).map(({ name }) => ({ name, value: '', maxAge: 0 }))
}

/** With `__Host-` no other host can set it. Its value gives it the name, so no other value counts. */
function cookieName(portal: string, browser: string): string {
  return `__Host-gatehouse-hop.${portal}.${browser.slice(0, 8)}`
}

const NAME = /^[\w-]+\.[\w-]+\.[0-9a-f]{8}$/
const VALUE = /^[\w-]{22}$/

/** The cookies of hops. Only one whose value counts has a `browser`. */
function cookiesOf(portal: string, header: string) {
  const all = [...readCookies(header, cookieName(portal, ''))].filter(([name]) => NAME.test(name))
  return all.map(([name, value = '']) => {
    const browser = VALUE.test(value) ? digest(value) : ''
    return { name, value, browser: name === cookieName(portal, browser) ? browser : undefined }
  })
}

/** As browsers write a URL: the sign-in page has it back from one. */
function digestOf(url: string): string {
  return digest(URL.parse(url)?.href ?? url)
}

function digest(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 32)
}

/** In both directions, because the clocks of instances differ. */
function isWithin(time: number, at: number, now: number): boolean {
  return Math.abs(now - at) < time
}
