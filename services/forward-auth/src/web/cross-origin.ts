import type { FastifyInstance } from 'fastify'

/** Seconds. */
const MAX_AGE = 3_600

/**
 * Lets pages of any origin call the routes of a plugin: clients run in browsers, send headers such as
 * `MCP-Protocol-Version`, and these routes know no cookies. Answers of tokens are not kept by anybody.
 */
export function allowOrigins(
  app: FastifyInstance,
  urls: readonly string[],
  methods: readonly string[],
): void {
  app.addHook('onRequest', (_request, reply, done) => {
    reply.header('access-control-allow-origin', '*')
    if (methods.includes('POST')) reply.header('cache-control', 'no-store')
    done()
  })
  const preflight = {
    'access-control-allow-methods': methods.join(', '),
    'access-control-allow-headers': '*',
    'access-control-max-age': MAX_AGE,
  }
  for (const url of urls)
    app.options(url, { schema: { hide: true } }, (_request, reply) =>
      reply.headers(preflight).code(204).send(),
    )
}
