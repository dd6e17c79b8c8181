import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { RedirectProvider } from '@gatehouse/identity-providers'
import { Type } from 'typebox'
import { FwaError } from '../errors.ts'
import { warnRarely } from '../log-limit.ts'
import { portalOf } from '../portal/portals.ts'
import { endSessions } from '../session/ends.ts'
import { nameAtProvider, type Relation } from '../session/session.ts'
import type { End } from '../store/store.ts'
import { problemAnswers } from '../web/documented.ts'
import { FORM } from '../web/forms.ts'

export const BACK_CHANNEL_PATH = '/providers/:provider/backchannel-logout'
/** Bytes of a form: a logout token has about a thousand. */
const MAX_FORM = 65_536

const SCHEMA = {
  operationId: 'receiveLogoutToken',
  summary: 'Sign-out at a provider (OpenID Connect Back-Channel Logout 1.0)',
  description:
    'A provider posts a form with a `logout_token` here, and the sessions that it names end, in all portals ' +
    'that share its client. An unknown session is no error.',
  tags: ['sign-in'],
  consumes: [FORM],
  params: Type.Object({ portal: Type.String(), provider: Type.String() }),
  response: {
    200: { type: 'null', description: 'The sessions have ended.' },
    ...problemAnswers(400, 404, 413, 415, 503),
  },
}

/** `POST /providers/:provider/backchannel-logout`, for providers. */
export const backChannelRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.removeAllContentTypeParsers()
  const options = { parseAs: 'string', bodyLimit: MAX_FORM } as const
  app.addContentTypeParser(FORM, options, (_request, body, done) =>
    done(null, new URLSearchParams(String(body)).getAll('logout_token')),
  )
  // What is no form has no token: section 2.8 answers all that is invalid with 400.
  app.addContentTypeParser('*', options, (_request, _body, done) => done(null, []))
  app.post(BACK_CHANNEL_PATH, { schema: SCHEMA }, async (request, reply) => {
    // Keycloak does not repeat a request that it has sent on a connection which ends meanwhile.
    reply.headers({ 'cache-control': 'no-store', connection: 'close' })
    const portal = portalOf(request)
    const { provider: name } = request.params
    const provider = portal.providers.get(name)
    if (provider?.type !== 'redirect' || !provider.relation || !provider.readLogoutToken)
      throw new FwaError('FWA_NOT_FOUND', 'no provider of this name sends logout tokens')
    const [token = '', ...surplus] = (request.body ?? []) as string[]
    try {
      if (surplus.length > 0)
        throw new FwaError('FWA_LOGOUT_TOKEN', 'there are several logout tokens')
      const logoutToken = await provider.readLogoutToken(token)
      const ender = { endedBy: 'provider', actor: name } as const
      await endSessions(app, [endOf(logoutToken, provider.relation)], ender, request)
    } catch (error) {
      const { code, message } = error as FwaError
      if (code !== 'FWA_LOGOUT_TOKEN') throw error
      const fields = { code, portal: portal.name, provider: name }
      warnRarely(request, fields, `logout token refused: ${message}`)
      throw error
    }
    return reply.send()
  })
}

type LogoutToken = Awaited<ReturnType<NonNullable<RedirectProvider['readLogoutToken']>>>

/** The sessions that a logout token names (section 2.7): with `sid` that one, else all of the person. */
function endOf(token: LogoutToken, relation: Relation): End {
  const { sid, sub = '', issuedAt: before } = token
  return sid === undefined
    ? { subject: nameAtProvider(relation, 'sub', sub), issuedUntil: before }
    : { providerSid: nameAtProvider(relation, 'sid', sid), issuedUntil: before }
}
