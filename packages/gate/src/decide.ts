import type { IncomingHttpHeaders } from 'node:http'
import type { AuthDeps } from '@gatehouse/auth-core'
import type { Host } from '@gatehouse/net'
import { compileAllow, type McpCall, type Subject } from '@gatehouse/profile'
import { isNavigation } from '@gatehouse/service-kit/http'
import { readOverrides } from './header-names.ts'
import { headerRows } from './header-presets.ts'
import { checkHeaders, type HeaderSettings, type Identity } from './headers.ts'
import type { GateConfig } from './options.ts'
import { compileHosts, compilePattern } from './patterns.ts'
import { combineStepUps, isSteppedUp, type Policy } from './policy.ts'
import { type Admission, ANYONE, type RuledRequest } from './rules.ts'

/** The reason why somebody may not pass, for the log and never for the answer. */
export interface Refusal {
  /** The part that refuses: `allow`, `hosts`, `policies` or a policy such as `policy admin`. */
  readonly reason: string
  /** The part of the condition that does not hold. */
  readonly clause?: string | undefined
  /** Scopes with which a program would pass: all that are demanded (RFC 6750 section 3). */
  readonly wantedScopes?: readonly string[]
}

type Settings = HeaderSettings & { readonly groupFilter?: GroupFilter }

/** A person with a session, or a program. Neither changes, so each result is computed once; an error is not kept. */
export abstract class Principal {
  readonly identity: Identity
  readonly subject: Subject
  readonly #settings: Settings
  #policy: Policy | undefined
  #isMet = false
  /** The answers by the row of `groups`. */
  readonly #answers: ReturnType<typeof composeAnswer>[] = []

  constructor(identity: Identity, subject: Subject, settings: Settings) {
    this.identity = identity
    this.subject = subject
    this.#settings = settings
  }

  /**
   * Finds the reason why the principal is not admitted at all; undefined if they are.
   *
   * @param purpose - the policies that the route is known to be for; undefined if that is not known
   */
  abstract refusal(host: Host, purpose: readonly Policy[] | undefined): Refusal | undefined

  /** Whether the condition of a policy holds. The last result is kept, unless it depends on what the request calls. */
  meets(policy: Policy, mcp?: () => McpCall | undefined): boolean {
    if (policy.condition?.readsMcp) return policy.condition.holds({ ...this.subject, mcp: mcp?.() })
    if (this.#policy !== policy) {
      this.#isMet = policy.condition?.holds(this.subject) !== false
      this.#policy = policy
    }
    return this.#isMet
  }

  /** The caller in logs: `corp:ada` for a person and what acts for her, `psk:ci` for a key, or `jwt:<issuer>:<subject>`. */
  get caller(): string {
    const { method, profile } = this.identity
    if (method === 'psk') return profile.id
    return `${method === 'jwt' ? method : profile.provider}:${profile.id}`
  }

  /** Whether this is a program, be it one that acts for a person. */
  get isProgram(): boolean {
    const { method, client } = this.identity
    return method !== 'session' || client !== undefined
  }

  /** Returns what the app at a host is told: the identity, and the headers of a 200 without the assertion. */
  answerAt(host: Host): ReturnType<typeof composeAnswer> {
    const { groupFilter } = this.#settings
    const row = groupFilter ? groupFilter.hosts.findIndex((isAt) => isAt(host)) + 1 : 0
    this.#answers[row] ??= composeAnswer(this.#settings, this.identity, row)
    return this.#answers[row]
  }
}

function composeAnswer(settings: Settings, identity: Identity, row: number) {
  const { groups } = identity.profile
  const shared = groups && settings.groupFilter?.narrow(row, groups)
  const headers = checkHeaders(settings, { ...identity, groups: shared?.fitting })
  return { identity: { ...identity, groups: shared?.shared }, headers }
}

/** Characters of groups in all headers: with what else is sent they fit into the 4 kB that nginx takes by default. */
const MAX_GROUPS_LENGTH = 3_072
/** Between two warnings, in ms. */
const HOUR = 3_600_000
const TOO_MANY = 'a person has more groups than fit into headers: set `groups` of the portal'

type GroupFilter = ReturnType<typeof createGroupFilter>

/** Compiles which groups the apps of a portal are told of. */
export function createGroupFilter(
  { name: portal, groups = ['*'], headers, allow, providers }: GateConfig,
  policies: ReadonlyMap<string, Policy>,
  { now, log }: AuthDeps,
) {
  const rows = groups.filter((row) => typeof row !== 'string')
  const portalRow = { groups: groups.filter((row) => typeof row === 'string') }
  const lists = [portalRow, ...rows].map((row) => row.groups.map(compilePattern))
  const allows = [{ allow }, ...providers].map((source) => compileAllow(source.allow ?? 'anyone'))
  const conditions = [...policies.values()].flatMap(({ condition }) => condition ?? [])
  const policyGroups = new Set([...conditions, ...allows].flatMap(({ texts }) => texts))
  const times = headerRows(headers).filter((row) =>
    'claim' in row ? row.claim === 'groups' : ['groups', 'json'].includes(row.property),
  ).length
  // The size is about what each group takes, in any encoding.
  const lengthOf = (some: readonly string[]) => encodeURIComponent(some.join()).length
  const fits = (some: readonly string[]) => times * lengthOf(some) <= MAX_GROUPS_LENGTH
  let warned = Number.NEGATIVE_INFINITY
  return {
    hosts: rows.map((row) => compileHosts(row.hosts)),
    /** The groups that apps of a row (0: none) may know, if they fit into headers: all, those that the portal names, or none. */
    narrow(row: number, personGroups: readonly string[]) {
      const shared = personGroups.filter((group) => lists[row]?.some((isOf) => isOf(group)))
      const relevant = shared.filter((group) => policyGroups.has(group))
      const fitting = [shared, relevant].find(fits) ?? []
      if (fitting !== shared && Math.abs(now() - warned) >= HOUR) {
        log.warn({ portal, groups: shared.length, told: fitting.length }, TOO_MANY)
        warned = now()
      }
      return { shared, fitting }
    },
  }
}

export type Decision =
  /** Passes with the identity of the principal. */
  | { readonly outcome: 'allow' }
  /** Passes without an identity. */
  | { readonly outcome: 'anonymous' | 'preflight' }
  /** Nobody is signed in: a person is sent to sign in, a program is answered 401. */
  | { readonly outcome: 'sign-in' | 'no-session' }
  /** `isClosed`: rules name tools here, and none of them fits for certain. */
  | { readonly outcome: 'forbidden'; readonly refusal: Refusal; readonly isClosed?: true }
  /** Passes only after authenticating anew, or in another way. */
  | { readonly outcome: 'step-up'; readonly policy: Policy }

const ALLOW: Decision = { outcome: 'allow' }
const ANONYMOUS: Decision = { outcome: 'anonymous' }
const PREFLIGHT: Decision = { outcome: 'preflight' }

export interface Sender extends Pick<RuledRequest, 'clientIp'> {
  /** The principal; undefined if nobody is signed in and no program is known. */
  readonly principal: Principal | undefined
  /** Milliseconds since the epoch. */
  readonly now: number
}

interface CheckInput extends Omit<Sender, 'clientIp'> {
  /** Whether preflights pass without a session. */
  readonly preflight: boolean
  readonly host: Host
  readonly admission: Admission
  /** Returns the MCP call of the request; undefined if that is not known. Called only for a condition that asks for it. */
  mcp?(): McpCall | undefined
  /** Gives the policy of the route. Called only if the request may pass otherwise: compiling is costly. */
  routePolicy(): Policy | undefined
  /** Returns the kind of the request. Called only if nobody is signed in. */
  kind(): RequestKind
}

/**
 * Decides whether a request may pass: anyone if that is what the route is known to be for, otherwise
 * only a person or program that is admitted and meets every policy that is demanded. A preflight passes
 * without a session where the portal allows it.
 */
export function decide(input: CheckInput): Decision {
  const { principal, admission } = input
  if (admission.anyOf) return decideAny(input, admission.anyOf)
  if (!principal && admission.purpose !== ANYONE) return decideNobody(input)
  if (admission.isClosed) return CLOSED
  const { demanded: policies, purpose } = withRoute(admission, input.routePolicy())
  const isOpen = purpose === ANYONE
  if (!principal) return isOpen ? ANONYMOUS : decideNobody(input)
  const refusal = principal.refusal(input.host, isOpen ? [] : purpose)
  if (refusal) return isOpen ? ANONYMOUS : { outcome: 'forbidden', refusal }
  for (const policy of policies) {
    const refused = judge(principal, policy, policies, input)
    if (refused) return refused.outcome === 'step-up' ? decideStepUp(policies) : refused
  }
  return ALLOW
}

/** No rule lets a call of MCP pass for certain. */
export const CLOSED: Decision = {
  outcome: 'forbidden',
  refusal: { reason: 'tools' },
  isClosed: true,
}

/** Passes if one of the admissions lets it pass; otherwise the one that asks for the fewest scopes says what is missing. */
function decideAny(input: CheckInput, admissions: readonly Admission[]): Decision {
  const decisions = admissions.map((admission) => decide({ ...input, admission }))
  return decisions.toSorted((left, right) => lackOf(left) - lackOf(right))[0] ?? CLOSED
}

/** More than a request has scopes. */
const MUCH = 1_000

/** Ranks refusals by how much is missing. The highest is one that no scope helps against. */
function lackOf(decision: Decision): number {
  if (decision.outcome === 'allow') return 0
  if (decision.outcome === 'anonymous') return 1
  if (decision.outcome !== 'forbidden') return MUCH
  return 1 + (decision.refusal.wantedScopes?.length || MUCH)
}

/** Adds the policy that the proxy names to the result of the rules. */
export function withRoute(admission: Admission, route: Policy | undefined): Admission {
  if (!route) return admission
  const { demanded, purpose } = admission
  const named = purpose === ANYONE ? [] : purpose
  return { demanded: [...demanded, route], purpose: named && [...named, route] }
}

/** Requires one authentication to meet all policies: the next one would not say what the last one was. */
function decideStepUp(policies: readonly Policy[]): Decision {
  const policy = combineStepUps(policies)
  return policy
    ? { outcome: 'step-up', policy }
    : { outcome: 'forbidden', refusal: { reason: 'policies that nobody can meet together' } }
}

function decideNobody({ preflight, kind, routePolicy }: CheckInput): Decision {
  const requestKind = kind()
  if (requestKind === 'navigation') return { outcome: 'sign-in' }
  if (requestKind !== 'preflight' || !preflight) return { outcome: 'no-session' }
  // A condition that cannot be read denies everybody, preflights too.
  routePolicy()
  return PREFLIGHT
}

/** Finds out why the principal does not meet a policy; undefined if they do. */
function judge(
  principal: Principal,
  policy: Policy,
  policies: readonly Policy[],
  { now, mcp }: Pick<CheckInput, 'now' | 'mcp'>,
): Decision | undefined {
  const { readsMcp } = policy.condition ?? {}
  const subject = readsMcp ? { ...principal.subject, mcp: mcp?.() } : principal.subject
  const { name = '?if=', condition, stepUp } = policy
  const reason = `policy ${name}`
  if (!principal.meets(policy, mcp)) {
    const clause = condition?.refusingClause(subject)
    const wantedScopes = scopesFor(policy, policies, principal, mcp)
    return { outcome: 'forbidden', refusal: { reason, clause, wantedScopes } }
  }
  if (!stepUp || isSteppedUp(stepUp, subject, now)) return undefined
  // A key never authenticates anew; the person of an agent does, when that asks for another token (RFC 9470).
  if (subject.caller?.method === 'psk') return { outcome: 'forbidden', refusal: { reason } }
  return { outcome: 'step-up', policy }
}

/**
 * The scopes with which a program would meet the policy that refuses it, and with them those that the
 * other policies demand: whoever gets another token would lose a scope that it does not ask for again.
 * None if a policy refuses it whatever its scopes are, so that nobody is asked to allow what is of no use.
 */
function scopesFor(
  refusing: Policy,
  policies: readonly Policy[],
  principal: Principal,
  mcp: CheckInput['mcp'],
): readonly string[] {
  const subject = { ...principal.subject, mcp: mcp?.() }
  const wantedBy = ({ condition }: Policy) => condition?.wantedScopes(subject) ?? []
  const isOfNoUse = (policy: Policy) =>
    wantedBy(policy).length === 0 && !principal.meets(policy, mcp)
  if (!subject.caller || wantedBy(refusing).length === 0 || policies.some(isOfNoUse)) return []
  return [...new Set(policies.flatMap(wantedBy))]
}

/** A page that a person opens, a preflight of a browser, or any other request. */
export type RequestKind = 'navigation' | 'preflight' | 'api'

export function kindOf(method: string, headers: IncomingHttpHeaders): RequestKind {
  if (method === 'OPTIONS') return isBarePreflight(headers) ? 'preflight' : 'api'
  return isNavigation(method, headers) ? 'navigation' : 'api'
}

/** Fetch Standard: a preflight names the method to come and never carries credentials. */
function isBarePreflight(headers: IncomingHttpHeaders) {
  const { origin, cookie, authorization } = headers
  const namesMethod = headers['access-control-request-method'] !== undefined
  const isBare = cookie === undefined && authorization === undefined
  return origin !== undefined && namesMethod && isBare && !readOverrides(headers).method
}
