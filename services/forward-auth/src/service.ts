import { type BoundedFetch, createFetch, type FetchOptions } from '@gatehouse/net'
import type { Clock, Commit, Metrics } from '@gatehouse/service-kit'
import { createPortals } from './config/portals.ts'
import type { ForwardAuthConfig } from './config/schema.ts'
import { sitesOf } from './config/sites.ts'
import { createTrust, type Trust } from './forwarded/trust.ts'
import { createLogins, type Logins } from './login/logins.ts'
import { type AuthMetrics, createAuthMetrics } from './metrics.ts'
import type { Portal } from './portal.ts'
import { createSeldom } from './seldom.ts'
import { loadKeys } from './session/keys.ts'
import type { Sessions } from './session/session.ts'
import { createSessions } from './session/sessions.ts'
import { createSites, type Sites } from './sites.ts'

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
  /** By name; another map after a reload. */
  portals(): Portals
  /** Calls `tell` once a minute at most for each key: for what anybody could have logged. */
  tellSeldom(key: string, tell: () => void): void
  readiness(): { ready: boolean; reason?: 'draining' | 'store'; degraded: readonly string[] }
  /** Makes portals, providers and keys of a changed configuration; gives what takes them up. */
  prepare(config: ForwardAuthConfig): Promise<Commit>
  /** Says in `readiness` that the service is about to end. */
  drain(): void
  close(): Promise<void>
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
  const folder = config.storage.path
  const providerDeps = { clock, log, createFetch: deps.createFetch ?? createFetch }
  const keysOf = ({ session }: ForwardAuthConfig) =>
    loadKeys({ secrets: session.keys?.map(({ secret }) => secret), folder })

  const sites = createSites(sitesOf(config))
  let keys = await keysOf(config)
  let portals = createPortals(config, providerDeps)
  const replaced = new Set<Portals>()
  let draining = false
  const sessions = createSessions({
    keys: () => keys,
    portals: () => portals,
    sites,
    folder,
    clock,
    log,
  })

  async function retire(old: Portals): Promise<void> {
    if (replaced.delete(old)) await closeProviders(old)
  }

  return {
    clock,
    metrics: createAuthMetrics(deps.metrics),
    sites,
    trust: createTrust(config.server.trustedProxies),
    sessions,
    logins: createLogins({ keys: () => keys, clock }),
    portals: () => portals,
    tellSeldom: createSeldom(() => clock.now()),
    readiness() {
      const degraded = failingProviders(portals)
      if (draining) return { ready: false, reason: 'draining', degraded }
      return sessions.storeIsUp()
        ? { ready: true, degraded }
        : { ready: false, reason: 'store', degraded }
    },
    async prepare(changed) {
      const nextKeys = await keysOf(changed)
      const nextPortals = createPortals(changed, providerDeps)
      return () => {
        const old = portals
        portals = nextPortals
        keys = nextKeys
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
      await closeProviders(portals)
      sessions.close()
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
