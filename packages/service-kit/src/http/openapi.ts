import { createHash } from 'node:crypto'
import Fastify, { type FastifyInstance, type RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import { DOCS_STYLE, type OpenApiDocument, renderDocs } from './docs-page.ts'

// Brings `summary`, `tags` and `hide` into the route schemas of whoever imports this.
export type { FastifyDynamicSwaggerOptions } from '@fastify/swagger'

export interface OpenApiOptions {
  readonly title: string
  readonly version: string
  readonly description: string
}

/**
 * `GET /openapi.json`: the OpenAPI 3.1 document of every route registered after this plugin.
 * `GET /docs`: a page to read it. Both are made when first asked for.
 */
export const openapi = fp<OpenApiOptions>(
  async (app: FastifyInstance, info) => {
    const routes: RouteOptions[] = []
    app.addHook('onRoute', (route) => {
      if (route.method !== 'HEAD' && !route.schema?.hide) routes.push(route)
    })
    let made: Promise<OpenApiDocument> | undefined
    const document = () => {
      made ??= describeRoutes(routes, info)
      return made
    }

    const hidden = { logLevel: 'warn', schema: { hide: true } } as const
    app.get('/openapi.json', hidden, async (_request, reply) =>
      reply.type('application/json').send(JSON.stringify(await document())),
    )
    const styleHash = createHash('sha256').update(DOCS_STYLE).digest('base64')
    app.get('/docs', hidden, async (_request, reply) =>
      reply
        .type('text/html; charset=utf-8')
        .header(
          'content-security-policy',
          `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
        )
        .header('x-content-type-options', 'nosniff')
        .send(renderDocs(await document())),
    )
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
