import type { FastifyInstance } from 'fastify'
import { certificateActionRoutes } from './certificate-actions.ts'
import { certificatePageRoutes } from './certificate-page.ts'
import { inventoryRoutes } from './inventory.ts'
import { requestPageRoutes } from './request-page.ts'
import { visitors } from './visitors.ts'

/** The pages for people. Cookies and forms are read here only. */
export async function pageRoutes(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', (route) => {
    route.config = { ...route.config, isPage: true }
  })
  await app.register(visitors)
  await app.register(inventoryRoutes)
  await app.register(certificatePageRoutes)
  await app.register(certificateActionRoutes)
  await app.register(requestPageRoutes)
}
