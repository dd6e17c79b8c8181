import { sendPage } from '@gatehouse/service-kit'
import type { FastifyReply } from 'fastify'
import { isNavigation } from '../check/decide.ts'
import { setHostCookies } from '../cookies.ts'
import { FwaError } from '../errors.ts'
import { redirectUriOf } from '../login/redirect-uri.ts'
import { providerDownPage } from '../pages/pages.ts'
import type { Provider, RedirectProvider, SeamlessProvider } from '../providers/provider.ts'
import { completeSignIn } from './complete-sign-in.ts'
import { identify, noSession, type PortalSite, pageUrl, redirect } from './portal-page.ts'

export interface LoginStart {
  readonly portalSite: PortalSite
  readonly provider: Provider
  readonly returnTo: string
  readonly chooseAccount?: boolean
  /** Whether it replaces a login that was lost. */
  readonly isRetry?: boolean
}

/**
 * Sends a person to sign in. Only a navigation starts a login, so that background requests do not
 * fill the login cookie.
 */
export async function startLogin(start: LoginStart, reply: FastifyReply): Promise<FastifyReply> {
  const { request } = reply
  if (!isNavigation(request.method, request.headers)) throw noSession(start.portalSite)
  const { provider } = start
  try {
    return provider.type === 'redirect'
      ? await sendToProvider(start, provider, reply)
      : await signInByAddress(start, provider, reply)
  } catch (error) {
    if (!(error instanceof FwaError && error.code === 'FWA_PROVIDER_UNREACHABLE')) throw error
    request.log.warn({ err: error, provider: provider.name }, 'login could not be started')
    return sendProviderDown(start, reply)
  }
}

async function sendToProvider(
  { portalSite, returnTo, chooseAccount = false, isRetry = false }: LoginStart,
  provider: RedirectProvider,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { portal, site } = portalSite
  const { logins } = reply.server
  const redirectUri = redirectUriOf(site, portal, provider.name)
  const login = { provider: provider.name, redirectUri, returnTo, isRetry }
  const { secrets, cookies } = logins.begin(portal, site, login, reply.request.headers.cookie)
  const url = await provider.authorizationUrl({ ...secrets, redirectUri, chooseAccount })
  setHostCookies(reply, cookies)
  return redirect(reply, url.href)
}

async function signInByAddress(
  { portalSite, returnTo }: LoginStart,
  provider: SeamlessProvider,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const profile = await identify(provider, reply.request)
  if (profile) return completeSignIn({ portalSite, profile, returnTo }, reply)
  throw new FwaError('FWA_LOGIN_REFUSED', `${provider.title} does not know your device`)
}

function sendProviderDown(
  { portalSite, provider, returnTo, chooseAccount }: LoginStart,
  reply: FastifyReply,
): FastifyReply {
  const query = { rd: returnTo, switch: chooseAccount ? '1' : undefined } as const
  const { portal } = portalSite
  const page = providerDownPage({
    portal,
    provider,
    retryHref: pageUrl(portalSite, `/providers/${provider.name}`, query),
    otherHref: portal.providers.size > 1 ? pageUrl(portalSite, '/signin', query) : undefined,
  })
  return sendPage(reply, 503, page)
}
