import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Site } from '../sites.ts'
import { setHostCookies } from '../web/cookies.ts'
import type { PortalSite } from '../web/portal-site.ts'
import { appCookie, sessionCookie } from './cookie.ts'
import type { Session } from './session.ts'

/** Gives a browser the cookies of its session at the sign-in host. */
export function setSessionCookies(reply: FastifyReply, at: PortalSite, session: Session): void {
  const { sessions, clock } = reply.server
  const token = sessions.sessionToken(session, at.site)
  setHostCookies(reply, [sessionCookie(at.portal, token, session.ends - clock.now())])
  setDomainCookies(reply, at, session)
}

/** Replaces a session cookie that shows what the provider does not say any more. */
export async function renewCookie(reply: FastifyReply, at: PortalSite, session: Session) {
  const token = await reply.server.sessions.tokenOf(reply.request, at)
  if (token?.rev !== session.rev) setSessionCookies(reply, at, session)
}

/** Gives a browser the cookies of its session for domains whose hosts share one. */
export function setDomainCookies(reply: FastifyReply, at: PortalSite, session: Session): void {
  const { sessions, clock } = reply.server
  const maxAge = session.ends - clock.now()
  const sharing = sitesOf(reply.server, at.site).filter(({ scope }) => scope === 'domain')
  const cookies = sharing.map((each) => {
    const token = sessions.appToken(session, each, each.domain)
    return appCookie(at.portal, each, each.domain, token, maxAge)
  })
  setHostCookies(reply, cookies)
}

/** Clears the cookies of a session: of the sign-in host, and of domains whose hosts share one. */
export function clearSessionCookies(reply: FastifyReply, { portal, site }: PortalSite): void {
  const { host } = new URL(site.authOrigin)
  const cookies = sitesOf(reply.server, site).map((each) => appCookie(portal, each, host))
  setHostCookies(reply, [sessionCookie(portal), ...cookies])
}

/** The sites with the sign-in pages of one. */
function sitesOf({ sites }: FastifyInstance, { authOrigin }: Site): readonly Site[] {
  return sites.all.filter((each) => each.authOrigin === authOrigin)
}
