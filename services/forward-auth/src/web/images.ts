import { hasTag } from '@gatehouse/service-kit/http'
import { GATE } from '@gatehouse/service-kit/pages'
import type { FastifyInstance } from 'fastify'
import { DEFAULT_ACCENT } from '../pages/colors.ts'
import { portalOf } from '../portal/portals.ts'

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

const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">' +
  `<path fill="none" stroke="${DEFAULT_ACCENT}" stroke-width="2.5" d="${GATE}"/></svg>`
const HEADERS = {
  'content-type': 'image/svg+xml',
  'content-security-policy': "default-src 'none'; sandbox",
  'x-content-type-options': 'nosniff',
  'cache-control': 'public, max-age=86400',
}

/** `GET /favicon.ico`, which browsers ask for beside answers that are no page, such as a profile. */
export async function faviconRoute(app: FastifyInstance): Promise<void> {
  app.get('/favicon.ico', { logLevel: 'warn', schema: { hide: true } }, async (_request, reply) =>
    reply.headers(HEADERS).send(ICON),
  )
}
