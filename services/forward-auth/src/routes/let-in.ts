import type { Profile } from '@gatehouse/profile'
import { sendPage } from '@gatehouse/service-kit'
import type { FastifyReply } from 'fastify'
import { refusedPage } from '../pages/pages.ts'
import type { Service } from '../service.ts'
import type { Session } from '../session/session.ts'
import type { Place } from './place.ts'
import { pageUrl, redirect, targetOf } from './redirect.ts'

/** Somebody whom a provider vouches for. */
export interface Arrived {
  readonly place: Place
  readonly profile: Profile
  readonly returnTo: string
}

/**
 * Gives a person a session and sends them to where they wanted to go, unless the portal does not
 * admit them. A session of somebody else in the same browser ends.
 *
 * @throws FwaError FWA_SESSION_TOO_LARGE, FWA_STORE_UNAVAILABLE
 */
export function letIn(
  { sessions, metrics }: Service,
  { place, profile, returnTo }: Arrived,
  reply: FastifyReply,
): FastifyReply {
  const { request, server } = reply
  const { portal, site } = place
  if (portal.admits(profile) !== true) {
    metrics.login('refused')
    const switchHref = pageUrl(place, '/signin', { rd: returnTo, switch: '1' })
    return sendPage(reply, 403, refusedPage({ portal, profile, switchHref, requestId: request.id }))
  }
  const { cookie } = request.headers
  const before = sessions.read(portal, site, cookie)
  if (before && !isOf(profile, before)) sessions.revoke(before)
  const { setCookies } = sessions.create(portal, site, profile, cookie, server.signToken)
  metrics.login('finished')
  return redirect(reply.header('set-cookie', setCookies), targetOf(place, returnTo))
}

function isOf({ provider, id }: Profile, { profile }: Session): boolean {
  return profile.provider === provider && profile.id === id
}
