import Fastify, { type FastifyInstance, type FastifySchema, type RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import { type OpenApiDocument, renderDocs } from './docs-page.ts'
import { sendPage } from './page.ts'
import { ProblemSchema } from './problem.ts'

// Brings `summary`, `tags` and `hide` into the route schemas of whoever imports this.
export type { FastifyDynamicSwaggerOptions } from '@fastify/swagger'

export interface OpenApiOptions {
  readonly title: string
  readonly version: string
  readonly description: string
  /** How callers of guarded routes say who they are, as OpenAPI describes it. */
  readonly securitySchemes?: Readonly<Record<string, object>>
}

/**
 * `GET /openapi.json`: the OpenAPI 3.1 document of every route registered after this plugin.
 * `GET /docs`: a page to read it. Both are made once, when first asked for.
 */
export const openapi = fp<OpenApiOptions>(
  async (app: FastifyInstance, info) => {
    const routes: RouteOptions[] = []
    app.addHook('onRoute', (route) => {
      if (route.method !== 'HEAD' && !route.schema?.hide) routes.push(route)
    })
    let made: ReturnType<typeof make> | undefined
    async function make() {
      const document = await describeRoutes(routes, info)
      return { json: JSON.stringify(document), page: renderDocs(document) }
    }
    const docs = () => {
      made ??= make()
      return made
    }

    const hidden = { logLevel: 'warn', schema: { hide: true } } as const
    app.get('/openapi.json', hidden, async (_request, reply) =>
      reply.type('application/json').send((await docs()).json),
    )
    app.get('/docs', hidden, async (_request, reply) => sendPage(reply, 200, (await docs()).page))
  },
  { fastify: '5.x', name: 'service-kit/openapi' },
)

/** What any route may answer before its handler is asked. */
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
  501: 'The body comes in a transfer coding that is not supported.',
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

/** Lets @fastify/swagger describe the routes in an app of their own, so that no start pays for it. */
async function describeRoutes(
  routes: readonly RouteOptions[],
  info: OpenApiOptions,
): Promise<OpenApiDocument> {
  const { default: swagger } = await import('@fastify/swagger')
  const app = Fastify({ exposeHeadRoutes: false })
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => () => '')
  const { securitySchemes = {}, ...about } = info
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: about,
      servers: [{ url: '/', description: 'The service that this document is fetched from.' }],
      components: { securitySchemes: securitySchemes as never },
    },
  })
  for (const { method, url, schema } of routes)
    app.route({ method, url, schema: withCommonAnswers(url, schema), handler: () => {} })
  await app.ready()
  const document = app.swagger() as OpenApiDocument
  await app.close()
  return document
}
