import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Profile } from '@gatehouse/profile'
import { type Page, sendPage } from '@gatehouse/service-kit'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { isNavigation } from '../check/kind.ts'
import { FwaError } from '../errors.ts'
import { validateReturnUrl } from '../login/return-url.ts'
import { signedInPage, signInPage } from '../pages/pages.ts'
import type { Provider } from '../providers/provider.ts'
import type { Service } from '../service.ts'
import { bareAnswer, pageAnswer, problemAnswers } from './documented.ts'
import { letIn } from './let-in.ts'
import { authPlaceOf, identify, type Place, sessionOf } from './place.ts'
import { pageUrl, type SignInQuery, targetOf } from './redirect.ts'
import { refuseDuplicate, sendOn } from './send-on.ts'
import { startLogin } from './start-login.ts'

const querystring = Type.Object({
  rd: Type.Optional(Type.String({ description: 'Where to go afterwards.' })),
  switch: Type.Optional(Type.Literal('1', { description: 'To sign in as somebody else.' })),
})
const tags = ['sign-in']
const BEGUN = {
  303: bareAnswer('On to the provider, or to where the person wanted to go.'),
  ...problemAnswers(400, 401, 403, 404, 429, 502, 503),
}

/** `GET /signin`, the chooser, and `GET /providers/:provider`, where a login begins. */
export const signInRoutes: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service },
) => {
  app.get(
    '/signin',
    {
      schema: {
        summary: 'Choose where to sign in',
        tags,
        querystring,
        response: {
          200: pageAnswer('The providers to choose from, or who is signed in.'),
          ...BEGUN,
        },
      },
    },
    async (request, reply) => {
      const place = authPlaceOf(service, request)
      const { query } = request
      const returnTo = targetOf(place, query.rd)
      refuseDuplicate(service, place, request, query.rd)
      if (!query.switch) {
        const session = sessionOf(service, place, request)
        if (session && query.rd !== undefined)
          return sendOn(service, place, returnTo, 'bounce', reply)
        if (session) return sendPage(reply, 200, welcome(place, session.profile))
        const profile = await recognise(service, place, request)
        if (profile) return letIn(service, { place, profile, returnTo }, reply)
      }
      const provider = onlyProvider(place)
      if (!provider) return sendPage(reply, 200, chooser(place, query))
      const chooseAccount = query.switch === '1'
      return startLogin(service, { place, provider, returnTo, chooseAccount }, reply)
    },
  )

  app.get(
    '/providers/:provider',
    {
      schema: {
        summary: 'Sign in there',
        tags,
        querystring,
        response: BEGUN,
        params: Type.Object({ portal: Type.String(), provider: Type.String() }),
      },
    },
    async (request, reply) => {
      const place = authPlaceOf(service, request)
      const { params, query } = request
      const provider = place.portal.providers.get(params.provider)
      if (!provider) throw new FwaError('FWA_PROVIDER_UNKNOWN', 'this portal has no such provider')
      const returnTo = targetOf(place, query.rd)
      refuseDuplicate(service, place, request, query.rd)
      const chooseAccount = query.switch === '1'
      return startLogin(service, { place, provider, returnTo, chooseAccount }, reply)
    },
  )
}

/** Who needs no login page, as the network vouches for them. */
async function recognise(
  service: Service,
  { portal }: Place,
  request: FastifyRequest,
): Promise<Profile | undefined> {
  if (!isNavigation(request.method, request.headers)) return undefined
  for (const provider of portal.providers.values()) {
    if (provider.type !== 'seamless' || provider.failing()) continue
    const profile = await identify(service, provider, request).catch(() => undefined)
    if (profile && portal.admits(profile) === true) return profile
  }
  return undefined
}

function onlyProvider({ portal }: Place): Provider | undefined {
  const [first, ...others] = portal.providers.values()
  return others.length > 0 || portal.alwaysShowProviders ? undefined : first
}

function chooser(place: Place, query: SignInQuery): Page {
  const { portal, site } = place
  const choices = [...portal.providers.values()].map(({ name, title, icon, color, failing }) => ({
    title,
    icon,
    color,
    href: pageUrl(place, `/providers/${name}`, query),
    failing: failing(),
  }))
  return signInPage({ portal, choices, returnTo: validateReturnUrl(query.rd, site) })
}

function welcome(place: Place, profile: Profile): Page {
  return signedInPage({
    portal: place.portal,
    profile,
    logoutHref: pageUrl(place, '/logout'),
    profileHref: pageUrl(place, '/profile'),
  })
}
