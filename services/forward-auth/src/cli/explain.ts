import { isIp, parseHost } from '@gatehouse/net'
import type { Profile } from '@gatehouse/profile'
import { UsageError } from '@gatehouse/service-kit'
import { type Decision, decide, type Refusal, Requester, withRoute } from '../check/decide.ts'
import { type RequestPath, readPath } from '../check/paths.ts'
import { createPolicy, createPolicyReader, type Policy } from '../check/policy.ts'
import { createReach, Place, refusalOf, resourceAt } from '../check/programs.ts'
import {
  type Admission,
  ANYONE,
  admissionFor,
  createRules,
  fitOf,
  type Rule,
  type RuledRequest,
  SIGNED_IN,
} from '../check/rules.ts'
import type { ForwardAuthConfig, PortalConfig } from '../config/schema.ts'
import { createAdmission } from '../portals.ts'
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
  const admission = admissionFor(rules, request)
  const decision = decide({
    portal,
    host: request.host,
    requester,
    admission,
    routePolicy: () => route,
    kind: () => 'navigation',
    now: options.now,
  })
  return `${[
    `${options.method} https://${options.host}${options.path} at the portal ${portal.name}`,
    ...describePath(request.path),
    ...describeRules(rules, request),
    ...describeAdmission(withRoute(admission, route)),
    `admitted: ${describeAdmitted(portal, request, withRoute(admission, route))}`,
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
  // As clients send it.
  const sent = path.replaceAll(/[^!-~]/gu, encodeURIComponent)
  return { host, path: readPath(sent), method, clientIp: () => from }
}

function queryOf({ policy, condition }: ExplainOptions): string {
  if (policy !== undefined && condition !== undefined)
    throw new UsageError('a check names a policy or a condition: give --policy or --if')
  if (policy !== undefined) return `policy=${encodeURIComponent(policy)}`
  return condition === undefined ? '' : `if=${encodeURIComponent(condition)}`
}

/** A person without a session, whom the app would not be told about. */
class Described extends Requester {
  readonly #refusal: Refusal | undefined

  constructor(portal: PortalConfig, profile: Profile) {
    const nothing = { headers: [], assertion: undefined }
    super({ method: 'session', portal: portal.name, profile }, profile, nothing)
    const { admits, refusalOf } = createAdmission(portal)
    this.#refusal = admits(profile) ? undefined : refusalOf(profile)
  }

  refusal(): Refusal | undefined {
    return this.#refusal
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

function describeAdmission({ demanded, purpose }: Admission): string[] {
  const listOf = (policies: readonly Policy[]) =>
    policies.map(({ name, condition }) => name ?? `?if=${condition?.source}`)
  const isOpen = purpose === ANYONE
  const known = isOpen ? ANYONE : purpose && (listOf(purpose).join(', ') || SIGNED_IN)
  return [
    `demanded: ${isOpen ? 'nothing' : ['a session or a program', ...listOf(demanded)].join(', ')}`,
    `purpose: ${known ?? 'not known, since an earlier rule may fit'}`,
  ]
}

/** Whom a request is not refused from the start; they have to meet what is demanded as well. */
function describeAdmitted(
  { callers, resources }: PortalConfig,
  { host, path }: RuledRequest,
  { purpose }: Admission,
): string {
  if (purpose === ANYONE) return ANYONE
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
