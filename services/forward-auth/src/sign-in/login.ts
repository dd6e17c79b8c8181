import { isSteppedUp, type Refusal } from '@gatehouse/gate'
import {
  type Provider,
  ProviderError,
  type RedirectProvider,
  type SeamlessProvider,
  type SignedIn,
} from '@gatehouse/identity-providers'
import type { Profile } from '@gatehouse/profile'
import { isNavigation, isPrefetch } from '@gatehouse/service-kit/http'
import { isUnavailable } from '@gatehouse/store'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Ender } from '../audit/audit.ts'
import { noSession } from '../check/challenges.ts'
import { FwaError, isOwn } from '../errors.ts'
import { warnRarely } from '../log-limit.ts'
import { providerDownPage, refusedPage } from '../pages/pages.ts'
import { readHop } from '../session/hop.ts'
import { type Browser, personOf, type Session, type Visitor } from '../session/session.ts'
import { setSessionCookies } from '../session/session-cookies.ts'
import { pageUrl } from '../sites.ts'
import type { AuditEvent } from '../store/store.ts'
import { appCookieName, isDoubled, setHostCookies } from '../web/cookies.ts'
import { sendToReader } from '../web/reader.ts'
import type { Realm } from '../web/realm.ts'
import { type Destination, redirect, signInUrl, tooOften, withLoginUrl } from '../web/redirects.ts'
import { redirectUriOf } from './redirect-uri.ts'
import { destinationOf, destinationSiteOf, returnToApp } from './return-to-app.ts'
import type { StepUpDemand } from './step-up.ts'

interface LoginStart extends Attempt {
  readonly provider: Provider
  readonly chooseAccount?: boolean
  readonly restarts?: number
  readonly isOffline?: boolean
}

/**
 * Sends a person to sign in. Only a page that they have opened starts a login, so that background
 * requests and prefetches set no cookies.
 */
export async function startLogin(start: LoginStart, reply: FastifyReply): Promise<FastifyReply> {
  const { request } = reply
  const { method, headers } = request
  if (isPrefetch(headers) || !isNavigation(method, headers)) throw noSession(start.realm)
  const { provider } = start
  if (start.stepUp && !provider.stepsUp) {
    const text = `${provider.title} cannot sign you in the way this page requires. Choose another provider.`
    const error = new FwaError('FWA_STEP_UP_UNMET', text)
    throw withLoginUrl(error, start.realm, start)
  }
  try {
    return provider.type === 'redirect'
      ? await sendToProvider(start, provider, reply)
      : await signInByAddress(start, provider, reply)
  } catch (error) {
    if (!(error instanceof ProviderError && error.code === 'FWA_PROVIDER_UNREACHABLE')) throw error
    request.log.warn({ err: error, provider: provider.name }, 'login could not be started')
    recordSignIn('sign-in-failed', { ...start, code: error.code }, request)
    return sendProviderDown(start, reply)
  }
}

async function sendToProvider(
  start: LoginStart,
  provider: RedirectProvider,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { realm, returnTo, hop, chooseAccount = false, restarts = 0 } = start
  const { stepUp, isOffline } = start
  const { logins } = reply.server
  const redirectUri = redirectUriOf(realm.site, realm.portal, provider.name)
  const login = { provider: provider.name, redirectUri, returnTo, hop, restarts, stepUp, isOffline }
  const { secrets, cookies } = logins.begin(realm, login, reply.request.headers.cookie)
  // The provider shows its consent page only if it gave nothing without.
  const offlinePrompt = isOffline ? (restarts === 0 ? 'none' : 'consent') : undefined
  const demands = { chooseAccount, stepUp, offlinePrompt } as const
  const url = await provider.authorizationUrl({ ...secrets, redirectUri, ...demands })
  setHostCookies(reply, cookies)
  return redirect(reply, url.href)
}

async function signInByAddress(
  { realm, returnTo, hop }: LoginStart,
  provider: SeamlessProvider,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { request } = reply
  const profile = await identify(provider, request)
  if (profile) return completeSignIn({ realm, signedIn: byAddress(profile), returnTo, hop }, reply)
  const code = 'FWA_LOGIN_REFUSED'
  recordSignIn('sign-in-refused', { realm, provider, returnTo, code }, request)
  throw new FwaError('FWA_LOGIN_REFUSED', `${provider.title} does not know your device`)
}

/** Returns the sign-in of a person known by address, whose provider gives no tokens to store. */
export function byAddress(profile: Profile): SignedIn {
  return { profile, tokens: {} }
}

/** The person that a provider knows by the address of a request. */
export async function identify(provider: SeamlessProvider, request: FastifyRequest) {
  const clientIp = request.server.trust.clientIp(request.raw)
  return clientIp === undefined ? undefined : provider.identify(clientIp)
}

function sendProviderDown(
  { realm, provider, returnTo, hop, chooseAccount, stepUp }: LoginStart,
  reply: FastifyReply,
): FastifyReply {
  const query = {
    ...{ rd: returnTo, hop, policy: stepUp?.policy },
    switch: chooseAccount ? '1' : undefined,
  }
  return sendToReader(reply, realm, 503, providerDownPage, {
    provider,
    since: reply.server.sessions.reReading.awaySince(provider),
    retryHref: pageUrl(realm, `/providers/${provider.name}`, query),
    otherHref: realm.portal.providers.size > 1 ? pageUrl(realm, '/signin', query) : undefined,
  })
}

/** A sign-in that goes on, is refused or fails. */
export interface Attempt {
  readonly realm: Realm
  /** The validated return URL. */
  readonly returnTo: string
  /** The hop that led to it, as it is signed. It counts in this browser. */
  readonly hop?: string | undefined
  readonly stepUp?: StepUpDemand | undefined
  readonly profile?: Profile
  readonly provider?: Pick<Provider, 'name'>
  readonly code?: string
  /** The part of the portal that refused the person. */
  readonly refusal?: Refusal
  readonly ender?: Ender
}

/** The sign-in of a person whom the provider has named. */
type SignIn = Attempt & {
  readonly signedIn: SignedIn
  /** Completes the login. Resolves with false if another instance was faster with a copy of it. */
  readonly confirm?: () => Promise<boolean>
}

/**
 * Records an error page, whose request ID somebody may read out, unless what led to it is recorded. It is no failed sign-in,
 * of which there is an alert: anybody may open an old link.
 */
export async function recordErrorPage(
  request: FastifyRequest,
  _reply: FastifyReply,
  error: Error,
): Promise<void> {
  const { portal = '' } = (request.params ?? {}) as { portal?: string }
  const { method, headers, server } = request
  const isShown = server.portals.has(portal) && isNavigation(method, headers)
  if (!isShown || !isOwn(error) || server.auditTrail.has(request)) return
  const { code } = error
  const page = { portal, code, host: undefined, isPage: true, isQuiet: true } as const
  server.auditTrail.record(request, { event: 'access-refused', ...page })
}

/** Writes an event of a sign-in to the audit trail, with the host where the person wanted to go. */
export function recordSignIn(
  event: AuditEvent,
  { realm, returnTo, profile, provider, code, refusal, ender }: Attempt,
  request: FastifyRequest,
): void {
  request.server.auditTrail.record(request, {
    event,
    profile,
    code,
    refusal,
    ender,
    isPage: isNavigation('GET', request.headers),
    portal: realm.portal.name,
    provider: provider?.name,
    host: destinationOf(realm, returnTo).host,
  })
}

/** The hop that led to a destination, if it counts in this browser. */
export function ownHop(
  { portal }: Realm,
  { returnTo = '', hop }: Destination,
  { headers, server }: FastifyRequest,
): string | undefined {
  const { cookie: cookieHeader = '' } = headers
  const context = { portal: portal.name, returnTo, cookieHeader, now: server.clock.now() }
  return readHop(hop, context, server.keys.login)?.signed
}

/** Whether a session is as good as a sign-in would be. */
export function isEnough(
  visitor: Visitor | undefined,
  stepUp: StepUpDemand | undefined,
  now: number,
): visitor is Visitor {
  return visitor !== undefined && (!stepUp || isSteppedUp(stepUp, visitor.subject, now))
}

/**
 * Gives a person a session and redirects them to the return URL, unless the portal does not admit
 * them. A session of another account in the same browser is revoked.
 */
export async function completeSignIn(signIn: SignIn, reply: FastifyReply): Promise<FastifyReply> {
  const { realm } = signIn
  const { profile } = signIn.signedIn
  const { request, server } = reply
  const { portal } = realm
  // The names alone: what they say is about the person.
  const names = { portal: portal.name, claims: Object.keys(profile.claims) }
  request.log.debug(names, 'a person signs in with these claims')
  if (portal.admits(profile) !== true) return sendRefused(signIn, reply)
  const retryAfter = server.signInRate.take(personOf(portal.name, profile))
  if (retryAfter > 0) {
    const error = tooOften(retryAfter, realm, signIn)
    recordSignIn('sign-in-refused', { ...signIn, profile, code: error.code }, request)
    throw error
  }
  const previousSession = (await server.sessions.atSignIn(request, realm))?.session
  const session = await beginSession(previousSession, signIn, reply)
  // The provider has ended it already, or another tab has completed it: it is asked once more who is there.
  if (!session) return redirect(reply, signInUrl(realm, signIn))
  setSessionCookies(reply, realm, session)
  recordSignIn('sign-in', { ...signIn, profile }, request)
  if (signIn.stepUp) return returnToApp({ ...signIn, session }, 'step-up', reply)
  // A person with a session may sign in again, with another account.
  return returnToApp({ ...signIn, session }, previousSession ? undefined : 'login', reply)
}

function sendRefused(signIn: SignIn, reply: FastifyReply): FastifyReply {
  const { realm, returnTo, hop } = signIn
  const { profile } = signIn.signedIn
  const { request } = reply
  const refusal = realm.portal.refusalOf(profile)
  recordSignIn('sign-in-refused', { ...signIn, profile, code: 'FWA_FORBIDDEN', refusal }, request)
  const switchHref = pageUrl(realm, '/signin', { rd: returnTo, hop, switch: '1' })
  const { id: requestId } = request
  return sendToReader(reply, realm, 403, refusedPage, { profile, switchHref, requestId })
}

/** Begins a session; that of another account in this browser ends. */
async function beginSession(
  previousSession: Session | undefined,
  signIn: SignIn,
  { request, server }: FastifyReply,
): Promise<Session | undefined> {
  const { realm, signedIn } = signIn
  const { profile } = signedIn
  const { sessions } = server
  try {
    // Not before the person is known and within their limit, so that nobody can fill the store.
    if (signIn.confirm && !(await signIn.confirm())) return undefined
    if (previousSession && previousSession.person !== personOf(realm.portal.name, profile)) {
      const actor = `${profile.provider}:${profile.id}`
      const ender = { endedBy: 'sign-in', actor, actorName: profile.name?.full } as const
      const attempt = { ...signIn, profile: previousSession.profile, ender }
      recordSignIn('session-ended', attempt, request)
      await sessions.records.endOne(previousSession)
    }
    const session = { ...realm, signedIn, browser: browserOf(request) }
    return await sessions.begin(session, previousSession)
  } catch (error) {
    if (!isOwn(error)) throw error
    recordSignIn('sign-in-failed', { ...signIn, profile, code: error.code }, request)
    const text = 'the sign-in cannot be stored at the moment'
    throw withLoginUrl(withoutPlace(error, text), realm, signIn)
  }
}

const MAX_USER_AGENT = 256

export function browserOf({ headers, raw, server }: FastifyRequest): Browser {
  const userAgent = (headers['user-agent'] ?? '').slice(0, MAX_USER_AGENT)
  return { userAgent, address: server.trust.clientIp(raw) }
}

/** Hides the folder or host that errors of the store name, which only the log may show. */
export function withoutPlace(error: FwaError, text: string): FwaError {
  if (!isUnavailable(error)) return error
  const { code, retryAfter = 0 } = error
  return new FwaError(code, text, { cause: error, retryAfter })
}

/**
 * Refuses a browser with two cookies of a session that the hosts of a domain share. A login would not help,
 * because the cookie of the other site would remain beside the new one.
 */
export function refuseDuplicate(
  request: FastifyRequest,
  realm: Realm,
  returnTo: string | undefined,
): void {
  const { portal } = realm
  const site = destinationSiteOf(request.server, realm, returnTo ?? '')
  const name = appCookieName(portal, site, site.domain)
  if (site.scope !== 'domain' || !isDoubled(request.headers.cookie ?? '', name)) return
  const code = 'FWA_COOKIE_DUPLICATE'
  const message = `a browser sends ${name} twice: a site below ${site.domain} has set one of them`
  warnRarely(request, { code, portal: portal.name }, message)
  const text = `Delete the cookies of ${site.domain} in your browser: another site has set a second ${name}.`
  throw withLoginUrl(new FwaError(code, text), realm, { returnTo })
}
