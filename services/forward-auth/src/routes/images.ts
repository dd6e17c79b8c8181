import { hasTag } from '@gatehouse/service-kit/http'
import type { FastifyInstance } from 'fastify'
import { portalOf } from '../portals.ts'

/** A script in an SVG never runs, also where somebody opens the file itself. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

/** `GET /images/:image`: the logo, favicon and icons of a portal, by the digest of their content. */
export async function imageRoutes(app: FastifyInstance): Promise<void> {
  app.get(
    '/images/:image',
    { logLevel: 'warn', schema: { hide: true } },
    async (request, reply) => {
      const image = portalOf(request).images.get((request.params as { image: string }).image)
      if (!image) return reply.callNotFound()
      const tag = `"${image.name}"`
      reply.headers({
        'cache-control': 'public, max-age=31536000, immutable',
        etag: tag,
        'content-security-policy': POLICY,
        'x-content-type-options': 'nosniff',
      })
      if (hasTag(request, tag)) return reply.code(304).send()
      return reply.type(image.type).send(image.bytes)
    },
  )
}
