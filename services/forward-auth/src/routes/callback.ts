import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Profile } from '@gatehouse/profile'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { FWA_ERRORS, FwaError } from '../errors.ts'
import type { Arrival, Wish } from '../login/logins.ts'
import { CALLBACK_PATH, SHARED_CALLBACK_PATH, soleRedirectProvider } from '../login/redirect-uri.ts'
import type { RedirectProvider } from '../providers/provider.ts'
import type { Service } from '../service.ts'
import { bareAnswer, problemAnswers } from './documented.ts'
import { letIn } from './let-in.ts'
import { withLoginUrl } from './login-error.ts'
import { authPlaceOf, type Place, sessionOf } from './place.ts'
import { pageUrl, redirect, targetOf } from './redirect.ts'
import { refuseDuplicate } from './send-on.ts'
import { startLogin } from './start-login.ts'

type Live = Extract<Arrival, { kind: 'live' }>

const tags = ['sign-in']
const response = {
  303: bareAnswer('On to where the person wanted to go, or to the provider once more.'),
  ...problemAnswers(400, 401, 403, 404, 429, 502, 503),
}

/** `GET /providers/:provider/callback`: where each provider sends people back to. */
export const callbackRoute: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service },
) => {
  app.get(
    CALLBACK_PATH,
    {
      schema: {
        summary: 'Back from a provider',
        tags,
        response,
        params: Type.Object({ portal: Type.String(), provider: Type.String() }),
      },
    },
    async (request, reply) => {
      const place = authPlaceOf(service, request)
      return receive(service, place, request.params.provider, reply)
    },
  )

  app.get(
    SHARED_CALLBACK_PATH,
    { schema: { summary: 'Back from the only provider', tags, response, deprecated: true } },
    async (request, reply) => {
      const place = authPlaceOf(service, request)
      const provider = soleRedirectProvider(place.portal)
      if (provider === undefined) throw sharedCallback(service, place, reply)
      return receive(service, place, provider, reply)
    },
  )
}

/** Takes somebody in who came back to the redirect URI of a provider. */
async function receive(
  service: Service,
  place: Place,
  provider: string,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { request } = reply
  const { state } = request.query as { state?: unknown }
  const cookieHeader = request.headers.cookie
  const { portal, site } = place
  const arrival = service.logins.arrive(portal, site, { provider, state, cookieHeader })
  const wanted = arrival.kind === 'unknown' ? undefined : arrival.wish.returnTo
  refuseDuplicate(service, place, request, wanted)
  if (arrival.kind === 'live') return finish(service, place, arrival, reply)
  if (arrival.kind === 'foreign') throw foreign(service, place, provider, arrival.wish, reply)

  const wish = arrival.kind === 'unknown' ? undefined : arrival.wish
  const isSignedIn = sessionOf(service, place, request) !== undefined
  if (isSignedIn || arrival.kind === 'used') return redirect(reply, targetOf(place, wish?.returnTo))
  return beginAnew(service, place, wish, reply)
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
  const { redirectUri = pageUrl(place, SHARED_CALLBACK_PATH) } = wish
  const callback = new URL(redirectUri)
  callback.search = new URL(reply.request.url, redirectUri).search

  let profile: Profile
  try {
    profile = await provider.finish(callback, { ...secrets, redirectUri })
  } catch (error) {
    if (!(error instanceof FwaError)) throw error
    service.metrics.login(error.code === 'FWA_LOGIN_REFUSED' ? 'refused' : 'failed')
    tellOperator(service, place, provider, error, reply)
    throw withLoginUrl(error, place, wish.returnTo)
  }
  return letIn(service, { place, profile, returnTo: wish.returnTo }, reply)
}

/**
 * A login that took too long, or that this browser does not know, is begun anew, once: when several
 * tabs begin at the same time the cookie of the last one stays, and no code is taken that somebody
 * else may have sent.
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

const OPERATORS = new Set<string>(['FWA_CLIENT_REFUSED', 'FWA_REQUEST_REFUSED'])

/** Nobody can sign in there until an operator corrects something, here or at the provider. */
function tellOperator(
  { tellSeldom }: Service,
  { portal: { name: portal } }: Place,
  { name: provider }: RedirectProvider,
  { code, cause }: FwaError,
  { request }: FastifyReply,
): void {
  if (!OPERATORS.has(code)) return
  const { message: reason } = cause as Error
  tellSeldom(`${code} ${portal} ${provider}`, () =>
    request.log.warn(
      { code, portal, provider, reason },
      `nobody can sign in at ${provider}: ${FWA_ERRORS[code].action}`,
    ),
  )
}

function providerOf({ portal }: Place, { provider: name }: Wish): RedirectProvider | undefined {
  const provider = portal.providers.get(name)
  return provider?.type === 'redirect' ? provider : undefined
}

function unknownLogin(place: Place, wish: Wish | undefined): FwaError {
  const error = new FwaError('FWA_LOGIN_UNKNOWN', 'no such sign-in is under way in this browser')
  return withLoginUrl(error, place, wish?.returnTo)
}

/** One provider may have sent a person on to another, to get at the code that comes back. */
function foreign(
  service: Service,
  place: Place,
  provider: string,
  wish: Wish,
  { request }: FastifyReply,
): FwaError {
  const portal = place.portal.name
  service.metrics.login('failed')
  service.tellSeldom(`foreign ${portal} ${provider} ${wish.provider}`, () =>
    request.log.warn(
      { code: 'FWA_CALLBACK_FOREIGN', portal, provider, begunAt: wish.provider },
      `a login that began at ${wish.provider} came back to the redirect URI of ${provider}: refused`,
    ),
  )
  const error = new FwaError(
    'FWA_CALLBACK_FOREIGN',
    'this sign-in began at another provider than the one that answered',
  )
  return withLoginUrl(error, place, wish?.returnTo)
}

function sharedCallback(service: Service, place: Place, { request }: FastifyReply): FwaError {
  const portal = place.portal.name
  const message = `${SHARED_CALLBACK_PATH} is refused, as the portal ${portal} has several providers`
  service.tellSeldom(`shared ${portal}`, () =>
    request.log.warn(
      { code: 'FWA_CALLBACK_SHARED', portal },
      `${message}: register at each the redirect URI that check-config prints`,
    ),
  )
  return withLoginUrl(new FwaError('FWA_CALLBACK_SHARED', message), place, undefined)
}
