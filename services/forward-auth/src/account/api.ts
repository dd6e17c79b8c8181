import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { AuthError } from '@gatehouse/auth-core'
import { Type } from 'typebox'
import { forbid, refuseCaller } from '../check/check-answers.ts'
import { signInHost } from '../session/sessions.ts'
import { problemAnswers } from '../web/documented.ts'
import { signInSiteOf } from '../web/realm.ts'
import { endTarget } from './end.ts'

/** The scope that a program needs. */
const END_SCOPE = 'sessions:end'

const PERSON = Type.String({ maxLength: 320, description: 'E-mail address, `ada`, or `corp:ada`.' })
const SESSION = Type.String({ maxLength: 64, description: 'ID of the session.' })
const CLIENT = Type.String({ maxLength: 2_048, description: 'ID of a client of agents.' })
const STRICT = { additionalProperties: false }
const SCHEMA = {
  operationId: 'endSessions',
  summary: 'End the sessions of a person, one session, or what a client has of everybody',
  description: `For scripts, such as those of an offboarding. Needs an API key or a token of \`callers\` with the scope \`${END_SCOPE}\`.`,
  tags: ['account'],
  security: [{ program: [] }],
  body: Type.Union([
    Type.Object({ person: PERSON }, STRICT),
    Type.Object({ session: SESSION }, STRICT),
    Type.Object({ client: CLIENT }, STRICT),
  ]),
  response: {
    200: Type.Object({
      ended: Type.Integer({ description: 'The number of sessions that ended.' }),
    }),
    ...problemAnswers(400, 401, 403, 404, 413, 415, 503),
  },
}

/** `POST /api/portals/:portal/sessions/end`. */
export const sessionsApi: FastifyPluginAsyncTypebox = async (app) => {
  app.post('/sessions/end', { schema: SCHEMA }, async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const { portal, site } = signInSiteOf(request)
    const host = { name: signInHost(site) }
    const forwarded = { authority: host.name, host, mcp: undefined }
    const check = { portal, resource: undefined, forwarded }
    const refuse = (error: unknown) => {
      throw refuseCaller(error, check, request)
    }
    const asking = portal.gate.checkProgram(request, host, END_SCOPE, app.clock.now())
    const { decision, principal } = await asking.catch(refuse)
    if (decision.outcome === 'forbidden') throw forbid({ ...check, principal }, decision, request)
    if (decision.outcome !== 'allow') refuse(new AuthError('AUTH_CREDENTIALS_MISSING'))
    const ender = { endedBy: 'program', actor: principal?.caller } as const
    return { ended: await endTarget(app, portal, request.body, ender, request) }
  })
}
