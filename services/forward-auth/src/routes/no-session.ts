import type { FastifyReply } from 'fastify'
import { FwaError } from '../errors.ts'
import type { Portal } from '../portals.ts'
import { portalUrl } from '../sites.ts'
import type { Place } from './place.ts'

/** What a program is told when nobody is signed in; people are sent to sign in instead. */
export function noSession(reply: FastifyReply, { portal, site }: Place): FwaError {
  challenge(reply, portal)
  return new FwaError('FWA_NO_SESSION', `nobody is signed in at the portal ${portal.name}`, {
    members: { loginUrl: portalUrl(site, portal, '/signin') },
  })
}

/** RFC 9110 section 11.6.1 wants one with every 401; no browser asks for a password on this. */
export function challenge(reply: FastifyReply, { name }: Portal): FastifyReply {
  return reply.header('www-authenticate', `Cookie realm="${name}"`)
}
