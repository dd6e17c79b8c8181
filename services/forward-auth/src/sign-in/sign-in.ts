import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Provider } from '@gatehouse/identity-providers'
import type { Profile } from '@gatehouse/profile'
import { isNavigation, isPrefetch } from '@gatehouse/service-kit/http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { FwaError } from '../errors.ts'
import { framedPage, signInPage } from '../pages/pages.ts'
import type { Portal } from '../portal/portals.ts'
import type { Visitor } from '../session/session.ts'
import { renewCookie, setDomainCookies } from '../session/session-cookies.ts'
import { pageUrl } from '../sites.ts'
import { setHostCookies } from '../web/cookies.ts'
import { bareAnswer, PAGES, pageAnswer, problemAnswers } from '../web/documented.ts'
import { sendToReader } from '../web/reader.ts'
import { isSentTo, type Realm, signInSiteOf } from '../web/realm.ts'
import { cameFrom, cookiesBlocked, redirect, targetOf, withLoginUrl } from '../web/redirects.ts'
import { validateReturnUrl } from '../web/return-url.ts'
import {
  type Attempt,
  byAddress,
  completeSignIn,
  identify,
  isEnough,
  ownHop,
  refuseDuplicate,
  startLogin,
} from './login.ts'
import { beginRedirectCount, WINDOW } from './redirect-loop.ts'
import { destinationSiteOf, returnToApp } from './return-to-app.ts'
import { demandOf, type StepUpDemand } from './step-up.ts'

const querystring = Type.Partial(
  Type.Object({
    rd: Type.String({ description: 'Return URL.' }),
    from: Type.String({
      description:
        'Where the person comes from; the page of a signed-in person links back to it. Default: the page with the link.',
    }),
    hop: Type.String({
      description:
        'Of a redirect by a check: it is answered with a ticket for the app. `at-…`: the browser got a cookie at that time, in ms.',
    }),
    switch: Type.Literal('1', { description: 'Sign in with another account.' }),
    policy: Type.String({
      description:
        'Policies whose `acr` and `maxAge` the sign-in has to meet, with commas between them.',
    }),
  }),
)
const FIRST_STEP = { isFirstStep: true }
const params = Type.Object({ portal: Type.String(), provider: Type.String() })
const tags = ['sign-in', PAGES]
const START_RESPONSES = {
  303: bareAnswer('Redirect to the provider, or to the return URL.'),
  ...problemAnswers(400, 401, 403, 404, 429, 502, 503),
}
const CHOOSER_SCHEMA = {
  summary: 'Choose where to sign in',
  tags,
  querystring,
  response: {
    200: pageAnswer('The providers to choose from, or a page on the way to an app.'),
    ...START_RESPONSES,
  },
}
const START_SCHEMA = {
  summary: 'Sign in at a provider',
  tags,
  querystring,
  params,
  response: { 200: pageAnswer('The same as of the callback.'), ...START_RESPONSES },
}

/** `GET /signin`, the chooser, and `GET /providers/:provider`, which starts a login there. */
export const signInRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/signin', { schema: CHOOSER_SCHEMA, config: FIRST_STEP }, async (request, reply) => {
    const arrival = arrivalOf(request)
    const isFramed = FRAMES.has(request.headers['sec-fetch-dest'] ?? '')
    if (!isFramed && tryCookies(arrival, reply)) return reply
    const { realm, query, stepUp } = arrival
    const visitor = query.switch ? undefined : await app.sessions.atSignIn(request, realm)
    if (!query.switch && (await answerVisitor(arrival, visitor, reply))) return reply
    if (isFramed) return sendFramed(arrival, reply)
    const providers = providersFor(realm.portal, stepUp)
    const provider = soleProvider(realm.portal, providers, stepUp && visitor)
    return provider ? startAt(provider, arrival, reply) : sendChooser(arrival, providers, reply)
  })

  app.get(
    '/providers/:provider',
    { schema: START_SCHEMA, config: FIRST_STEP },
    async (request, reply) => {
      const { providers } = signInSiteOf(request).portal
      const provider = providers.get(request.params.provider)
      if (!provider) throw new FwaError('FWA_NOT_FOUND', 'this portal has no such provider')
      return startAt(provider, arrivalOf(request), reply)
    },
  )
}

/** `GET /` of a sign-in host, which people type: to the apps of the first portal. */
export async function homeRoute(app: FastifyInstance): Promise<void> {
  app.get('/', { schema: { hide: true } }, async (request, reply) => {
    const [portal] = app.portals.values()
    const site = app.sites.list.find(({ authOrigin }) => isSentTo(authOrigin, request))
    if (!portal || !site) return reply.callNotFound()
    return redirect(reply, pageUrl({ portal, site }, '/signin'))
  })
}

type SignInQuery = Static<typeof querystring>

/** A person who wants to go somewhere. */
interface Arrival extends Attempt {
  readonly query: SignInQuery
}

function arrivalOf(request: FastifyRequest<{ Querystring: SignInQuery }>): Arrival {
  const realm = signInSiteOf(request)
  const { query } = request
  refuseDuplicate(request, realm, query.rd)
  const { rd, from, hop } = query
  const home = { from: cameFrom(request, realm, from)?.href }
  const returnTo = rd === undefined ? pageUrl(realm, '/account', home) : targetOf(realm, rd)
  return {
    ...{ realm, query, returnTo, hop: ownHop(realm, { returnTo, hop }, request) },
    stepUp: stepUpFor(realm, query),
  }
}

/** Destinations of Fetch Metadata that are part of another page, which shows no page of ours or of a provider. */
const FRAMES = new Set(['frame', 'iframe', 'object', 'embed'])

function sendFramed({ realm, returnTo: href }: Arrival, reply: FastifyReply): FastifyReply {
  const { domain } = destinationSiteOf(reply.server, realm, href)
  const framedBy = `${domain}:* *.${domain}:*`
  return sendToReader(reply, realm, 403, framedPage, { href, framedBy })
}

/**
 * Whether a browser that shows no cookie, though a check may have just set one here, is sent round once with another.
 * If that does not come back either, signing in would be in vain.
 */
function tryCookies({ realm, returnTo, query, hop }: Arrival, reply: FastifyReply): boolean {
  const { method, headers } = reply.request
  const isOdd = query.hop !== undefined && hop === undefined && headers.cookie === undefined
  if (!isOdd || isPrefetch(headers) || !isNavigation(method, headers)) return false
  const now = reply.server.clock.now()
  // An address that somebody has kept, or loads again later, says nothing of this browser.
  if (Math.abs(now - Number(/^at-(\d+)$/.exec(query.hop ?? '')?.[1])) < WINDOW)
    throw cookiesBlocked(realm, returnTo)
  setHostCookies(reply, [beginRedirectCount(realm.portal)])
  redirect(reply, pageUrl(realm, '/signin', { ...query, hop: `at-${now}` }))
  return true
}

function startAt(provider: Provider, { query, ...attempt }: Arrival, reply: FastifyReply) {
  return startLogin({ ...attempt, provider, chooseAccount: query.switch === '1' }, reply)
}

function stepUpFor(realm: Realm, { rd, policy }: SignInQuery): StepUpDemand | undefined {
  const { portal } = realm
  const names = policy?.split(',') ?? []
  const policies = names.flatMap((name) => portal.gate.policies.get(name) ?? [])
  if (policies.length === names.length) return demandOf(policies)
  const quoted = JSON.stringify(policy?.slice(0, 100))
  const text = `the portal ${portal.name} has no policy ${quoted}`
  throw withLoginUrl(new FwaError('FWA_SIGN_IN_POLICY', text), realm, { returnTo: rd })
}

/**
 * Answers a person whose session is enough, or whom a provider identifies by their address. Resolves with
 * whether it has, since a reply that an async function returns is awaited until it is sent, and lost.
 */
async function answerVisitor(
  { query, ...attempt }: Arrival,
  visitor: Visitor | undefined,
  reply: FastifyReply,
): Promise<boolean> {
  const { request, server } = reply
  const { realm, stepUp } = attempt
  if (isEnough(visitor, stepUp, server.clock.now())) {
    const { session } = visitor
    await renewCookie(reply, realm, session)
    setDomainCookies(reply, realm, session)
    returnToApp({ ...attempt, session }, query.rd === undefined ? undefined : 'bounce', reply)
    return true
  }
  const profile = stepUp ? undefined : await identifyByAddress(realm, request)
  if (profile) await completeSignIn({ ...attempt, signedIn: byAddress(profile) }, reply)
  return profile !== undefined
}

async function identifyByAddress(
  { portal }: Realm,
  request: FastifyRequest,
): Promise<Profile | undefined> {
  const { method, headers } = request
  if (isPrefetch(headers) || !isNavigation(method, headers)) return undefined
  for (const provider of portal.providers.values()) {
    if (provider.type !== 'seamless' || provider.failing()) continue
    const profile = await identify(provider, request).catch(() => undefined)
    if (profile && portal.admits(profile) === true) return profile
  }
  return undefined
}

/** The providers that can sign people in as is demanded. */
function providersFor(
  { name, providers }: Portal,
  stepUp: StepUpDemand | undefined,
): readonly Provider[] {
  const suitable = [...providers.values()].filter(({ stepsUp }) => !stepUp || stepsUp)
  if (suitable.length > 0) return suitable
  const text = `no provider of the portal ${name} can sign people in the way this page requires`
  throw new FwaError('FWA_STEP_UP_UNMET', text)
}

/** The provider that needs no choice. A person steps up at the provider where they signed in. */
function soleProvider(
  { alwaysShowProviders }: Portal,
  providers: readonly Provider[],
  visitor: Visitor | undefined,
): Provider | undefined {
  const sessionProvider = providers.find(({ name }) => name === visitor?.session.profile.provider)
  if (sessionProvider) return sessionProvider
  return providers.length > 1 || alwaysShowProviders ? undefined : providers[0]
}

function sendChooser(
  { realm, query }: Arrival,
  providers: readonly Provider[],
  reply: FastifyReply,
): FastifyReply {
  const { reReading } = reply.server.sessions
  const choices = providers.map((provider) => ({
    title: provider.title,
    icon: provider.icon,
    color: provider.color,
    href: pageUrl(realm, `/providers/${provider.name}`, query),
    condition: reReading.conditionOf(provider),
  }))
  const returnTo = validateReturnUrl(query.rd, realm.site)
  return sendToReader(reply, realm, 200, signInPage, { choices, returnTo })
}
