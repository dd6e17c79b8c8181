import { cidrContains, compileNetworks, type Host, parseCidr } from '@gatehouse/net'
import type { McpCall } from '@gatehouse/profile'
import type { RuleConfig } from './options.ts'
import { compilePath, coversPath, type Fit, fitPath, type RequestPath } from './paths.ts'
import { compileHosts, compilePattern, coversHost, readHost } from './patterns.ts'
import type { Policy } from './policy.ts'

/** The requirements that are built in. No policy has one of these names. */
export const ANYONE = 'anyone'
export const SIGNED_IN = 'signedIn'

/** The people whom a route is for: anyone, or people and programs with these policies, of which there may be none. */
type RoutePurpose = typeof ANYONE | readonly Policy[]

/** The result of the rules for a request. What is demanded has to be met; the purpose is what admits. */
export interface Admission {
  /** The policies of all rules that fit or may fit, up to the first one that fits. */
  readonly demanded: readonly Policy[]
  /** The purpose of the first rule that fits; undefined if an earlier one may fit and is for something else. */
  readonly purpose: RoutePurpose | undefined
  /** Whether rules name tools here and none fits for certain: then nobody may pass, whatever other rules say. */
  readonly isClosed?: true
  /** The rules that fit or may fit, up to the first one that fits. Default: none does. */
  readonly rules?: readonly RuleConfig[]
  /** For a request that lists tools: what each matching rule requires. Whoever meets one of them may list. */
  readonly anyOf?: readonly Admission[]
}

/** A request as rules see it. The host is always known. */
export interface RuledRequest {
  readonly host: Host
  readonly path: RequestPath
  /** The method; undefined if a header asks the app to take the request for one of another method. */
  readonly method: string | undefined
  /** Returns its MCP call; undefined if that is not known. */
  mcp?(): McpCall | undefined
  /** The address of the client; undefined if it is not known. */
  clientIp(): string | undefined
}

type Test = (request: RuledRequest) => Fit

export interface AccessRule {
  readonly config: RuleConfig
  /** Whether it names tools or methods of MCP, and so closes its place. */
  readonly isMcp: boolean
  /** The tools that it fits, as patterns; undefined for none, and if it names neither tools nor methods. */
  readonly tools: readonly string[] | undefined
  /** Whether it is one of those that decide together who may list tools, since it is for some of them. */
  readonly isListed: boolean
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
): readonly AccessRule[] {
  return configs.map((config) => ({
    config,
    isMcp: config.tools !== undefined || config.mcpMethods !== undefined,
    tools: config.tools ?? (fitsEveryTool(config) ? [ANY_TOOL] : undefined),
    isListed: config.tools !== undefined && !config.tools.includes(ANY_TOOL),
    admission: admissionOf(config, policies),
    tests: compileTests(config),
  }))
}

function admissionOf(rule: RuleConfig, policies: ReadonlyMap<string, Policy>): Admission {
  const { require } = rule
  const rules = [rule]
  if (require === ANYONE) return { ...OPEN, rules }
  if (require === SIGNED_IN) return { ...SESSION_REQUIRED, rules }
  const demanded = [require].flat().map((name) => {
    const policy = policies.get(name)
    if (!policy) throw new Error(`there is no policy ${name}`)
    return policy
  })
  return { demanded, purpose: demanded, rules }
}

/** Reads the rules up to the first that fits. If none does, a session is required, unless a rule has closed the place. */
export function admissionFor(rules: readonly AccessRule[], request: RuledRequest): Admission {
  let possible: Admission[] | undefined
  let isClosed = false
  const fitting: Admission[] = []
  for (const rule of rules) {
    const isListed = rule.isListed && isListing(request)
    const fit = isListed ? fitOf(rule, request, NOT_CALLS) : fitOf(rule, request)
    if (fit === 'yes' && isClosed && !rule.isMcp) break
    if (fit === 'yes') fitting.push(join(possible, rule.admission))
    if (fit === 'yes' && !isListed) break
    if (fit === 'maybe') possible = [...(possible ?? []), rule.admission]
    if (rule.isMcp) isClosed ||= fitOf(rule, request, PLACE) !== 'no'
  }
  if (fitting.length > 1) return { ...SESSION_REQUIRED, anyOf: fitting }
  if (fitting[0]) return fitting[0]
  return isClosed
    ? { ...join(possible, SESSION_REQUIRED), ...CLOSED }
    : join(possible, SESSION_REQUIRED)
}

const CLOSED = { purpose: undefined, isClosed: true } as const

/** The requests that a client sends before it calls a tool. */
function isListing(request: RuledRequest): boolean {
  const { method } = request.mcp?.() ?? {}
  return method === 'tools/list' || method === 'server/discover'
}

type Member = keyof RuleConfig
const PLACE = (member: Member) => member === 'hosts' || member === 'paths'
const NOT_CALLS = (member: Member) => member !== 'tools' && member !== 'mcpMethods'

/** A rule for tools that may decide about a request, with their patterns. */
interface ToolRule {
  readonly tools: readonly string[]
  readonly admission: Admission
  /** Whether it fits for certain, whatever tool is called; otherwise it is a demand only. */
  readonly isCertain: boolean
}

/** The rules for tools at the place of a request, in order; empty where no rule names tools. */
export function toolRulesFor(
  rules: readonly AccessRule[],
  request: RuledRequest,
): readonly ToolRule[] {
  const toolRules: ToolRule[] = []
  for (const rule of rules) {
    const { tools } = rule
    const fit = fitOf(rule, request, NOT_CALLS)
    if (tools && fit !== 'no')
      toolRules.push({ tools, admission: rule.admission, isCertain: fit === 'yes' })
    // What an earlier rule decides never gets here.
    if (!rule.isMcp && fit === 'yes') break
  }
  return toolRules
}

function join(possible: readonly Admission[] | undefined, admission: Admission): Admission {
  if (!possible) return admission
  const demands = [...possible, admission].flatMap(({ demanded }) => demanded)
  const isKnown = possible.every(({ purpose }) => isSame(purpose, admission.purpose))
  return {
    demanded: [...new Set(demands)],
    purpose: isKnown ? admission.purpose : undefined,
    rules: [...possible, admission].flatMap(({ rules = [] }) => rules),
  }
}

function isSame(left: RoutePurpose | undefined, right: RoutePurpose | undefined): boolean {
  if (!Array.isArray(left) || !Array.isArray(right)) return left === right
  return left.length === right.length && left.every((policy) => right.includes(policy))
}

/** Whether a rule fits a request: as its worst member does. @param counts - which members count. Default: all */
export function fitOf(
  { tests }: AccessRule,
  request: RuledRequest,
  counts?: (member: Member) => boolean,
): Fit {
  let result: Fit = 'yes'
  for (const [member, fits] of tests) {
    if (counts && !counts(member)) continue
    const fit = fits(request)
    if (fit === 'no') return 'no'
    if (fit === 'maybe') result = 'maybe'
  }
  return result
}

function compileTests(config: RuleConfig): AccessRule['tests'] {
  const { hosts, paths, methods, from, tools, mcpMethods } = config
  return [
    ...(hosts ? [['hosts', fitHost(hosts)] as const] : []),
    ...(methods ? [['methods', fitMethod(methods)] as const] : []),
    ...(from ? [['from', fitAddress(from)] as const] : []),
    ...(paths ? [['paths', fitPaths(paths)] as const] : []),
    ...(tools ? [['tools', fitTool(tools)] as const] : []),
    ...(mcpMethods ? [['mcpMethods', fitCall(mcpMethods, ({ method }) => method)] as const] : []),
  ]
}

function fitHost(patterns: readonly string[]): Test {
  const contains = compileHosts(patterns)
  return ({ host }) => (contains(host) ? 'yes' : 'no')
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

/** The pattern of the rule that opens what other rules for tools leave. */
export const ANY_TOOL = '*'

function fitsEveryTool({ mcpMethods = [] }: RuleConfig): boolean {
  return mcpMethods.some((pattern) => compilePattern(pattern)('tools/call'))
}

function fitTool(patterns: readonly string[]): Test {
  if (patterns.includes(ANY_TOOL)) return () => 'yes'
  return fitCall(patterns, ({ method, name }) => (method === 'tools/call' ? name : undefined))
}

/** @param textOf - what the patterns are for; undefined if a call has none */
function fitCall(patterns: readonly string[], textOf: (call: McpCall) => string | undefined): Test {
  const compiled = patterns.map(compilePattern)
  return (request) => {
    const call = request.mcp?.()
    if (!call) return 'maybe'
    const text = textOf(call)
    return text !== undefined && compiled.some((fits) => fits(text)) ? 'yes' : 'no'
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

/** A rule, or one of its tools or the hosts and paths that it closes, that never decides. */
export interface Shadowed {
  readonly index: number
  /** The entry of the rule, such as `tools/0`; undefined for the whole rule. */
  readonly entry?: string
  /** The index of the earlier rule that fits first, or the same one. */
  readonly winner: number
  /** The entry of the pattern in its rule. */
  readonly winnerEntry?: string
}

/** The rules and tools that never decide: an earlier rule fits all that they fit, or closes their place. */
export function shadowedRules(configs: readonly RuleConfig[]): Shadowed[] {
  const rules = configs.map(readPatterns)
  const coveringOf = (rule: Patterns, index: number) =>
    rules.findIndex((earlier, i) => i === index || coversRule(earlier, rule))
  return rules.flatMap((rule, index): Shadowed[] => {
    const winner = coveringOf(rule, index)
    if (winner !== index) return [{ index, winner }]
    const { tools = [], mcpMethods, hosts = [], paths = [] } = rule
    const places = mcpMethods || rule.tools ? Object.entries({ hosts, paths }) : []
    const shadowedPlaces = places.flatMap(([member, entries]) =>
      entries.flatMap((entry, i) => {
        const earlier = coveringOf({ ...rule, [member]: [entry] }, index)
        return earlier === index ? [] : [{ index, entry: `${member}/${i}`, winner: earlier }]
      }),
    )
    const shadowedTools = tools.flatMap((pattern, tool): Shadowed[] => {
      const entry = `tools/${tool}`
      const winningTool = tools.findIndex(
        (candidate, i) => i !== tool && coversPattern(candidate, pattern),
      )
      const isFirst = winningTool < 0 || (tools[winningTool] === pattern && winningTool > tool)
      if (!isFirst) return [{ index, entry, winner: index, winnerEntry: `tools/${winningTool}` }]
      const earlier = coveringOf({ ...rule, tools: [pattern] }, index)
      return earlier === index ? [] : [{ index, entry, winner: earlier }]
    })
    return [...shadowedPlaces, ...shadowedTools]
  })
}

type Patterns = ReturnType<typeof readPatterns>
type Network = ReturnType<typeof parseCidr>

function readPatterns({ hosts, methods, from, paths, tools, mcpMethods }: RuleConfig) {
  const toolMethods = tools && !tools.includes(ANY_TOOL) ? ['tools/call'] : undefined
  const isForCalls = toolMethods !== undefined || mcpMethods !== undefined
  return {
    tools,
    mcpMethods: mcpMethods ?? toolMethods,
    hosts: hosts?.map(readHost),
    methods: isForCalls ? (methods ?? ['POST']).filter((method) => method === 'POST') : methods,
    from: from?.map((text) => parseCidr(text)),
    paths: paths?.map(compilePath),
  }
}

function coversRule(earlier: Patterns, rule: Patterns): boolean {
  const isClosed = (earlier.tools ?? earlier.mcpMethods) && !(rule.tools ?? rule.mcpMethods)
  const isPlaceCovered =
    coversAll(earlier.hosts, rule.hosts, coversHost) &&
    coversAll(earlier.paths, rule.paths, coversPath)
  if (isClosed) return isPlaceCovered
  return (
    isPlaceCovered &&
    coversAll(earlier.methods, rule.methods, (a, b) => a === b || (a === 'GET' && b === 'HEAD')) &&
    coversAll(earlier.from, rule.from, coversNetwork) &&
    coversCalls(earlier, rule)
  )
}

/** A rule without calls covers those with them; behind one with calls, a rule without them never decides. */
function coversCalls(earlier: Patterns, rule: Patterns): boolean {
  if (earlier.tools?.includes(ANY_TOOL)) return true
  return (
    coversAll(earlier.tools, rule.tools, coversPattern) &&
    coversAll(earlier.mcpMethods, rule.mcpMethods, coversPattern)
  )
}

/** Whether a pattern fits whatever another one fits: as a text, that one has `*` where any text may be. */
function coversPattern(wide: string, narrow: string): boolean {
  return compilePattern(wide)(narrow)
}

function coversAll<T>(
  earlier: readonly T[] | undefined,
  later: readonly T[] | undefined,
  covers: (a: T, b: T) => boolean,
): boolean {
  if (!earlier) return true
  return later?.every((b) => earlier.some((a) => covers(a, b))) === true
}

function coversNetwork(wide: Network, narrow: Network): boolean {
  if (!wide || !narrow) return false
  return cidrContains(wide, narrow.network) && wide.prefix <= narrow.prefix
}
