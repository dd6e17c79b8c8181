import type { FastifyReply } from 'fastify'
import { validateReturnUrl } from '../login/return-url.ts'
import { portalUrl } from '../portal.ts'
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

/** The URL of a page of the portal. */
export function pageUrl({ portal, site }: Place, path: string, query: SignInQuery = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
  const search = given.length > 0 ? `?${new URLSearchParams(given)}` : ''
  return `${portalUrl(site, portal, path)}${search}`
}
