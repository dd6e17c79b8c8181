import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Profile } from '@gatehouse/profile'
import type { FastifyReply } from 'fastify'
import { FwaError } from '../errors.ts'
import type { Arrival, Wish } from '../login/logins.ts'
import type { RedirectProvider } from '../providers/provider.ts'
import type { Service } from '../service.ts'
import { letIn } from './let-in.ts'
import { authPlaceOf, type Place, sessionOf } from './place.ts'
import { pageUrl, redirect, targetOf } from './redirect.ts'
import { startLogin } from './start-login.ts'

type Live = Extract<Arrival, { kind: 'live' }>

/** `GET /oauth2/callback`: where providers send people back to. */
export const callbackRoute: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service },
) => {
  app.get(
    '/oauth2/callback',
    { schema: { summary: 'Back from a provider', tags: ['sign-in'] } },
    async (request, reply) => {
      const place = authPlaceOf(service, request)
      const { state } = request.query as { state?: unknown }
      const { portal, site } = place
      const arrival = service.logins.arrive(portal, site, state, request.headers.cookie)
      if (arrival.kind === 'live') return finish(service, place, arrival, reply)

      const wish = arrival.kind === 'unknown' ? undefined : arrival.wish
      const isSignedIn = sessionOf(service, place, request) !== undefined
      if (isSignedIn || arrival.kind === 'used')
        return redirect(reply, targetOf(place, wish?.returnTo))
      return beginAnew(service, place, wish, reply)
    },
  )
}

async function finish(
  service: Service,
  place: Place,
  { wish, secrets, setCookie }: Live,
  reply: FastifyReply,
): Promise<FastifyReply> {
  reply.header('set-cookie', setCookie)
  const provider = providerOf(place, wish)
  if (!provider) throw unknownLogin(place, wish)
  const redirectUri = pageUrl(place, '/oauth2/callback')
  const callback = new URL(redirectUri)
  callback.search = new URL(reply.request.url, redirectUri).search

  let profile: Profile
  try {
    profile = await provider.finish(callback, { ...secrets, redirectUri })
  } catch (error) {
    if (!(error instanceof FwaError)) throw error
    service.metrics.login(error.code === 'FWA_LOGIN_REFUSED' ? 'refused' : 'failed')
    throw withLoginUrl(error, place, wish)
  }
  return letIn(service, { place, profile, returnTo: wish.returnTo }, reply)
}

/**
 * A login that this browser does not know is begun anew, once: when several tabs begin at the same
 * time the cookie of the last one stays, and no code is taken that somebody else may have sent.
 */
async function beginAnew(
  service: Service,
  place: Place,
  wish: Wish | undefined,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const provider = wish && providerOf(place, wish)
  if (!provider || wish.isRetry) throw unknownLogin(place, wish)
  const returnTo = targetOf(place, wish.returnTo)
  return startLogin(service, { place, provider, returnTo, isRetry: true }, reply)
}

function providerOf({ portal }: Place, { provider: name }: Wish): RedirectProvider | undefined {
  const provider = portal.providers.get(name)
  return provider?.type === 'redirect' ? provider : undefined
}

function unknownLogin(place: Place, wish: Wish | undefined): FwaError {
  const error = new FwaError('FWA_LOGIN_UNKNOWN', 'no such sign-in is under way in this browser')
  return withLoginUrl(error, place, wish)
}

/** What a person is told: how it went wrong, and where to begin again. */
function withLoginUrl(
  { code, message, cause, retryAfter = 0 }: FwaError,
  place: Place,
  wish: Wish | undefined,
): FwaError {
  const loginUrl = pageUrl(place, '/signin', { rd: wish?.returnTo })
  return new FwaError(code, message, { cause, retryAfter, expose: true, members: { loginUrl } })
}
