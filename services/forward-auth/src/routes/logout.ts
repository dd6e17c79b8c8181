import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Provider } from '@gatehouse/identity-providers'
import { isNavigation } from '@gatehouse/service-kit/http'
import { sendPage } from '@gatehouse/service-kit/pages'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { setHostCookies } from '../cookies.ts'
import { FwaError } from '../errors.ts'
import { validateReturnUrl } from '../login/return-url.ts'
import { logoutPage, signedOutPage } from '../pages/pages.ts'
import { type PortalSite, signInSiteOf } from '../portal-site.ts'
import { clearSessionCookies } from '../session/cookie.ts'
import type { Session } from '../session/session.ts'
import { pageUrl } from '../sites.ts'
import { pageAnswer, problemAnswers } from './documented.ts'
import { readerOf } from './reader.ts'

const FORM = 'application/x-www-form-urlencoded'
const querystring = Type.Object({
  rd: Type.Optional(Type.String({ description: 'Return URL after signing in again.' })),
})
const COMMON = { tags: ['sign-in'], querystring }
const FORM_PAGE = pageAnswer('The signed-in person, and the form.')
const CONFIRM_SCHEMA = {
  ...COMMON,
  summary: 'Confirm signing out',
  response: { 200: FORM_PAGE, ...problemAnswers(403, 404) },
}
const SIGNED_OUT_PAGE = pageAnswer('Signed out, with a link to sign out at the provider.')
const LOGOUT_SCHEMA = {
  ...COMMON,
  summary: 'Sign out',
  response: { 200: SIGNED_OUT_PAGE, ...problemAnswers(403, 404, 413, 415, 503) },
}

/** `GET /logout` asks for confirmation, `POST /logout` signs out. */
export const logoutRoutes: FastifyPluginAsyncTypebox = async (app) => {
  // Browsers send the form with this type; it has no fields.
  app.addContentTypeParser(FORM, { parseAs: 'string' }, (_request, _body, done) => done(null))

  app.get('/logout', { schema: CONFIRM_SCHEMA }, async (request, reply) => {
    const portalSite = signInSiteOf(request)
    const { site } = portalSite
    const rd = validateReturnUrl(request.query.rd, site)?.href
    const reader = readerOf(request, portalSite)
    const visitor = await app.sessions.readToRevoke(request, portalSite)
    const signInHref = pageUrl(portalSite, '/signin', { rd })
    if (!visitor) return sendPage(reply, 200, signedOutPage({ ...reader, signInHref }))
    const { profile } = visitor.session
    const action = pageUrl(portalSite, '/logout', { rd })
    const stayHref = rd ?? pageUrl(portalSite, '/signin')
    return sendPage(reply, 200, logoutPage({ ...reader, profile, action, stayHref }))
  })

  app.post('/logout', { schema: LOGOUT_SCHEMA }, async (request, reply) => {
    const portalSite = signInSiteOf(request)
    const { portal, site } = portalSite
    // Browsers send Origin with every POST. Without it, or with another one, it is not our form.
    if (request.headers.origin !== site.authOrigin)
      throw new FwaError('FWA_ORIGIN_FOREIGN', `Origin is not ${site.authOrigin}`)
    const session = (await app.sessions.readToRevoke(request, portalSite))?.session
    // Before anything can fail: the browser loses its session in any case.
    clearSessionCookies(reply, portal, site)
    setHostCookies(reply, app.logins.clear(portal, request.headers.cookie))
    if (session) {
      const error = await signOut(session, request).catch((reason: FwaError) => reason)
      if (error) return sendNotSaved(portalSite, session, error, reply)
    }
    const rd = validateReturnUrl(request.query.rd, site)?.href
    const provider = session && portal.providers.get(session.profile.provider)
    const providerHref = provider && (await logoutUrlAt(provider, portalSite, request))
    const signInHref = pageUrl(portalSite, '/signin', { rd })
    const reader = readerOf(request, portalSite)
    return sendPage(reply, 200, signedOutPage({ ...reader, signInHref, provider, providerHref }))
  })
}

async function signOut(session: Session, request: FastifyRequest): Promise<void> {
  const { auditTrail, sessions } = request.server
  const { portal, profile, site } = session
  const { host } = new URL(site.authOrigin)
  const record = (event: 'sign-out' | 'session-ended') =>
    auditTrail.record(request, { event, portal, profile, host })
  record('sign-out')
  await sessions.revoke(session, () => record('session-ended'))
}

/** The session is revoked in memory and in this browser, but the list on disk has not been written. */
function sendNotSaved(
  portalSite: PortalSite,
  { exp }: Session,
  error: FwaError,
  reply: FastifyReply,
): FastifyReply {
  const { request } = reply
  // The form is a POST that opens a page.
  if (!isNavigation('GET', request.headers)) throw error
  request.log.warn({ err: error }, 'a logout could not be written to the list of ended sessions')
  reply.header('retry-after', error.retryAfter ?? 0)
  const signInHref = pageUrl(portalSite, '/signin')
  const page = signedOutPage({
    ...readerOf(request, portalSite),
    signInHref,
    mayStayValidUntil: exp * 1_000,
  })
  return sendPage(reply, 503, page)
}

/** The URL to sign out at the provider too, if it offers one. Its errors do not affect the logout. */
async function logoutUrlAt(
  provider: Provider,
  portalSite: PortalSite,
  { log }: FastifyRequest,
): Promise<string | undefined> {
  if (provider.type !== 'redirect') return undefined
  try {
    return (await provider.logoutUrl(pageUrl(portalSite, '/logout')))?.href
  } catch (error) {
    log.warn({ err: error, provider: provider.name }, 'the provider offers no logout now')
    return undefined
  }
}
