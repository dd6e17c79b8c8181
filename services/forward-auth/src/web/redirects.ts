import type { FastifyReply, FastifyRequest } from 'fastify'
import { FwaError } from '../errors.ts'
import { pageUrl } from '../sites.ts'
import type { Realm } from './realm.ts'
import { validateReturnUrl } from './return-url.ts'

/** Redirects without a referrer, which would be the page of the provider after a sign-in. */
export function redirect(reply: FastifyReply, url: string): FastifyReply {
  const headers = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' }
  return reply.headers(headers).redirect(url, 303)
}

/** The validated return URL, or else the page of the portal. */
export function targetOf(realm: Realm, returnTo: string | undefined): string {
  return validateReturnUrl(returnTo, realm.site)?.href ?? pageUrl(realm, '/signin')
}

/** The page that led a person here, if it is one of an app. @param page - its URL. Default: the page with the link */
export function cameFrom(
  { headers }: FastifyRequest,
  { site }: Realm,
  page: string | undefined,
): URL | undefined {
  const url = validateReturnUrl(page ?? headers.referer, site)
  return url?.origin === site.authOrigin ? undefined : url
}

/** The URL that a person goes to through the sign-in page. */
export interface Destination {
  readonly returnTo: string | undefined
  /** The hop that led there, as it is signed. */
  readonly hop?: string | undefined
  readonly stepUp?: { readonly policy: string } | undefined
}

/** The sign-in page on the way to a destination. */
export function signInUrl(realm: Realm, { returnTo, hop, stepUp }: Destination): string {
  const rd = validateReturnUrl(returnTo, realm.site)?.href
  return pageUrl(realm, '/signin', { rd, hop, policy: stepUp?.policy })
}

/** The error with the URL where a person starts again, which people see even with a 5xx. */
export function withLoginUrl(
  { code, message, cause, retryAfter, members }: FwaError,
  realm: Realm,
  destination: Destination,
): FwaError {
  const loginUrl = signInUrl(realm, destination)
  return new FwaError(code, message, {
    cause,
    expose: true,
    members: { ...members, loginUrl },
    ...(retryAfter !== undefined && { retryAfter }),
  })
}

/** The error of a browser that shows no cookie of those that it has just got here. */
export function cookiesBlocked({ site }: Realm, returnTo: string): FwaError {
  const text = `the browser sends none of the cookies of ${site.authOrigin} back`
  return new FwaError('FWA_COOKIES_BLOCKED', text, { members: { loginUrl: returnTo } })
}

/** The error of a person who signs in, or moves on to apps, too often. */
export function tooOften(retryAfter: number, realm: Realm, destination: Destination): FwaError {
  const text = `This account has signed in too often in a short time. Try again in ${retryAfter} seconds.`
  const error = new FwaError('FWA_RATE_LIMITED', text, { retryAfter })
  return withLoginUrl(error, realm, destination)
}
