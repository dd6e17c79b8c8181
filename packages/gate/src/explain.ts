import type { Host } from '@gatehouse/net'
import type { Profile } from '@gatehouse/profile'
import type { Principal } from './decide.ts'
import { type Decision, decide, withRoute } from './decide.ts'
import { createPolicyReader } from './gate.ts'
import type { GateConfig } from './options.ts'
import { type RequestPath, readPath } from './paths.ts'
import { createPolicies, type Policy } from './policy.ts'
import { createReach, Place, refusalOf, resourceAt } from './programs.ts'
import {
  type Admission,
  ANYONE,
  admissionFor,
  createRules,
  fitOf,
  type Rule,
  type RuledRequest,
  SIGNED_IN,
} from './rules.ts'

/** A request to explain. */
interface ExplainedRequest {
  readonly host: Host
  /** Path and query in ASCII. */
  readonly target: string
  readonly method: string
  /** The tool that it calls by MCP. Default: what it calls is not known. */
  readonly tool?: string | undefined
  /** Address of the client. */
  readonly from: string | undefined
  /** Query of the check: `policy=<name>`, `if=<condition>`, or empty. */
  readonly query: string
  /** Milliseconds since the epoch. */
  readonly now: number
}

/**
 * Explains what a gate would decide about a request for a page, and why: a line for each step.
 *
 * @param config - without faults
 * @param principal - undefined if nobody is signed in
 * @throws GateError FWA_POLICY_UNKNOWN; ProfileError PROFILE_CONDITION_…
 */
export function explain(
  config: GateConfig,
  { host, target, method, tool, from, query, now }: ExplainedRequest,
  principal: Principal | undefined,
): string[] {
  const { name, preflight } = config
  const policies = createPolicies(config.policies)
  const rules = createRules(config.rules, policies)
  const route = createPolicyReader({ name, policies })(query)
  const isCall = tool !== undefined && method === 'POST'
  const mcp = () => (isCall ? { method: 'tools/call', name: tool } : undefined)
  const request = { host, path: readPath(target), method, mcp, clientIp: () => from }
  const admission = admissionFor(rules, request)
  const decision = decide({
    preflight,
    host,
    principal,
    admission,
    mcp,
    routePolicy: () => route,
    kind: () => 'navigation',
    now,
  })
  const whole = withRoute(admission, route)
  return [
    ...describePath(request.path),
    ...describeRules(rules, request),
    ...describeAdmission(whole),
    `admitted: ${describeAdmitted(config, request, whole)}`,
    `who: ${principal ? describePerson(principal.identity.profile) : 'nobody is signed in'}`,
    ...describeDecision(decision),
  ]
}

function describePath({ known, next }: RequestPath): string[] {
  if (next === undefined) return []
  const start = ['', ...known, next].join('/')
  return [`path: known up to ${start}, as apps do not agree about the rest`]
}

function describeRules(rules: readonly Rule[], request: RuledRequest): string[] {
  if (rules.length === 0) return ['rules: none']
  const fits = rules.map((rule) => fitOf(rule, request))
  const first = fits.indexOf('yes')
  const looked = first < 0 ? rules : rules.slice(0, first + 1)
  const lines = looked.map(({ config, tests }, index) => {
    const fit = fits[index]
    const members = tests.filter(([, test]) => test(request) === fit).map(([member]) => member)
    const required = [config.require].flat().join(', ')
    if (fit === 'no') return `rules[${index}]: does not fit (${members.join(', ')})`
    if (fit === 'yes') return `rules[${index}]: fits: ${required}`
    return `rules[${index}]: may fit (${members.join(', ')}): ${required}`
  })
  return first < 0 ? [...lines, 'rules: none fits'] : lines
}

function describeAdmission({ demanded, purpose, isClosed }: Admission): string[] {
  if (isClosed) return ['demanded: a rule for this call, since rules name tools here']
  const listOf = (policies: readonly Policy[]) =>
    policies.map(({ name, condition }) => name ?? `?if=${condition?.source}`)
  const isOpen = purpose === ANYONE
  const known = isOpen ? ANYONE : purpose && (listOf(purpose).join(', ') || SIGNED_IN)
  return [
    `demanded: ${isOpen ? 'nothing' : ['a session or a program', ...listOf(demanded)].join(', ')}`,
    `purpose: ${known ?? 'not known, since an earlier rule may fit'}`,
  ]
}

/** The people and programs that are not refused from the start. They have to meet what is demanded as well. */
function describeAdmitted(
  { callers, resources }: GateConfig,
  { host, path }: RuledRequest,
  { purpose, isClosed }: Admission,
): string {
  if (purpose === ANYONE) return ANYONE
  if (isClosed) return 'nobody'
  const programs = [...(callers?.keys ?? []), ...(callers?.issuers ?? [])]
    .filter((row) => refusalOf(createReach(row), host, purpose) === undefined)
    .map(({ name }) => name)
  const places = resources.map((one) => new Place(one))
  const resource = resourceAt(places, `https://${host.name}`, path)
  return [
    'people whom the portal allows',
    ...(programs.length > 0 ? [`programs: ${programs.join(', ')}`] : []),
    ...(resource ? [`tokens for ${resource.url}`] : []),
  ].join('; ')
}

function describePerson({ provider, id, groups = [], roles = [] }: Profile): string {
  return `${provider}:${id}, groups: ${groups.join(', ') || 'none'}, roles: ${roles.join(', ') || 'none'}`
}

const OUTCOMES: Readonly<Record<Exclude<Decision['outcome'], 'forbidden' | 'step-up'>, string>> = {
  allow: 'decision: passes, with the identity of the person',
  anonymous: 'decision: passes, without an identity',
  preflight: 'decision: passes as a preflight, without an identity',
  'sign-in': 'decision: a browser is sent to sign in; a program gets 401',
  'no-session': 'decision: 401',
}

function describeDecision(decision: Decision): string[] {
  if (decision.outcome === 'step-up')
    return [
      `decision: sent to sign in again, for ${decision.policy.name}: acr or maxAge is not met`,
    ]
  if (decision.outcome !== 'forbidden') return [OUTCOMES[decision.outcome]]
  const { by, clause } = decision.refusal
  const why = clause === undefined ? by : `${by}, because this is not true: ${clause}`
  return [`decision: 403, refused by ${why}`]
}
