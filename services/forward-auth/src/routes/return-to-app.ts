import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { isNavigation } from '@gatehouse/service-kit/http'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { setHostCookies } from '../cookies.ts'
import { FwaError } from '../errors.ts'
import { warnRarely } from '../log-limit.ts'
import { RETURN_PATH } from '../login/logins.ts'
import { countRedirect, resetRedirectCount } from '../login/redirect-loop.ts'
import { type PortalSite, signInSiteOf } from '../portal-site.ts'
import { pageUrl, type Site } from '../sites.ts'
import { bareAnswer, problemAnswers } from './documented.ts'
import { redirect, targetOf, withLoginUrl } from './redirects.ts'

/** The reason why a person is redirected to an app: a login, or a session that they had. */
type Reason = Parameters<typeof countRedirect>[2]

/**
 * Redirects a person to the return URL. If their browser keeps coming back from there, the app does
 * not receive the session, and an error page ends the loop.
 */
export function returnToApp(
  portalSite: PortalSite,
  returnTo: string,
  reason: Reason,
  reply: FastifyReply,
  hop?: { readonly at: number; arrive(target: string): string },
): FastifyReply {
  const { portal } = portalSite
  const plain = targetOf(portalSite, returnTo)
  const target = hop?.arrive(plain) ?? plain
  const { method, headers } = reply.request
  // Programs may repeat a request without a loop.
  if (!isNavigation(method, headers)) return redirect(reply, target)
  const now = reply.server.clock.now()
  const { href } = destinationOf(portalSite, returnTo)
  const { isLoop, cookie } = countRedirect(portal, href, reason, headers.cookie, now, hop?.at)
  setHostCookies(reply, [isLoop ? resetRedirectCount(portal) : cookie])
  if (!isLoop) return redirect(reply, target)
  throw signInLoop(portalSite, href, reason, reply)
}

/** The URL to which a return URL leads in the end: our own pages on the way name it, without its query if it is long. */
export function destinationOf(portalSite: PortalSite, returnTo: string): URL {
  const target = new URL(targetOf(portalSite, returnTo))
  const rd = target.searchParams.get('rd')
  const isPage = rd !== null && target.href.startsWith(pageUrl(portalSite, '/'))
  return isPage ? destinationOf(portalSite, rd) : target
}

/** The site to which a return URL leads in the end: of several with one sign-in host, only that one has a say. */
export function destinationSiteOf(
  { sites }: FastifyInstance,
  portalSite: PortalSite,
  returnTo: string,
): Site {
  return sites.find(destinationOf(portalSite, returnTo).host)?.site ?? portalSite.site
}

const SCHEMA = {
  summary: 'Continue to a long return URL after signing in',
  tags: ['sign-in'],
  params: Type.Object({ portal: Type.String(), login: Type.String() }),
  querystring: Type.Object({
    rd: Type.Optional(
      Type.String({ description: 'Return URL if the browser has lost the cookie.' }),
    ),
  }),
  response: { 303: bareAnswer('Redirect to the return URL.'), ...problemAnswers(403, 404) },
}

/** `GET /return/:login`: where logins lead whose return URL is in a cookie. */
export const returnRoute: FastifyPluginAsyncTypebox = async (app) => {
  app.get(RETURN_PATH, { schema: SCHEMA }, async (request, reply) => {
    const portalSite = signInSiteOf(request)
    const { portal, site } = portalSite
    const { params, query, headers } = request
    const long = app.logins.longReturnUrl(portal, site, params.login, headers.cookie)
    return redirect(reply, targetOf(portalSite, long ?? query.rd))
  })
}

function signInLoop(
  portalSite: PortalSite,
  target: string,
  reason: Reason,
  { request }: FastifyReply,
): FwaError {
  const { portal } = portalSite
  const { host } = new URL(target)
  const { domain } = destinationSiteOf(request.server, portalSite, target)
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
  return withLoginUrl(new FwaError(code, text), portalSite, target)
}
