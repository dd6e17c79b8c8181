import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Site } from '../sites.ts'
import { appCookie, sessionCookie, setHostCookies } from '../web/cookies.ts'
import type { Realm } from '../web/realm.ts'
import type { Session } from './session.ts'

/** Gives a browser the cookies of its session at the sign-in host. */
export function setSessionCookies(reply: FastifyReply, realm: Realm, session: Session) {
  const { sessions, clock } = reply.server
  const token = sessions.sessionToken(session, realm.site)
  setHostCookies(reply, [sessionCookie(realm.portal, token, session.ends - clock.now())])
  setDomainCookies(reply, realm, session)
}

/** Replaces a session cookie that was made of an older revision of the session. */
export async function renewCookie(reply: FastifyReply, realm: Realm, session: Session) {
  const token = await reply.server.sessions.tokenOf(reply.request, realm)
  if (token?.rev !== session.rev) setSessionCookies(reply, realm, session)
}

/** Gives a browser the cookies of its session for domains whose hosts share one. */
export function setDomainCookies(
  reply: FastifyReply,
  { portal, site: { authOrigin } }: Realm,
  session: Session,
): void {
  const { sessions, clock } = reply.server
  const maxAge = session.ends - clock.now()
  const cookies = sitesOf(reply.server, authOrigin)
    .filter(({ scope }) => scope === 'domain')
    .map((site) => {
      const token = sessions.appToken(session, site, site.domain)
      return appCookie(portal, site, site.domain, token, maxAge)
    })
  setHostCookies(reply, cookies)
}

/** Clears the cookies of a session: of the sign-in host, and of domains whose hosts share one. */
export function clearSessionCookies(reply: FastifyReply, { portal, site }: Realm): void {
  const { authOrigin } = site
  const { host } = new URL(authOrigin)
  const cookies = sitesOf(reply.server, authOrigin).map((site) => appCookie(portal, site, host))
  setHostCookies(reply, [sessionCookie(portal), ...cookies])
}

/** The sites whose sign-in pages have an origin. */
function sitesOf({ sites }: FastifyInstance, authOrigin: string): readonly Site[] {
  return sites.list.filter((site) => site.authOrigin === authOrigin)
}
