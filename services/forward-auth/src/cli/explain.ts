import { isIp, parseHost } from '@gatehouse/net'
import type { Profile } from '@gatehouse/profile'
import { UsageError } from '@gatehouse/service-kit'
import { type Decision, decide, type Refusal, Requester } from '../check/decide.ts'
import { createPolicy, createPolicyReader, type Policy } from '../check/policy.ts'
import {
  createRules,
  fitOf,
  type Rule,
  type RuledRequest,
  readPath,
  requirementFor,
  SESSION_REQUIRED,
} from '../check/rules.ts'
import type { ForwardAuthConfig, PortalConfig } from '../config/schema.ts'
import { createAdmits } from '../portals.ts'
import { readPerson } from './person.ts'

/** What is asked: a request, and who sends it. */
export interface ExplainOptions {
  readonly host: string
  /** Path and query. */
  readonly path: string
  readonly method: string
  /** Name of the portal. Default: the only one. */
  readonly portal: string | undefined
  /** Policy that the proxy names. */
  readonly policy: string | undefined
  /** Condition that the proxy gives. */
  readonly condition: string | undefined
  /** Address of the client. */
  readonly from: string | undefined
  /** File with the claims of a person. Default: nobody is signed in. */
  readonly claimsFile: string | undefined
  /** Name of the provider of that person. Default: the first one. */
  readonly provider: string | undefined
  readonly now: number
}

/**
 * Explains what a check would decide, and why: by the same functions, without the service, a session
 * or a provider.
 *
 * @throws UsageError
 */
export async function explain(config: ForwardAuthConfig, options: ExplainOptions): Promise<string> {
  const portal = portalOf(config, options.portal)
  const policies = new Map(
    Object.entries(portal.policies).map(([name, policy]) => [name, createPolicy(name, policy)]),
  )
  const rules = createRules(portal.rules, policies)
  const request = requestOf(options)
  const requester = await requesterOf(portal, options)
  const route = createPolicyReader()({ name: portal.name, policies }, queryOf(options))
  const requirement = rules.length > 0 ? requirementFor(rules, request) : SESSION_REQUIRED
  const decision = decide({
    portal,
    host: request.host,
    requester,
    requirement,
    routePolicy: () => route,
    kind: () => 'navigation',
    now: options.now,
  })
  const demanded = [...requirement.policies, ...(route ? [route] : [])]
  return `${[
    `${options.method} https://${options.host}${options.path} at the portal ${portal.name}`,
    ...(request.path ? [] : ['path: not normal, so that no rule with `paths` opens it']),
    ...describeRules(rules, request),
    `required: ${describeRequirement(requirement.isOpen, demanded)}`,
    `who: ${requester ? describePerson(requester.identity.profile) : 'nobody is signed in'}`,
    ...describeDecision(decision),
  ].join('\n')}\n`
}

function portalOf({ portals }: ForwardAuthConfig, name: string | undefined): PortalConfig {
  const names = portals.map((portal) => portal.name).join(', ')
  if (name === undefined && portals.length > 1)
    throw new UsageError(`explain needs --portal, one of: ${names}`)
  const portal = portals.find((each) => name === undefined || each.name === name)
  if (portal) return portal
  throw new UsageError(`there is no portal ${name}, only: ${names}`)
}

function requestOf({ host: text, path, method, from }: ExplainOptions): RuledRequest {
  const host = parseHost(text)
  if (!host) throw new UsageError(`--host is no host: ${text}`)
  if (!path.startsWith('/')) throw new UsageError('--path must begin with /')
  if (from !== undefined && !isIp(from)) throw new UsageError(`--from is no IP address: ${from}`)
  return { host, path: readPath(path), method, overridesMethod: false, clientIp: () => from }
}

function queryOf({ policy, condition }: ExplainOptions): string {
  if (policy !== undefined && condition !== undefined)
    throw new UsageError('a check names a policy or a condition: give --policy or --if')
  if (policy !== undefined) return `policy=${encodeURIComponent(policy)}`
  return condition === undefined ? '' : `if=${encodeURIComponent(condition)}`
}

/** A person without a session, whom the app would not be told about. */
class Described extends Requester {
  readonly #isAdmitted: boolean

  constructor(portal: PortalConfig, profile: Profile) {
    const nothing = { headers: [], assertion: undefined }
    super({ method: 'session', portal: portal.name, profile }, profile, nothing)
    this.#isAdmitted = createAdmits(portal)(profile)
  }

  refusal(): Refusal | undefined {
    return this.#isAdmitted ? undefined : { by: 'allow' }
  }
}

async function requesterOf(
  portal: PortalConfig,
  { claimsFile, provider = portal.providers[0]?.name ?? '' }: ExplainOptions,
): Promise<Requester | undefined> {
  if (claimsFile === undefined) return undefined
  if (!portal.providers.some(({ name }) => name === provider))
    throw new UsageError(`the portal ${portal.name} has no provider ${provider}`)
  return new Described(portal, await readPerson(claimsFile, provider))
}

function describeRules(rules: readonly Rule[], request: RuledRequest): string[] {
  if (rules.length === 0) return ['rules: none']
  const fits = rules.map((rule) => fitOf(rule, request))
  const first = fits.indexOf('yes')
  const looked = first < 0 ? rules : rules.slice(0, first + 1)
  const lines = looked.map((rule, index) => {
    const { require } = rule.config
    const fit = fits[index]
    const members = rule.tests
      .map(([member, test]) => [member, test(request)] as const)
      .filter(([, one]) => one === fit)
      .map(([member, one]) => `${member}: ${one}`)
    if (fit === 'no') return `rules[${index}]: does not fit (${members.join(', ')})`
    if (fit === 'maybe')
      return `rules[${index}]: may fit (${members.join(', ')}): adds its policies`
    return `rules[${index}]: fits, and decides: ${[require].flat().join(', ')}`
  })
  return first < 0 ? [...lines, 'rules: none fits'] : lines
}

function describeRequirement(isOpen: boolean, policies: readonly Policy[]): string {
  const names = policies.map(({ name, condition }) => name ?? `?if=${condition?.source}`)
  return isOpen && names.length === 0
    ? 'nothing: anyone may pass'
    : ['a session', ...names].join(', ')
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
    return [`decision: sent to sign in anew, for ${decision.policy.name}: acr or maxAge is not met`]
  if (decision.outcome !== 'forbidden') return [OUTCOMES[decision.outcome]]
  const { by, clause } = decision.refusal
  const why = clause === undefined ? by : `${by}, since this does not hold: ${clause}`
  return [`decision: 403, refused by ${why}`]
}
