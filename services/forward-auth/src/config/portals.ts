import { compileAllow, createConditions, type Profile } from '@gatehouse/profile'
import { DEFAULT_ACCENT } from '../pages/colors.ts'
import type { Portal } from '../portal.ts'
import { createProvider, type ProviderConfig, type ProviderDeps } from '../providers/index.ts'
import type { Provider } from '../providers/provider.ts'
import { createHeaders, createUser } from './headers.ts'
import type { ForwardAuthConfig, PortalConfig } from './schema.ts'

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
