import { cidrContains, compileNetworks, type Host, parseCidr, parseHost } from '@gatehouse/net'
import { isUnder } from '../sites.ts'
import type { Policy } from './policy.ts'

/** A rule as configured. A member that is absent fits everything. */
export interface RuleConfig {
  readonly hosts?: readonly string[]
  readonly paths?: readonly string[]
  readonly methods?: readonly string[]
  readonly from?: readonly string[]
  readonly require: string | readonly string[]
}

/** The requirements that are built in. No policy has one of these names. */
export const ANYONE = 'anyone'
export const SIGNED_IN = 'signedIn'

/** What a request has to meet. */
export interface Requirement {
  /** Whether nobody needs to be signed in. */
  readonly isOpen: boolean
  /** Policies that must all be met. */
  readonly policies: readonly Policy[]
}

/** What rules look at. */
export interface RuledRequest {
  readonly method: string
  readonly host: Host
  /** Undefined if the app may see another path, see {@link readPath}. */
  readonly path: RequestPath | undefined
  /** Whether a header asks the app to take the request for one of another method. */
  readonly overridesMethod: boolean
  /** The address of the client; undefined if it is not known. */
  clientIp(): string | undefined
}

/**
 * Whether a rule fits a request. `maybe` is for what the app may see in another way: a path that is
 * not normal, a method that a header overrides, or an address that is not known.
 */
export type Fit = 'yes' | 'no' | 'maybe'

type Test = (request: RuledRequest) => Fit

export interface Rule {
  readonly config: RuleConfig
  readonly requirement: Requirement
  /** The members that the rule has, each with its test. All of them must fit. */
  readonly tests: readonly (readonly [member: keyof RuleConfig, fits: Test])[]
}

/** That of a request that no rule fits. */
export const SESSION_REQUIRED: Requirement = { isOpen: false, policies: [] }
const OPEN: Requirement = { isOpen: true, policies: [] }

export function createRules(
  configs: readonly RuleConfig[],
  policies: ReadonlyMap<string, Policy>,
): readonly Rule[] {
  return configs.map((config) => ({
    config,
    requirement: requirementOf(config, policies),
    tests: compileTests(config),
  }))
}

function requirementOf(
  { require }: RuleConfig,
  policies: ReadonlyMap<string, Policy>,
): Requirement {
  if (require === ANYONE) return OPEN
  if (require === SIGNED_IN) return SESSION_REQUIRED
  const required = [require].flat().map((name) => {
    const policy = policies.get(name)
    if (!policy) throw new Error(`there is no policy ${name}`)
    return policy
  })
  return { isOpen: false, policies: required }
}

/**
 * What a request has to meet: the requirement of the first rule that fits, and a session if none
 * does. A rule that may fit never opens anything: its policies are added, and the next rules count too.
 */
export function requirementFor(rules: readonly Rule[], request: RuledRequest): Requirement {
  let added: Policy[] | undefined
  for (const rule of rules) {
    const fit = fitOf(rule, request)
    const { requirement } = rule
    if (fit === 'yes') return added ? join(added, requirement) : requirement
    if (fit === 'maybe' && requirement.policies.length > 0)
      added = [...(added ?? []), ...requirement.policies]
  }
  return added ? { isOpen: false, policies: added } : SESSION_REQUIRED
}

/** An open rule behind one that may fit does not open the request. */
function join(added: readonly Policy[], { policies }: Requirement): Requirement {
  return { isOpen: false, policies: [...added, ...policies] }
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
    ...(paths ? [['paths', fitPath(paths)] as const] : []),
  ]
}

function fitHost(patterns: readonly string[]): Test {
  const contains = compileHosts(patterns)
  return ({ host }) => (contains(host) ? 'yes' : 'no')
}

/** Whether one of the patterns is of a host: `x` is that host, `*.x` every host below it. */
export function compileHosts(patterns: readonly string[]): (host: Host) => boolean {
  const exact = new Set(patterns.filter((pattern) => !isWildcard(pattern)).map(hostName))
  const parents = patterns.filter(isWildcard).map((pattern) => hostName(pattern.slice(2)))
  return (host) =>
    exact.has(host.name) || parents.some((one) => one !== host.name && isUnder(one, host))
}

/** The hosts that a rule names, without those below a wildcard. */
export function exactHosts({ hosts = [] }: RuleConfig): string[] {
  return hosts.filter((pattern) => !isWildcard(pattern)).map(hostName)
}

function isWildcard(pattern: string): boolean {
  return pattern.startsWith('*.')
}

function hostName(text: string): string {
  return parseHost(text)?.name ?? text
}

/** Servers answer HEAD as they answer GET. */
function fitMethod(methods: readonly string[]): Test {
  const listed = new Set(methods)
  if (listed.has('GET')) listed.add('HEAD')
  return ({ method, overridesMethod }) => {
    if (overridesMethod) return 'maybe'
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

function fitPath(patterns: readonly string[]): Test {
  const compiled = patterns.map(compilePath)
  const folded = compiled.map(({ segments, isPrefix }) => ({ segments: fold(segments), isPrefix }))
  return ({ path }) => {
    if (!path) return 'maybe'
    if (compiled.some((pattern) => matches(pattern, path.segments))) return 'yes'
    // Some apps take `/Admin` for `/admin`.
    return folded.some((pattern) => matches(pattern, path.folded)) ? 'maybe' : 'no'
  }
}

interface PathPattern {
  readonly segments: readonly string[]
  /** Whether it fits every path below as well. */
  readonly isPrefix: boolean
}

/** `/x` is that path, with or without a slash at its end; `/x/*` also every path below it. */
function compilePath(pattern: string): PathPattern {
  const segments = segmentsOf(pattern)
  const isPrefix = segments.at(-1) === '*'
  return { segments: isPrefix ? segments.slice(0, -1) : segments, isPrefix }
}

function fold(segments: readonly string[]): readonly string[] {
  return segments.map((segment) => segment.toLowerCase())
}

/** Whether a pattern is of a path. */
export function covers(pattern: string): (path: RequestPath) => boolean {
  const compiled = compilePath(pattern)
  return ({ segments }) => matches(compiled, segments)
}

/** `*` is any one segment. */
function matches({ segments, isPrefix }: PathPattern, path: readonly string[]): boolean {
  if (isPrefix ? path.length < segments.length : path.length !== segments.length) return false
  return segments.every((segment, i) => segment === '*' || segment === path[i])
}

/** The segments of a path, without the empty one of a slash at its end. */
function segmentsOf(path: string): string[] {
  const [, ...segments] = path.split('/')
  if (segments.at(-1) === '') segments.pop()
  return segments
}

/** The path of a request, percent-decoded once. */
export interface RequestPath {
  readonly segments: readonly string[]
  /** In lower case. */
  readonly folded: readonly string[]
}

/**
 * Reads the path of a target. Undefined if the app may see another one, because proxies and apps
 * differ in what they make of it: of an empty or dot segment, an encoded slash, percent sign or
 * control character, `;`, `\\`, `?` or `#`, an encoding that is not valid UTF-8, and characters that
 * some apps replace by others (Unicode NFKC).
 */
export function readPath(target: string): RequestPath | undefined {
  const query = target.indexOf('?')
  const segments = segmentsOf(query < 0 ? target : target.slice(0, query))
  for (let i = 0; i < segments.length; i++) {
    const segment = decodeSegment(segments[i] ?? '')
    if (segment === undefined) return undefined
    segments[i] = segment
  }
  return { segments, folded: fold(segments) }
}

const PLAIN = /^[\w.~!$&'()*+,=:@-]+$/
const DOTS = /^\s*\.*\s*$/
const AMBIGUOUS = /[/\\;?#%\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u

function decodeSegment(written: string): string | undefined {
  if (DOTS.test(written)) return undefined
  if (PLAIN.test(written)) return written
  try {
    const segment = decodeURIComponent(written)
    const isAmbiguous = DOTS.test(segment) || AMBIGUOUS.test(segment)
    return isAmbiguous || segment !== segment.normalize('NFKC') ? undefined : segment
  } catch {
    return undefined
  }
}

/**
 * The rules that never decide, because an earlier one fits every request that they fit, each with the
 * index of that earlier rule.
 */
export function shadowedRules(configs: readonly RuleConfig[]): { index: number; by: number }[] {
  return configs.flatMap((rule, index) => {
    const by = configs.slice(0, index).findIndex((earlier) => coversRule(earlier, rule))
    return by < 0 ? [] : [{ index, by }]
  })
}

function coversRule(earlier: RuleConfig, rule: RuleConfig): boolean {
  return (
    coversAll(earlier.hosts, rule.hosts, coversHost) &&
    coversAll(earlier.methods, rule.methods, (a, b) => a === b || (a === 'GET' && b === 'HEAD')) &&
    coversAll(earlier.from, rule.from, coversNetwork) &&
    coversAll(earlier.paths, rule.paths, coversPath)
  )
}

function coversAll(
  earlier: readonly string[] | undefined,
  later: readonly string[] | undefined,
  covers: (a: string, b: string) => boolean,
): boolean {
  if (!earlier) return true
  return later?.every((b) => earlier.some((a) => covers(a, b))) === true
}

function coversHost(a: string, b: string): boolean {
  if (!isWildcard(a)) return hostName(a) === hostName(b)
  const parent = hostName(a.slice(2))
  const name = hostName(isWildcard(b) ? b.slice(2) : b)
  return isUnder(parent, { name }) && (isWildcard(b) || name !== parent)
}

function coversNetwork(a: string, b: string): boolean {
  const [wide, narrow] = [parseCidr(a), parseCidr(b)]
  if (!wide || !narrow) return false
  return cidrContains(wide, narrow.network) && wide.prefix <= narrow.prefix
}

function coversPath(a: string, b: string): boolean {
  const [wide, narrow] = [compilePath(a), compilePath(b)]
  if (narrow.isPrefix && !wide.isPrefix) return false
  return matches(wide, narrow.segments)
}
