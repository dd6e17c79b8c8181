import type { FastifyInstance } from 'fastify'
import type { Service } from '../service.ts'
import { callbackRoute } from './callback.ts'
import { logoutRoutes } from './logout.ts'
import { profileRoutes } from './profile.ts'
import { signInRoutes } from './sign-in.ts'

/** The pages of a portal, below the path of the portal. */
export async function portalRoutes(
  app: FastifyInstance,
  { service }: { service: Service },
): Promise<void> {
  for (const routes of [signInRoutes, callbackRoute, logoutRoutes, profileRoutes])
    await app.register(routes, { service })
}
