import swagger from '@fastify/swagger'
import type { FastifyInstance, FastifySchema } from 'fastify'
import fp from 'fastify-plugin'
import { type ApiDocument, apiPage } from './api-page.ts'
import { type Page, sendPage } from './page.ts'
import { ProblemSchema } from './problem.ts'
import { MEDIA_TYPES } from './validation.ts'

/**
 * Brings `summary`, `tags` and `hide` into the route schemas of whoever imports this.
 * @public
 */
export type { FastifyDynamicSwaggerOptions } from '@fastify/swagger'

/** The options of {@link openapi}. */
export interface OpenApiOptions {
  readonly title: string
  readonly version: string
  readonly description: string
  /** The OpenAPI security schemes of guarded routes, by name. */
  readonly securitySchemes?: Readonly<Record<string, object>>
  /** Tag of operations that the document leaves out: pages for people. `app.swagger()` has them. */
  readonly hiddenTag?: string
}

/**
 * `GET /openapi.json` answers the OpenAPI 3.1 document of every route that is registered after this
 * plugin and not hidden. `GET /docs` shows it as a page.
 */
export const openapi = fp<OpenApiOptions>(
  async (app: FastifyInstance, { securitySchemes = {}, hiddenTag = '', ...info }) => {
    app.addHook('onRoute', function (route) {
      const { body, consumes = MEDIA_TYPES.filter((type) => this.hasContentTypeParser(type)) } =
        route.schema ?? {}
      if (body !== undefined) route.schema = { ...route.schema, consumes }
    })
    await app.register(swagger, {
      openapi: {
        openapi: '3.1.0',
        info: { ...info, license: { name: 'MIT', identifier: 'MIT' } },
        // An operation that names none takes no credentials.
        security: [],
        servers: [{ url: '/', description: 'The service that this document is fetched from.' }],
        components: { securitySchemes: securitySchemes as never },
      },
      transform: ({ schema, url }) => withNamedRest(url, withCommonAnswers(url, schema)),
    })
    const describe = () => withoutTag(app.swagger() as unknown as ApiDocument, hiddenTag)
    let document: string | undefined
    app.get('/openapi.json', { logLevel: 'warn', schema: { hide: true } }, async (_, reply) => {
      document ??= JSON.stringify(describe())
      return reply.type('application/json').send(document)
    })
    let page: Page | undefined
    app.get('/docs', { logLevel: 'warn', schema: { hide: true } }, async (_, reply) => {
      page ??= apiPage(describe())
      return sendPage(reply, 200, page)
    })
  },
  { name: 'service-kit/openapi' },
)

function withoutTag(document: ApiDocument, tag: string): ApiDocument {
  const paths = Object.entries(document.paths).map(([path, operations]) => {
    const shown = Object.entries(operations).filter(([, { tags }]) => !tags?.includes(tag))
    return [path, Object.fromEntries(shown)] as const
  })
  const shown = paths.filter(([, operations]) => Object.keys(operations).length > 0)
  return { ...document, paths: Object.fromEntries(shown) }
}

/** OpenAPI knows no wildcards: the rest of a path is a parameter with a name. */
function withNamedRest(url: string, schema: FastifySchema): { url: string; schema: FastifySchema } {
  const named = url.replace(/\/\*$/, '/:rest')
  const { properties: { '*': rest, ...others } = {}, ...params } = Object(schema.params)
  if (!rest) return { url: named, schema }
  return {
    url: named,
    schema: { ...schema, params: { ...params, properties: { ...others, rest } } },
  }
}

/** The answers of any route before its handler runs. */
const COMMON = {
  400: 'The request is malformed; `errors` points to the members at fault.',
  408: 'The request came too slowly.',
  431: 'The headers are too large.',
  500: 'The service has a fault; the log has the cause under the request id.',
  503: 'The service is stopping; `Retry-After` says when to try again.',
}
const OF_PATHS = { 414: 'A part of the path is too long.' }
const OF_BODIES = {
  413: 'The body is too large.',
  415: 'The body is not of a type that this path takes, or is encoded.',
  501: 'The body has a transfer coding that is not supported.',
}

function withCommonAnswers(url: string, schema: FastifySchema = {}): FastifySchema {
  const descriptions = {
    ...COMMON,
    ...(url.includes(':') && OF_PATHS),
    ...(schema.body !== undefined && OF_BODIES),
  }
  const answers = Object.entries(descriptions).map(([status, description]) => [
    status,
    { description, content: { 'application/problem+json': { schema: ProblemSchema } } },
  ])
  const { response = { 200: { description: 'Default Response', type: 'null' } } } = schema
  return { ...schema, response: { ...Object.fromEntries(answers), ...(response as object) } }
}
