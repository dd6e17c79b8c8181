import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Profile, ProfileJsonSchema, toJson, toText } from '@gatehouse/profile'
import { isNavigation, prefersPage } from '@gatehouse/service-kit/http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { noSession } from '../check/challenges.ts'
import { FwaError } from '../errors.ts'
import { profilePage } from '../pages/account.ts'
import { pageUrl } from '../sites.ts'
import { PAGES, pageAnswer, problemAnswers, TO_SIGN_IN } from '../web/documented.ts'
import { sendToReader } from '../web/reader.ts'
import { appAuthorityOf, isSentTo, type Realm, realmOf } from '../web/realm.ts'
import { redirect } from '../web/redirects.ts'

const schemaOf = (format: string, profile: object) => ({
  summary: `Profile of the signed-in person, as ${format}`,
  tags: ['profile'],
  security: [{ sessionCookie: [] }],
  response: { 200: profile, 303: TO_SIGN_IN, ...problemAnswers(401, 403, 404, 503) },
})
const TEXT_SCHEMA = {
  ...schemaOf('text, and for browsers on a page', {
    content: { 'text/plain': { schema: Type.String() }, ...pageAnswer('').content },
  }),
  tags: [PAGES],
}
const JSON_SCHEMA = { ...schemaOf('JSON', ProfileJsonSchema), operationId: 'getProfile' }

/** `GET /profile` as text, on a page for people, and `GET /profile.json`. */
export const profileRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/profile', { schema: TEXT_SCHEMA }, async (request, reply) =>
    sendProfile('/profile', reply, (profile, realm) =>
      prefersPage(request)
        ? sendToReader(reply, realm, 200, profilePage, { profile })
        : reply.type('text/plain; charset=utf-8').send(toText(profile)),
    ),
  )
  app.get('/profile.json', { schema: JSON_SCHEMA }, async (_request, reply) =>
    sendProfile('/profile.json', reply, (profile) => reply.send(toJson(profile))),
  )
}

/** The person of the session: of the sign-in host, or of the app whose host leads here. */
function visitorOf(request: FastifyRequest, realm: Realm) {
  const { sessions } = request.server
  const { portal, site } = realm
  if (isSentTo(site.authOrigin, request)) return sessions.atSignIn(request, realm)
  return sessions.atApp(request, { portal, site, authority: appAuthorityOf(request) })
}

async function sendProfile(
  path: string,
  reply: FastifyReply,
  send: (profile: Profile, realm: Realm) => FastifyReply,
): Promise<FastifyReply> {
  const { request } = reply
  reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
  const realm = realmOf(request)
  const visitor = await visitorOf(request, realm)
  if (visitor?.isAdmitted) return send(visitor.session.profile, realm)
  if (visitor) throw new FwaError('FWA_FORBIDDEN', 'this account has no access to this portal')
  if (!isNavigation(request.method, request.headers)) throw noSession(realm)
  return redirect(reply, pageUrl(realm, '/signin', { rd: pageUrl(realm, path) }))
}
