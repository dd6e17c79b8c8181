import {
  applyRules,
  applyToEach,
  type ConfigRule,
  checkNetwork,
  type Fault,
  faultIf,
  faultOf,
  ifKnown,
  isWhole,
} from '@gatehouse/service-kit/rules'
import { HEADER_NAMES, MAX_TOOLS_LENGTH, TOOLS_HEADER } from './header-names.ts'
import { headerRows } from './header-presets.ts'
import { checkHosts, type Domains } from './host-faults.ts'
import type { GateConfig, ResourceConfig, RuleConfig } from './options.ts'
import { compilePath, coversPath, isNormalPath } from './paths.ts'
import { coversHost, readHost } from './patterns.ts'
import { ANY_POLICY, createPolicies, createPolicy } from './policy.ts'
import { checkCallers, checkKeys, checkNames, checkResources } from './program-faults.ts'
import { pathsBelow } from './programs.ts'
import { ANY_TOOL, ANYONE, SIGNED_IN, shadowedRules } from './rules.ts'

/**
 * Rules for the options of a gate that their schema does not express.
 *
 * @param domains - canonical names of the cookie domains
 * @param earlier - the resources of other gates: a URL has one document of metadata
 */
export function gateRules(
  domains: readonly string[],
  earlier: readonly ResourceConfig[],
): readonly ConfigRule<GateConfig>[] {
  const compiled: ConfigRule<GateConfig>[] = [
    ({ policies }) => applyRules(policies, Object.keys(policies).map(policyRule), '/policies'),
    (gate) => checkRules(gate, domains),
    (gate) => checkResources(gate, earlier, domains),
  ]
  const isCompiled = (gate: GateConfig) =>
    isWhole(gate) && applyRules(gate, compiled).every(({ isWarning }) => isWarning)
  return [
    ...compiled,
    (gate) => (isCompiled(gate) ? [...checkKeys(gate), ...checkUpstreams(gate)] : []),
    checkHeaders,
    checkAssertionClaims,
    (gate) => checkCallers(gate, domains),
    ({ assertion }) => checkHosts(assertion?.hosts, '/assertion/hosts', domains),
    ({ providerToken }) => checkHosts(providerToken?.hosts, '/providerToken/hosts', domains),
    ({ groups = [] }) =>
      applyToEach(groups, '/groups', [(row) => checkHosts(Object(row).hosts, '/hosts', domains)]),
  ]
}

function policyRule(name: string): ConfigRule<GateConfig['policies']> {
  const path = `/${name}`
  if (name === ANY_POLICY || name === ANYONE)
    return () => [{ path, message: 'is built in and cannot be redefined' }]
  return ({ [name]: policy = '' }) => {
    const pointer = typeof policy === 'string' ? path : `${path}/condition`
    return faultOf(pointer, () => createPolicy(name, policy))
  }
}

const HEADER_NAME = /^[A-Za-z][A-Za-z0-9-]{0,126}$/
/** Headers with a meaning in HTTP, those that a check reads, and the one about tools. */
const RESERVED: ReadonlySet<string> = new Set([
  ...HEADER_NAMES.read,
  ...HEADER_NAMES.calls,
  TOOLS_HEADER,
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'host',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'www-authenticate',
  'cookie',
  'set-cookie',
  'location',
  'cache-control',
  'date',
  'vary',
  'x-auth-redirect',
  'content-length',
  'content-type',
  'content-encoding',
  'content-security-policy',
])

function checkHeaders({ headers, assertion, providerToken }: GateConfig): Fault[] {
  const names = headerRows(headers).map(({ name, entry }) => {
    const pointer = Array.isArray(headers) ? `/headers/${entry}` : '/headers'
    const isOwn = Array.isArray(headers) && typeof headers[entry] === 'object'
    return { name, path: isOwn ? `${pointer}/name` : pointer }
  })
  if (assertion) names.push({ name: assertion.header, path: '/assertion/header' })
  if (providerToken) names.push({ name: providerToken.header, path: '/providerToken/header' })
  const keys = names.map(({ name }) => name.toLowerCase())
  return names.flatMap(({ name, path }, index): Fault[] => {
    const key = name.toLowerCase()
    if (!HEADER_NAME.test(name))
      return [{ path, message: 'must be a header name of letters, digits and hyphens' }]
    if (RESERVED.has(key)) return [{ path, message: `is reserved: ${key}` }]
    return faultIf(keys.indexOf(key) < index, path, `duplicates the header ${key}`)
  })
}

/** Claims that say something about the assertion itself, or that it always has. */
const ASSERTION_CLAIMS: readonly string[] = [
  'iss',
  'aud',
  'exp',
  'nbf',
  'iat',
  'jti',
  'sub',
  'sid',
  'method',
  'provider',
  'scope',
  'tools',
  'client_id',
  'email',
  'email_verified',
  'groups',
  'roles',
  'name',
  '_claim_names',
]

function checkAssertionClaims({ assertion }: GateConfig): Fault[] {
  return applyToEach(assertion?.claims ?? [], '/assertion/claims', [
    (claim) => faultIf(ASSERTION_CLAIMS.includes(claim), '', `is part of it: ${claim}`),
  ])
}

/** The faults of `rules`. A rule that no request reaches is a warning. */
function checkRules({ rules, policies }: GateConfig, domains: Domains): Fault[] {
  const named = ifKnown(() => Object.keys(policies)) ?? []
  const faults = applyToEach(rules, '/rules', [
    ({ hosts }) => checkHosts(hosts, '/hosts', domains),
    ({ paths = [] }) => applyToEach(paths, '/paths', [checkPath]),
    ({ from = [] }) => applyToEach(from, '/from', [(text) => checkNetwork(text)]),
    ({ require }) => checkRequire(require, named),
    checkCalls,
    (rule) => checkApprove(rule, policies),
  ])
  if (!isWhole(rules)) return faults
  const warnings = [checkShadowed, checkToolLengths, checkOlderPaths]
  return [...faults, ...warnings.flatMap((check) => check(rules))]
}

/** A pattern that is not normal would fit no path: those of requests are normal, or fit no pattern. */
function checkPath(pattern: string): Fault[] {
  if (!pattern.startsWith('/')) return [{ path: '', message: 'must begin with `/`' }]
  if (pattern.includes('%'))
    return [{ path: '', message: 'must be written decoded: paths are compared without `%`' }]
  const isPlain = !/[*]/.test(pattern.replaceAll(/(?<=\/)\*(?=\/|$)/g, ''))
  if (!isPlain) return [{ path: '', message: 'has a `*` that is not a whole segment' }]
  const isNormal = !pattern.includes('?') && isNormalPath(pattern)
  return faultIf(
    !isNormal,
    '',
    'is not a normal path: it has `//`, a dot segment, a dot at an end, `;`, `?` or `#`',
  )
}

function checkRequire(require: RuleConfig['require'], named: readonly string[]): Fault[] {
  if (typeof require !== 'string') return checkNames(require, '/require', named)
  const isKnown = [ANYONE, SIGNED_IN, ...named].includes(require)
  const message = `is neither \`${ANYONE}\`, \`${SIGNED_IN}\` nor a policy: ${require}`
  return faultIf(!isKnown, '/require', message)
}

/** The faults of a rule that names tools or methods of MCP, whose requests are POST. */
function checkCalls({ tools, mcpMethods, methods }: RuleConfig): Fault[] {
  const member = tools ? '/tools' : '/mcpMethods'
  if (!(tools ?? mcpMethods)) return []
  const calls = tools?.includes(ANY_TOOL) ? [] : [tools, mcpMethods].flatMap((list) => list ?? [])
  const isUnfit = calls.length > 0 && methods !== undefined && !methods.includes('POST')
  return [
    ...faultIf(Boolean(tools && mcpMethods), '', 'names `tools` and `mcpMethods`: make two rules'),
    ...faultIf(isUnfit, member, 'can never fit: MCP calls by POST, which `methods` leaves out').map(
      (fault) => ({ ...fault, relatedPath: '/methods', isWarning: true }),
    ),
  ]
}

/** The faults of policies and rules that are about what only an `upstream` shows. */
function checkUpstreams({ policies, rules, resources }: GateConfig): Fault[] {
  const compiled = [...createPolicies(policies).values()]
  const readers = compiled.filter(({ condition }) => condition?.readsArguments)
  const urls = resources.flatMap(({ url, upstream }) => (upstream ? new URL(url) : []))
  if (urls.length === 0 && readers.length > 0)
    return readers.map(({ name }) => ({
      path: `/policies/${name}`,
      message: 'reads arguments of tools: give the resource of these tools an `upstream`',
    }))
  const todo =
    urls.length > 0
      ? `name only hosts and paths of ${urls.join(', ')}`
      : 'give the resource of these tools an `upstream`'
  return applyToEach(rules, '/rules', [
    (rule) => {
      const reader = readers.find(({ name }) => [rule.require].flat().includes(`${name}`))
      const reasons = [
        reader && `requires ${reader.name}, which reads arguments of tools`,
        rule.approve && 'has a person approve calls',
        rule.limit && 'limits calls',
      ]
      const reason = reasons.find(Boolean)
      return faultIf(reason !== undefined && !isWithin(rule, urls), '', `${reason}: ${todo}`)
    },
  ])
}

/** Whether a rule is for nothing but what is at and below some URLs. */
function isWithin({ hosts = ['*'], paths, tools }: RuleConfig, urls: readonly URL[]): boolean {
  // A rule for tools without paths closes the rest of its hosts.
  const patterns = paths ?? [tools ? undefined : '/*']
  const isShown = (host: string, path: string | undefined) =>
    urls.some(
      (url) => url.hostname === host && (!path || coversPath(pathsBelow(url), compilePath(path))),
    )
  return hosts.every((host) => patterns.every((path) => isShown(host, path)))
}

/** The faults of how a person approves: whoever may, and how they sign in, are policies. */
function checkApprove({ approve }: RuleConfig, policies: GateConfig['policies']): Fault[] {
  const { approver, stepUp } = approve ?? {}
  const demand = stepUp === undefined ? undefined : policies[stepUp]
  const demandsNothing = typeof demand === 'string' || !(demand?.acr ?? demand?.maxAge)
  return [
    ...Object.entries({ approver, stepUp }).flatMap(([member, name]) =>
      faultIf(
        name !== undefined && !Object.hasOwn(policies, name),
        `/approve/${member}`,
        `is no policy: ${name}`,
      ),
    ),
    ...faultIf(
      demand !== undefined && demandsNothing,
      '/approve/stepUp',
      `demands no new sign-in: give the policy ${stepUp} \`maxAge\` or \`acr\``,
    ),
  ]
}

/** A server is told of the tools of all rules of a place in one header. */
function checkToolLengths(rules: readonly RuleConfig[]): Fault[] {
  const lengths = new Map<string, number>()
  return rules.flatMap(({ hosts, tools = [] }, index): Fault[] => {
    const place = JSON.stringify(hosts)
    const previous = lengths.get(place) ?? 0
    const length = previous + tools.join(',!').length
    lengths.set(place, length)
    const message = `have more than ${MAX_TOOLS_LENGTH} characters with those before, so that the server is told of no tools: use patterns`
    const isFirst = previous <= MAX_TOOLS_LENGTH && length > MAX_TOOLS_LENGTH
    return isFirst ? [{ path: `/rules/${index}/tools`, message, isWarning: true }] : []
  })
}

/** Where servers take calls by HTTP+SSE, the first transport of MCP. */
const OLDER_PATHS = ['/sse', '/messages']

/** The rules for calls at some paths that leave these open. Each is a warning, at the first one for a host. */
function checkOlderPaths(rules: readonly RuleConfig[]): Fault[] {
  const isNamed = (host: string, path: string) =>
    rules.some(({ hosts = [host], paths, tools, mcpMethods }) => {
      const isForCalls = tools !== undefined || mcpMethods !== undefined
      // A rule for everything is no rule for these paths, unless it is for calls.
      const patterns = (paths ?? ['/*']).filter((pattern) => isForCalls || pattern !== '/*')
      return (
        patterns.some((pattern) => coversPath(compilePath(pattern), compilePath(path))) &&
        hosts.some((pattern) => coversHost(readHost(pattern), readHost(host)))
      )
    })
  const checked = new Set<string>()
  return rules.flatMap(({ hosts = [], paths, tools, mcpMethods }, index) => {
    if (!paths || !(tools || mcpMethods)) return []
    const others = hosts.filter((host) => !checked.has(host) && checked.add(host))
    const open = others.find((host) => !OLDER_PATHS.every((path) => isNamed(host, path)))
    if (open === undefined) return []
    const message = `leave \`/sse\` and \`/messages\` of ${open} to other rules, where many servers take calls: add them, or name no paths`
    return { path: `/rules/${index}/paths`, message, isWarning: true }
  })
}

function checkShadowed(rules: readonly RuleConfig[]): Fault[] {
  const pathOf = (index: number, entry?: string) =>
    ['/rules', index, entry].filter((part) => part !== undefined).join('/')
  return shadowedRules(rules).map(({ index, entry, winner, winnerEntry }) => ({
    path: pathOf(index, entry),
    message: entry?.startsWith('tools')
      ? 'never decides: whatever it fits, another pattern fits first'
      : 'never decides: every request that it fits, an earlier rule fits first, or closes to what its tools do not name',
    relatedPath: pathOf(winner, winnerEntry),
    isWarning: true,
  }))
}
