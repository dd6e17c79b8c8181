import type { Provider } from '@gatehouse/identity-providers'
import type { Metrics } from '@gatehouse/service-kit/telemetry'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import { type AppDeps, buildApp } from '../../src/app.ts'
import type { Portal } from '../../src/portal/portals.ts'
import { splitTarget } from '../../src/session/hop.ts'
import { DOMAINS, portalOf, SHARED_DOMAIN, startApp, type TestApp, yamlOf } from '../app.ts'
import { createFakeProvider, type FakeProvider } from '../fake-provider.ts'
import { type AppVisit, createVisitor, type Visitor } from '../visitor.ts'

export const AUTH = 'https://auth.example.com'
export const MAIN = `${AUTH}/portals/main`
export const WANTED = 'https://app.example.com/reports?year=2030'

/** What a script in a page, or a program, sends. */
export const SCRIPT = { accept: '*/*', 'sec-fetch-mode': 'cors' }

/** A portal whose domain has one cookie for all its hosts. */
export const SHARED = yamlOf(portalOf('main')).replace(DOMAINS, SHARED_DOMAIN)

export function signInUrl(query: Record<string, string> = { rd: WANTED }): string {
  return `${MAIN}/signin?${new URLSearchParams(query)}`
}

/** The service with fake providers in place of those of its portals. */
export async function start(
  t: Test,
  {
    yaml = yamlOf(portalOf('main') + portalOf('other')),
    corp = createFakeProvider(),
    others = [],
    metrics,
    createFetch,
    buildApp: build = buildApp,
    ...settings
  }: {
    readonly yaml?: string
    readonly corp?: FakeProvider
    readonly others?: readonly Provider[]
    readonly metrics?: Metrics
    readonly createFetch?: AppDeps['createFetch']
    readonly buildApp?: typeof buildApp
  } & Partial<Portal> = {},
): Promise<TestApp & { readonly corp: FakeProvider; visitor(): Visitor }> {
  const providers = new Map([corp.provider, ...others].map((each) => [each.name, each]))
  const changed = (portal: Portal) => ({ ...portal, providers, ...settings })
  const change = ({ portals }: FastifyInstance) => {
    for (const [name, each] of portals) (portals as Map<string, Portal>).set(name, changed(each))
  }
  const test = await startApp(t, yaml, change, { metrics, createFetch, buildApp: build })
  return { ...test, corp, visitor: () => createVisitor(test.app) }
}

/** Signs somebody in, from the first page to the last. */
export async function signIn(
  visitor: Visitor,
  corp: FakeProvider,
  sub: string,
  url = signInUrl(),
): Promise<LightMyRequestResponse> {
  const begun = await visitor.open(url)
  return visitor.open(corp.authorize(begun.headers.location, sub))
}

/** Whom the service takes the visitor for, or the status that it answers. */
export async function whoIs(visitor: Visitor, portal = 'main'): Promise<unknown> {
  const answer = await visitor.open(`${AUTH}/portals/${portal}/profile.json`, { headers: SCRIPT })
  return answer.statusCode === 200 ? answer.json().id : answer.statusCode
}

/** A way through redirects. */
export interface Way extends AppVisit {
  /** Who is at the provider. */
  readonly sub?: string
  readonly maxRedirects?: number
}

/** What a browser sends for an image of a page. */
export const imageOf = (site: string) => ({
  accept: 'image/*',
  'sec-fetch-mode': 'no-cors',
  'sec-fetch-dest': 'image',
  'sec-fetch-site': site,
})

/** The image of a page, and where the page goes on by itself. */
export function readPage(body: string) {
  const decode = (text: string | undefined) =>
    text?.replaceAll('&amp;', '&').replaceAll('&#39;', "'")
  return {
    image: decode(/<img src="([^"]+)" alt="" hidden>/.exec(body)?.[1]),
    next: decode(/http-equiv="refresh" content="0;url=([^"]+)"/.exec(body)?.[1]),
    action: decode(/<form method="post" action="([^"]+)"/.exec(body)?.[1]),
  }
}

/** Where an answer leads in the end: at once, by the sign-in page, or by a page on the way to an app. */
export function goalOf({ headers, body }: LightMyRequestResponse): string | undefined {
  const to = headers.location ?? readPage(body).next
  const rd = to?.startsWith(`${MAIN}/signin?`) ? new URL(to).searchParams.get('rd') : undefined
  return rd ?? to
}

/** Loads an image by every redirect, as a page of the same site does. */
export async function loadImage(visitor: Visitor, url: string, visit: AppVisit = {}) {
  let at = url
  for (let redirects = 0; ; redirects++) {
    const answer = await visitor.visit(at, { ...visit, headers: imageOf('same-site') })
    const { location } = answer.headers
    if (location === undefined || redirects > 9) return answer
    at = location
  }
}

/**
 * Opens a page of an app and follows every redirect: by the sign-in host, the provider and back. Gives the last
 * answer, the URLs on the way, and the places where they are. A page that goes on by itself loads its image first.
 */
export async function arrive(
  visitor: Visitor,
  corp: FakeProvider,
  url: string,
  { sub = 'ada', maxRedirects = 12, method = 'GET', ...visit }: Way = {},
) {
  const urls: string[] = []
  let at = url
  for (let redirects = 0; redirects <= maxRedirects; redirects++) {
    urls.push(at)
    if (at.startsWith('https://corp.test/')) {
      at = corp.authorize(at, sub).href
      continue
    }
    // Browsers go on with GET.
    const answer = await visitor.visit(at, { ...visit, method: redirects === 0 ? method : 'GET' })
    const { location } = answer.headers
    const { image, next } = readPage(answer.body)
    if (location === undefined && next === undefined)
      return { answer, urls, places: urls.map(placeOf) }
    if (image !== undefined) await loadImage(visitor, image, visit)
    at = location ?? next ?? ''
  }
  throw new Error(`ERR_TOO_MANY_REDIRECTS: ${urls.map(placeOf).join(', ')}`)
}

/** The host of an app, with a ticket or without, or the last part of the path of a page. */
function placeOf(url: string): string {
  const { hostname, pathname } = new URL(url)
  if (pathname.startsWith('/portals/')) return pathname.slice(pathname.lastIndexOf('/') + 1)
  return ticketIn(url) === undefined ? hostname : `${hostname} with a ticket`
}

/** The ticket of a target, if it has one. */
export const ticketIn = (url: string | undefined) => splitTarget(url ?? '')?.ticket

/** The places of somebody who is not signed in, opening a page of an app. */
export const WHOLE_WAY = [
  'app.example.com',
  'signin',
  'corp.test',
  'callback',
  'app.example.com with a ticket',
  'app.example.com',
]
