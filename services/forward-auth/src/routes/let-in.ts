import type { Profile } from '@gatehouse/profile'
import { sendPage } from '@gatehouse/service-kit'
import type { FastifyReply } from 'fastify'
import { FwaError } from '../errors.ts'
import { refusedPage } from '../pages/pages.ts'
import type { Service } from '../service.ts'
import type { Session } from '../session/session.ts'
import { withLoginUrl } from './login-error.ts'
import type { Place } from './place.ts'
import { pageUrl, redirect, targetOf } from './redirect.ts'
import { sendOn } from './send-on.ts'

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
 * @throws FwaError FWA_SESSION_TOO_LARGE, FWA_STORE_UNAVAILABLE, FWA_SIGN_IN_RATE, FWA_SIGN_IN_LOOP,
 * as a rejection
 */
export async function letIn(
  service: Service,
  { place, profile, returnTo }: Arrived,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { sessions, metrics } = service
  const { request, server } = reply
  const { portal, site } = place
  if (portal.admits(profile) !== true) {
    metrics.login('refused')
    const switchHref = pageUrl(place, '/signin', { rd: returnTo, switch: '1' })
    return sendPage(reply, 403, refusedPage({ portal, profile, switchHref, requestId: request.id }))
  }
  slowDown(service, place, profile, returnTo)
  const { cookie } = request.headers
  const before = sessions.read(portal, site, cookie)
  const setCookies = await replaceSession(before).catch((error) => {
    throw error instanceof FwaError ? withLoginUrl(tellable(error), place, returnTo) : error
  })
  metrics.login('finished')
  reply.header('set-cookie', setCookies)
  // Who had a session may well sign in again, as somebody else.
  if (before) return redirect(reply, targetOf(place, returnTo))
  return sendOn(service, place, returnTo, 'login', reply)

  async function replaceSession(before: Session | undefined): Promise<string[]> {
    if (before && !isOf(profile, before)) await sessions.revoke(before)
    return sessions.create(portal, site, profile, cookie, server.signToken).setCookies
  }
}

/** What went wrong with the store names its folder, which is for the log. */
function tellable(error: FwaError): FwaError {
  const { code, retryAfter = 0 } = error
  if (code !== 'FWA_STORE_UNAVAILABLE') return error
  const text = 'the account that is signed in here cannot be signed out at the moment'
  return new FwaError(code, text, { cause: error, retryAfter })
}

function slowDown(
  { signInRate, metrics }: Service,
  place: Place,
  { provider, id }: Profile,
  returnTo: string,
): void {
  const retryAfter = signInRate.take(JSON.stringify([place.portal.name, provider, id]))
  if (retryAfter === 0) return
  metrics.login('refused')
  const text = `This account has signed in too often in a short time. Try again in ${retryAfter} seconds.`
  throw withLoginUrl(new FwaError('FWA_SIGN_IN_RATE', text, { retryAfter }), place, returnTo)
}

function isOf({ provider, id }: Profile, { profile }: Session): boolean {
  return profile.provider === provider && profile.id === id
}
