import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { FwaError } from '../errors.ts'
import { issuerOf, pageUrl } from '../sites.ts'
import { allowOrigins } from '../web/cross-origin.ts'
import { problemAnswers } from '../web/documented.ts'
import { signInSiteOf } from '../web/realm.ts'
import { ownResources } from './own-resources.ts'

/** Seconds. */
const MAX_AGE = 300
const Url = Type.String({ format: 'uri' })
const Texts = Type.Array(Type.String())
/** The algorithms of which every client with a key has one (RFC 7518 section 3.1, RFC 8037). */
const ASSERTION_ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA']
const MetadataSchema = Type.Object(
  {
    issuer: Url,
    authorization_endpoint: Url,
    token_endpoint: Url,
    revocation_endpoint: Url,
    registration_endpoint: Type.Optional(Url),
    jwks_uri: Url,
    scopes_supported: Texts,
    response_types_supported: Texts,
    response_modes_supported: Texts,
    grant_types_supported: Texts,
    code_challenge_methods_supported: Texts,
    token_endpoint_auth_methods_supported: Texts,
    token_endpoint_auth_signing_alg_values_supported: Texts,
    revocation_endpoint_auth_methods_supported: Texts,
    revocation_endpoint_auth_signing_alg_values_supported: Texts,
    authorization_response_iss_parameter_supported: Type.Boolean(),
    client_id_metadata_document_supported: Type.Boolean(),
  },
  {
    description: 'Authorization server metadata (RFC 8414 section 2). There is no OpenID provider.',
  },
)

const OPERATION = 'getAuthorizationServerMetadata'

/** The metadata of a portal that issues tokens, below any prefix that names the portal. */
export const metadataRoute: FastifyPluginAsyncTypebox = async (app) => {
  allowOrigins(app, ['/'], ['GET'])
  const schema = {
    // Some clients look below the portal.
    operationId: app.prefix.startsWith('/.well-known/') ? OPERATION : `${OPERATION}BelowPortal`,
    summary: 'Metadata of the authorization server',
    tags: ['authorization server'],
    response: { 200: MetadataSchema, ...problemAnswers(403, 404) },
  }
  app.get('/', { schema }, async (request, reply) => {
    const realm = signInSiteOf(request)
    const resources = ownResources(app, realm)
    if (resources.length === 0) throw new FwaError('FWA_NOT_FOUND', 'this portal issues no tokens')
    const { registration } = realm.portal.authorizationServer
    const methods = [...app.clients.methodsOf(realm.portal)]
    const scopes = resources.flatMap(({ grantableScopes }) =>
      grantableScopes.map(({ name }) => name),
    )
    reply.header('cache-control', `public, max-age=${MAX_AGE}`)
    return {
      issuer: issuerOf(realm),
      authorization_endpoint: pageUrl(realm, '/authorize'),
      token_endpoint: pageUrl(realm, '/token'),
      revocation_endpoint: pageUrl(realm, '/revoke'),
      ...(registration && { registration_endpoint: pageUrl(realm, '/register') }),
      jwks_uri: pageUrl(realm, '/.well-known/jwks.json'),
      scopes_supported: [...new Set(scopes)],
      response_types_supported: ['code'],
      response_modes_supported: ['query'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: methods,
      token_endpoint_auth_signing_alg_values_supported: ASSERTION_ALGORITHMS,
      revocation_endpoint_auth_methods_supported: methods,
      revocation_endpoint_auth_signing_alg_values_supported: ASSERTION_ALGORITHMS,
      authorization_response_iss_parameter_supported: true,
      client_id_metadata_document_supported: true,
    }
  })
}
