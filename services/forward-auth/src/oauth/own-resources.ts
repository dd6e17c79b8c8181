import type { Resource } from '@gatehouse/gate'
import type { FastifyInstance } from 'fastify'
import type { Realm } from '../web/realm.ts'

/** The resources whose tokens a portal issues at a sign-in host. */
export function ownResources(app: FastifyInstance, { portal, site }: Realm): readonly Resource[] {
  const signInHostOf = (url: string) => app.sites.find(new URL(url).host)?.site.authOrigin
  return portal.gate.programs.resources.filter(
    ({ authorizationServers, origin }) =>
      !authorizationServers && signInHostOf(origin) === site.authOrigin,
  )
}
