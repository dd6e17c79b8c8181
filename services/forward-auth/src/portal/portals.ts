import { Gate, type Policy, type Refusal } from '@gatehouse/gate'
import { createProvider, type Provider, type ProviderDeps } from '@gatehouse/identity-providers'
import { compileAllow, type Profile } from '@gatehouse/profile'
import { ConfigError } from '@gatehouse/service-kit/config'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { ForwardAuthConfig, PortalConfig } from '../config/schema.ts'
import { FwaError } from '../errors.ts'
import { DEFAULT_ACCENT } from '../pages/colors.ts'
import { type Image, type ImageKind, readImage } from '../pages/images.ts'
import { readLabelledApps } from './labelled-apps.ts'

/** The time for replaced providers to finish their logins after a reload, in ms. */
const PROVIDER_GRACE = 30_000
/** The time for providers to finish once the service stops, in ms: less than a service may take for that. */
const LAST_WAIT = 5_000

/** A named set of providers, rules and headers that protects apps. */
export type Portal = Readonly<ReturnType<typeof createPortal>>
export type Portals = ReadonlyMap<string, Portal>

/** Has a part closed if another one cannot be made. */
type Keep = <Part extends { close(): Promise<unknown> }>(part: Part) => Part

/**
 * Creates the portals of a valid configuration, by name. If one cannot be created, the parts of the
 * ones before it are closed.
 */
async function createPortals(
  { portals, session, domains }: PortalsConfig,
  deps: PortalDeps,
): Promise<Portals> {
  await using made = new AsyncDisposableStack()
  const keep: Keep = (part) =>
    made.adopt(part, async (part) => {
      // The error that ended the creation counts.
      await part.close().catch(() => {})
    })
  const created = new Map(
    portals.map((config) => {
      const titled = { title: domains[0]?.domain ?? config.name, ...config }
      return [config.name, createPortal(titled, session.lifetime, deps, keep)]
    }),
  )
  made.move()
  return created
}

type AgentFinder = Pick<ConstructorParameters<typeof Gate>[1], 'findAgent'>
type PortalDeps = ProviderDeps & AgentFinder

function createPortal(config: PortalConfig, lifetime: number, deps: PortalDeps, keep: Keep) {
  const { clock, log, findAgent } = deps
  const gate = keep(
    new Gate(config, { now: clock.now, elapsed: () => performance.now(), log, findAgent }),
  )
  const keepsAccess = config.providerToken?.token === 'access'
  const providers = config.providers.map(
    (provider) =>
      [provider.name, keep(createProvider(provider, { ...deps, keepsAccess }))] as const,
  )
  return {
    name: config.name,
    gate,
    labelledApps: keep(readLabelledApps(config.appsFrom, deps)),
    ...lookOf(config, gate.policies),
    /** The providers by name, in the order of the chooser. */
    providers: new Map(providers) as ReadonlyMap<string, Provider>,
    ...createAdmission(config),
    /** Milliseconds, as all times. */
    session: {
      lifetime: config.session.lifetime ?? lifetime,
      idle: config.session.idle,
      /** Undefined: the provider is not asked again. */
      refresh: config.session.refresh === 'off' ? undefined : config.session.refresh,
      grace: config.session.grace,
    },
    /** The policy for people who may see and end the sessions of everybody. */
    admins: gate.policies.get(config.sessions?.admins ?? ''),
    authorizationServer: config.authorizationServer,
    loginLifetime: config.loginLifetime,
    sharedCallback: config.sharedCallback,
    alwaysShowProviders: config.alwaysShowProviders,
  }
}

/** The parts of a portal that its pages show. */
function lookOf(
  { name, title = name, accent = DEFAULT_ACCENT, texts = {}, contact, ...config }: PortalConfig,
  policies: ReadonlyMap<string, Policy>,
) {
  const images = new Map<string, Image>()
  const image = (kind: ImageKind, file: string | undefined, key: string = kind) => {
    if (file === undefined) return undefined
    const read = requireImage(kind, file, `portals.${name}.${key}`)
    images.set(read.name, read)
    return read
  }
  return {
    title,
    accent,
    texts,
    contact,
    logo: image('logo', config.logo),
    favicon: image('favicon', config.favicon),
    /** The apps that it offers; undefined if the configuration lists none. */
    apps: config.apps?.map(({ name, url, policy = '', icon }, i) => ({
      name,
      url: new URL(url),
      /** The policy of its route, beside the rules. */
      policy: policies.get(policy),
      icon: image('icon', icon, `apps.${i}.icon`),
    })),
    images: images as ReadonlyMap<string, Image>,
  }
}

/** @throws ConfigError CONFIG_FILE_UNUSABLE if the file has changed since it was checked */
function requireImage(kind: ImageKind, file: string, key: string): Image {
  const read = readImage(kind, file)
  if ('image' in read) return read.image
  throw new ConfigError('CONFIG_FILE_UNUSABLE', `${key} ${read.fault}: ${file}`)
}

/** Requires both `allow` of the portal and that of the provider. Other providers admit nobody. */
export function createAdmission({ allow, providers }: PortalConfig) {
  const byPortal = compileAllow(allow ?? 'anyone')
  const byProvider = new Map(
    providers.map((provider) => [provider.name, compileAllow(provider.allow ?? 'anyone')]),
  )
  const isAtProvider = (profile: Profile) => byProvider.get(profile.provider)?.(profile) === true
  return {
    /** Whether a person has access at all; evaluated at login and at every check. */
    admits: (profile: Profile): boolean => isAtProvider(profile) && byPortal(profile),
    /** The reason why a person has no access. */
    refusalOf(profile: Profile): Refusal {
      if (isAtProvider(profile))
        return { reason: 'allow', clause: byPortal.refusingClause(profile) }
      const clause = byProvider.get(profile.provider)?.refusingClause(profile)
      return { reason: `allow of the provider ${profile.provider}`, clause }
    },
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The portals by name. A reload replaces all of them. */
    readonly portals: Portals
  }
}

/** The portal in the path of a request. @throws FwaError FWA_NOT_FOUND */
export function portalOf({ params, server }: FastifyRequest): Portal {
  const portal = server.portals.get((params as { portal: string }).portal)
  if (!portal) throw new FwaError('FWA_NOT_FOUND', 'there is no portal of this name')
  return portal
}

type PortalsConfig = Pick<ForwardAuthConfig, 'portals' | 'session' | 'domains'>

/** `createFetch` connects to providers and clients. */
export type PortalsOptions = PortalsConfig & Pick<PortalDeps, 'createFetch' | 'findAgent'>

/**
 * Decorates the app with its portals and their providers, which are contacted when they are needed.
 * After a reload, replaced providers have some time to finish their logins.
 */
export const portals = fp<PortalsOptions>(
  async (app: FastifyInstance, { createFetch, findAgent, ...config }) => {
    const { clock, log } = app
    const deps = { clock, log, createFetch, findAgent }
    const current = new Map(await createPortals(config, deps))
    const replaced = new Set<Portals>()

    async function retire(old: Portals): Promise<void> {
      if (replaced.delete(old)) await closeAll(old)
    }
    app.decorate('portals', current)
    app.onReload<ForwardAuthConfig>(async (changed) => {
      const next = await createPortals(changed, deps)
      return () => {
        const old = new Map(current)
        current.clear()
        for (const [name, portal] of next) current.set(name, portal)
        replaced.add(old)
        clock.setTimer(() => {
          retire(old).catch((error) => log.error({ err: error }, 'old providers were not closed'))
        }, PROVIDER_GRACE)
      }
    })
    const close = async () => {
      await Promise.all([...replaced].map(retire))
      await closeAll(current)
    }
    let closeTimer: { cancel(): void } | undefined
    app.addHook('preClose', async () => {
      closeTimer = clock.setTimer(() => void close().catch(() => {}), LAST_WAIT)
    })
    app.addHook('onClose', async () => {
      closeTimer?.cancel()
      await close()
    })
  },
  {
    name: 'forward-auth/portals',
    dependencies: ['service-kit/clock', 'service-kit/reload'],
  },
)

async function closeAll(portals: Portals): Promise<void> {
  const parts = [...portals.values()].flatMap(({ providers, gate, labelledApps }) => [
    ...providers.values(),
    gate,
    labelledApps,
  ])
  await Promise.all(parts.map((part) => part.close()))
}
