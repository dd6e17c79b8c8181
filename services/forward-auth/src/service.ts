import { type BoundedFetch, createFetch, type FetchOptions } from '@gatehouse/net'
import type { Clock, Commit, Metrics } from '@gatehouse/service-kit'
import type { ForwardAuthConfig } from './config/schema.ts'
import { createTrust, type Trust } from './forwarded/trust.ts'
import { createLogins, type Logins } from './login/logins.ts'
import { createSignInRate, type SignInRate } from './login/sign-in-rate.ts'
import { type AuthMetrics, createAuthMetrics } from './metrics.ts'
import type { Portal } from './portals.ts'
import { createPortals } from './portals.ts'
import { createSeldom } from './seldom.ts'
import { type Keys, loadKeys } from './session/keys.ts'
import type { Sessions } from './session/session.ts'
import { createSessions } from './session/sessions.ts'
import { createSites, type Sites, sitesOf } from './sites.ts'

/** How long providers that a reload replaced may finish their logins, in ms. */
const PROVIDER_GRACE = 30_000

type Portals = ReadonlyMap<string, Portal>

/** Everything of forward-auth but HTTP. */
export interface Service {
  readonly clock: Clock
  readonly metrics: AuthMetrics
  readonly sites: Sites
  readonly trust: Trust
  readonly sessions: Sessions
  readonly logins: Logins
  readonly signInRate: SignInRate
  /** By name; another map after a reload. */
  portals(): Portals
  /** Calls `tell` once a minute at most for each key: for what anybody could have logged. */
  tellSeldom(key: string, tell: () => void): void
  readiness(): { ready: boolean; reason?: 'draining' | 'store'; degraded: readonly string[] }
  /**
   * Makes everything that a changed configuration describes, and changes nothing. The function that
   * it gives takes all of it up at once, and cannot fail.
   *
   * @throws FwaError FWA_STORE_…, FWA_KEY_UNUSABLE: nothing of it is taken up
   */
  prepare(config: ForwardAuthConfig): Promise<Commit>
  /** Says in `readiness` that the service is about to end. */
  drain(): void
  close(): Promise<void>
}

/** What a reload replaces, all of it together. */
interface Settings {
  readonly keys: Keys
  readonly sites: Sites
  readonly trust: Trust
  readonly portals: Portals
}

/** What comes from outside; tests replace it. */
export interface ServiceDeps {
  readonly clock: Clock
  readonly log: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
    error(fields: object, message: string): void
  }
  readonly metrics?: Metrics
  /** Milliseconds on a clock that nobody sets; default: that of the process. */
  readonly monotonic?: () => number
  /** Default: that of the net package. */
  readonly createFetch?: (options: FetchOptions) => BoundedFetch
}

/**
 * Opens keys and revocations and makes the portals; providers are reached for when they are needed.
 *
 * @throws FwaError FWA_STORE_…
 */
export async function openService(config: ForwardAuthConfig, deps: ServiceDeps): Promise<Service> {
  const { clock, log } = deps
  const { storage, server } = config
  const providerDeps = { clock, log, createFetch: deps.createFetch ?? createFetch }

  async function read({ session, domains, portals, server: changed }: ForwardAuthConfig) {
    const secrets = session.keys?.map(({ secret }) => secret)
    const keys = await loadKeys({ secrets, folder: storage.path })
    // The routes keep the base path that they were registered with.
    const sites = createSites(sitesOf({ domains, server: { basePath: server.basePath } }))
    const trust = createTrust(changed.trustedProxies)
    // Last, since providers have to be closed.
    return { keys, sites, trust, portals: await createPortals({ portals, session }, providerDeps) }
  }

  let settings: Settings = await read(config)
  const metrics = createAuthMetrics(deps.metrics, settings.portals.keys())
  const replaced = new Set<Portals>()
  let draining = false
  const sites: Sites = {
    get all() {
      return settings.sites.all
    },
    find: (hostHeader) => settings.sites.find(hostHeader),
  }
  const sessions = createSessions({
    keys: () => settings.keys,
    portals: () => settings.portals,
    sites,
    folder: storage.path,
    clock,
    monotonic: deps.monotonic,
    log,
  })

  async function retire(old: Portals): Promise<void> {
    if (replaced.delete(old)) await closeProviders(old)
  }

  return {
    clock,
    metrics,
    sites,
    trust: {
      trusts: (peer) => settings.trust.trusts(peer),
      clientIp: (peer, forwardedFor) => settings.trust.clientIp(peer, forwardedFor),
    },
    sessions,
    logins: createLogins({ keys: () => settings.keys, clock }),
    signInRate: createSignInRate(() => clock.now()),
    portals: () => settings.portals,
    tellSeldom: createSeldom(() => clock.now()),
    readiness() {
      const degraded = failingProviders(settings.portals)
      if (draining) return { ready: false, reason: 'draining', degraded }
      return sessions.storeIsUp()
        ? { ready: true, degraded }
        : { ready: false, reason: 'store', degraded }
    },
    async prepare(changed) {
      const fresh = await read(changed)
      return () => {
        const { portals: old } = settings
        settings = fresh
        metrics.expect(fresh.portals.keys())
        replaced.add(old)
        clock.setTimer(() => {
          retire(old).catch((error) => log.error({ err: error }, 'old providers not closed'))
        }, PROVIDER_GRACE)
      }
    },
    drain() {
      draining = true
    },
    async close() {
      await Promise.all([...replaced].map(retire))
      await closeProviders(settings.portals)
      await sessions.close()
    },
  }
}

function failingProviders(portals: Portals): string[] {
  return [...portals.values()].flatMap(({ name, providers }) =>
    [...providers.values()]
      .filter((provider) => provider.failing())
      .map((provider) => `provider ${name}/${provider.name}`),
  )
}

async function closeProviders(portals: Portals): Promise<void> {
  const providers = [...portals.values()].flatMap((portal) => [...portal.providers.values()])
  await Promise.all(providers.map((provider) => provider.close()))
}
