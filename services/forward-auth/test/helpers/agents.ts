import { createFetch, type FetchOptions } from '@gatehouse/net'
import { manualClock, testFolder } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import { parse, stringify } from 'yaml'
import { startGithub } from '../../../../packages/identity-providers/test/stand-ins/github.ts'
import { startGoogle } from '../../../../packages/identity-providers/test/stand-ins/google.ts'
import { CLIENT } from '../../../../packages/identity-providers/test/stand-ins/openid-provider.ts'
import { startSessionProvider } from '../../../../packages/identity-providers/test/stand-ins/session-provider.ts'
import { readDocument } from '../../../../scripts/test/markdown.ts'
import { SESSION_KEY } from '../app.ts'
import { PROXIES, type ProxyName } from '../proxies/index.ts'
import { CONFIG, startGate } from './gate.ts'
import { signInAtKeycloak, startKeycloak } from './keycloak.ts'
import { ALLOW, createAgent2, startClientDocument, startMcpServer2 } from './mcp-2.ts'
import { createWebBrowser, type Page, type WebBrowser } from './web-browser.ts'

const ELSEWHERE = 'https://assistant.example'
export const CALLBACK = `${ELSEWHERE}/callback`
/** At any port. */
const LOOPBACK = 'http://127.0.0.1/callback'

/** The configuration of the guide, for the host of the examples. */
const GUIDE = readDocument('docs/mcp.md')
  .blocks.find(({ info }) => info === 'yaml forward-auth')
  ?.text.replaceAll('mcp.example.com', 'app.example.com')

export interface Provider {
  readonly options: object
  readonly origins?: Record<string, string>
  /** Who may delete, where the provider has no groups. */
  readonly editors?: string
  /** What people do on its page, if it has one. */
  readonly signIn?: (browser: WebBrowser, page: Page) => Promise<Page>
}

const { clientId, clientSecret } = CLIENT
/** The client that all stand-ins know. */
export const client = { name: 'corp', clientId, clientSecret }

export const PROVIDERS: Readonly<Record<string, (t: Test) => Promise<Provider>>> = {
  async GitHub(t) {
    const { origins, state } = await startGithub(t)
    state.organizations.push({ login: 'Editors' })
    const options = { type: 'github', organizations: ['editors'], ...client }
    return { options: { ...options, allow: { groups: ['editors'] } }, origins }
  },
  async Google(t) {
    const { origins } = await startGoogle(t)
    const allow = 'ClaimEqual("hd", "acme.example")'
    return { options: { type: 'google', ...client, allow }, origins, editors: allow }
  },
  async 'oidc-provider'(t) {
    const { issuer, people } = await startSessionProvider(t)
    people.set('alice', { ...people.get('alice'), groups: ['editors'] })
    return { options: { type: 'openIDConnect', issuerUrl: issuer, ...client } }
  },
  async 'oidc-provider with offline_access'(t) {
    const { issuer, people, state } = await startSessionProvider(t)
    state.refreshes = 'offline_access'
    people.set('alice', { ...people.get('alice'), groups: ['editors'] })
    return { options: { type: 'openIDConnect', issuerUrl: issuer, ...client } }
  },
  async Keycloak(t) {
    const issuerUrl = await startKeycloak(t)
    const options = { type: 'openIDConnect', issuerUrl, ...client }
    return { options, signIn: signInAtKeycloak }
  },
}

/** The configuration of the guide with a provider, and with what tests need. */
function configOf({ options, editors }: Provider, path: string, changes: object): string {
  const { portals, ...rest } = parse(CONFIG)
  const [guide] = parse(GUIDE ?? '').portals
  const portal = {
    ...portals[0],
    ...guide,
    providers: [options],
    policies: { ...portals[0].policies, ...guide.policies, ...(editors && { editors }) },
    authorizationServer: { privateNetworks: ['127.0.0.0/8'] },
    ...changes,
  }
  return stringify({ ...rest, ...parse(SESSION_KEY), storage: { path }, portals: [portal] })
}

/** As {@link createFetch}, but it trusts one more CA and finds the stand-ins. */
const createFetchOf =
  (ca: string, origins: Readonly<Record<string, string>> = {}) =>
  (options: FetchOptions) => {
    const fetch = createFetch({ ...options, ca })
    const there = (url: URL | string, init?: Parameters<typeof fetch>[1]) => {
      const { origin, pathname, search } = new URL(url)
      return fetch(`${origins[origin] ?? origin}${pathname}${search}`, init)
    }
    return Object.assign(there, { close: fetch.close })
  }

interface Changes {
  /** Members of the portal instead of those of the guide. */
  readonly portal?: object
  /** Rules before those of the guide. */
  readonly rules?: readonly object[]
  /** Where the server listens. Default: it is one with notes. */
  readonly appPort?: number
  /** Where a server listens that Gatehouse sends calls to itself. Default: calls go to the app, after a check. */
  readonly upstreamPort?: number
  /** Where servers are that are not behind the proxy. */
  readonly origins?: Readonly<Record<string, string>>
  /** How long agents work without their person. */
  readonly lifetime?: string
  /** Whether the client has no document, and registers itself. */
  readonly isUnknown?: boolean
}

/** A server behind a proxy and Gatehouse, whose client has a document, and a person with a browser. */
export async function startAgents(
  t: Test,
  proxy: ProxyName,
  provider: Provider,
  {
    portal = {},
    rules = [],
    appPort,
    upstreamPort,
    origins,
    lifetime,
    isUnknown = false,
  }: Changes = {},
) {
  const clock = manualClock(Date.now())
  const port = appPort ?? (await startMcpServer2(t)).port
  const document = await startClientDocument(t, [CALLBACK, LOOPBACK])
  const folder = testFolder(t)
  const upstream = upstreamPort && { url: `http://127.0.0.1:${upstreamPort}/mcp` }
  const more = { ...(lifetime && { lifetime }), ...(upstream && { upstream }) }
  const [guide] = parse(GUIDE ?? '').portals
  const resources = guide.resources.map((resource: object) => ({ ...resource, ...more }))
  const yaml = configOf(provider, folder, {
    resources,
    rules: [...rules, ...guide.rules],
    ...portal,
  })
  const deps = { clock, createFetch: createFetchOf(document.ca, provider.origins) }
  const changes = upstream ? {} : PROXIES[proxy].withoutMcpProxy
  const gate = await startGate(t, proxy, { yaml, appPort: port, changes, ...deps })
  const network = {
    port: gate.port,
    ca: gate.certificate.rootPem,
    origins: { ...provider.origins, ...origins },
  }
  const browser = createWebBrowser({ ...network, elsewhere: ELSEWHERE })
  const asked: Page[] = []
  const agent = createAgent2(t, {
    network,
    browser,
    redirectUri: CALLBACK,
    ...(!isUnknown && { clientMetadataUrl: document.id }),
    async answer(browser: WebBrowser, page: Page) {
      const isOurs = page.url.hostname.endsWith('.example.com')
      const question = isOurs ? page : await provider.signIn?.(browser, page)
      if (!question) throw new Error(`${page.url} asks who it is`)
      asked.push(question)
      return browser.press(question, ALLOW)
    },
  })
  return { ...gate, agent, browser, asked, document, clock, folder, yaml, deps }
}
