import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { isSteppedUp } from '@gatehouse/gate'
import {
  PROVIDER_ERRORS,
  ProviderError,
  type RedirectProvider,
  type SignedIn,
} from '@gatehouse/identity-providers'
import type { Profile } from '@gatehouse/profile'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { FwaError, isOwn } from '../errors.ts'
import { warnRarely } from '../log-limit.ts'
import { personOf } from '../session/session.ts'
import { isLasting } from '../session/sessions.ts'
import { bareAnswer, PAGES, pageAnswer, problemAnswers } from '../web/documented.ts'
import { type Realm, signInSiteOf } from '../web/realm.ts'
import { cookiesBlocked, redirect, signInUrl, targetOf, withLoginUrl } from '../web/redirects.ts'
import {
  type Attempt,
  browserOf,
  completeSignIn,
  isEnough,
  ownHop,
  recordSignIn,
  refuseDuplicate,
  startLogin,
  withoutPlace,
} from './login.ts'
import type { CallbackLogin, LoginState } from './logins.ts'
import { CALLBACK_PATH, SHARED_CALLBACK_PATH, soleRedirectProvider } from './redirect-uri.ts'
import { describeUnmet, type StepUpDemand } from './step-up.ts'

const tags = ['sign-in', PAGES]
const params = Type.Object({ portal: Type.String(), provider: Type.String() })
const response = {
  200: pageAnswer('A page on the way to an app whose host gets its session now.'),
  303: bareAnswer('Redirect to the return URL, or to the provider once more.'),
  ...problemAnswers(400, 401, 403, 404, 429, 502, 503),
}
const SCHEMA = { summary: 'Callback of a provider', tags, response, params }
const SHARED_SCHEMA = { summary: 'Callback of the only provider', tags, response, deprecated: true }

/** `GET /providers/:provider/callback`: the redirect URI of each provider. */
export const callbackRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.get(CALLBACK_PATH, { schema: SCHEMA }, async (request, reply) =>
    receiveCallback(signInSiteOf(request), request.params.provider, reply),
  )
  app.get(SHARED_CALLBACK_PATH, { schema: SHARED_SCHEMA }, async (request, reply) => {
    const realm = signInSiteOf(request)
    const provider = soleRedirectProvider(realm.portal)
    if (provider !== undefined) return receiveCallback(realm, provider, reply)
    const code = 'FWA_CALLBACK_SHARED'
    const portal = realm.portal.name
    const message = `${SHARED_CALLBACK_PATH} is refused because the portal ${portal} has several providers`
    const remedy = 'register at each provider the redirect URI that check-config prints'
    warnRarely(request, { code, portal }, `${message}: ${remedy}`)
    throw withLoginUrl(new FwaError(code, message), realm, { returnTo: undefined })
  })
}

async function receiveCallback(
  realm: Realm,
  provider: string,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { request, server } = reply
  const { state } = request.query as { state?: unknown }
  const cookieHeader = request.headers.cookie
  const outcome = await server.logins.complete(realm, { provider, state, cookieHeader })
  const login = outcome.kind === 'unknown' ? undefined : outcome.login
  refuseDuplicate(request, realm, login?.returnTo)
  if (outcome.kind === 'valid')
    return outcome.login.isOffline
      ? finishOffline(realm, outcome, reply)
      : finish(realm, outcome, reply)
  if (outcome.kind === 'foreign') throw foreignCallback(realm, provider, outcome.login, request)

  if (outcome.kind === 'used') return redirect(reply, signInUrl(realm, outcome.login))
  // The answer that began it again was for this browser, with a cookie.
  if (outcome.kind === 'lost' && outcome.login.restarts && cookieHeader === undefined)
    throw cookiesBlocked(realm, outcome.login.returnTo)
  return goOn(realm, login, MAX_RESTARTS, reply)
}

type ValidLogin = Extract<CallbackLogin, { kind: 'valid' }>

async function finish(
  realm: Realm,
  { login, secrets, confirm }: ValidLogin,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const provider = providerOf(realm, login)
  if (!provider) throw unknownLogin(realm, login)
  const { returnTo, hop, stepUp } = login
  const attempt = { realm, returnTo, hop, stepUp }
  const { redirectUri, callback } = callbackOf(login, reply.request)

  let signedIn: SignedIn
  try {
    signedIn = await provider.finish(callback, { ...secrets, redirectUri })
  } catch (thrown) {
    if (!(isOwn(thrown) || thrown instanceof ProviderError)) throw thrown
    const error = withoutPlace(thrown, 'the sign-in cannot be completed at the moment')
    const giveUp = () => failed({ ...attempt, provider }, error, reply.request)
    if (!isOvertaken(callback, error)) throw giveUp()
    return goOn(realm, login, 1, reply, giveUp)
  }
  const { profile } = signedIn
  const now = reply.server.clock.now()
  if (stepUp && !isSteppedUp(stepUp, profile, now))
    throw unmet({ ...attempt, provider, profile }, stepUp, reply)
  return completeSignIn({ ...attempt, signedIn, confirm }, reply)
}

/**
 * Keeps what a provider gives for the agents of a person, if it is the one who is signed in. Where it gives nothing, it
 * may show its page once; after that they end with the session of the browser.
 */
async function finishOffline(
  realm: Realm,
  { login, secrets, confirm }: ValidLogin,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { request, server } = reply
  const { redirectUri, callback } = callbackOf(login, request)
  const { returnTo, restarts = 0 } = login
  const provider = providerOf(realm, login)
  let signedIn: SignedIn | undefined
  try {
    signedIn = await provider?.finish(callback, { ...secrets, redirectUri })
  } catch (err) {
    if (!(isOwn(err) || err instanceof ProviderError)) throw err
    request.log.info({ err, provider: login.provider }, 'the provider refused an offline token')
  }
  if (provider && restarts === 0 && !(signedIn && isLasting(signedIn.tokens)))
    return startLogin({ realm, provider, returnTo, isOffline: true, restarts: 1 }, reply)
  const session = (await server.sessions.atSignIn(request, realm))?.session
  if (session && signedIn && session.person === personOf(session.portal, signedIn.profile))
    if (await confirm()) {
      await server.sessions.beginOffline(
        { ...realm, signedIn, browser: browserOf(request) },
        session.authentications,
      )
    }
  return redirect(reply, returnTo)
}

/** The URL to which a provider has sent a browser, as it was registered there and as it came. */
function callbackOf({ redirectUri }: LoginState, request: FastifyRequest) {
  const callback = new URL(redirectUri)
  callback.search = new URL(request.url, redirectUri).search
  return { redirectUri, callback }
}

/** Records a login that the provider did not complete, and gives its error. */
function failed(
  attempt: Attempt & { readonly provider: RedirectProvider },
  error: FwaError,
  request: FastifyRequest,
): FwaError {
  const { realm, provider } = attempt
  const { code } = error
  const event = REFUSALS.has(code) ? 'sign-in-refused' : 'sign-in-failed'
  recordSignIn(event, { ...attempt, code }, request)
  warnOperator(realm, provider, error, request)
  return withLoginUrl(error, realm, attempt)
}

/** The error of a sign-in that does not meet the demands of a policy. */
function unmet(
  attempt: Attempt & { readonly provider: RedirectProvider; readonly profile: Profile },
  demand: StepUpDemand,
  { request, server }: FastifyReply,
): FwaError {
  const { realm, provider, profile } = attempt
  const code = 'FWA_STEP_UP_UNMET'
  const portal = realm.portal.name
  const { policy } = demand
  const refusal = { reason: `policy ${policy}` }
  recordSignIn('sign-in-refused', { ...attempt, code, refusal }, request)
  const details = describeUnmet(demand, profile, server.clock.now())
  const message = `${provider.name} did not authenticate a person the way the policy ${policy} requires`
  warnRarely(request, { code, portal, provider: provider.name, policy }, message, details)
  const text =
    `${provider.title} did not confirm that you signed in the way this page requires. ` +
    'Try again, or ask the administrator of this site.'
  return withLoginUrl(new FwaError(code, text), realm, attempt)
}

/**
 * Goes on with a tab whose login is of no use. If another tab has signed in meanwhile, it goes to its
 * page. Otherwise it starts again: a code that another browser may have obtained is not redeemed. A
 * browser that keeps no cookies gets an error page in the end.
 */
async function goOn(
  realm: Realm,
  login: LoginState | undefined,
  maxRestarts: number,
  reply: FastifyReply,
  giveUp: () => FwaError = () => unknownLogin(realm, login),
): Promise<FastifyReply> {
  const { request, server } = reply
  const { stepUp, returnTo: requestedUrl } = login ?? {}
  if (isEnough(await server.sessions.atSignIn(request, realm), stepUp, server.clock.now()))
    return redirect(reply, signInUrl(realm, { returnTo: requestedUrl, ...login }))
  const provider = login && providerOf(realm, login)
  const restarts = (login?.restarts ?? 0) + 1
  if (!provider || restarts > maxRestarts) throw giveUp()
  const returnTo = targetOf(realm, requestedUrl)
  const hop = ownHop(realm, login, request)
  return startLogin({ realm, provider, returnTo, hop, restarts, stepUp }, reply)
}

/** Browsers follow 20 redirects, and a login takes up to five. */
const MAX_RESTARTS = 3

/**
 * Whether the provider gave up a login, rather than refused it, as it does when another tab was faster:
 * it does not take its own code, or says what Keycloak says then.
 */
function isOvertaken({ searchParams }: URL, { code }: FwaError): boolean {
  const error = searchParams.get('error')
  return error === 'temporarily_unavailable' || (error === null && code === 'FWA_LOGIN_REFUSED')
}

/** Errors by which the provider refuses the person, rather than this site. */
const REFUSALS = new Set<string>(['FWA_LOGIN_REFUSED', 'FWA_STEP_UP_UNMET'])

/** Logs errors that keep everybody from signing in until the configuration is corrected. */
function warnOperator(
  { portal: { name: portal } }: Realm,
  { name: provider }: RedirectProvider,
  { code, cause }: FwaError,
  request: FastifyRequest,
): void {
  if (code !== 'FWA_CLIENT_REFUSED' && code !== 'FWA_REQUEST_REFUSED') return
  const { message: reason } = cause as Error
  const message = `nobody can sign in at ${provider}: ${PROVIDER_ERRORS[code].action}`
  warnRarely(request, { code, portal, provider }, message, { reason })
}

function providerOf(
  { portal }: Realm,
  { provider: name }: LoginState,
): RedirectProvider | undefined {
  const provider = portal.providers.get(name)
  return provider?.type === 'redirect' ? provider : undefined
}

function unknownLogin(realm: Realm, login: LoginState | undefined): FwaError {
  const error = new FwaError('FWA_LOGIN_UNKNOWN', 'this browser has no such sign-in in progress')
  return withLoginUrl(error, realm, { returnTo: undefined, ...login })
}

/** Mix-up (RFC 9700 section 4.4): one provider may send people to another to obtain its codes. */
function foreignCallback(
  realm: Realm,
  provider: string,
  login: LoginState,
  request: FastifyRequest,
): FwaError {
  const portal = realm.portal.name
  const code = 'FWA_CALLBACK_FOREIGN'
  const { provider: begunAt, returnTo } = login
  const attempt = { realm, provider: { name: provider }, returnTo, code }
  recordSignIn('sign-in-failed', attempt, request)
  const message = `a login that started at ${begunAt} came back to the redirect URI of ${provider}: refused`
  warnRarely(request, { code, portal, provider, begunAt }, message)
  const text = 'this sign-in started at another provider than the one that answered'
  return withLoginUrl(new FwaError(code, text), realm, login)
}
