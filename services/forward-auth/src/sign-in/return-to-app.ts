import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { isNavigation } from '@gatehouse/service-kit/http'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { FwaError } from '../errors.ts'
import { warnRarely } from '../log-limit.ts'
import { continuePage } from '../pages/pages.ts'
import { addTicket, bindingPlace, clearBindings, readHop, withTicket } from '../session/hop.ts'
import type { Session } from '../session/session.ts'
import { pageUrl, type Site } from '../sites.ts'
import { setHostCookies } from '../web/cookies.ts'
import { bareAnswer, PAGES, problemAnswers } from '../web/documented.ts'
import { sendToReader } from '../web/reader.ts'
import { type Realm, signInSiteOf } from '../web/realm.ts'
import {
  type Destination,
  redirect,
  signInUrl,
  targetOf,
  tooOften,
  withLoginUrl,
} from '../web/redirects.ts'
import { RETURN_PATH } from './logins.ts'
import { countRedirect, resetRedirectCount } from './redirect-loop.ts'
import { TICKETS } from './sign-in-rate.ts'

/** The reason why a person is redirected to an app: a login, or a session that they had. */
type Reason = Parameters<typeof countRedirect>[2]

interface Goal extends Destination {
  readonly realm: Realm
}

/**
 * Returns a person to the app where they want to go. Its host gets their session on the way: by the ticket of the hop that
 * led here, or else by a page whose image fetches one. If their browser keeps coming back from there, the app does
 * not receive the session, and an error page ends the loop.
 *
 * @param goal - its hop counts in this browser
 */
export function returnToApp(
  goal: Goal & { readonly session: Session },
  reason: Reason | undefined,
  reply: FastifyReply,
): FastifyReply {
  const { realm, session } = goal
  const { portal } = realm
  const { request, server } = reply
  const { method, headers } = request
  const url = new URL(targetOf(realm, goal.returnTo))
  const site = siteOfApp(server, realm, url)
  const context = { portal: portal.name, now: server.clock.now() }
  const hop = site && readHop(goal.hop, { ...context, returnTo: url.href }, server.keys.login)
  if (hop) limitTickets(goal, server)
  const addTo = (target: string, page?: string) =>
    hop
      ? withTicket(target, hop, { ...context, sid: session.sid, to: page }, server.keys.login)
      : addTicket(target)
  const guarded = hop?.path === undefined ? url.href : `${url.origin}${hop.path}`
  // Programs may repeat a request without a loop.
  if (!isNavigation(method, headers)) return redirect(reply, hop ? addTo(guarded) : url.href)
  if (reason) endLoop(goal, reason, reply, hop?.start)
  if (!site) return redirect(reply, url.href)
  const place = bindingPlace({ portal, site })
  setHostCookies(reply, place ? clearBindings(portal.name, headers.cookie ?? '', place) : [])
  const isDirect = hop ? hop.path === undefined : !place
  if (isDirect) return redirect(reply, addTo(url.href))
  const way = place
    ? { image: addTo(guarded), origins: [url.origin, site.authOrigin] }
    : { action: addTo(guarded, url.href) }
  return sendToReader(reply.header('referrer-policy', 'no-referrer'), realm, 200, continuePage, {
    profile: session.profile,
    url,
    ...way,
  })
}

/** Each ticket may have to be burnt, which is a row. */
function limitTickets(goal: Parameters<typeof returnToApp>[0], { signInRate }: FastifyInstance) {
  const wait = signInRate.take(`tickets of ${goal.session.person}`, TICKETS)
  if (wait > 0) throw tooOften(wait, goal.realm, goal)
}

/** The site of an app whose host has a cookie of its own, if a URL leads to one. */
function siteOfApp({ sites }: FastifyInstance, { site }: Realm, url: URL): Site | undefined {
  const isOurs =
    url.origin === site.authOrigin && url.pathname.startsWith(`${site.basePath}/portals/`)
  const siteHost = sites.find(url.host)
  const isApp = siteHost && !siteHost.isAuthHost && siteHost.site.scope === 'host' && !isOurs
  return isApp ? siteHost.site : undefined
}

function endLoop({ realm, returnTo }: Goal, reason: Reason, reply: FastifyReply, began?: number) {
  const { portal } = realm
  const { headers, server } = reply.request
  const { href } = destinationOf(realm, returnTo)
  const now = server.clock.now()
  const { isLoop, cookie } = countRedirect(portal, href, reason, headers.cookie, now, began)
  setHostCookies(reply, [isLoop ? resetRedirectCount(portal) : cookie])
  if (isLoop) throw signInLoop(realm, href, reason, reply)
}

/** Pages of ours one in the return URL of another: a sign-in in the consent of an agent, and some more. */
const MAX_PAGES = 5

/** The URL to which a return URL leads in the end: our own pages on the way name it, without its query if it is long. */
export function destinationOf(realm: Realm, returnTo: string | undefined): URL {
  let target = new URL(targetOf(realm, returnTo))
  for (let level = 0; level < MAX_PAGES; level++) {
    const rd = target.searchParams.get('rd')
    const isPage = rd !== null && target.href.startsWith(pageUrl(realm, '/'))
    if (!isPage) break
    target = new URL(targetOf(realm, rd))
  }
  return target
}

/** The site to which a return URL leads in the end: of several with one sign-in host, only that one has a say. */
export function destinationSiteOf({ sites }: FastifyInstance, realm: Realm, returnTo: string) {
  return sites.find(destinationOf(realm, returnTo).host)?.site ?? realm.site
}

const SCHEMA = {
  summary: 'Continue to a long return URL after signing in',
  tags: ['sign-in', PAGES],
  params: Type.Object({ portal: Type.String(), login: Type.String() }),
  querystring: Type.Partial(
    Type.Object({
      rd: Type.String({ description: 'Return URL if the browser has lost the cookie.' }),
    }),
  ),
  response: { 303: bareAnswer('Redirect to the return URL.'), ...problemAnswers(403, 404) },
}

/** `GET /return/:login`: where logins lead whose return URL is in a cookie. */
export const returnRoute: FastifyPluginAsyncTypebox = async (app) => {
  app.get(RETURN_PATH, { schema: SCHEMA }, async (request, reply) => {
    const realm = signInSiteOf(request)
    const { params, query, headers } = request
    const long = app.logins.longDestination(realm, params.login, headers.cookie)
    return redirect(reply, signInUrl(realm, long ?? { returnTo: query.rd }))
  })
}

function signInLoop(
  realm: Realm,
  target: string,
  reason: Reason,
  { request }: FastifyReply,
): FwaError {
  const { portal } = realm
  const { host } = new URL(target)
  const { domain } = destinationSiteOf(request.server, realm, target)
  const { text, cause } =
    reason === 'bounce'
      ? {
          text: `Delete the cookies of ${domain}, or tell the administrator: ${host} does not receive your session cookie.`,
          cause:
            `a signed-in person comes back from ${host} without a session: its proxy does not send Cookie with ` +
            'the check (Traefik: authRequestHeaders without Cookie), or another site sets a cookie with the name ' +
            'of the session cookie',
        }
      : {
          text: `Allow cookies for ${domain}, or tell the administrator: your browser does not keep the session cookie.`,
          cause:
            'a browser comes back without the session that it was just given: it does not keep cookies for ' +
            `${domain}, or they are removed on the way`,
        }
  const code = 'FWA_SIGN_IN_LOOP'
  warnRarely(request, { code, portal: portal.name, host, reason }, `sign-in loop: ${cause}`)
  return withLoginUrl(new FwaError(code, text), realm, { returnTo: target })
}
