import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { askForKey, assertOwnOrigin, COOKIE, COOKIE_SCOPE, PAGE_PATH } from './visitors.ts'

const KeySchema = Type.Object({
  key: Type.String({ maxLength: 1_024 }),
  to: Type.Optional(Type.String({ pattern: PAGE_PATH })),
})

/** `POST /` with an API key signs in, and `POST /sign-out` ends the session. */
export const signInRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.post('/', { schema: { hide: true, body: KeySchema } }, async (request, reply) => {
    assertOwnOrigin(request)
    const { key, to = '/' } = request.body
    const session = await app.signIns.open(key.trim(), request.ip)
    if (!session) {
      request.log.info({ code: 'AUTH_KEY_INVALID' }, 'caller refused')
      return askForKey(reply, { isWrong: true, to })
    }
    const { id, caller } = session
    request.log.info({ actor: `psk:${caller.subject}` }, 'signed in to the inventory')
    return reply.setCookie(COOKIE, id, COOKIE_SCOPE).redirect(to, 303)
  })

  app.post('/sign-out', { schema: { hide: true } }, async (request, reply) => {
    assertOwnOrigin(request)
    await app.signIns.close(request.cookies[COOKIE] ?? '')
    return reply.clearCookie(COOKIE, COOKIE_SCOPE).redirect('/', 303)
  })
}
