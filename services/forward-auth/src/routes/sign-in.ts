import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Profile } from '@gatehouse/profile'
import { type Page, sendPage } from '@gatehouse/service-kit'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { isNavigation } from '../check/decide.ts'
import { FwaError } from '../errors.ts'
import { validateReturnUrl } from '../login/return-url.ts'
import { signedInPage, signInPage } from '../pages/pages.ts'
import type { Provider } from '../providers/provider.ts'
import { bareAnswer, pageAnswer, problemAnswers } from './documented.ts'
import { completeSignIn, refuseDuplicate, returnToApp, startLogin } from './login.ts'
import {
  identify,
  type PortalSite,
  pageUrl,
  type SignInQuery,
  signInSiteOf,
  targetOf,
  visitorOf,
} from './portal-page.ts'

const querystring = Type.Object({
  rd: Type.Optional(Type.String({ description: 'Return URL.' })),
  switch: Type.Optional(Type.Literal('1', { description: 'Sign in with another account.' })),
})
const params = Type.Object({ portal: Type.String(), provider: Type.String() })
const tags = ['sign-in']
const STARTED = {
  303: bareAnswer('Redirect to the provider, or to the return URL.'),
  ...problemAnswers(400, 401, 403, 404, 429, 502, 503),
}
const CHOOSER_SCHEMA = {
  summary: 'Choose where to sign in',
  tags,
  querystring,
  response: {
    200: pageAnswer('The providers to choose from, or the profile of the signed-in person.'),
    ...STARTED,
  },
}
const START_SCHEMA = {
  summary: 'Sign in at a provider',
  tags,
  querystring,
  params,
  response: STARTED,
}

/** `GET /signin`, the chooser, and `GET /providers/:provider`, which starts a login there. */
export const signInRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/signin', { schema: CHOOSER_SCHEMA }, async (request, reply) => {
    const portalSite = signInSiteOf(request)
    const { query } = request
    refuseDuplicate(request, portalSite, query.rd)
    if (!query.switch) {
      const answered = await answerSignedIn(portalSite, query, reply)
      if (answered) return answered
    }
    const provider = onlyProvider(portalSite)
    if (!provider) return sendPage(reply, 200, chooser(portalSite, query))
    return startAt(provider, portalSite, query, reply)
  })

  app.get('/providers/:provider', { schema: START_SCHEMA }, async (request, reply) => {
    const portalSite = signInSiteOf(request)
    const { params, query } = request
    const provider = portalSite.portal.providers.get(params.provider)
    if (!provider) throw new FwaError('FWA_PROVIDER_UNKNOWN', 'this portal has no such provider')
    refuseDuplicate(request, portalSite, query.rd)
    return startAt(provider, portalSite, query, reply)
  })
}

type Query = Static<typeof querystring>

function startAt(provider: Provider, portalSite: PortalSite, query: Query, reply: FastifyReply) {
  const returnTo = targetOf(portalSite, query.rd)
  const chooseAccount = query.switch === '1'
  return startLogin({ portalSite, provider, returnTo, chooseAccount }, reply)
}

/** Answers a person who has a session, or whom a provider identifies by their address. */
async function answerSignedIn(
  portalSite: PortalSite,
  query: Query,
  reply: FastifyReply,
): Promise<FastifyReply | undefined> {
  const { request } = reply
  const returnTo = targetOf(portalSite, query.rd)
  const visitor = await visitorOf(request, portalSite)
  if (visitor && query.rd !== undefined) return returnToApp(portalSite, returnTo, 'bounce', reply)
  if (visitor) return sendPage(reply, 200, signedIn(portalSite, visitor.session.profile))
  const profile = await identifyByAddress(portalSite, request)
  return profile && completeSignIn({ portalSite, profile, returnTo }, reply)
}

async function identifyByAddress(
  { portal }: PortalSite,
  request: FastifyRequest,
): Promise<Profile | undefined> {
  if (!isNavigation(request.method, request.headers)) return undefined
  for (const provider of portal.providers.values()) {
    if (provider.type !== 'seamless' || provider.failing()) continue
    const profile = await identify(provider, request).catch(() => undefined)
    if (profile && portal.admits(profile) === true) return profile
  }
  return undefined
}

function onlyProvider({ portal }: PortalSite): Provider | undefined {
  const [first, ...others] = portal.providers.values()
  return others.length > 0 || portal.alwaysShowProviders ? undefined : first
}

function chooser(portalSite: PortalSite, query: SignInQuery): Page {
  const { portal, site } = portalSite
  const choices = [...portal.providers.values()].map(({ name, title, icon, color, failing }) => ({
    title,
    icon,
    color,
    href: pageUrl(portalSite, `/providers/${name}`, query),
    failing: failing(),
  }))
  return signInPage({ portal, choices, returnTo: validateReturnUrl(query.rd, site) })
}

function signedIn(portalSite: PortalSite, profile: Profile): Page {
  return signedInPage({
    portal: portalSite.portal,
    profile,
    logoutHref: pageUrl(portalSite, '/logout'),
    profileHref: pageUrl(portalSite, '/profile'),
  })
}
