import { fromClaims } from '@gatehouse/profile'
import { clock as clockPlugin } from '@gatehouse/service-kit/clock'
import { health } from '@gatehouse/service-kit/http'
import { reload, workers } from '@gatehouse/service-kit/lifecycle'
import { type ManualClock, manualClock, testFolder } from '@gatehouse/service-kit/testing'
import Fastify, { type FastifyBaseLogger, type FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Test } from 'tap'
import type { Portal } from '../../src/portals.ts'
import { cookiesOf } from '../../src/session/cookie.ts'
import { type Keys, loadKeys } from '../../src/session/keys.ts'
import { sessions as sessionsPlugin } from '../../src/session/sessions.ts'
import type { Site } from '../../src/sites.ts'
import { store as storePlugin } from '../../src/store/open.ts'
import { trust } from '../../src/trust.ts'
import { createFakeProvider } from '../fake-provider.ts'
import { gateOf } from '../gate.ts'

export const SITE: Site = {
  domain: 'example.com',
  authOrigin: 'https://auth.example.com',
  basePath: '',
}
export const OTHER_SITE: Site = {
  domain: 'example.org',
  authOrigin: 'https://auth.example.org',
  basePath: '',
}
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

export function portalNamed(name: string, providers: readonly string[] = ['corp']): Portal {
  return {
    name,
    title: name,
    accent: '#000',
    texts: {},
    contact: undefined,
    logo: undefined,
    favicon: undefined,
    images: new Map(),
    providers: new Map(providers.map((each) => [each, createFakeProvider(each).provider])),
    admits: () => true,
    refusalOf: () => ({ by: 'allow' }),
    gate: gateOf(name),
    apps: undefined,
    sessionLifetime: HOUR,
    loginLifetime: HOUR / 6,
    sharedCallback: false,
    alwaysShowProviders: false,
  }
}

export async function keysOf(...secrets: string[]): Promise<Keys> {
  return loadKeys(secrets, { secret: async (name) => `the secret called ${name}` })
}

/** A log that keeps the messages of errors. */
function logTo(messages: string[]): FastifyBaseLogger {
  const ignore = () => {}
  const log = { level: 'error', fatal: ignore, warn: ignore, info: ignore, debug: ignore }
  const error = (_fields: object, message: string) => messages.push(message)
  return Object.assign(log, { trace: ignore, silent: ignore, error, child: () => log }) as never
}

/** Plugins that sessions depend on, by the name of each. */
const standIn = (name: string, key: string, value: () => unknown) =>
  fp(async (app) => void app.decorate(key, { getter: value }), { name })

/** One instance; `now` holds what a reload changes. */
export async function startInstance(
  t: Test,
  {
    folder = testFolder(t),
    clock = manualClock(),
    monotonic = clock.now,
  }: { folder?: string; clock?: ManualClock; monotonic?: () => number } = {},
) {
  const log: string[] = []
  const app = Fastify({ loggerInstance: logTo(log) })
  const close = () => app.close()
  t.teardown(close)
  let keys = await keysOf(OLD_SECRET)
  const now = {
    portals: new Map([portalNamed('main'), portalNamed('other')].map((each) => [each.name, each])),
    get keys() {
      return keys
    },
    set keys(changed: Keys) {
      keys = changed
      app.sessions.clear()
    },
  }
  await app.register(clockPlugin, { clock })
  await app.register(reload)
  await app.register(workers)
  await app.register(health)
  await app.register(standIn('forward-auth/keys', 'keys', () => now.keys))
  await app.register(standIn('forward-auth/sites', 'sites', () => ({ all: [SITE, OTHER_SITE] })))
  await app.register(storePlugin, { storage: { path: folder }, clock, monotonic })
  await app.register(trust, { server: {} })
  await app.register(sessionsPlugin)
  const requestWith = await captureRequest(app)

  const { sessions } = app
  const portal = (name = 'main') => now.portals.get(name)!
  const sessionAt = (at: Portal) => sessions.create(at, SITE, ADA)
  function create(profile = ADA) {
    const session = sessions.create(portal(), SITE, profile)
    const cookies = cookiesOf(session.token, portal()).map((cookie) => cookie.join('='))
    return { session, cookies }
  }
  return {
    ...{ app, close, now, log, folder, clock, portal, create, sessionAt },
    read: async (at: Portal, site: Site, cookie: string) =>
      (await sessions.read(requestWith({ cookie }), { portal: at, site }))?.session,
    verify: async (at: Portal, token: string) => (await sessions.verify(at, token))?.session,
    revoke: sessions.revoke.bind(sessions),
    catchUp: sessions.catchUp.bind(sessions),
    storeIsUp: () => app.readiness().ready,
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

/** The Cookie header of a browser with these cookies. */
export function cookieHeader(cookies: readonly string[]): string {
  return cookies.join('; ')
}
