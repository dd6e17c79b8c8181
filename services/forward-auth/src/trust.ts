import { createTrust, type Trust } from '@gatehouse/service-kit/http'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyInstance {
    /** The peers that are trusted, and the addresses of clients as these name them. */
    readonly trust: Trust
  }
}

export const trust = fp<{ readonly server: { readonly trustedProxies?: readonly string[] } }>(
  async (app: FastifyInstance, config) => {
    await app.decorateReloaded('trust', config, ({ server }) => createTrust(server.trustedProxies))
  },
  { fastify: '5.x', name: 'forward-auth/trust', dependencies: ['service-kit/reload'] },
)
