import { type Principal, type Sender, withRoute } from './decide.ts'
import type { ForwardedRequest } from './forwarded.ts'
import { type Gate, ruledRequest } from './gate.ts'
import type { GateConfig, RuleConfig } from './options.ts'
import type { RequestPath } from './paths.ts'
import type { Policy } from './policy.ts'
import { createReach, type Resource, refusalOf } from './programs.ts'
import {
  type AccessRule,
  type Admission,
  ANY_TOOL,
  ANYONE,
  admissionFor,
  fitOf,
  type RuledRequest,
  SIGNED_IN,
} from './rules.ts'

/**
 * Explains what a gate decides about a request, and why: a line for each step, the lines of the rules that fit or may
 * fit, and the decision.
 *
 * @param gate - of this configuration
 * @param query - of the check: `policy=<name>`, `if=<condition>`, or empty
 * @throws GateError FWA_POLICY_UNKNOWN; ProfileError PROFILE_CONDITION_…
 */
export async function explain(
  gate: Gate,
  config: GateConfig,
  forwarded: ForwardedRequest<unknown>,
  sender: Sender,
  query: string,
) {
  const request = ruledRequest(forwarded, sender)
  const admission = withRoute(admissionFor(gate.rules, request), gate.readPolicy(query))
  const { mcp } = forwarded
  const context = { ...sender, person: () => sender.principal, ...(mcp && { call: () => mcp }) }
  const { decision } = await gate.check(forwarded, context, query)
  const rules = describeRules(gate.rules, request)
  const lines = [
    ...describePath(request.path),
    ...rules.lines,
    ...describeAdmission(admission),
    `admitted: ${describeAdmitted(config, request, admission, gate.resourceAt(forwarded))}`,
    `who: ${describePrincipal(sender.principal)}`,
  ]
  return { lines, decision, rules: rules.fitting }
}

function describePath({ segments, next }: RequestPath): string[] {
  if (next === undefined) return []
  const start = ['', ...segments, next].join('/')
  return [`path: known up to ${start}, as apps do not agree about the rest`]
}

function describeRules(rules: readonly AccessRule[], request: RuledRequest) {
  const fits = rules.map((rule) => fitOf(rule, request))
  const first = fits.indexOf('yes')
  const looked = first < 0 ? rules : rules.slice(0, first + 1)
  const lines = looked.map(({ config, tests }, index) => {
    const fit = fits[index]
    const members = tests.filter(([, test]) => test(request) === fit).map(([member]) => member)
    const required = requirementsOf(config)
    if (fit === 'no') return `rules[${index}]: does not fit (${members.join(', ')})`
    const verb = config.tools?.includes(ANY_TOOL) ? 'fits any tool' : 'fits'
    if (fit === 'yes') return `rules[${index}]: ${verb}: ${required}`
    return `rules[${index}]: may fit (${members.join(', ')}): ${required}`
  })
  const fitting = lines.filter((_, index) => fits[index] !== 'no')
  if (first >= 0) return { lines, fitting }
  const end = rules.length === 0 ? 'rules: none' : 'rules: none fits'
  return { lines: [...lines, end], fitting: [...fitting, end] }
}

function requirementsOf({ require, approve, limit }: RuleConfig): string {
  const approval = approve ? [`approval by ${approve.approver ?? 'the person'}`] : []
  return [require, approval, limit ? `at most ${limit}` : []].flat().join(', ')
}

function describeAdmission({ demanded, purpose, isClosed }: Admission): string[] {
  if (isClosed) return ['demanded: a rule for this call, since rules name tools here']
  const listOf = (policies: readonly Policy[]) =>
    policies.map(({ name, condition }) => name ?? `?if=${condition?.source}`)
  const isOpen = purpose === ANYONE
  const admitted = isOpen ? ANYONE : purpose && (listOf(purpose).join(', ') || SIGNED_IN)
  return [
    `demanded: ${isOpen ? 'nothing' : ['a session or a program', ...listOf(demanded)].join(', ')}`,
    `purpose: ${admitted ?? 'not known, since an earlier rule may fit'}`,
  ]
}

/** The people and programs that are not refused from the start. They have to meet what is demanded as well. */
function describeAdmitted(
  { callers }: GateConfig,
  { host }: RuledRequest,
  { purpose, isClosed }: Admission,
  resource: Resource | undefined,
): string {
  if (purpose === ANYONE) return ANYONE
  if (isClosed) return 'nobody'
  const programs = [...(callers?.keys ?? []), ...(callers?.issuers ?? [])]
    .filter((row) => refusalOf(createReach(row), host, purpose) === undefined)
    .map(({ name }) => name)
  return [
    'people whom the portal allows',
    ...(programs.length > 0 ? [`programs: ${programs.join(', ')}`] : []),
    ...(resource ? [`tokens for ${resource.url}`] : []),
  ].join('; ')
}

function describePrincipal(principal: Principal | undefined): string {
  if (!principal) return 'nobody is signed in'
  if (principal.isProgram) return principal.caller
  const { groups = [], roles = [] } = principal.identity.profile
  return `${principal.caller}, groups: ${groups.join(', ') || 'none'}, roles: ${roles.join(', ') || 'none'}`
}
