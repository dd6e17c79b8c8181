import type { Provider, SignedIn } from '@gatehouse/identity-providers'
import { fromClaims } from '@gatehouse/profile'
import { clock as clockPlugin } from '@gatehouse/service-kit/clock'
import { health, problems, trust } from '@gatehouse/service-kit/http'
import { reload } from '@gatehouse/service-kit/lifecycle'
import type { Metrics } from '@gatehouse/service-kit/telemetry'
import { type ManualClock, manualClock, testFolder } from '@gatehouse/service-kit/testing'
import { StoreError } from '@gatehouse/store'
import Fastify, { type FastifyBaseLogger, type FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Test } from 'tap'
import type { Portal } from '../../src/portal/portals.ts'
import { loadKeys, type ServiceKeys } from '../../src/session/keys.ts'
import { type Session, seenMacOf } from '../../src/session/session.ts'
import { type Sessions, sessions as sessionsPlugin } from '../../src/session/sessions.ts'
import type { Site } from '../../src/sites.ts'
import { store as storePlugin } from '../../src/store/open.ts'
import { appCookieName, sessionCookieName } from '../../src/web/cookies.ts'
import { createFakeProvider } from '../fake-provider.ts'
import { gateOf } from '../gate.ts'

const siteOf = (domain: string): Site => ({
  ...{
    domain,
    authOrigin: `https://auth.${domain}`,
    basePath: '',
    scope: 'host',
    otherDomains: [],
  },
})
export const SITE = siteOf('example.com')
export const OTHER_SITE = siteOf('example.org')
/** The host of the app that the tests open. */
export const HOST = 'app.example.com'
export const OLD_SECRET = 'the old secret of 32 characters !'
export const NEW_SECRET = 'the new secret of 32 characters !'
export const ADA = fromClaims('corp', {
  sub: 'ada',
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  email_verified: true,
  groups: ['admin', 'ops'],
})

const HOUR = 3_600_000

export function portalNamed(
  name: string,
  providers: readonly (string | Provider)[] = ['corp'],
  session: Partial<Portal['session']> = {},
): Portal {
  const all = providers.map((each) =>
    typeof each === 'string' ? createFakeProvider(each).provider : each,
  )
  return {
    name,
    title: name,
    accent: '#000',
    texts: {},
    contact: undefined,
    logo: undefined,
    favicon: undefined,
    images: new Map(),
    providers: new Map(all.map((each) => [each.name, each])),
    admits: () => true,
    refusalOf: () => ({ reason: 'allow' }),
    gate: gateOf(name),
    apps: undefined,
    labelledApps: { hosts: async () => [], close: async () => {} },
    session: { lifetime: HOUR, idle: undefined, refresh: undefined, grace: HOUR, ...session },
    admins: undefined,
    loginLifetime: HOUR / 6,
    sharedCallback: false,
    alwaysShowProviders: false,
    authorizationServer: { registration: false, privateNetworks: [] },
  }
}

export async function keysOf(...secrets: string[]): Promise<ServiceKeys> {
  return loadKeys(secrets, { secret: async (name) => `the secret called ${name}` })
}

/** A log that keeps what is told at warn and above. */
function logTo(messages: string[]): FastifyBaseLogger {
  const ignore = () => {}
  const log = { level: 'warn', fatal: ignore, info: ignore, debug: ignore, trace: ignore }
  const keep = (_fields: object, message: string) => messages.push(message)
  return Object.assign(log, { silent: ignore, warn: keep, error: keep, child: () => log }) as never
}

/** Plugins that sessions depend on, by the name of each. */
const standIn = (name: string, key: string, value: () => unknown) =>
  fp(async (app) => void app.decorate(key, { getter: value }), { name })

interface Settings {
  readonly folder?: string
  /** In place of the folder. */
  readonly database?: { readonly url: string; readonly schema: string }
  readonly clock?: ManualClock
  readonly monotonic?: () => number
  readonly portals?: readonly Portal[]
  readonly metrics?: Metrics
}

/** Who signs in: by default, Ada at the portal `main`. */
interface Arrival extends Partial<SignedIn> {
  readonly at?: Portal
  readonly site?: Site
  /** The session that the browser has. */
  readonly before?: Session
}

/** One instance; `now` holds what a reload changes. */
export async function startInstance(
  t: Test,
  {
    folder = testFolder(t),
    database,
    clock = manualClock(),
    monotonic = clock.now,
    portals = [portalNamed('main'), portalNamed('other')],
    metrics,
  }: Settings = {},
) {
  const log: string[] = []
  const audit: { readonly event: string; readonly ender?: object }[] = []
  const app = Fastify({ loggerInstance: logTo(log) })
  const close = () => app.close()
  t.teardown(close)
  let keys = await keysOf(OLD_SECRET)
  const now = {
    portals: new Map(portals.map((each) => [each.name, each])),
    sites: [SITE, OTHER_SITE] as readonly Site[],
    get keys() {
      return keys
    },
    set keys(changed: ServiceKeys) {
      keys = changed
      app.sessions.clear()
    },
  }
  await app.register(clockPlugin, { clock })
  await app.register(reload)
  await app.register(problems, { statusOf: {} })
  await app.register(health)
  await app.register(standIn('forward-auth/portals', 'portals', () => now.portals))
  await app.register(standIn('forward-auth/keys', 'keys', () => now.keys))
  await app.register(standIn('forward-auth/sites', 'sites', () => ({ list: now.sites })))
  const storage = database
    ? { ...database, revocationStaleness: HOUR, whenStale: 'refuse' as const }
    : { path: folder }
  await app.register(storePlugin, { storage, clock, monotonic })
  await app.register(trust, { server: {} })
  const record = (_request: unknown, row: (typeof audit)[number]) => void audit.push(row)
  await app.register(standIn('forward-auth/audit', 'auditTrail', () => ({ record })))
  await app.register(sessionsPlugin, { metrics })
  const requestWith = await captureRequest(app)

  const { sessions }: { readonly sessions: Sessions } = app
  const { records } = sessions
  const portal = (name = 'main') => now.portals.get(name)!
  /** The cookies that a session has at the sign-in host and at {@link HOST}. */
  function cookiesOf(session: Session, at = portal(), site = SITE) {
    const token = sessions.sessionToken(session, site)
    const appToken = sessions.appToken(session, site, HOST)
    const own = `${sessionCookieName(at)}=${token}`
    const cookie = `${appCookieName(at, site, HOST)}=${appToken}`
    return { session, sid: session.sid, token, appToken, own, cookie }
  }
  async function begin({ at = portal(), site = SITE, before, ...came }: Arrival = {}) {
    const browser = { userAgent: 'Mozilla/5.0', address: '203.0.113.7' }
    const signedIn = { profile: ADA, tokens: {}, ...came }
    const session = await sessions.begin({ portal: at, site, signedIn, browser }, before)
    if (!session) throw new Error('the provider has ended it already')
    return cookiesOf(session, at, site)
  }
  return {
    ...{ app, close, now, log, audit, folder, clock, portal, sessions, records, begin, cookiesOf },
    store: app.authStore,
    /** The session that a check finds. */
    async check(cookie: string, at: { at?: Portal; site?: Site; host?: string } = {}) {
      const { at: portalAt = portal(), site = SITE, host = HOST } = at
      const name = host.replace(/:\d+$/, '')
      const where = { portal: portalAt, site, host: { name }, authority: host }
      return (await sessions.atApp(requestWith({ cookie }), where))?.session
    },
    /** The session that the sign-in pages find. */
    arrive: async (cookie: string, at = portal(), site = SITE) =>
      (await sessions.atSignIn(requestWith({ cookie }), { portal: at, site }))?.session,
    verify: async (token: string, at = portal()) => (await sessions.verify(at, token))?.session,
    catchUp: () => app.authStore.catchUp(),
    /** Resolves when what this instance saw is written: the clock of a test does not wait for the disk. */
    written: () => records.end({ person: 'nobody' }),
    storeIsUp: () => app.readiness().ready,
  }
}

export type Instance = Awaited<ReturnType<typeof startInstance>>

/** Writes that a session is in use now, as an instance does once a minute. */
export function touch({ store, clock, now }: Instance, sid: string): Promise<void> {
  const seen = { sid, lastSeen: clock.now() }
  return store.touchSessions([
    { ...seen, hosts: [HOST], seenMac: seenMacOf(seen, now.keys.record) },
  ])
}

/** Some instances on one folder, with one clock. */
export async function startInstances(t: Test, count: number, settings: Settings = {}) {
  const shared = { folder: testFolder(t), clock: manualClock(), ...settings }
  const all: Instance[] = []
  for (let i = 0; i < count; i++) all.push(await startInstance(t, shared))
  return all
}

type Method = 'findSession' | 'endSessions' | 'updateSession' | 'touchSessions' | 'leaseSession'

/**
 * Has the calls of a method of the store wait, before they do anything or when they have done it. Gives how to let
 * them go on, and a promise that resolves when one waits.
 */
export function hold({ store }: Instance, method: Method, when: 'before' | 'after') {
  const entered = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const restore = replace(store, method, async (real) => {
    const early = when === 'after' ? await real() : undefined
    entered.resolve()
    await released.promise
    return when === 'after' ? early : real()
  })
  return {
    entered: entered.promise,
    release() {
      restore()
      released.resolve()
    },
  }
}

/** Has a method of the store fail, until the returned function is called. */
export function breakStore({ store }: Instance, method: Method): () => void {
  return replace(store, method, async () => {
    throw new StoreError('STORE_UNAVAILABLE', 'the store plays away', { retryAfter: 5 })
  })
}

/** Counts the calls of a method of the store, and those that have given a result. */
export function countCalls({ store }: Instance, method: Method) {
  const calls = { count: 0, done: 0 }
  replace(store, method, async (real) => {
    calls.count += 1
    const result = await real()
    calls.done += 1
    return result
  })
  return calls as { readonly [Which in keyof typeof calls]: number }
}

/** Replaces a method, which gets a function that calls the real one. Gives a function that restores it. */
function replace(
  store: Instance['store'],
  method: Method,
  call: (real: () => Promise<unknown>) => Promise<unknown>,
): () => void {
  const all = store as unknown as Record<Method, (...args: unknown[]) => Promise<unknown>>
  const whole = all[method]
  all[method] = (...args) => call(() => whole.apply(store, args))
  return () => {
    all[method] = whole
  }
}

/** Makes requests with headers of one's own, without the cost of a route. */
async function captureRequest(app: ReturnType<typeof Fastify>) {
  let captured: FastifyRequest | undefined
  app.get('/captured', async (request: FastifyRequest) => {
    captured = request
    return ''
  })
  await app.inject('/captured')
  return (headers: object): FastifyRequest =>
    Object.create(captured!, { headers: { value: headers } })
}
