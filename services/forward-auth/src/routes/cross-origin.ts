import type { FastifyInstance } from 'fastify'

/** Seconds. */
const MAX_AGE = 3_600

type Method = 'GET' | 'POST'

/** Answers the preflights of pages of any origin. Clients send headers such as `MCP-Protocol-Version`. */
export function answerPreflights(app: FastifyInstance, urls: readonly string[], method: Method) {
  const headers = {
    'access-control-allow-origin': '*',
    'access-control-allow-methods': method,
    'access-control-allow-headers': '*',
    'access-control-max-age': MAX_AGE,
  }
  for (const url of urls)
    app.options(url, { schema: { hide: true } }, (_request, reply) =>
      reply.headers(headers).code(204).send(),
    )
}

/**
 * Lets pages of any origin call the routes of a plugin: clients run in browsers, and these routes know no cookies.
 * Answers of tokens are not kept by anybody.
 */
export function allowOrigins(app: FastifyInstance, urls: readonly string[], method: Method): void {
  answerPreflights(app, urls, method)
  app.addHook('onRequest', (_request, reply, done) => {
    reply.header('access-control-allow-origin', '*')
    if (method === 'POST') reply.header('cache-control', 'no-store')
    done()
  })
}
