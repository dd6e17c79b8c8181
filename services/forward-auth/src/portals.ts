import { type Condition, compileAllow, createConditions, type Profile } from '@gatehouse/profile'
import { createHeaders, createUser, type IdentityHeader } from './check/header-values.ts'
import type { ForwardAuthConfig, PortalConfig } from './config/schema.ts'
import { DEFAULT_ACCENT } from './pages/colors.ts'
import { createProvider, type ProviderConfig } from './providers/index.ts'
import type { Provider, ProviderDeps } from './providers/provider.ts'

/** A door with a name: who vouches for people here, who may in, and what the apps behind it learn. */
export interface Portal {
  readonly name: string
  /** What pages call it. */
  readonly title: string
  /** CSS colour of its pages. */
  readonly accent: string
  /** By name, in the order in which the chooser lists them. */
  readonly providers: ReadonlyMap<string, Provider>
  /** Whether somebody may in at all; asked at login and again at every check. */
  readonly admits: (profile: Profile) => boolean
  /** Conditions that routes name. */
  readonly policies: ReadonlyMap<string, Condition>
  /** Whether `X-Forward-Auth-If` is read; if not, a request that brings it is denied. */
  readonly conditionHeader: boolean
  /** What an app learns, each sent with every 200. */
  readonly headers: readonly IdentityHeader[]
  /** Header that passes the session token to the app. */
  readonly tokenHeader: string | undefined
  /** Whether CORS preflights without credentials pass. */
  readonly preflight: boolean
  /** Milliseconds from login to the end of the session, whatever happens in between. */
  readonly sessionLifetime: number
  /** Milliseconds in which a login has to be finished. */
  readonly loginLifetime: number
  /** Whether the provider is given the redirect URI that providers shared in earlier versions. */
  readonly sharedCallback: boolean
  /** Whether the chooser is shown although there is only one provider. */
  readonly alwaysShowProviders: boolean
}

type Make = (config: ProviderConfig) => Provider

/**
 * The portals of a configuration without faults, by name. If one cannot be made, the providers of
 * those before it are closed.
 */
export async function createPortals(
  { portals, session }: Pick<ForwardAuthConfig, 'portals' | 'session'>,
  deps: ProviderDeps,
): Promise<ReadonlyMap<string, Portal>> {
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

function createPortal(config: PortalConfig, lifetime: number, make: Make): Portal {
  const conditions = createConditions()
  const policies = Object.entries(config.policies)
  return {
    name: config.name,
    title: config.title ?? config.name,
    accent: config.accent ?? DEFAULT_ACCENT,
    providers: new Map(config.providers.map((provider) => [provider.name, make(provider)])),
    admits: createAdmits(config),
    policies: new Map(policies.map(([name, text]) => [name, conditions.compile(text)])),
    conditionHeader: config.conditionHeader,
    headers: createHeaders(
      config.headers,
      createUser(config.userHeader, config.providers.length > 1),
    ),
    tokenHeader: config.tokenHeader?.toLowerCase(),
    preflight: config.preflight,
    sessionLifetime: config.sessionLifetime ?? lifetime,
    loginLifetime: config.loginLifetime,
    sharedCallback: config.sharedCallback,
    alwaysShowProviders: config.alwaysShowProviders,
  }
}

/** What the portal and the provider allow must both hold; nobody comes from another provider. */
function createAdmits({ allow, providers }: PortalConfig): Portal['admits'] {
  const conditions = createConditions()
  const byPortal = compileAllow(allow ?? 'anyone', conditions)
  const byProvider = new Map(
    providers.map((provider) => [
      provider.name,
      compileAllow(provider.allow ?? 'anyone', conditions),
    ]),
  )
  return (profile: Profile) =>
    byProvider.get(profile.provider)?.(profile) === true && byPortal(profile)
}
