import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { StoreError } from '@gatehouse/store'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { FwaError } from '../errors.ts'
import { allowOrigins } from '../web/cross-origin.ts'
import { problemAnswers } from '../web/documented.ts'
import { FORM } from '../web/forms.ts'
import { signInSiteOf } from '../web/realm.ts'
import { methodOf, readRegistration } from './client.ts'
import { type ClientCredentials, readCredentials } from './client-authentication.ts'
import { OAuthError } from './oauth-error.ts'

/** Redirect URIs of a client that registers itself, and the characters of its ID. */
const MAX_URIS = 5
const MAX_CLIENT_ID = 2_048

/** Parameters that are not known are ignored (RFC 6749 section 3.2). */
const OPEN = { additionalProperties: true }
const OptionalText = Type.Optional(Type.String())
const Nullable = Type.Optional(Type.Union([Type.String(), Type.Null()]))
const ErrorSchema = Type.Object(
  { error: Type.String(), error_description: Type.String() },
  { description: 'An OAuth error (RFC 6749 section 5.2).' },
)
const ERRORS = {
  400: ErrorSchema,
  401: ErrorSchema,
  ...problemAnswers(403, 404, 413, 415),
  429: ErrorSchema,
  503: ErrorSchema,
}
const tags = ['authorization server']
/** The credentials of a client that does not use `Authorization: Basic`. */
const CREDENTIALS = {
  client_id: OptionalText,
  client_secret: OptionalText,
  client_assertion: OptionalText,
  client_assertion_type: OptionalText,
}
const TokenRequest = Type.Object(
  {
    ...CREDENTIALS,
    grant_type: OptionalText,
    code: OptionalText,
    redirect_uri: OptionalText,
    code_verifier: OptionalText,
    refresh_token: OptionalText,
    scope: OptionalText,
    resource: OptionalText,
  },
  OPEN,
)
const TokenAnswer = Type.Object({
  access_token: Type.String({ description: 'A JWT (RFC 9068) for one resource.' }),
  token_type: Type.Literal('Bearer'),
  expires_in: Type.Integer({ description: 'Seconds.' }),
  refresh_token: Type.Optional(
    Type.String({
      description:
        'Good once. Absent if the one before was spent by another process of the client.',
    }),
  ),
  scope: Type.String(),
})
const TOKEN_SCHEMA = {
  operationId: 'requestToken',
  summary: 'Redeem a code or a refresh token',
  description: 'The token endpoint (RFC 6749 section 3.2).',
  tags,
  body: TokenRequest,
  response: { 200: TokenAnswer, ...ERRORS },
}
const REVOKE_SCHEMA = {
  operationId: 'revokeToken',
  summary: 'End what a token stands for',
  description: 'The revocation endpoint (RFC 7009).',
  tags,
  body: Type.Object({ ...CREDENTIALS, token: OptionalText }, OPEN),
  response: { 200: Type.Object({}), ...ERRORS },
}
const REGISTER_SCHEMA = {
  operationId: 'registerClient',
  summary: 'Register a client',
  description:
    'The registration endpoint (RFC 7591), if `authorizationServer.registration` is set.',
  tags,
  body: Type.Object(
    {
      redirect_uris: Type.Optional(Type.Array(Type.String())),
      client_name: Nullable,
      token_endpoint_auth_method: Nullable,
    },
    OPEN,
  ),
  response: {
    201: Type.Object({
      client_id: Type.String(),
      client_id_issued_at: Type.Integer(),
      client_name: OptionalText,
      redirect_uris: Type.Array(Type.String()),
      client_secret: OptionalText,
      client_secret_expires_at: Type.Optional(Type.Integer({ description: '0: never.' })),
      token_endpoint_auth_method: Type.String(),
      grant_types: Type.Array(Type.String()),
      response_types: Type.Array(Type.String()),
    }),
    ...ERRORS,
  },
}

/** `POST /token`, `POST /revoke` and `POST /register`, which clients call without a browser, or from one. */
export const tokenRoutes: FastifyPluginAsyncTypebox = async (app) => {
  allowOrigins(app, ['/token', '/revoke', '/register'], ['POST'])
  app.addContentTypeParser(FORM, { parseAs: 'string' }, (_request, text, done) => {
    const parameters = [...new URLSearchParams(String(text))]
    const isTwice = new Set(parameters.map(([name]) => name)).size < parameters.length
    // Those without a value are as if they were not there (RFC 6749 section 3.2).
    const body = Object.fromEntries(parameters.filter(([, value]) => value !== ''))
    done(isTwice ? new OAuthError('invalid_request', 'a parameter comes twice') : null, body)
  })
  app.setErrorHandler(sendError)

  app.post('/token', { schema: TOKEN_SCHEMA }, async (request) => {
    const realm = signInSiteOf(request)
    const { body, headers } = request
    const tokenRequest = { ...body, ...readCredentials(headers.authorization, body) }
    if (body.grant_type === 'authorization_code') {
      const redemption = withAll(tokenRequest, 'code', 'redirect_uri', 'code_verifier')
      return app.agents.begin(realm, redemption, request)
    }
    if (body.grant_type === 'refresh_token')
      return app.agents.renew(realm, withAll(tokenRequest, 'refresh_token'), request)
    throw new OAuthError(
      'unsupported_grant_type',
      'grant_type has to be authorization_code or refresh_token',
    )
  })

  app.post('/revoke', { schema: REVOKE_SCHEMA }, async (request) => {
    const realm = signInSiteOf(request)
    const credentials = readCredentials(request.headers.authorization, request.body)
    const { token } = withAll(request.body, 'token')
    await app.agents.revoke(realm, { ...credentials, token }, request)
    return {}
  })

  app.post('/register', { schema: REGISTER_SCHEMA }, async (request, reply) => {
    const realm = signInSiteOf(request)
    if (!realm.portal.authorizationServer.registration) return reply.callNotFound()
    const client = readRegistration(request.body, MAX_URIS, refuseMember)
    const { id, secret } = app.clients.register(realm, client)
    if (id.length > MAX_CLIENT_ID)
      throw new OAuthError('invalid_client_metadata', 'the redirect URIs are too long')
    reply.code(201)
    return {
      client_id: id,
      client_id_issued_at: Math.floor(app.clock.now() / 1_000),
      ...(client.name !== undefined && { client_name: client.name }),
      redirect_uris: [...client.redirectUris],
      ...(secret !== undefined && { client_secret: secret, client_secret_expires_at: 0 }),
      token_endpoint_auth_method: secret === undefined ? 'none' : methodOf(request.body),
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
    }
  })
}

type With<Body, Name extends keyof Body> = Body & Readonly<Record<Name, string>>
type ClientRequest = ClientCredentials & Static<typeof TokenRequest>
export type Redemption = With<ClientRequest, 'code' | 'redirect_uri' | 'code_verifier'>
/** The parameters that refresh tokens. Default of `scope`: all scopes that the person has allowed. */
export type Renewal = With<ClientRequest, 'refresh_token'>
export type Revocation = ClientCredentials & { readonly token: string }
export type TokenAnswer = Static<typeof TokenAnswer>

function withAll<Body extends object, Name extends keyof Body & string>(
  body: Body,
  ...names: Name[]
): With<Body, Name> {
  const missing = names.find((name) => !body[name])
  if (missing === undefined) return body as With<Body, Name>
  throw new OAuthError('invalid_request', `${missing} is missing`)
}

function refuseMember(member: string, why: string): OAuthError {
  const isUri = member === 'redirect_uris'
  const error = isUri ? 'invalid_redirect_uri' : 'invalid_client_metadata'
  return new OAuthError(error, `the client ${why}`)
}

/** Tells a client of an error in the words of OAuth. */
function sendError(
  this: FastifyInstance,
  error: Error & { readonly statusCode?: number },
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  if (error instanceof OAuthError) {
    request.log.info({ code: error.error, detail: error.message }, 'client refused')
    const isBasic = error.error === 'invalid_client' && request.headers.authorization !== undefined
    // RFC 6749 section 5.2.
    if (isBasic) reply.header('www-authenticate', 'Basic realm="clients", charset="UTF-8"')
    return reply.code(isBasic ? 401 : 400).send(error.parameters)
  }
  if (error instanceof StoreError || (error instanceof FwaError && LATER.includes(error.code))) {
    const status = error.code === 'FWA_RATE_LIMITED' ? 429 : 503
    if (status === 503) request.log.warn({ err: error }, 'tokens could not be issued')
    const later = new OAuthError('temporarily_unavailable', 'try again')
    reply.header('retry-after', error.retryAfter ?? 1)
    return reply.code(status).send(later.parameters)
  }
  if (error instanceof FwaError && error.code === 'FWA_CLIENT_INVALID')
    return reply.code(400).send(new OAuthError('invalid_client', error.message).parameters)
  if (error.statusCode === 400) {
    const invalid = new OAuthError('invalid_request', 'the body is not valid')
    return reply.code(400).send(invalid.parameters)
  }
  throw error
}

/** Errors after which a client tries again, and has lost nothing. */
const LATER: readonly string[] = ['FWA_RATE_LIMITED', 'FWA_CLIENT_UNREACHABLE']
