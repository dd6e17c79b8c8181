import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Page, sendPage } from '@gatehouse/service-kit'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { isNavigation } from '../check/kind.ts'
import { FwaError } from '../errors.ts'
import { validateReturnUrl } from '../login/return-url.ts'
import { logoutPage, signedOutPage } from '../pages/pages.ts'
import type { Provider } from '../providers/provider.ts'
import type { Service } from '../service.ts'
import type { Session } from '../session/session.ts'
import { pageAnswer, problemAnswers } from './documented.ts'
import { authPlaceOf, type Place } from './place.ts'
import { pageUrl } from './redirect.ts'

const FORM = 'application/x-www-form-urlencoded'
const querystring = Type.Object({
  rd: Type.Optional(Type.String({ description: 'Where to go after signing in again.' })),
})
const tags = ['sign-in']

/** `GET /logout` asks, `POST /logout` signs out. */
export const logoutRoutes: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service },
) => {
  // What browsers send with the form; there is nothing in it.
  app.addContentTypeParser(FORM, { parseAs: 'string' }, (_request, _body, done) => done(null))

  app.get(
    '/logout',
    {
      schema: {
        summary: 'Ask before signing out',
        tags,
        querystring,
        response: {
          200: pageAnswer('Who is signed in, and the form.'),
          ...problemAnswers(403, 404),
        },
      },
    },
    async (request, reply) => {
      const place = authPlaceOf(service, request)
      const { portal, site } = place
      const rd = validateReturnUrl(request.query.rd, site)?.href
      const session = service.sessions.read(portal, site, request.headers.cookie)
      if (!session) return sendPage(reply, 200, signedOut(place, rd))
      const action = pageUrl(place, '/logout', { rd })
      const stayHref = rd ?? pageUrl(place, '/signin')
      return sendPage(
        reply,
        200,
        logoutPage({ portal, profile: session.profile, action, stayHref }),
      )
    },
  )

  app.post(
    '/logout',
    {
      schema: {
        summary: 'Sign out',
        tags,
        querystring,
        response: {
          200: pageAnswer('Signed out, and how to sign out at the provider.'),
          ...problemAnswers(403, 404, 413, 415, 503),
        },
      },
    },
    async (request, reply) => {
      const place = authPlaceOf(service, request)
      assertOwnOrigin(place, request)
      const { portal, site } = place
      const { sessions, logins, metrics } = service
      const { cookie } = request.headers
      const session = sessions.read(portal, site, cookie)
      // Before anything may fail: the browser gives its session up whatever happens here.
      reply.header('set-cookie', [...sessions.clear(portal, site, cookie), ...logins.clear(portal)])
      if (session) {
        metrics.logout()
        const error = await sessions.revoke(session).catch((reason: FwaError) => reason)
        if (error) return refuseLogout(place, session, error, reply)
      }
      const rd = validateReturnUrl(request.query.rd, site)?.href
      const provider = session && portal.providers.get(session.profile.provider)
      const providerHref = provider && (await logoutUrlAt(provider, place, request))
      return sendPage(reply, 200, signedOut(place, rd, { provider, providerHref }))
    },
  )
}

/** Browsers send Origin with every POST; without it, or with another one, it is not our form. */
function assertOwnOrigin({ site }: Place, { headers }: FastifyRequest): void {
  if (headers.origin === site.authOrigin) return
  throw new FwaError('FWA_ORIGIN_FOREIGN', `Origin is not ${site.authOrigin}`)
}

/** The session ended here, in memory and in this browser, but that is not written down. */
function refuseLogout(
  place: Place,
  { exp }: Session,
  error: FwaError,
  reply: FastifyReply,
): FastifyReply {
  const { request } = reply
  // Our form is a POST that opens a page.
  if (!isNavigation('GET', request.headers)) throw error
  request.log.warn({ err: error }, 'a logout could not be written down')
  reply.header('retry-after', error.retryAfter ?? 0)
  const signInHref = pageUrl(place, '/signin')
  const page = signedOutPage({ portal: place.portal, signInHref, mayStayValidUntil: exp * 1_000 })
  return sendPage(reply, 503, page)
}

/** Where to sign out at the provider too. Here it is done already, so that its trouble is no matter. */
async function logoutUrlAt(
  provider: Provider,
  place: Place,
  { log }: FastifyRequest,
): Promise<string | undefined> {
  if (provider.type !== 'redirect') return undefined
  try {
    return (await provider.logoutUrl(pageUrl(place, '/logout')))?.href
  } catch (error) {
    log.warn({ err: error, provider: provider.name }, 'provider offers no logout now')
    return undefined
  }
}

function signedOut(
  place: Place,
  rd: string | undefined,
  atProvider: { provider?: Provider | undefined; providerHref?: string | undefined } = {},
): Page {
  const signInHref = pageUrl(place, '/signin', { rd })
  return signedOutPage({ portal: place.portal, signInHref, ...atProvider })
}
