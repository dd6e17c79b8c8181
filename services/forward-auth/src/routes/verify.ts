import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type VerifyResult, VerifyResultSchema, verifyResult } from '@gatehouse/profile'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { belongsHere } from '../check/check.ts'
import { FwaError } from '../errors.ts'
import { countOf } from '../forwarded/read.ts'
import type { Portal } from '../portals.ts'
import type { Service } from '../service.ts'
import type { Session } from '../session/session.ts'
import { problemAnswer, problemAnswers } from './documented.ts'
import { portalOf } from './place.ts'

const BEARER = /^Bearer +([^ ]+)$/i

/** `GET /api/portals/:portal/verify`: whether a session token is one of the portal's, and whose. */
export const verifyRoute: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service },
) => {
  app.get(
    '/verify',
    {
      schema: {
        summary: 'Verify a session token',
        description:
          'Takes the session token of the portal as `Authorization: Bearer <token>`. One of a Tailscale login is valid only from the address that it was made for: send that as `X-Forwarded-For`, from an address in `server.trustedProxies`.',
        tags: ['verify'],
        security: [{ sessionToken: [] }],
        response: {
          200: VerifyResultSchema,
          401: problemAnswer('No token, or none that is valid at this portal.'),
          ...problemAnswers(404),
        },
      },
    },
    async (request, reply): Promise<VerifyResult> => {
      reply.header('cache-control', 'no-store')
      const portal = portalOf(service, request)
      const token = readBearer(request)
      if (token === undefined) throw refusal('FWA_TOKEN_MISSING', portal, reply)
      const session = service.sessions.verify(portal, token)
      // A session that the network vouched for is of one address, here as in a check.
      const isHere = session && belongsHere(portal, session, service.trust, request.raw)
      if (!session || !isHere || portal.admits(session.profile) !== true)
        throw refusal('FWA_TOKEN_INVALID', portal, reply)
      return describe(session)
    },
  )
}

/** Of several Authorization headers Node keeps the first; somebody before it may have read another. */
function readBearer({ headers, raw }: FastifyRequest): string | undefined {
  if (countOf(raw.rawHeaders, 'authorization') !== 1) return undefined
  return BEARER.exec(headers.authorization ?? '')?.[1]
}

function describe({ portal, issuer, site, iat, exp, profile }: Session): VerifyResult {
  return verifyResult(portal, { iss: issuer, aud: site.domain, iat, nbf: iat, exp }, profile)
}

function refusal(
  code: 'FWA_TOKEN_MISSING' | 'FWA_TOKEN_INVALID',
  { name }: Portal,
  reply: FastifyReply,
): FwaError {
  const isMissing = code === 'FWA_TOKEN_MISSING'
  // RFC 6750 section 3: no error code for who sent no token.
  reply.header(
    'www-authenticate',
    `Bearer realm="${name}"${isMissing ? '' : ', error="invalid_token"'}`,
  )
  const message = isMissing ? 'no token was sent' : `the token is not valid at the portal ${name}`
  return new FwaError(code, message, { members: { valid: false, portal: name } })
}
