import type { Resource } from '@gatehouse/gate'
import type { FastifyInstance } from 'fastify'
import type { Realm } from '../web/realm.ts'

/** The resources whose tokens a portal issues at a sign-in host. */
export function ownResources(
  { sites }: FastifyInstance,
  { portal, site }: Realm,
): readonly Resource[] {
  return portal.gate.programs.resources.filter(
    ({ authorizationServers, origin }) =>
      !authorizationServers &&
      sites.find(new URL(origin).host)?.site.authOrigin === site.authOrigin,
  )
}
