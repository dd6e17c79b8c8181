import { checkAuthOptions, isPublicIssuer } from '@gatehouse/auth-core'
import { parseEndpointUrl } from '@gatehouse/net'
import { compileCondition } from '@gatehouse/profile'
import {
  applyToEach,
  checkUnique,
  comparableKeys,
  type Fault,
  faultIf,
  faultOf,
  ifKnown,
  isWhole,
} from '@gatehouse/service-kit/rules'
import { checkDomain, checkHosts, type Domains } from './host-faults.ts'
import type { CallersConfig, GateConfig, ReachConfig, ResourceConfig } from './options.ts'
import { isNormalPath } from './paths.ts'
import { coversHost, readHost } from './patterns.ts'
import { createPolicies, type Policy } from './policy.ts'
import { authOptionsOf, KEYS, scopeName } from './programs.ts'
import { type AccessRule, ANYONE, createRules } from './rules.ts'

export function checkCallers(
  { callers, policies, providers }: GateConfig,
  domains: Domains,
): Fault[] {
  if (!callers) return []
  const { keys, issuers } = callers
  const named = ifKnown(() => Object.keys(policies)) ?? []
  const row = [
    checkReach,
    ({ policies = [] }: ReachConfig) => checkNames(policies, '/policies', named),
    ({ hosts }: ReachConfig) => checkHosts(hosts, '/hosts', domains),
  ]
  const taken = providers.map((_, i) => ifKnown(() => providers[i]?.name))
  const checkName = ({ name }: { readonly name: string }) =>
    faultIf(name === KEYS, '/name', `is what the names of API keys begin with: ${KEYS}`)
  return [
    ...applyToEach(providers, '/providers', [checkName]),
    ...checkOptions(callers),
    ...applyToEach(keys, '/callers/keys', [...row, checkBasic]),
    ...checkUnique('/callers/issuers', issuers),
    ...applyToEach(issuers, '/callers/issuers', [
      ...row,
      checkAllow,
      checkPublic,
      checkName,
      ({ name }) => faultIf(taken.includes(name), '/name', `is also a provider: ${name}`),
    ]),
  ]
}

export function checkNames(
  names: readonly string[],
  path: string,
  policies: readonly string[],
): Fault[] {
  const check = (name: string) => faultIf(!policies.includes(name), '', `is no policy: ${name}`)
  return applyToEach(names, path, [check])
}

function checkReach({ hosts, policies }: ReachConfig): Fault[] {
  return faultIf(!(hosts || policies), '', 'may reach nothing: name its `hosts` or `policies`')
}

/** RFC 7617: the user of Basic ends at the first colon. */
function checkBasic({ basic, name }: CallersConfig['keys'][number]): Fault[] {
  const message = 'has a colon or a control character, which no user of Basic has'
  return faultIf(basic && /[:\p{Cc}]/u.test(name), '/name', message)
}

function checkAllow({ allow }: ReachConfig): Fault[] {
  if (allow === undefined || allow === 'anyone') return []
  return faultOf('/allow', () => compileCondition(allow))
}

const FOR_ANYONE = 'gives anyone a token: set `allow`, to `anyone` if that is intended'

function checkPublic({ issuerUrl, allow }: CallersConfig['issuers'][number]): Fault[] {
  return faultIf(isPublicIssuer(issuerUrl) && allow === undefined, '/issuerUrl', FOR_ANYONE)
}

/** The faults that auth-core finds, at the rows of this configuration. */
function checkOptions({ keys, issuers }: CallersConfig): Fault[] {
  if (keys.length + issuers.length === 0)
    return [{ path: '/callers', message: 'names no program: give keys or issuers' }]
  // Files are checked before a start, see `start-rules.ts`.
  const readable = isWhole(issuers) ? issuers.map(({ caFile: _, ...issuer }) => issuer) : []
  if (keys.length + readable.length === 0) return []
  const rows = comparableKeys(keys).map((key) => ({ basic: false, ...key }))
  return checkAuthOptions(authOptionsOf({ keys: rows, issuers: readable })).map((fault) => ({
    ...fault,
    path: `/callers${fault.path.replace(/^\/(psk|jwt)(?=\/)/, '')}`,
  }))
}

/** The hosts and policies of keys that lead nowhere, since no key meets what is demanded there. Each is a warning. */
export function checkKeys({ callers, policies: configs, rules: rows }: GateConfig): Fault[] {
  const policies = createPolicies(configs)
  const rules = createRules(rows, policies)
  const todo =
    'Let a policy ask for a scope of the key too, as in `Group("family") || Scope("books")`'
  return applyToEach(callers?.keys ?? [], '/callers/keys', [
    ({ hosts = [], policies: named = [], scopes = [] }) => {
      const subject = { claims: {}, caller: { method: 'psk' as const, scopes, claims: {} } }
      const isMet = ({ condition, stepUp }: Policy) =>
        !stepUp && (!condition || condition.readsMcp || condition.holds(subject))
      const isLocked = !named.flatMap((name) => policies.get(name) ?? []).some(isMet)
      const unmet = `are not met by this key, which can pass nowhere. ${todo}`
      const ofPolicies = faultIf(named.length > 0 && isLocked, '/policies', unmet)
      const ofHosts = hosts.map((host) => lockOf(readHost(host), rules, isMet))
      return [
        ...ofPolicies.map((fault) => ({ ...fault, isWarning: true })),
        ...ofHosts.flatMap((index, i): Fault[] => {
          if (index === undefined) return []
          const message = `is where this key can pass nowhere: it does not meet \`${[rows[index]?.require].flat().join(', ')}\`. ${todo}`
          return [{ path: `/hosts/${i}`, message, relatedPath: `/rules/${index}`, isWarning: true }]
        }),
      ]
    },
  ])
}

/** The index of the rule at whose end a program has passed nowhere at a host; undefined if it can somewhere. */
function lockOf(
  host: ReturnType<typeof readHost>,
  rules: readonly AccessRule[],
  isMet: (policy: Policy) => boolean,
): number | undefined {
  for (const [index, { config, tests, admission }] of rules.entries()) {
    const places = config.hosts?.map(readHost) ?? [host]
    if (!places.some((place) => coversHost(place, host) || coversHost(host, place))) continue
    const isOfAll = tests.every(([member]) => member === 'hosts')
    // No program needs a key there.
    if (config.require === ANYONE && !config.hosts && !isOfAll) continue
    if (admission.demanded.every(isMet)) return undefined
    if (isOfAll && places.some((place) => coversHost(place, host))) return index
  }
  return undefined
}

/** @param earlier - the resources of the portals before: a URL has one document of metadata */
export function checkResources(
  { resources, callers, providers }: GateConfig,
  earlier: readonly ResourceConfig[],
  domains: Domains,
): Fault[] {
  const limited = ifKnown(() => callers?.issuers.filter(({ allow }) => allow !== undefined)) ?? []
  const urls = [...earlier, ...resources].map((resource) =>
    ifKnown(() => URL.parse(resource.url)?.href.replace(/\/$/, '')),
  )
  return applyToEach(resources, '/resources', [
    ({ url }) => checkResourceUrl(url, domains),
    (_, index) => {
      const position = earlier.length + index
      const isTaken = urls[position] !== undefined && urls.indexOf(urls[position]) < position
      return faultIf(isTaken, '/url', 'is already a resource')
    },
    (resource) => checkOwnTokens(resource, providers),
    checkUpstream,
    ({ scopes }) =>
      applyToEach(scopes, '/scopes', [
        (scope, index) => {
          const isTaken = scopes.map(scopeName).indexOf(scopeName(scope)) < index
          return faultIf(isTaken, '', 'is listed twice')
        },
      ]),
    ({ authorizationServers = [] }) =>
      applyToEach(authorizationServers, '/authorizationServers', [
        (issuer, index) =>
          authorizationServers.indexOf(issuer) < index
            ? [{ path: '', message: 'is listed twice' }]
            : checkEndpoint(issuer),
        (issuer) => {
          const isLimited = limited.some(({ issuerUrl }) => issuerUrl === issuer)
          const message = `${FOR_ANYONE}, in a row of \`callers.issuers\``
          return faultIf(isPublicIssuer(issuer) && !isLimited, '', message)
        },
      ]),
  ])
}

function checkUpstream({ upstream }: ResourceConfig): Fault[] {
  if (!upstream) return []
  const { url, caFile } = upstream
  const faults = faultOf('/upstream/url', () => parseEndpointUrl(url, { allowHttp: true }))
  const isPlain = URL.parse(url)?.protocol === 'http:'
  return [
    ...faults,
    ...faultIf(url.includes('?'), '/upstream/url', 'must not hold a query'),
    ...faultIf(isPlain && caFile !== undefined, '/upstream/caFile', 'is for an https URL'),
  ]
}

/** The faults of a resource whose tokens the portal issues. */
function checkOwnTokens(
  { authorizationServers, scopes, lifetime }: ResourceConfig,
  providers: GateConfig['providers'],
): Fault[] {
  const foreign = 'is for tokens that this portal issues: remove it, or `authorizationServers`'
  if (authorizationServers) return faultIf(lifetime !== undefined, '/lifetime', foreign)
  const isBound = providers.every(({ type }) => type === 'tailscaleWhois')
  return [
    ...applyToEach(scopes, '/scopes', [
      (scope) =>
        faultIf(
          typeof scope === 'string',
          '',
          'has no words for the person who is asked for it: write `name` and `text`, or name `authorizationServers`',
        ),
    ]),
    ...faultIf(
      isBound,
      '',
      'nobody could let a program act for them: sessions of `tailscaleWhois` are good at one address ' +
        'only. Add another provider, or name `authorizationServers`',
    ),
  ]
}

function checkEndpoint(url: string): Fault[] {
  const faults = faultOf('', () => parseEndpointUrl(url))
  return faults.map(({ path, message }) => ({ path, message: `is no usable URL: ${message}` }))
}

function checkResourceUrl(text: string, domains: Domains): Fault[] {
  const path = '/url'
  const [fault] = checkEndpoint(text)
  if (fault) return [{ path, message: fault.message }]
  const url = new URL(text)
  if (url.protocol !== 'https:' && !url.hostname.endsWith('localhost'))
    return [{ path, message: 'is no https URL' }]
  if (url.search !== '') return [{ path, message: 'must not hold a query' }]
  // As it is written: the URL parser removes dot segments.
  if (!isNormalPath(text.replace(/^[a-z]+:\/\/[^/]*/i, '')))
    return [{ path, message: 'has a path that is not normal, such as one with `//` or `%2F`' }]
  return checkDomain({ name: url.hostname }, path, domains)
}
