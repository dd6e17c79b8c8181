import { type BoundedFetch, createFetch, type FetchOptions } from '@gatehouse/net'
import { type Condition, compileAllow, createConditions, type Profile } from '@gatehouse/profile'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { headerRows } from './check/header-presets.ts'
import { bodyFor, createHeaders, createUser } from './check/headers.ts'
import type { ForwardAuthConfig, PortalConfig } from './config/schema.ts'
import { createAliasGuard, READ_HEADERS } from './forwarded.ts'
import { DEFAULT_ACCENT } from './pages/colors.ts'
import { createProvider, type ProviderConfig } from './providers/index.ts'
import type { Provider, ProviderDeps } from './providers/provider.ts'

/** How long replaced providers may finish their logins after a reload, in ms. */
const PROVIDER_GRACE = 30_000

/** A named set of providers, rules and headers that protects apps. */
export type Portal = Readonly<ReturnType<typeof createPortal>>
export type Portals = ReadonlyMap<string, Portal>

type Make = (config: ProviderConfig) => Provider

/**
 * Creates the portals of a valid configuration, by name. If one cannot be created, the providers of
 * the ones before it are closed.
 */
async function createPortals(
  { portals, session }: Pick<ForwardAuthConfig, 'portals' | 'session'>,
  deps: ProviderDeps,
): Promise<Portals> {
  const made: Provider[] = []
  const make: Make = (config) => {
    const provider = createProvider(config, deps)
    made.push(provider)
    return provider
  }
  try {
    return new Map(
      portals.map((config) => [config.name, createPortal(config, session.lifetime, make)]),
    )
  } catch (error) {
    await Promise.allSettled(made.map((provider) => provider.close()))
    throw error
  }
}

function createPortal(config: PortalConfig, lifetime: number, make: Make) {
  const conditions = createConditions()
  const policies = Object.entries(config.policies)
  const user = createUser(config.userHeader, config.providers.length > 1)
  const headers = createHeaders(headerRows(config.headers), user, config.headerEncoding)
  const tokenHeader = config.tokenHeader?.toLowerCase()
  const sent = [...headers.map(({ name }) => name), ...(tokenHeader ? [tokenHeader] : [])]
  const providers = config.providers.map((provider) => [provider.name, make(provider)] as const)
  const compiled = policies.map(([name, text]) => [name, conditions.compile(text)] as const)
  return {
    name: config.name,
    title: config.title ?? config.name,
    accent: config.accent ?? DEFAULT_ACCENT,
    /** By name, in the order of the chooser. */
    providers: new Map(providers) as ReadonlyMap<string, Provider>,
    /** Whether a person has access at all; evaluated at login and at every check. */
    admits: createAdmits(config),
    policies: new Map(compiled) as ReadonlyMap<string, Condition>,
    headers,
    body: bodyFor(config.headerEncoding),
    tokenHeader,
    /** Names of all headers for the app, in lower case. */
    sent,
    /** Refuses other spellings of the headers that are read or sent. */
    refuseAliases: createAliasGuard([...READ_HEADERS, ...sent]),
    preflight: config.preflight,
    /** In ms, as all times. */
    sessionLifetime: config.sessionLifetime ?? lifetime,
    loginLifetime: config.loginLifetime,
    sharedCallback: config.sharedCallback,
    alwaysShowProviders: config.alwaysShowProviders,
  }
}

/** Both `allow` of the portal and that of the provider must hold; other providers admit nobody. */
function createAdmits({ allow, providers }: PortalConfig): (profile: Profile) => boolean {
  const conditions = createConditions()
  const byPortal = compileAllow(allow ?? 'anyone', conditions)
  const byProvider = new Map(
    providers.map((provider) => [
      provider.name,
      compileAllow(provider.allow ?? 'anyone', conditions),
    ]),
  )
  return (profile) => byProvider.get(profile.provider)?.(profile) === true && byPortal(profile)
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The portals by name. A reload replaces all of them. */
    readonly portals: Portals
  }
}

export interface PortalsOptions extends Pick<ForwardAuthConfig, 'portals' | 'session'> {
  /** Default: that of the net package. */
  readonly createFetch?: ((options: FetchOptions) => BoundedFetch) | undefined
}

/**
 * Decorates the app with its portals and their providers, which are contacted when they are needed.
 * After a reload, replaced providers have some time to finish their logins.
 */
export const portals = fp<PortalsOptions>(
  async (app: FastifyInstance, { createFetch: customFetch, ...config }) => {
    const { clock, log } = app
    const deps = { clock, log, createFetch: customFetch ?? createFetch }
    const current = new Map(await createPortals(config, deps))
    const replaced = new Set<Portals>()

    async function retire(old: Portals): Promise<void> {
      if (replaced.delete(old)) await closeProviders(old)
    }
    app.decorate('portals', current)
    app.addHealthCheck(() => ({ degraded: failingProviders(current) }))
    app.onReload<ForwardAuthConfig>(async (changed) => {
      const next = await createPortals(changed, deps)
      return () => {
        const old = new Map(current)
        current.clear()
        for (const [name, portal] of next) current.set(name, portal)
        replaced.add(old)
        clock.setTimer(() => {
          retire(old).catch((error) => log.error({ err: error }, 'old providers not closed'))
        }, PROVIDER_GRACE)
      }
    })
    app.addHook('onClose', async () => {
      await Promise.all([...replaced].map(retire))
      await closeProviders(current)
    })
  },
  {
    fastify: '5.x',
    name: 'forward-auth/portals',
    dependencies: ['service-kit/clock', 'service-kit/reload', 'service-kit/health'],
  },
)

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
