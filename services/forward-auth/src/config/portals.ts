import { compileAllow, createConditions, type Profile } from '@gatehouse/profile'
import { DEFAULT_ACCENT } from '../pages/colors.ts'
import type { Portal } from '../portal.ts'
import { createProvider, type ProviderDeps } from '../providers/index.ts'
import { createHeaders, createUser } from './headers.ts'
import type { ForwardAuthConfig, PortalConfig } from './schema.ts'

/** The portals of a configuration without faults, by name. */
export function createPortals(
  { portals, session }: ForwardAuthConfig,
  deps: ProviderDeps,
): ReadonlyMap<string, Portal> {
  return new Map(
    portals.map((config) => [config.name, createPortal(config, session.lifetime, deps)]),
  )
}

function createPortal(config: PortalConfig, lifetime: number, deps: ProviderDeps): Portal {
  const conditions = createConditions()
  const policies = Object.entries(config.policies)
  return {
    name: config.name,
    title: config.title ?? config.name,
    accent: config.accent ?? DEFAULT_ACCENT,
    providers: new Map(
      config.providers.map((provider) => [provider.name, createProvider(provider, deps)]),
    ),
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
