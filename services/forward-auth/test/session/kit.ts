import { fromClaims } from '@gatehouse/profile'
import { type ManualClock, manualClock } from '@gatehouse/service-kit/testing'
import Fastify from 'fastify'
import type { Test } from 'tap'
import { sessionJwt } from '../../src/plugins/session-jwt.ts'
import type { Portal } from '../../src/portals.ts'
import { type Keys, loadKeys } from '../../src/session/keys.ts'
import { createSessions } from '../../src/session/sessions.ts'
import type { Site } from '../../src/sites.ts'
import { createFakeProvider } from '../fake-provider.ts'

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
    providers: new Map(providers.map((each) => [each, createFakeProvider(each).provider])),
    admits: () => true,
    policies: new Map(),
    conditionHeader: false,
    headers: [],
    tokenHeader: undefined,
    preflight: false,
    sessionLifetime: HOUR,
    loginLifetime: HOUR / 6,
    sharedCallback: false,
    alwaysShowProviders: false,
  }
}

export const keysOf = (...secrets: string[]): Promise<Keys> => loadKeys({ secrets, folder: '' })

/** The signer of a service. */
export async function createSign(t: Test) {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(sessionJwt)
  return app.signToken
}

/** One instance; `now` holds what a reload changes. */
export async function startInstance(
  t: Test,
  {
    folder = t.testdir({}),
    clock = manualClock(),
    monotonic = clock.now,
  }: { folder?: string; clock?: ManualClock; monotonic?: () => number } = {},
) {
  const now = {
    keys: await keysOf(OLD_SECRET),
    portals: new Map([portalNamed('main'), portalNamed('other')].map((each) => [each.name, each])),
  }
  const log: string[] = []
  const sessions = createSessions({
    keys: () => now.keys,
    portals: () => now.portals,
    sites: { all: [SITE, OTHER_SITE] },
    folder,
    clock,
    monotonic,
    log: { error: (_fields, message) => log.push(message) },
  })
  let isOpen = true
  const close = async () => {
    if (isOpen) await sessions.close()
    isOpen = false
  }
  t.teardown(close)
  const sign = await createSign(t)
  const portal = (name = 'main') => now.portals.get(name)!
  const create = (profile = ADA, cookieHeader?: string) =>
    sessions.create(portal(), SITE, profile, cookieHeader, sign)
  const sessionAt = (at: Portal) => sessions.create(at, SITE, ADA, undefined, sign).session
  return { ...sessions, close, now, log, folder, clock, sign, portal, create, sessionAt }
}

/** The Cookie header that a browser sends after these Set-Cookie values. */
export function cookieHeader(setCookies: readonly string[]): string {
  return setCookies
    .filter((line) => !line.includes('Max-Age=0;'))
    .map((line) => line.split(';')[0])
    .join('; ')
}
