import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Provider } from '@gatehouse/identity-providers'
import { isNavigation } from '@gatehouse/service-kit/http'
import { StoreError } from '@gatehouse/store'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { FwaError } from '../errors.ts'
import { logoutPage, signedOutPage } from '../pages/pages.ts'
import { type OpenedRow, timesOf } from '../session/records.ts'
import { profileOf } from '../session/session.ts'
import { clearSessionCookies } from '../session/session-cookies.ts'
import type { SessionToken } from '../session/sessions.ts'
import { pageUrl, type Site } from '../sites.ts'
import { setHostCookies } from '../web/cookies.ts'
import { PAGES, pageAnswer, problemAnswers } from '../web/documented.ts'
import { FORM } from '../web/forms.ts'
import { sendToReader } from '../web/reader.ts'
import { type Realm, signInSiteOf } from '../web/realm.ts'
import { validateReturnUrl } from '../web/return-url.ts'

const MAX_RECORDED = 10_000
const querystring = Type.Object({
  rd: Type.Optional(Type.String({ description: 'Return URL after signing in again.' })),
})
const COMMON = { tags: ['sign-in', PAGES], querystring }
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
  /** Sessions whose sign-out is recorded. The same cookie may come again and again. */
  const recorded = timesOf(MAX_RECORDED)
  // Browsers send the form with this type; it has no fields.
  app.addContentTypeParser(FORM, { parseAs: 'string' }, (_request, _body, done) => done(null))

  app.get('/logout', { schema: CONFIRM_SCHEMA }, async (request, reply) => {
    const realm = signInSiteOf(request)
    const { site } = realm
    const rd = validateReturnUrl(request.query.rd, site)?.href
    const { sid = '' } = (await app.sessions.tokenOf(request, realm)) ?? {}
    const waiting = 'signing out is not stored yet'
    if (app.sessions.records.isUnsaved(sid))
      throw new StoreError('STORE_UNAVAILABLE', waiting, { retryAfter: 1 })
    const visitor = await app.sessions.atSignIn(request, realm)
    const signInHref = pageUrl(realm, '/signin', { rd })
    if (!visitor) return sendToReader(reply, realm, 200, signedOutPage, { signInHref })
    const { profile } = visitor.session
    const action = pageUrl(realm, '/logout', { rd })
    const stayHref = rd ?? pageUrl(realm, '/signin')
    return sendToReader(reply, realm, 200, logoutPage, { profile, action, stayHref })
  })

  app.post('/logout', { schema: LOGOUT_SCHEMA }, async (request, reply) => {
    const realm = signInSiteOf(request)
    const { portal, site } = realm
    requireOwnForm(request, site)
    const token = await app.sessions.tokenOf(request, realm)
    // Before anything can fail: the browser loses its session in any case.
    clearSessionCookies(reply, realm)
    setHostCookies(reply, app.logins.clear(portal, request.headers.cookie))
    const openedRow = token && (await app.sessions.records.open(token.sid).catch(() => undefined))
    if (token) {
      const { sid, exp } = token
      if (!recorded.has(sid)) recordSignOut(token, portal.name, openedRow, request)
      recorded.set(sid, exp)
      const end = app.sessions.records.endOne({ sid, ends: exp * 1_000 })
      const error = await end.catch((reason: FwaError) => reason)
      if (error) return sendNotSaved(realm, token, error, reply)
    }
    return sendSignedOut(realm, openedRow, reply)
  })
}

/** The page after signing out, which leads on to the provider. */
export async function sendSignedOut(
  realm: Realm,
  openedRow: OpenedRow | undefined,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { request } = reply
  const { portal, site } = realm
  const rd = validateReturnUrl((request.query as { rd?: string }).rd, site)?.href
  const provider = openedRow && portal.providers.get(openedRow.contents.provider)
  const hint = openedRow?.contents.tokens?.id
  const providerHref = provider && (await logoutUrlAt(provider, realm, hint, request))
  const signInHref = pageUrl(realm, '/signin', { rd })
  return sendToReader(reply, realm, 200, signedOutPage, { signInHref, provider, providerHref })
}

/** Refuses a POST of another site. Browsers send Origin with each; without it, it is not our form. */
export function requireOwnForm({ headers }: FastifyRequest, { authOrigin }: Site): void {
  if (headers.origin !== authOrigin)
    throw new FwaError('FWA_ORIGIN_FOREIGN', `Origin is not ${authOrigin}`)
}

/** Records a sign-out, also if the store no longer knows the session: it may have ended it in an answer that got lost. */
function recordSignOut(
  { iss, sub, gatehouse_provider: provider }: SessionToken,
  portal: string,
  openedRow: OpenedRow | undefined,
  request: FastifyRequest,
): void {
  const profile = openedRow && profileOf(openedRow.contents)
  const who = { portal, profile, provider, caller: `${provider}:${sub}`, host: new URL(iss).host }
  request.server.auditTrail.record(request, { event: 'sign-out', ...who })
}

/** The session has ended here and in this browser, but the store does not know it yet. */
function sendNotSaved(
  realm: Realm,
  { exp }: SessionToken,
  error: FwaError,
  reply: FastifyReply,
): FastifyReply {
  const { request } = reply
  // The form is a POST that opens a page.
  if (!isNavigation('GET', request.headers)) throw error
  request.log.warn({ err: error }, 'a sign-out could not be stored')
  reply.header('retry-after', error.retryAfter ?? 0)
  const signInHref = pageUrl(realm, '/signin')
  const mayStayValidUntil = exp * 1_000
  return sendToReader(reply, realm, 503, signedOutPage, { signInHref, mayStayValidUntil })
}

/** The URL to sign out at the provider too, if it offers one. Its errors do not affect the logout. */
async function logoutUrlAt(
  provider: Provider,
  realm: Realm,
  idToken: string | undefined,
  { log }: FastifyRequest,
): Promise<string | undefined> {
  if (provider.type !== 'redirect') return undefined
  try {
    return (await provider.logoutUrl(pageUrl(realm, '/logout'), idToken))?.href
  } catch (error) {
    log.warn({ err: error, provider: provider.name }, 'logout at the provider failed')
    return undefined
  }
}
