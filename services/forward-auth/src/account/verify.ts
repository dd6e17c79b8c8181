import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { AuthError, type BearerOptions } from '@gatehouse/auth-core'
import {
  fromClaims,
  type Profile,
  type SessionToken,
  type VerifyResult,
  VerifyResultSchema,
  verifyResult,
} from '@gatehouse/profile'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { FwaError } from '../errors.ts'
import { type Portal, portalOf } from '../portal/portals.ts'
import { siteOfIssuer } from '../sites.ts'
import { problemAnswer, problemAnswers } from '../web/documented.ts'

const SCHEMA = {
  operationId: 'verifyToken',
  summary: 'Verify a session token or an assertion',
  description:
    'Takes the session token of the portal, or an assertion that it has sent to the app `aud`, as ' +
    '`Authorization: Bearer <token>`. A session token of a Tailscale login is valid only from the address ' +
    'that it was issued for: send that address as `X-Forwarded-For`, from an address in `server.trustedProxies`.',
  tags: ['verify'],
  security: [{ sessionToken: [] }],
  querystring: Type.Partial(
    Type.Object({
      aud: Type.String({
        description:
          'Of an assertion: the origin of the app that asks, such as `https://app.example.com`.',
      }),
    }),
  ),
  response: {
    200: VerifyResultSchema,
    401: problemAnswer('No token, or no token that is valid at this portal.'),
    ...problemAnswers(404, 503),
  },
}

export const bearer: BearerOptions = {
  realm: (request) => portalOf(request).name,
  async verify(token, request) {
    const portal = portalOf(request)
    const verified =
      (await readSession(token, request, portal)) ?? (await readAssertion(token, request, portal))
    if (!verified) return undefined
    request.verifiedToken = verified
    const { profile, iss: issuer } = verified
    return { method: 'jwt', issuer, subject: profile.id, scopes: [], claims: profile.claims }
  },
}

interface VerifiedToken extends SessionToken {
  readonly profile: Profile
}

declare module 'fastify' {
  interface FastifyRequest {
    verifiedToken: VerifiedToken | undefined
  }
}

/** Reads a session token. The session may be bound to an address, here as in a check. */
async function readSession(
  token: string,
  request: FastifyRequest,
  portal: Portal,
): Promise<VerifiedToken | undefined> {
  const { sessions, trust } = request.server
  const visitor = await sessions.verify(portal, token)
  if (!visitor?.isAllowedAt(() => trust.clientIp(request.raw)) || !visitor.isAdmitted)
    return undefined
  const { issuer: iss, iat, exp, profile } = visitor.session
  return { iss, aud: new URL(iss).hostname, iat, nbf: iat, exp, profile }
}

/** Reads an assertion, for the app that it was made for and until its session ends. */
async function readAssertion(
  token: string,
  { server, query }: FastifyRequest,
  portal: Portal,
): Promise<VerifiedToken | undefined> {
  const { assertions, sessions, sites } = server
  const claims = assertions.verify(token, portal, Object(query).aud)
  if (!claims) return undefined
  const { provider = '', iss, aud, iat, exp, ...rest } = claims
  const sid = assertions.sessionOf(claims)
  const site = siteOfIssuer(sites, portal, iss)
  const visitor = sid && site ? await sessions.find(sid, { portal, site }) : undefined
  if (sid !== undefined && !visitor?.isAdmitted) return undefined
  return { iss, aud, iat, nbf: iat, exp, profile: fromClaims(provider, rest) }
}

/** `GET /api/portals/:portal/verify`: whether a token is valid at the portal, and its claims. */
export const verifyRoute: FastifyPluginAsyncTypebox = async (app) => {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('cache-control', 'no-store')
    portalOf(request)
    done()
  })
  app.decorateRequest('verifiedToken', undefined)
  app.setErrorHandler((error, request) => {
    throw error instanceof AuthError ? refusal(error, request) : error
  })
  app.get(
    '/verify',
    { schema: SCHEMA, onRequest: app.requireCaller() },
    async ({ params, verifiedToken }): Promise<VerifyResult> => {
      const { profile, ...token } = verifiedToken as VerifiedToken
      return verifyResult((params as { portal: string }).portal, token, profile)
    },
  )
}

function refusal({ code }: AuthError, request: FastifyRequest): FwaError {
  const { name: portal } = portalOf(request)
  const isInvalid = code === 'AUTH_TOKEN_INVALID'
  const invalid = `the token is not valid at the portal ${portal}, or is an assertion for another \`aud\``
  const message = isInvalid ? invalid : 'no token was sent'
  // RFC 6750 section 3.1: no error code without a token.
  const challenge = `Bearer realm="${portal}"${isInvalid ? ', error="invalid_token"' : ''}`
  return new FwaError('FWA_TOKEN_INVALID', message, {
    members: { valid: false, portal },
    headers: { 'www-authenticate': challenge },
  })
}
