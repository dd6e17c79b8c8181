import Fastify, { type FastifyInstance, type RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import { type OpenApiDocument, renderDocs } from './docs-page.ts'
import { sendPage } from './page.ts'

// Brings `summary`, `tags` and `hide` into the route schemas of whoever imports this.
export type { FastifyDynamicSwaggerOptions } from '@fastify/swagger'

export interface OpenApiOptions {
  readonly title: string
  readonly version: string
  readonly description: string
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

/** Lets @fastify/swagger describe the routes in an app of their own, so that no start pays for it. */
async function describeRoutes(
  routes: readonly RouteOptions[],
  info: OpenApiOptions,
): Promise<OpenApiDocument> {
  const { default: swagger } = await import('@fastify/swagger')
  const app = Fastify({ exposeHeadRoutes: false })
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => () => '')
  await app.register(swagger, { openapi: { openapi: '3.1.0', info } })
  for (const { method, url, schema } of routes)
    app.route({ method, url, ...(schema && { schema }), handler: () => {} })
  await app.ready()
  const document = app.swagger() as OpenApiDocument
  await app.close()
  return document
}
