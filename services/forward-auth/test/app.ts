import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { fromClaims } from '@gatehouse/profile'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { manualClock } from '@gatehouse/service-kit/testing'
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify'
import { assertQuiet, expectWarnings } from '../../../scripts/test/quiet.ts'
import { type AppDeps, buildApp as build } from '../src/app.ts'
import { loadForwardAuthConfig } from '../src/config/load.ts'
import type { ForwardAuthConfig } from '../src/config/schema.ts'
import { signInHost } from '../src/session/sessions.ts'
import type {} from '../src/sign-in/logins.ts'
import { appCookieName, sessionCookieName } from '../src/web/cookies.ts'
import { holdToDocument } from './documented.ts'
import type { RequestHeaders, Shape } from './shapes.ts'

/** The provider of tests that sign nobody in: nothing listens there. */
export const CORP = `{ type: openIDConnect, name: corp, issuerUrl: "http://localhost:1", clientId: a, clientSecret: b }`
export const SESSION_KEY = 'session: { keys: [{ secret: 0123456789abcdef0123456789abcdef }] }'
export const DOMAINS = 'domains: [{ domain: example.com, authHost: auth.example.com }]'
/** The same, with one cookie for all hosts of the domain. */
export const SHARED_DOMAIN =
  'domains: [{ domain: example.com, authHost: auth.example.com, session: { scope: domain } }]'

/** Domains and portals as YAML. */
export const yamlOf = (portals: string, rest = '') =>
  `${DOMAINS}\n${SESSION_KEY}\n${rest}\nportals:\n${portals}`

/** One portal with the provider `corp`. */
export const portalOf = (name: string, options = '') =>
  `  - { name: ${name}, providers: [${CORP}]${options && `, ${options}`} }\n`

export interface TestApp {
  readonly app: FastifyInstance
  readonly clock: ReturnType<typeof manualClock>
  /** Every line of the log so far, parsed. */
  readonly log: readonly Record<string, unknown>[]
  /** Reads another configuration and takes it up. */
  reload(yaml: string): Promise<void>
  /** The Cookie header of somebody who has just signed in, at one host. Default: `app.` and the domain. */
  signIn(portal: string, claims?: object, options?: SignInOptions): Promise<string>
  /** A check as a proxy sends it, with more headers or other ones. */
  check(
    shape: Shape,
    headers?: RequestHeaders,
    options?: { portal?: string; query?: string; remoteAddress?: string },
  ): Promise<LightMyRequestResponse>
}

interface SignInOptions {
  readonly provider?: string
  readonly domain?: string
  readonly host?: string
}

type Teardown = { teardown(close: () => unknown): void; threw(error: Error): unknown }

/** The whole service of a configuration, without a listener. */
export async function startApp(
  t: Teardown,
  yaml: string,
  change: (app: FastifyInstance) => void = () => {},
  { buildApp = build, ...deps }: Partial<AppDeps> & { buildApp?: typeof build } = {},
): Promise<TestApp> {
  const folder = await mkdtemp(join(tmpdir(), 'forward-auth-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const file = join(folder, 'config.yaml')
  const load = async (text: string): Promise<ForwardAuthConfig> => {
    await writeFile(file, text)
    return (await loadForwardAuthConfig(file, {})).value
  }

  const lines: Record<string, unknown>[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      lines.push(
        ...String(chunk)
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line)),
      )
      done()
    },
  })
  assertQuiet(t, () => lines)
  // Nothing listens where CORP is, and stand-ins give no tokens.
  expectWarnings(t, 'provider cannot be used', 'sessions are not refreshed')
  const clock = manualClock()
  const log = createLogger({ name: 'test', level: 'info', format: 'json', stream })
  const config = await load(yaml)
  const app = await buildApp(config, { log, clock, ...deps })
  change(app)
  t.teardown(() => app.close())
  holdToDocument(app)

  return {
    app,
    clock,
    log: lines,
    reload: async (text) => (await app.prepareReload(await load(text)))(),
    async signIn(name, claims = {}, options = {}) {
      const { provider = 'corp', domain = 'example.com', host = `app.${domain}` } = options
      const portal = app.portals.get(name)
      const site = app.sites.list.find((each) => each.domain === domain)
      if (!portal || !site) throw new Error(`no ${name} at ${domain}`)
      const profile = fromClaims(provider, { sub: 'ada', ...claims })
      const browser = { userAgent: 'Mozilla/5.0', address: undefined }
      const { sessions } = app
      const session = await sessions.begin({
        portal,
        site,
        signedIn: { profile, tokens: {} },
        browser,
      })
      if (!session) throw new Error('the session could not begin')
      // The domain itself may be the host of both.
      const isOfApps = site.scope === 'domain' || app.sites.find(host)?.isAuthHost === false
      const cookies = [
        host === signInHost(site) &&
          `${sessionCookieName(portal)}=${sessions.sessionToken(session, site)}`,
        isOfApps &&
          `${appCookieName(portal, site, host)}=${sessions.appToken(session, site, host)}`,
      ]
      return cookies.filter(Boolean).join('; ')
    },
    check: async ({ method, path, headers: sent }, headers = {}, options = {}) => {
      const { portal = 'main', query = '', ...rest } = options
      const url = `/portals/${portal}${path}${query}`
      const answer = await app.inject({
        ...rest,
        method: method as NonNullable<InjectOptions['method']>,
        url,
        headers: { ...sent, ...headers },
      })
      // As nginx does.
      const { 'x-gatehouse-answer': sealed } = answer.headers
      if (sealed === undefined || answer.statusCode !== 403) return answer
      const unpack = { ...rest, url: `/portals/${portal}${path}/answer` }
      return app.inject({ ...unpack, headers: { 'x-gatehouse-answer': sealed } })
    },
  }
}
