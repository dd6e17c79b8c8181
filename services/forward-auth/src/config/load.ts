import { gateRules } from '@gatehouse/gate'
import { kindOf, PROVIDER_RULES, type ProviderConfig } from '@gatehouse/identity-providers'
import { isUnder, parseCidr, parseHost } from '@gatehouse/net'
import { compileAllow } from '@gatehouse/profile'
import { type Loaded, type LoadSettings, loadConfig } from '@gatehouse/service-kit/config'
import { checkEvents } from '@gatehouse/service-kit/events'
import {
  applyRules,
  applyToEach,
  type ConfigRule,
  checkListeners,
  checkTrustedProxies,
  checkUnique,
  type Fault,
  faultIf,
  faultOf,
  ifKnown,
} from '@gatehouse/service-kit/rules'
import { parsePostgresUrl } from '@gatehouse/store'
import { readSite, type Site } from '../sites.ts'
import { checkApps } from './apps.ts'
import { checkClients } from './clients.ts'
import { checkContact, checkImage } from './look.ts'
import { type ForwardAuthConfig, ForwardAuthSchema, type PortalConfig } from './schema.ts'
import { loadStartRules } from './start-rules.ts'

/** Reads a configuration file. @throws ConfigError with all faults of the file */
export async function loadForwardAuthConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  { beforeStart = false, ...options }: LoadSettings = {},
): Promise<Loaded<ForwardAuthConfig>> {
  const rules = beforeStart ? [...RULES, ...(await loadStartRules())] : RULES
  return loadConfig({ schema: ForwardAuthSchema, file, env, rules, ...options })
}

/**
 * Rules for a configuration that its schema does not express. Reading a member that has a fault
 * throws and ends the rule, so each rule reads no more members than it needs.
 */
const RULES: readonly ConfigRule<ForwardAuthConfig>[] = [
  checkAddresses,
  ({ server }) => checkTrustedProxies(server.trustedProxies, '/server/trustedProxies'),
  checkSites,
  checkOverlaps,
  ({ portals }) => checkUnique('/portals', portals),
  checkStorage,
  checkEvents,
  (config) =>
    applyToEach(config.portals, '/portals', [
      ...PORTAL_RULES,
      (portal, index) => {
        const resources = config.portals
          .slice(0, index)
          .flatMap((earlierPortal) => ifKnown(() => earlierPortal.resources) ?? [])
        return applyRules(portal, gateRules(domainsOf(config), resources), '')
      },
      (portal) => checkApps(portal, validSitesOf(config)),
      (portal) => checkLifetime(portal, config),
      (portal) =>
        applyToEach(portal.providers, '/providers', [
          ...PROVIDER_RULES,
          ({ allow }) => checkAllow(allow),
          (provider) => checkOpenProvider(provider, portal),
          (provider) => checkWhois(provider, config),
          (provider) => checkScopes(provider, portal),
        ]),
    ]),
]

const DAY = 86_400_000

const PORTAL_RULES: readonly ConfigRule<PortalConfig>[] = [
  ({ authorizationServer: { privateNetworks } }) =>
    applyToEach(privateNetworks, '/authorizationServer/privateNetworks', [
      (text) => faultIf(!parseCidr(text), '', 'is not a network such as 10.0.0.0/8'),
    ]),
  ({ authorizationServer: { clients } }) => checkClients(clients),
  ({ resources, session }) =>
    applyToEach(resources, '/resources', [
      ({ lifetime }) =>
        faultIf(
          lifetime !== undefined && session.refresh === 'off',
          '/lifetime',
          'needs `session.refresh`: without it, nobody notices that an account was closed',
        ),
    ]),
  ({ providers }) => checkUnique('/providers', providers),
  checkStepUps,
  checkAdmins,
  checkContact,
  checkImage('logo'),
  checkImage('favicon'),
  ({ allow }) => checkAllow(allow),
  checkCallback,
]

/** The canonical names of the cookie domains that are valid. */
function domainsOf({ domains }: ForwardAuthConfig): string[] {
  return domains.flatMap((_, i) => ifKnown(() => parseHost(domains[i]?.domain ?? '')?.name) ?? [])
}

function validSitesOf({ domains }: ForwardAuthConfig): Site[] {
  return domains.flatMap((_, i) => {
    const row = domains[i]
    const site = row && ifKnown(() => readSite(row, ''))
    return site && 'authOrigin' in site ? [site] : []
  })
}

function checkAddresses({ server, metrics }: ForwardAuthConfig): Fault[] {
  const listener = { path: '/server', address: server }
  const isAlone = ifKnown(() => !metrics.enabled) ?? true
  return checkListeners(isAlone ? [listener] : [listener, { path: '/metrics', address: metrics }])
}

function checkSites({ domains, server }: ForwardAuthConfig): Fault[] {
  return applyToEach(domains, '/domains', [
    (row) => {
      const site = readSite(row, ifKnown(() => server.basePath) ?? '')
      return 'message' in site ? [{ path: `/${site.key}`, message: site.message }] : []
    },
  ])
}

function checkStorage({ storage }: ForwardAuthConfig): Fault[] {
  return 'url' in storage ? faultOf('/storage/url', () => parsePostgresUrl(storage.url)) : []
}

function checkOverlaps({ domains }: ForwardAuthConfig): Fault[] {
  const hosts = domains.map((row) => parseHost(ifKnown(() => row.domain) ?? ''))
  return applyToEach(domains, '/domains', [
    (_, index) => {
      const child = hosts[index]
      const parent = hosts.findIndex(
        (host, i) => host && child && i !== index && isUnder(host.name, child),
      )
      return faultIf(parent >= 0, '/domain', `is covered by ${domains[parent]?.domain}`)
    },
  ])
}

function checkOpenProvider(provider: ProviderConfig, portal: PortalConfig): Fault[] {
  const isPublic = kindOf(provider).isPublic?.(provider) ?? false
  const isOpen = isPublic && provider.allow === undefined && portal.allow === undefined
  const message = 'lets anybody create an account: set `allow`, to `anyone` if that is intended'
  return faultIf(isOpen, '', message)
}

function checkWhois({ type }: ProviderConfig, { server }: ForwardAuthConfig): Fault[] {
  const isMissing = type === 'tailscaleWhois' && server.trustedProxies === undefined
  const message = 'requires server.trustedProxies, because it identifies people by their address'
  return faultIf(isMissing, '/type', message)
}

/** People authenticate anew by OpenID Connect, and programs have tokens of those who did. */
function checkStepUps({ policies, providers, callers }: PortalConfig): Fault[] {
  const stepsUp = providers.some((provider) => kindOf(provider).stepsUp)
  if (stepsUp || (ifKnown(() => callers?.issuers.length) ?? 0) > 0) return []
  const message =
    'can be met by nobody: the portal has no provider of OpenID Connect, and no issuer of tokens'
  return Object.keys(policies).flatMap((name) => {
    const policy = ifKnown(() => policies[name])
    if (typeof policy !== 'object') return []
    return (['acr', 'maxAge'] as const)
      .filter((key) => ifKnown(() => policy[key]) !== undefined)
      .map((key) => ({ path: `/policies/${name}/${key}`, message }))
  })
}

function checkAdmins({ policies, sessions }: PortalConfig): Fault[] {
  const isUnknown = sessions !== undefined && !Object.hasOwn(policies, sessions.admins)
  return faultIf(isUnknown, '/sessions/admins', 'is no policy of this portal')
}

/**
 * Warns of a long session that is never read again: what somebody may do for days ought to be what the provider
 * says today.
 */
function checkLifetime({ providers, session }: PortalConfig, config: ForwardAuthConfig): Fault[] {
  const { lifetime = ifKnown(() => config.session.lifetime) ?? 0, refresh } = session
  const isRead = refresh !== 'off' && providers.every(({ type }) => type !== 'tailscaleWhois')
  const message =
    'is more than a day, and the provider is not asked again: groups and closed accounts count only at the next sign-in'
  return lifetime > DAY && !isRead ? [{ path: '/session/lifetime', message, isWarning: true }] : []
}

/** Other providers may say who people are by an access token. */
function checkScopes(provider: PortalConfig['providers'][number], { session }: PortalConfig) {
  const message =
    'lacks `offline_access`, so the provider is not asked about people again: add it, or set `refresh: off` in `session`'
  return session.refresh !== 'off' && kindOf(provider).reReads?.(provider) === false
    ? [{ path: '/scopes', message, isWarning: true }]
    : []
}

function checkAllow(allow: PortalConfig['allow']): Fault[] {
  if (allow === undefined) return []
  const keys = typeof allow === 'object' ? Object.keys(allow) : []
  if (keys.length === 0) return faultOf('/allow', () => compileAllow(allow))
  // Each key on its own, so that all faults are reported.
  return keys.flatMap((key) => {
    const entry = ifKnown(() => ({ [key]: allow[key as keyof typeof allow] }))
    return entry ? faultOf(`/allow/${key}`, () => compileAllow(entry)) : []
  })
}

function checkCallback({ sharedCallback, providers }: PortalConfig): Fault[] {
  const redirecting = providers.filter(({ type }) => type !== 'tailscaleWhois')
  const message = 'requires a single provider: callbacks of several could not be told apart'
  return faultIf(sharedCallback && redirecting.length > 1, '/sharedCallback', message)
}
