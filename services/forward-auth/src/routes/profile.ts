import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Profile, ProfileJsonSchema, toJson, toText } from '@gatehouse/profile'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { isNavigation } from '../check/kind.ts'
import type { Service } from '../service.ts'
import { problemAnswers, TO_SIGN_IN } from './documented.ts'
import { noSession } from './no-session.ts'
import { placeOf, sessionOf } from './place.ts'
import { pageUrl, redirect } from './redirect.ts'

const tags = ['profile']
const SECURITY = [{ sessionCookie: [] }]
const OTHERS = { 303: TO_SIGN_IN, ...problemAnswers(401, 403, 404) }

/** `GET /profile` as text and `GET /profile.json`. */
export const profileRoutes: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service },
) => {
  /** Answers with the profile of who asks; people who are not signed in are sent to do so. */
  function answer(
    path: string,
    request: FastifyRequest,
    reply: FastifyReply,
    send: (profile: Profile) => FastifyReply,
  ): FastifyReply {
    reply.header('cache-control', 'no-store').header('x-content-type-options', 'nosniff')
    const place = placeOf(service, request)
    const session = sessionOf(service, place, request)
    if (session) return send(session.profile)
    if (!isNavigation(request.method, request.headers)) throw noSession(reply, place)
    return redirect(reply, pageUrl(place, '/signin', { rd: pageUrl(place, path) }))
  }

  app.get(
    '/profile',
    {
      schema: {
        summary: 'Who is signed in, as text',
        tags,
        security: SECURITY,
        response: { 200: { content: { 'text/plain': { schema: Type.String() } } }, ...OTHERS },
      },
    },
    async (request, reply) =>
      answer('/profile', request, reply, (profile) =>
        reply.type('text/plain; charset=utf-8').send(toText(profile)),
      ),
  )

  app.get(
    '/profile.json',
    {
      schema: {
        summary: 'Who is signed in, as JSON',
        tags,
        security: SECURITY,
        response: { 200: ProfileJsonSchema, ...OTHERS },
      },
    },
    async (request, reply) =>
      answer('/profile.json', request, reply, (profile) => reply.send(toJson(profile))),
  )
}
