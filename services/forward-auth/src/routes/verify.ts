import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { AuthError, type BearerOptions } from '@gatehouse/auth-core'
import { type VerifyResult, VerifyResultSchema, verifyResult } from '@gatehouse/profile'
import type { FastifyRequest } from 'fastify'
import { FwaError } from '../errors.ts'
import type { Session } from '../session/session.ts'
import { problemAnswer, problemAnswers } from './documented.ts'
import { clientIpOf, portalOf } from './portal-page.ts'

const SCHEMA = {
  summary: 'Verify a session token',
  description:
    'Takes the session token of the portal as `Authorization: Bearer <token>`. A token of a Tailscale login is valid only from the address that it was issued for: send that address as `X-Forwarded-For`, from an address in `server.trustedProxies`.',
  tags: ['verify'],
  security: [{ sessionToken: [] }],
  response: {
    200: VerifyResultSchema,
    401: problemAnswer('No token, or none that is valid at this portal.'),
    ...problemAnswers(404),
  },
}

export const bearer: BearerOptions = {
  realm: (request) => portalOf(request).name,
  async verify(token, request) {
    const portal = portalOf(request)
    const visitor = await request.server.sessions.verify(request, portal, token)
    // A session may be bound to an address, here as in a check.
    if (!visitor?.isAllowedAt(() => clientIpOf(request)) || !visitor.isAdmitted) return undefined
    const { issuer, profile } = visitor.session
    request.verifiedSession = visitor.session
    return { method: 'jwt', issuer, subject: profile.id, scopes: [], claims: profile.claims }
  },
}

declare module 'fastify' {
  interface FastifyRequest {
    verifiedSession: Session | undefined
  }
}

/** `GET /api/portals/:portal/verify`: whether a session token is valid at the portal, and its claims. */
export const verifyRoute: FastifyPluginAsyncTypebox = async (app) => {
  app.addHook('onRequest', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    portalOf(request)
  })
  app.decorateRequest('verifiedSession', undefined)
  app.setErrorHandler((error, request) => {
    throw error instanceof AuthError ? refusal(error, request) : error
  })
  app.get(
    '/verify',
    { schema: SCHEMA, onRequest: app.requireCaller() },
    async ({ verifiedSession }): Promise<VerifyResult> => {
      const { portal, issuer, site, iat, exp, profile } = verifiedSession as Session
      return verifyResult(portal, { iss: issuer, aud: site.domain, iat, nbf: iat, exp }, profile)
    },
  )
}

function refusal({ code }: AuthError, request: FastifyRequest): FwaError {
  const { name: portal } = portalOf(request)
  const isInvalid = code === 'AUTH_TOKEN_INVALID'
  const message = isInvalid ? `the token is not valid at the portal ${portal}` : 'no token was sent'
  // RFC 6750 section 3.1: no error code without a token.
  const challenge = `Bearer realm="${portal}"${isInvalid ? ', error="invalid_token"' : ''}`
  return new FwaError(isInvalid ? 'FWA_TOKEN_INVALID' : 'FWA_TOKEN_MISSING', message, {
    members: { valid: false, portal },
    headers: { 'www-authenticate': challenge },
  })
}
