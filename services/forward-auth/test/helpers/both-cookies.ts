import { appCookieName } from '../../src/web/cookies.ts'
import type { TestApp } from '../app.ts'

const AUTH_HOST = 'auth.example.com'

/** The Cookie headers of one session of the portal `main`: at the sign-in host, and at that of an app. */
export async function bothCookies(
  { app, signIn }: TestApp,
  claims: object,
): Promise<{ readonly auth: string; readonly app: string }> {
  const auth = await signIn('main', claims, { host: AUTH_HOST })
  const [portal, site] = [app.portals.get('main'), app.sites.list[0]]
  const { sid } = JSON.parse(Buffer.from(auth.split('.')[2] ?? '', 'base64url').toString())
  const session = await app.sessions.records.find(sid)
  if (!portal || !site || !session) throw new Error('there is no session')
  const token = app.sessions.appToken(session, site, 'app.example.com')
  return { auth, app: `${appCookieName(portal, site, 'app.example.com')}=${token}` }
}
