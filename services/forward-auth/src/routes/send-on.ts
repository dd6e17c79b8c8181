import type { FastifyReply, FastifyRequest } from 'fastify'
import { isNavigation } from '../check/kind.ts'
import { FwaError } from '../errors.ts'
import { countRound, forgetRounds } from '../login/rounds.ts'
import type { Service } from '../service.ts'
import { findDuplicate } from '../session/cookie.ts'
import { withLoginUrl } from './login-error.ts'
import type { Place } from './place.ts'
import { redirect, targetOf } from './redirect.ts'

/** Why somebody is sent on: after a login without a session, or since there is one already. */
type Kind = Parameters<typeof countRound>[2]

/**
 * Sends a person to where they wanted to go, unless their browser comes back from there again and
 * again: then nobody there sees the session, and only a page that says so ends it.
 *
 * @throws FwaError FWA_SIGN_IN_LOOP
 */
export function sendOn(
  service: Service,
  place: Place,
  returnTo: string,
  kind: Kind,
  reply: FastifyReply,
): FastifyReply {
  const { portal } = place
  const target = targetOf(place, returnTo)
  const { method, headers } = reply.request
  // What a program does over and over shows nobody a page.
  if (!isNavigation(method, headers)) return redirect(reply, target)
  const { cookie } = headers
  const round = countRound(portal, target, kind, cookie, service.clock.now())
  if (!round.isLoop) return redirect(reply.header('set-cookie', round.setCookie), target)
  reply.header('set-cookie', forgetRounds(portal))
  throw loop(service, place, target, kind, reply.request)
}

function loop(
  service: Service,
  place: Place,
  target: string,
  kind: Kind,
  request: FastifyRequest,
): FwaError {
  const { portal, site } = place
  const { host } = new URL(target)
  const [text, cause] =
    kind === 'bounce'
      ? [
          `Delete the cookies of ${site.domain}, or tell whoever runs this site: ${host} does not get your session cookie.`,
          `somebody who is signed in comes back from ${host} as if they were not: its proxy leaves Cookie out of the check (Traefik: authRequestHeaders without Cookie), or another site sets a cookie of the session's name there`,
        ]
      : [
          `Allow cookies for ${site.domain}, or tell whoever runs this site: your browser does not keep the session cookie.`,
          `a browser comes back without the session that it was just given: it does not keep cookies for ${site.domain}, or something on the way takes them out`,
        ]
  const code = 'FWA_SIGN_IN_LOOP'
  service.tellSeldom(`${code} ${portal.name} ${host} ${kind}`, () =>
    request.log.warn({ code, portal: portal.name, host }, `signing in leads in circles: ${cause}`),
  )
  return withLoginUrl(new FwaError(code, text), place, target)
}

/**
 * Refuses a browser that has two cookies of the session's name. A login could not end that: the
 * cookie of another site would stay beside the new one.
 *
 * @throws FwaError FWA_COOKIE_DUPLICATE
 */
export function refuseDuplicate(
  service: Service,
  place: Place,
  request: FastifyRequest,
  returnTo: string | undefined,
): void {
  const { portal, site } = place
  const name = findDuplicate(request.headers.cookie ?? '', portal)
  if (name === undefined) return
  const code = 'FWA_COOKIE_DUPLICATE'
  service.tellSeldom(`${code} ${portal.name}`, () =>
    request.log.warn(
      { code, portal: portal.name },
      `a browser sends ${name} twice: a site below ${site.domain} has set one of them`,
    ),
  )
  const text = `Delete the cookies of ${site.domain} in your browser: another site has set a second ${name}.`
  throw withLoginUrl(new FwaError(code, text), place, returnTo)
}
