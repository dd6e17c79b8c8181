import {
  cidrContains,
  compileNetworks,
  type Host,
  isUnder,
  parseCidr,
  parseHost,
} from '@gatehouse/net'
import type { RuleConfig } from './options.ts'
import { compilePath, coversPath, type Fit, fitPath, type RequestPath } from './paths.ts'
import type { Policy } from './policy.ts'

/** The requirements that are built in. No policy has one of these names. */
export const ANYONE = 'anyone'
export const SIGNED_IN = 'signedIn'

/** The people whom a route is for: anyone, or people and programs with these policies, of which there may be none. */
type Purpose = typeof ANYONE | readonly Policy[]

/** The result of the rules for a request. What is demanded has to be met; the purpose is what admits. */
export interface Admission {
  /** The policies of all rules that fit or may fit, up to the first one that fits. */
  readonly demanded: readonly Policy[]
  /**
   * The purpose of the first rule that fits. Undefined if it is not known, because a rule before it may fit
   * and is for something else.
   */
  readonly purpose: Purpose | undefined
}

/** A request as rules see it. The host is always known. */
export interface RuledRequest {
  readonly host: Host
  readonly path: RequestPath
  /** Undefined if a header asks the app to take the request for one of another method. */
  readonly method: string | undefined
  /** The address of the client; undefined if it is not known. */
  clientIp(): string | undefined
}

type Test = (request: RuledRequest) => Fit

export interface Rule {
  readonly config: RuleConfig
  /** The result for a request that it fits. */
  readonly admission: Admission
  /** The members that the rule has, each with its test. All of them must fit. */
  readonly tests: readonly (readonly [member: keyof RuleConfig, fits: Test])[]
}

/** The result for a request that no rule fits. */
export const SESSION_REQUIRED: Admission = { demanded: [], purpose: [] }
const OPEN: Admission = { demanded: [], purpose: ANYONE }

export function createRules(
  configs: readonly RuleConfig[],
  policies: ReadonlyMap<string, Policy>,
): readonly Rule[] {
  return configs.map((config) => ({
    config,
    admission: admissionOf(config, policies),
    tests: compileTests(config),
  }))
}

function admissionOf({ require }: RuleConfig, policies: ReadonlyMap<string, Policy>): Admission {
  if (require === ANYONE) return OPEN
  if (require === SIGNED_IN) return SESSION_REQUIRED
  const demanded = [require].flat().map((name) => {
    const policy = policies.get(name)
    if (!policy) throw new Error(`there is no policy ${name}`)
    return policy
  })
  return { demanded, purpose: demanded }
}

/** Reads the rules in order, up to the first one that fits. If none does, a session is required. */
export function admissionFor(rules: readonly Rule[], request: RuledRequest): Admission {
  let before: Admission[] | undefined
  for (const rule of rules) {
    const fit = fitOf(rule, request)
    if (fit === 'yes') return before ? join(before, rule.admission) : rule.admission
    if (fit === 'maybe') before = [...(before ?? []), rule.admission]
  }
  return before ? join(before, SESSION_REQUIRED) : SESSION_REQUIRED
}

function join(before: readonly Admission[], last: Admission): Admission {
  const all = [...before, last].flatMap(({ demanded }) => demanded)
  const isKnown = before.every(({ purpose }) => isSame(purpose, last.purpose))
  return { demanded: [...new Set(all)], purpose: isKnown ? last.purpose : undefined }
}

function isSame(one: Purpose | undefined, other: Purpose | undefined): boolean {
  if (!Array.isArray(one) || !Array.isArray(other)) return one === other
  return one.length === other.length && one.every((policy) => other.includes(policy))
}

/** Whether a rule fits a request: as its worst member does. */
export function fitOf({ tests }: Rule, request: RuledRequest): Fit {
  let result: Fit = 'yes'
  for (const [, fits] of tests) {
    const fit = fits(request)
    if (fit === 'no') return 'no'
    if (fit === 'maybe') result = 'maybe'
  }
  return result
}

function compileTests({ hosts, paths, methods, from }: RuleConfig): Rule['tests'] {
  return [
    ...(hosts ? [['hosts', fitHost(hosts)] as const] : []),
    ...(methods ? [['methods', fitMethod(methods)] as const] : []),
    ...(from ? [['from', fitAddress(from)] as const] : []),
    ...(paths ? [['paths', fitPaths(paths)] as const] : []),
  ]
}

function fitHost(patterns: readonly string[]): Test {
  const contains = compileHosts(patterns)
  return ({ host }) => (contains(host) ? 'yes' : 'no')
}

type HostPattern = ReturnType<typeof readHost>

/** `x` is that host, `*.x` every host below it. */
function readHost(pattern: string) {
  const isWildcard = pattern.startsWith('*.')
  const text = isWildcard ? pattern.slice(2) : pattern
  return { name: parseHost(text)?.name ?? text, isWildcard }
}

/** Whether one of the patterns is of a host. */
export function compileHosts(patterns: readonly string[]): (host: Host) => boolean {
  const exact = new Set(exactHosts({ hosts: patterns }))
  const parents = patterns.map(readHost).filter(({ isWildcard }) => isWildcard)
  return (host) =>
    exact.has(host.name) || parents.some(({ name }) => name !== host.name && isUnder(name, host))
}

/** The hosts that a rule names, without those below a wildcard. */
export function exactHosts({ hosts = [] }: { readonly hosts?: readonly string[] }): string[] {
  return hosts.map(readHost).flatMap(({ name, isWildcard }) => (isWildcard ? [] : name))
}

/** Servers answer HEAD as they answer GET. */
function fitMethod(methods: readonly string[]): Test {
  const listed = new Set(methods)
  if (listed.has('GET')) listed.add('HEAD')
  return ({ method }) => {
    if (method === undefined) return 'maybe'
    if (listed.has(method)) return 'yes'
    return listed.has(method.toUpperCase()) ? 'maybe' : 'no'
  }
}

function fitAddress(networks: readonly string[]): Test {
  const contains = compileNetworks(networks)
  return (request) => {
    const address = request.clientIp()
    if (address === undefined) return 'maybe'
    return contains(address) ? 'yes' : 'no'
  }
}

function fitPaths(patterns: readonly string[]): Test {
  const compiled = patterns.map(compilePath)
  return ({ path }) => {
    let result: Fit = 'no'
    for (const pattern of compiled) {
      const fit = fitPath(pattern, path)
      if (fit === 'yes') return 'yes'
      if (fit === 'maybe') result = 'maybe'
    }
    return result
  }
}

/**
 * The rules that never decide, because an earlier one fits every request that they fit, each with the
 * index of that earlier rule.
 */
export function shadowedRules(configs: readonly RuleConfig[]): { index: number; by: number }[] {
  const rules = configs.map(readPatterns)
  return rules.flatMap((rule, index) => {
    const by = rules.findIndex((earlier, i) => i === index || coversRule(earlier, rule))
    return by === index ? [] : [{ index, by }]
  })
}

type Patterns = ReturnType<typeof readPatterns>
type Network = ReturnType<typeof parseCidr>

function readPatterns({ hosts, methods, from, paths }: RuleConfig) {
  return {
    hosts: hosts?.map(readHost),
    methods,
    from: from?.map((text) => parseCidr(text)),
    paths: paths?.map(compilePath),
  }
}

function coversRule(earlier: Patterns, rule: Patterns): boolean {
  return (
    coversAll(earlier.hosts, rule.hosts, coversHost) &&
    coversAll(earlier.methods, rule.methods, (a, b) => a === b || (a === 'GET' && b === 'HEAD')) &&
    coversAll(earlier.from, rule.from, coversNetwork) &&
    coversAll(earlier.paths, rule.paths, coversPath)
  )
}

function coversAll<T>(
  earlier: readonly T[] | undefined,
  later: readonly T[] | undefined,
  covers: (a: T, b: T) => boolean,
): boolean {
  if (!earlier) return true
  return later?.every((b) => earlier.some((a) => covers(a, b))) === true
}

function coversHost(a: HostPattern, b: HostPattern): boolean {
  if (!a.isWildcard) return !b.isWildcard && a.name === b.name
  return isUnder(a.name, b) && (b.isWildcard || b.name !== a.name)
}

function coversNetwork(wide: Network, narrow: Network): boolean {
  if (!wide || !narrow) return false
  return cidrContains(wide, narrow.network) && wide.prefix <= narrow.prefix
}
