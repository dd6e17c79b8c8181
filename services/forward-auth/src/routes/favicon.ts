import { GATE } from '@gatehouse/service-kit/pages'
import type { FastifyInstance } from 'fastify'
import { DEFAULT_ACCENT } from '../pages/colors.ts'

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
