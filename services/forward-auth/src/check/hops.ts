import type { ForwardedRequest } from '@gatehouse/gate'
import { isLoopback } from '@gatehouse/net'
import { isPrefetch } from '@gatehouse/service-kit/http'
import type { Dialect } from '@gatehouse/service-kit/proxies'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { FwaError } from '../errors.ts'
import { unsentPage } from '../pages/pages.ts'
import {
  beginHop,
  bindingPlace,
  clearHops,
  type Hop,
  MAX_HOPS,
  readTicket,
  type splitTarget,
  TICKET,
} from '../session/hop.ts'
import type { Session } from '../session/session.ts'
import { type PageQuery, pageUrl, type Site } from '../sites.ts'
import { appCookie, setHostCookies } from '../web/cookies.ts'
import { sendToReader } from '../web/reader.ts'
import type { Realm } from '../web/realm.ts'
import { validateReturnUrl } from '../web/return-url.ts'
import { challenges, noSession } from './challenges.ts'

/** The request of a check, whoever sends it. */
export interface AppRequest extends Realm {
  readonly forwarded: ForwardedRequest<Site>
}

/** Characters that proxies accept in a header, and in the request that follows. */
const MAX_LOCATION = 8_000
/** The maximum length of a link in characters, which keeps the page of a check under 4 kB. */
export const MAX_LINK = 300
const WHY_NONE =
  'the browser keeps none, or the proxy sends no Cookie with the check (Traefik: authRequestHeaders without it), ' +
  'or does not pass on the Set-Cookie of its answer'
/** Characters of the parameter `hop`. */
const HOP_LENGTH = 500

/**
 * Leads a person to the sign-in page. A redirect would lose what a form has sent, so a page says that nothing was: the
 * browser keeps it, and sends it again when the page is loaded again.
 */
export function sendToPage(
  dialect: Dialect,
  check: AppRequest,
  reply: FastifyReply,
  query?: { readonly policy: string | undefined },
): FastifyReply {
  if (isRead(check.forwarded)) return sendToSignIn(dialect, check, reply, { query })
  // Another site does not send the cookie along, nor does its request when it is sent again.
  const isRepeatable = reply.request.headers['sec-fetch-site'] !== 'cross-site'
  return sendUnsent(check, reply, { query, isRepeatable })
}

/** Redirects a browser to the sign-in page; it comes back to the same URL with a ticket. */
function sendToSignIn(
  dialect: Dialect,
  check: AppRequest,
  reply: FastifyReply,
  {
    query = {},
    count = 0,
    url = check.forwarded.url,
    path,
  }: { query?: PageQuery | undefined; url?: string } & Partial<Pick<Hop, 'count' | 'path'>> = {},
): FastifyReply {
  requireSecure(check.forwarded)
  // What a browser loads before a click must not sign anybody in.
  if (isPrefetch(reply.request.headers)) throw noSession(check)
  const rd = returnUrl(check, url, MAX_LOCATION - HOP_LENGTH, query)
  const hop = rd && begin(check, reply, { count, path })
  return sendRedirect(dialect, check, pageUrl(check, '/signin', { ...query, rd, hop }), reply)
}

/** Refuses an app without HTTPS, where browsers never send the session: a sign-in would lead back here for ever. */
export function requireSecure({ scheme, host, origin }: AppRequest['forwarded']): void {
  if (scheme === 'http' && !isLoopback(host))
    throw new FwaError('FWA_APP_INSECURE', `${origin} is not https`)
}

/** Returns the URL where a script signs somebody in. A call by a script of the app, not by a program, begins a hop. */
export function loginUrlOf(check: AppRequest, reply: FastifyReply, query?: PageQuery): string {
  const { headers } = reply.request
  const isProgram = headers.authorization !== undefined || isPrefetch(headers)
  const isCall =
    headers['sec-fetch-site'] === 'same-origin' && headers['sec-fetch-dest'] === 'empty'
  const isOwn = isCall && !isProgram
  return isOwn ? startUrl(check, reply, query) : pageUrl(check, '/signin', query)
}

/**
 * The sign-in page for what is not redirected there. It leads back to the page that sent the request, if that is one of the
 * app, and on the way the app's host gets its cookie at the path of the request: the page itself may be in the cache
 * of a worker, or open to anyone.
 */
function startUrl(check: AppRequest, reply: FastifyReply, query: PageQuery = {}): string {
  const { forwarded, site } = check
  requireSecure(forwarded)
  const referer = validateReturnUrl(reply.request.headers.referer, site)
  const page = referer?.origin === forwarded.origin ? referer.href : `${forwarded.origin}/`
  const { pathname } = new URL(forwarded.url)
  const path = pathname.length <= MAX_LINK ? pathname : '/'
  const rd = returnUrl(check, page, MAX_LINK, query) ?? `${forwarded.origin}/`
  return pageUrl(check, '/signin', {
    ...query,
    rd,
    hop: begin(check, reply, { count: 0, path }),
  })
}

/**
 * Says that the app did not receive what the browser sent, which a redirect would lose. `isRepeatable` tells whether the
 * browser may send it again, once it has a session here.
 */
function sendUnsent(
  check: AppRequest,
  reply: FastifyReply,
  { query, isRepeatable }: { query?: PageQuery | undefined; isRepeatable: boolean },
): FastifyReply {
  return sendToReader(reply, check, 403, unsentPage, {
    signInHref: startUrl(check, reply, query),
    image: isRepeatable ? `?${TICKET}` : undefined,
    origins: [check.forwarded.origin, check.site.authOrigin],
  })
}

/** Begins a hop, where a host has a cookie of its own. Gives the parameter of the sign-in page. */
export function begin(
  check: AppRequest,
  reply: FastifyReply,
  options: Pick<Hop, 'count' | 'path'>,
) {
  const { portal, forwarded, site } = check
  if (site.scope === 'domain') return undefined
  const { headers, server } = reply.request
  const { cookie: cookieHeader = '' } = headers
  const { hop, cookies } = beginHop(
    {
      ...{ portal: portal.name, origin: forwarded.origin, place: bindingPlace(check) },
      ...{ ...options, cookieHeader, now: server.clock.now() },
    },
    server.keys.login,
  )
  setHostCookies(reply, cookies)
  return hop
}

/** The URL to return to, which loses its query if it is too long; undefined if it is too long even so. */
export function returnUrl(
  check: AppRequest,
  url: string,
  max: number,
  query: PageQuery,
): string | undefined {
  const fits = (rd: string) =>
    rd.length <= max && pageUrl(check, '/signin', { ...query, rd }).length <= max
  if (fits(url)) return url
  const { href } = Object.assign(new URL(url), { search: '' })
  return fits(href) ? href : undefined
}

/**
 * Answers a request whose URL holds a ticket, which never reaches an app: by a redirect to the URL without it,
 * and the cookie for this host if the ticket is that of this browser. An image of our pages gets the cookie alone.
 */
export async function answerTicket(
  dialect: Dialect,
  check: AppRequest,
  { target, ticket }: NonNullable<ReturnType<typeof splitTarget>>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { portal, site, forwarded } = check
  const { request } = reply
  const { host, authority } = forwarded
  // The links of an error page must not tell others the ticket.
  reply.header('referrer-policy', 'no-referrer')
  const url = new URL(`${forwarded.origin}${target}`).href
  const { visitor, to, count } = await takeTicket(ticket ?? '', check, request)
  if (visitor) setAppCookie(visitor.session, check, reply)
  const { 'sec-fetch-dest': fetchDest, 'sec-fetch-site': fetchSite } = request.headers
  const isImage =
    fetchDest === 'image' && (fetchSite === 'same-site' || fetchSite === 'same-origin')
  // A form of a page whose address has kept a ticket. Those of our pages come from another host, and hold nothing else.
  const isForm = forwarded.kind === 'navigation' && !isRead(forwarded) && to === undefined
  if (isForm && fetchSite !== 'cross-site' && fetchSite !== 'same-site')
    return sendUnsent(check, reply, { isRepeatable: false })
  if (visitor || (await request.server.sessions.atApp(request, { portal, site, authority })))
    return isImage
      ? reply.code(403).header('cache-control', 'no-store').send('')
      : sendRedirect(dialect, check, to ?? url, reply)
  if (forwarded.kind !== 'navigation' && !isImage) throw noSession(check)
  if (count >= MAX_HOPS)
    throw new FwaError('FWA_COOKIES_BLOCKED', `${host.name} gets no cookies: ${WHY_NONE}`, {
      members: { loginUrl: returnUrl(check, url, MAX_LINK, {}) ?? forwarded.origin },
    })
  // A button that was clicked late leads to the page again, by the path that gives the cookie.
  const destination = to === undefined ? { url } : { url: to, path: new URL(url).pathname }
  return sendToSignIn(dialect, check, reply, { count, ...destination })
}

/** Reads a ticket, and whose it is if it fits; one that does not fit here is burnt. */
async function takeTicket(text: string, check: AppRequest, { headers, server }: FastifyRequest) {
  const { sessions, keys, clock } = server
  const { cookie: cookieHeader = '' } = headers
  const { portal, forwarded } = check
  const app = { portal: portal.name, host: forwarded.authority }
  const ticket = readTicket(text, { ...app, cookieHeader, now: clock.now() }, keys.login)
  const { sid, burn } = ticket
  // The sign-in host may have just changed it, at another instance.
  if (sid !== undefined) sessions.records.forget(sid)
  const isBurnt = burn !== undefined && sessions.records.isBurnt(burn)
  // Of another browser: whoever began that hop may read it in a log. Other instances learn of it, unless the store is away.
  if (burn && !isBurnt && sid === undefined) await sessions.records.burn(burn).catch(() => {})
  const visitor = sid === undefined || isBurnt ? undefined : await sessions.find(sid, check)
  return { ...ticket, visitor }
}

/** Gives the browser the cookie of its session for the host of the app; its way there has ended. */
function setAppCookie(
  session: Session,
  { portal, site, forwarded }: AppRequest,
  reply: FastifyReply,
): void {
  const { sessions, clock } = reply.server
  const { authority } = forwarded
  const token = sessions.appToken(session, site, authority)
  const sessionCookie = appCookie(portal, site, authority, token, session.ends - clock.now())
  const { cookie = '' } = reply.request.headers
  setHostCookies(reply, [sessionCookie, ...clearHops(portal.name, cookie)])
}

/** Whether a redirect loses nothing. */
export function isRead({ method }: Pick<ForwardedRequest<Site>, 'method'>): boolean {
  return ['GET', 'HEAD'].includes(method)
}

/** A redirect in the form that the proxy understands. */
function sendRedirect(
  { redirects }: Dialect,
  { portal, forwarded }: AppRequest,
  location: string,
  reply: FastifyReply,
): FastifyReply {
  reply.headers({
    location,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'content-type': 'text/plain; charset=utf-8',
  })
  if (redirects) return reply.code(isRead(forwarded) ? 302 : 303).send('')
  return reply
    .code(401)
    .headers({ 'x-auth-redirect': location, 'www-authenticate': challenges(portal) })
    .send('')
}
