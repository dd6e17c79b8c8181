import { sendPage } from '@gatehouse/service-kit'
import type { FastifyReply } from 'fastify'
import { isNavigation } from '../check/kind.ts'
import { FwaError } from '../errors.ts'
import { redirectUriOf } from '../login/redirect-uri.ts'
import { providerDownPage } from '../pages/pages.ts'
import type { Provider, RedirectProvider, SeamlessProvider } from '../providers/provider.ts'
import type { Service } from '../service.ts'
import { letIn } from './let-in.ts'
import { noSession } from './no-session.ts'
import { identify, type Place } from './place.ts'
import { pageUrl, redirect } from './redirect.ts'

/** What a login shall come to. */
export interface LoginStart {
  readonly place: Place
  readonly provider: Provider
  /** Where the person wants to go; validated. */
  readonly returnTo: string
  readonly chooseAccount?: boolean
  /** Whether it is begun anew for one that was lost. */
  readonly isRetry?: boolean
}

/**
 * Sends a person to sign in. Nothing but a navigation begins a login, so that what polls in the
 * background fills no cookie.
 *
 * @throws FwaError FWA_NO_SESSION, FWA_LOGIN_REFUSED, FWA_PROVIDER_…
 */
export async function startLogin(
  service: Service,
  start: LoginStart,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { request } = reply
  if (!isNavigation(request.method, request.headers)) throw noSession(reply, start.place)
  const { provider } = start
  try {
    return provider.type === 'redirect'
      ? await sendToProvider(service, start, provider, reply)
      : await recognise(service, start, provider, reply)
  } catch (error) {
    if (!(error instanceof FwaError && error.code === 'FWA_PROVIDER_UNREACHABLE')) throw error
    request.log.warn({ err: error, provider: provider.name }, 'a login could not be begun')
    return sendProviderDown(start, reply)
  }
}

async function sendToProvider(
  { logins }: Service,
  { place, returnTo, chooseAccount = false, isRetry = false }: LoginStart,
  provider: RedirectProvider,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { portal, site } = place
  const redirectUri = redirectUriOf(site, portal, provider.name)
  const wish = { provider: provider.name, redirectUri, returnTo, isRetry }
  const { secrets, setCookies } = logins.begin(portal, site, wish, reply.request.headers.cookie)
  const url = await provider.authorizationUrl({ ...secrets, redirectUri, chooseAccount })
  return redirect(reply.header('set-cookie', setCookies), url.href)
}

async function recognise(
  service: Service,
  { place, returnTo }: LoginStart,
  provider: SeamlessProvider,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const profile = await identify(service, provider, reply.request)
  if (profile) return letIn(service, { place, profile, returnTo }, reply)
  throw new FwaError('FWA_LOGIN_REFUSED', `${provider.title} does not know your device`)
}

function sendProviderDown(
  { place, provider, returnTo, chooseAccount }: LoginStart,
  reply: FastifyReply,
): FastifyReply {
  const query = { rd: returnTo, switch: chooseAccount ? '1' : undefined } as const
  const { portal } = place
  const page = providerDownPage({
    portal,
    provider,
    retryHref: pageUrl(place, `/providers/${provider.name}`, query),
    otherHref: portal.providers.size > 1 ? pageUrl(place, '/signin', query) : undefined,
  })
  return sendPage(reply, 503, page)
}
