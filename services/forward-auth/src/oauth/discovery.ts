import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Resource } from '@gatehouse/gate'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { FwaError } from '../errors.ts'
import { type Portal, portalOf } from '../portal/portals.ts'
import { issuerOf, pageUrl } from '../sites.ts'
import { allowOrigins } from '../web/cross-origin.ts'
import { problemAnswers } from '../web/documented.ts'
import { isSentTo, signInSiteOf, siteOf } from '../web/realm.ts'

const KEYS = '/.well-known/jwks.json'
/** Seconds. The next key is published 30 days before it signs. */
const MAX_AGE = 3_600

const DiscoverySchema = Type.Object(
  {
    issuer: Type.String({ description: 'URL of the portal: claim `iss` of its assertions.' }),
    jwks_uri: Type.String({ description: 'URL of its keys.' }),
    id_token_signing_alg_values_supported: Type.Array(Type.String()),
    subject_types_supported: Type.Array(Type.String()),
    response_types_supported: Type.Array(Type.String()),
  },
  { description: 'Metadata (OpenID Connect Discovery section 3), for libraries that verify JWTs.' },
)

const JwksSchema = Type.Object(
  { keys: Type.Array(Type.Object({}, { additionalProperties: Type.String() })) },
  { description: 'The present and the next key (RFC 7517).' },
)

/** Serves the metadata and keys with which JWT libraries verify the assertions of a portal. */
export const discoveryRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.get(
    '/.well-known/openid-configuration',
    {
      schema: {
        operationId: 'getAssertionMetadata',
        summary: 'Metadata for the verification of assertions',
        tags: ['assertion'],
        response: { 200: DiscoverySchema, ...problemAnswers(403, 404) },
      },
    },
    async (request, reply) => {
      const realm = signInSiteOf(request)
      reply.header('cache-control', `public, max-age=${MAX_AGE}`)
      return {
        issuer: issuerOf(realm),
        jwks_uri: pageUrl(realm, KEYS),
        id_token_signing_alg_values_supported: ['ES256'],
        subject_types_supported: ['public'],
        response_types_supported: [],
      }
    },
  )
  app.get(
    KEYS,
    {
      schema: {
        operationId: 'getAssertionKeys',
        summary: 'Keys of assertions',
        tags: ['assertion'],
        response: { 200: JwksSchema, ...problemAnswers(404) },
      },
    },
    async (request, reply) => {
      portalOf(request)
      reply.header('cache-control', `public, max-age=${MAX_AGE}`)
      return { keys: app.keys.assertion.published(app.clock.now()).map(({ jwk }) => ({ ...jwk })) }
    },
  )
}

const ResourceSchema = Type.Object(
  {
    resource: Type.String({ description: 'URL of the resource.' }),
    authorization_servers: Type.Array(Type.String(), { description: 'Who issues its tokens.' }),
    scopes_supported: Type.Optional(Type.Array(Type.String())),
    bearer_methods_supported: Type.Array(Type.String()),
  },
  { description: 'Protected resource metadata (RFC 9728 section 2).' },
)

/**
 * The metadata of protected resources, on the host of the app: its proxy sends these paths here. It is
 * public, and pages of other origins may read it.
 */
export const resourceRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const schema = {
    operationId: 'getResourceMetadata',
    summary: 'Metadata of an OAuth resource',
    tags: ['resources'],
    response: { 200: ResourceSchema, ...problemAnswers(404) },
  }
  const urls = ['/', '/*']
  allowOrigins(app, urls, ['GET'])
  for (const url of urls) {
    app.get(
      url,
      { schema: url === '/' ? schema : { ...schema, hide: true } },
      async (request, reply) => {
        const portalResource = resourceOf(request)
        const site = siteOf(request)
        if (!portalResource || !site)
          throw new FwaError('FWA_NOT_FOUND', 'there is no resource of this URL')
        const { portal, resource } = portalResource
        const { scopes, authorizationServers = [issuerOf({ portal, site })] } = resource
        reply.header('cache-control', `public, max-age=${MAX_AGE}`)
        return {
          resource: resource.url,
          authorization_servers: [...authorizationServers],
          ...(scopes.length > 0 && { scopes_supported: [...scopes] }),
          bearer_methods_supported: ['header'],
        }
      },
    )
  }
}

/** The resource whose metadata a client requests. Clients that find none at a path request that of the host. */
function resourceOf(
  request: FastifyRequest,
): { readonly portal: Portal; readonly resource: Resource } | undefined {
  const hostResources = [...request.server.portals.values()]
    .flatMap((portal) =>
      portal.gate.programs.resources.map((resource) => ({ portal, resource }) as const),
    )
    .filter(({ resource }) => isSentTo(resource.origin, request))
  const [path = ''] = request.url.split('?')
  const metadataPath = path.replace(/\/$/, '')
  const pathResource = hostResources.find(
    ({ resource: { metadataUrl, origin } }) => metadataUrl === origin + metadataPath,
  )
  const isOfHost = Object(request.params)['*'] === undefined
  return pathResource ?? (isOfHost && hostResources.length === 1 ? hostResources[0] : undefined)
}
