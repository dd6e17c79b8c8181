import type { FastifyReply } from 'fastify'
import { validateReturnUrl } from '../login/return-url.ts'
import { portalUrl } from '../sites.ts'
import type { Place } from './place.ts'

/** Sends a browser on, with GET. */
export function redirect(reply: FastifyReply, url: string): FastifyReply {
  return reply.header('cache-control', 'no-store').redirect(url, 303)
}

/** Where a person wants to go, if it is somewhere to go to, or else the page of the portal. */
export function targetOf({ portal, site }: Place, wanted: string | undefined): string {
  return validateReturnUrl(wanted, site)?.href ?? portalUrl(site, portal, '/signin')
}

/** What the URLs of sign-in pages carry. */
export interface SignInQuery {
  /** Where the person wants to go. */
  readonly rd?: string | undefined
  /** Whether it shall be as somebody else. */
  readonly switch?: '1' | undefined
}

/** From this length on a query is written as short as RFC 3986 allows, for the proxies on its way. */
const LONG_QUERY = 2_048

/** The URL of a page of the portal. */
export function pageUrl({ portal, site }: Place, path: string, query: SignInQuery = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
  const search = given.length > 0 ? `?${write(given)}` : ''
  return `${portalUrl(site, portal, path)}${search}`
}

function write(given: [name: string, value: string][]): string {
  const search = String(new URLSearchParams(given))
  const isShort = search.length < LONG_QUERY || given.some(([, value]) => !/^[!-~]*$/.test(value))
  return isShort ? search : given.map(([name, value]) => `${name}=${encodeLittle(value)}`).join('&')
}

/** Percent-encodes what a query cannot hold (RFC 3986 section 3.4), and what has a meaning in it. */
function encodeLittle(value: string): string {
  return value.replace(
    /[^\w\-.~!$()*,;:@/?=]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}
