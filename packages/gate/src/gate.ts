import { AuthError } from '@gatehouse/auth-core'
import type { Host } from '@gatehouse/net'
import { ANY_ARGUMENTS, compileCondition, type McpCall, ProfileError } from '@gatehouse/profile'
import type { RequestSource } from '@gatehouse/service-kit/proxies'
import { LRUCache } from 'lru-cache'
import {
  CLOSED,
  createGroupFilter,
  type Decision,
  decide,
  type Principal,
  type Sender,
  withRoute,
} from './decide.ts'
import { GateError } from './errors.ts'
import {
  createAliasGuard,
  type ForwardedRequest,
  type ProxyRequest,
  READERS,
  readForResource,
  type Sites,
} from './forwarded.ts'
import { HEADER_NAMES, MAX_TOOLS_LENGTH, TOOLS_HEADER } from './header-names.ts'
import { headerRows } from './header-presets.ts'
import {
  bodyFor,
  type CheckHeaders,
  checkHeaders,
  createHeaders,
  createHostHeader,
  createUser,
  type HostHeader,
  type IdentityHeader,
} from './headers.ts'
import type { GateConfig } from './options.ts'
import { readPath } from './paths.ts'
import { compilePattern, exactHosts } from './patterns.ts'
import { ANY_POLICY, createPolicies, createPolicy, type Policy } from './policy.ts'
import { type ProgramDeps, Programs, prefixesOf, type Resource, resourceAt } from './programs.ts'
import {
  type AccessRule,
  type Admission,
  ANY_TOOL,
  admissionFor,
  createRules,
  type RuledRequest,
  SESSION_REQUIRED,
  toolRulesFor,
} from './rules.ts'

type Credentials = Parameters<Programs['find']>[0]

/** A request whose sender nobody learns without asking what they may. */
interface CheckContext extends Omit<Sender, 'principal'> {
  /** Undefined: there are no credentials of a program. */
  readonly request?: Credentials
  /** Finds the person of the session. Called if there are no credentials of a program. */
  person(): Principal | undefined | Promise<Principal | undefined>
  /** Reads what the request calls, once it is known who sends it. Default: what its headers name. */
  call?(principal: Principal): McpCall | Promise<McpCall>
}

/** Decides which requests may pass to the apps of a portal, and what the apps are told. */
export class Gate {
  readonly name: string
  readonly preflight: boolean
  readonly policies: ReadonlyMap<string, Policy>
  readonly rules: readonly AccessRule[]
  /** Whether a rule or policy asks what a request calls by MCP. */
  readonly readsCalls: boolean
  /** The header that tells a server which tools the caller may use; undefined if no rule names tools. */
  readonly toolsHeader: typeof TOOLS_HEADER | undefined
  readonly hosts: readonly string[]
  /** The programs, without the way to find one: that is a part of a decision. */
  readonly programs: Omit<Programs, 'find' | 'close'>
  readonly headers: readonly IdentityHeader[]
  readonly assertion: HostHeader<NonNullable<GateConfig['assertion']>> | undefined
  readonly providerToken: HostHeader<NonNullable<GateConfig['providerToken']>> | undefined
  readonly dynamicHeaders: readonly string[]
  readonly groupFilter: ReturnType<typeof createGroupFilter>
  /** The names of all headers for the app, in lower case. */
  readonly headerNames: readonly string[]
  /** The headers of a 200 without an identity: all that are configured, empty. */
  readonly anonymousHeaders: CheckHeaders
  readonly body: string | Buffer
  readonly #programs: Programs
  readonly readPolicy = createPolicyReader(this)
  readonly #refuseAliases: (rawHeaders: readonly string[]) => void

  /** @param config - without faults */
  constructor(config: GateConfig, deps: ProgramDeps) {
    const { name, preflight, providers, headerEncoding, assertion, providerToken } = config
    const user = createUser(config.userHeader, providers.length > 1)
    this.name = name
    this.preflight = preflight
    this.policies = createPolicies(config.policies)
    this.rules = createRules(config.rules, this.policies)
    this.readsCalls =
      this.rules.some(({ isMcp }) => isMcp) ||
      [...this.policies.values()].some(({ condition }) => condition?.readsMcp)
    this.toolsHeader = config.rules.some(({ tools }) => tools) ? TOOLS_HEADER : undefined
    this.hosts = [...new Set(this.rules.flatMap(({ config }) => exactHosts(config)))]
    const prefixes = prefixesOf(config)
    this.headers = createHeaders(headerRows(config.headers), user, headerEncoding, prefixes)
    this.assertion = assertion && createHostHeader(assertion)
    this.providerToken = providerToken && createHostHeader(providerToken)
    this.dynamicHeaders = [
      ...[this.assertion, this.providerToken].flatMap((settings) => settings?.header ?? []),
      ...(this.toolsHeader ? [this.toolsHeader] : []),
    ]
    this.groupFilter = createGroupFilter(config, this.policies, deps)
    this.anonymousHeaders = checkHeaders(this, undefined)
    this.body = bodyFor(headerEncoding)
    this.headerNames = [...this.headers.map((header) => header.name), ...this.dynamicHeaders]
    this.#refuseAliases = createAliasGuard([
      ...HEADER_NAMES.read,
      ...HEADER_NAMES.calls,
      ...HEADER_NAMES.believed,
      ...this.headerNames,
    ])
    const compiled = { headers: this.headers, dynamicHeaders: this.dynamicHeaders }
    this.#programs = new Programs({ ...config, ...compiled }, deps)
    this.programs = this.#programs
  }

  /** Reads the request that a proxy asks about. @throws GateError FWA_HEADER_ALIAS, FWA_HEADER_INVALID, FWA_HOST_UNKNOWN */
  read<Site extends { readonly authOrigin: string }>(
    source: RequestSource,
    request: ProxyRequest,
    sites: Sites<Site>,
  ): ForwardedRequest<Site> {
    this.#refuseAliases(request.rawHeaders)
    const forwarded = READERS[source](request, sites)
    // Whoever goes round the MCP proxy, at another path of the host, is not believed what they call.
    return this.hasUpstreamAt(forwarded) ? forwarded.withCall(undefined) : forwarded
  }

  /** Whether requests for a resource at the origin of a request go through the MCP proxy. */
  hasUpstreamAt({ origin }: Pick<ForwardedRequest<unknown>, 'origin'>): boolean {
    return this.programs.resources.some(
      (resource) => resource.upstream !== undefined && resource.origin === origin,
    )
  }

  /** Reads a request that goes to a resource through Gatehouse. @throws GateError FWA_HEADER_ALIAS, FWA_HOST_UNKNOWN */
  readForResource<Site extends { readonly authOrigin: string }>(
    resource: Resource,
    request: ProxyRequest,
    sites: Sites<Site>,
  ): ForwardedRequest<Site> {
    this.#refuseAliases(request.rawHeaders)
    return readForResource(resource, request, sites)
  }

  resourceAt(forwarded: ForwardedRequest<unknown>): Resource | undefined {
    const { resources } = this.programs
    if (resources.length === 0) return undefined
    return resourceAt(resources, forwarded.origin, forwarded.routing.path)
  }

  /**
   * Decides whether a request may pass, and says who sends it, what it calls, and for one that passes which tools they
   * may call.
   *
   * @param query - of the check: `policy=<name>`, `if=<condition>`, or empty
   * @throws AuthError if credentials are not valid; GateError FWA_POLICY_UNKNOWN, FWA_PARAMETER_UNKNOWN;
   * ProfileError PROFILE_CONDITION_…
   */
  async check<Site>(original: ForwardedRequest<Site>, context: CheckContext, query: string) {
    let forwarded = original
    const resource = this.resourceAt(forwarded)
    const { request, clientIp, now } = context
    const scopes = () => resource && this.#scopesAt(resource, forwarded, context, query)
    let principal: Principal | undefined
    try {
      const program = request?.headers.authorization && this.#programs.find(request, resource)
      principal = program ? await program : await context.person()
    } catch (error) {
      if (!(error instanceof AuthError) || error.scopes) throw error
      throw Object.assign(error, { scopes: scopes() })
    }
    if (context.call && principal) forwarded = original.withCall(await context.call(principal))
    const sender = { principal, clientIp, now }
    const admission = this.#admissionFor(forwarded, sender)
    const decided = this.#decide(forwarded, sender, query, { admission, mcp: () => forwarded.mcp })
    // Only the MCP proxy asks people, and counts calls.
    const isForProxy = admission.rules?.some(({ approve, limit }) => approve ?? limit)
    const passes = decided.outcome === 'allow' || decided.outcome === 'anonymous'
    const decision = isForProxy && !context.call && passes ? CLOSED : decided
    const isPassed = passes && decision === decided
    const tools = isPassed ? this.#toolsAt(forwarded, sender, query) : undefined
    const scopesToRequest = decision.outcome === 'no-session' ? scopes() : undefined
    const { rules = [] } = admission
    return { forwarded, decision, principal, resource, tools, scopes: scopesToRequest, rules }
  }

  /**
   * The scopes that a client has to ask for so that a request passes, whoever its person is: those that clients of the
   * resource ask for at first, and what the rules demand. Old clients cannot ask for more later.
   */
  #scopesAt(
    resource: Resource,
    forwarded: ForwardedRequest<unknown>,
    { clientIp }: Pick<Sender, 'clientIp'>,
    query: string,
  ): readonly string[] {
    const admission = admissionFor(this.rules, ruledRequest(forwarded, { clientIp }))
    const route = this.readPolicy(query)
    const demanded = (admission.anyOf ?? [admission]).map((alternative) =>
      withRoute(alternative, route).demanded.flatMap(
        ({ condition }) => condition?.scopesOfAgents(forwarded.mcp) ?? [],
      ),
    )
    const [fewest = []] = demanded.toSorted((left, right) => left.length - right.length)
    return [...new Set([...resource.scopes, ...fewest.filter((scope) => resource.offers(scope))])]
  }

  /** Decides whether a program may do what a scope is for at a host of Gatehouse itself. @throws AuthError */
  async checkProgram(request: Credentials, host: Host, scope: string, now: number) {
    const principal = await this.#programs.find(request, undefined)
    const demanded = [createPolicy(scope, `Scope(${JSON.stringify(scope)})`)]
    const input = { preflight: false, host, principal, now, routePolicy: () => undefined }
    const admission = { demanded, purpose: [] }
    return { principal, decision: decide({ ...input, admission, kind: () => 'api' }) }
  }

  /** Whether somebody may call a tool at the place of a request with some arguments, as they are or once they have more scopes. */
  mayCall(forwarded: ForwardedRequest<unknown>, sender: Sender, tool: string): boolean {
    const call: McpCall = { method: 'tools/call', name: tool, arguments: ANY_ARGUMENTS }
    const named = forwarded.withCall(call)
    const admission = this.#admissionFor(named, sender)
    const decision = this.#decide(named, sender, '', { admission, mcp: () => call })
    const { outcome } = decision
    if (outcome !== 'forbidden') return outcome === 'allow' || outcome === 'step-up'
    // A key has its scopes for good; the person of an agent can be asked for more.
    const isKey = sender.principal?.identity.method === 'psk'
    return !isKey && (decision.refusal.wantedScopes ?? []).length > 0
  }

  namesMethod(method: string): boolean {
    return this.rules.some(({ config }) =>
      config.mcpMethods?.some((pattern) => pattern !== '*' && compilePattern(pattern)(method)),
    )
  }

  /**
   * The tools that somebody may call at the place of a request that passes, for a server that lists them: patterns,
   * of which the first that fits a name decides. `!` before one says that its tools may not be called, as may
   * none that no pattern fits. Undefined where no rule names tools, for a call, and if they are too many.
   */
  #toolsAt(
    forwarded: ForwardedRequest<unknown>,
    sender: Sender,
    query: string,
  ): string[] | undefined {
    if (!this.toolsHeader || forwarded.mcp?.method === 'tools/call') return undefined
    const toolRules = toolRulesFor(this.rules, ruledRequest(forwarded, sender))
    if (toolRules.length === 0) return undefined
    const mayCall = (pattern: string, admission: Admission) => {
      // What a condition says about all names of a pattern is not known.
      const mcp = (): McpCall | undefined =>
        pattern.includes('*')
          ? undefined
          : { method: 'tools/call', name: pattern, arguments: ANY_ARGUMENTS }
      const { outcome } = this.#decide(forwarded, sender, query, { admission, mcp })
      return outcome === 'allow' || outcome === 'anonymous'
    }
    const patterns = toolRules.flatMap(({ tools, admission, isCertain }) =>
      tools.flatMap((pattern) => {
        if (!mayCall(pattern, admission)) return `!${pattern}`
        return isCertain ? pattern : []
      }),
    )
    if (patterns.join().length > MAX_TOOLS_LENGTH) return undefined
    // An empty list would look like none.
    return patterns.length > 0 ? patterns : [`!${ANY_TOOL}`]
  }

  #admissionFor(forwarded: ForwardedRequest<unknown>, sender: Sender): Admission {
    if (this.rules.length === 0) return SESSION_REQUIRED
    return admissionFor(this.rules, ruledRequest(forwarded, sender))
  }

  #decide(
    forwarded: ForwardedRequest<unknown>,
    sender: Sender,
    query: string,
    { admission, mcp }: Required<Pick<Parameters<typeof decide>[0], 'admission' | 'mcp'>>,
  ): Decision {
    return decide({
      ...sender,
      admission,
      mcp,
      preflight: this.preflight,
      host: forwarded.host,
      routePolicy: () => this.readPolicy(query),
      kind: () => forwarded.kind,
    })
  }

  /** Decides whether a person may open a page of an app by a link. */
  checkPage(url: URL, host: Host, sender: Sender, policy: Policy | undefined): Decision {
    const path = readPath(`${url.pathname}${url.search}`)
    const { clientIp } = sender
    return decide({
      ...sender,
      preflight: this.preflight,
      host,
      admission: admissionFor(this.rules, { method: 'GET', host, path, clientIp }),
      routePolicy: () => policy,
      kind: () => 'navigation',
    })
  }

  close(): Promise<void> {
    return this.#programs.close()
  }
}

export function ruledRequest(
  forwarded: ForwardedRequest<unknown>,
  { clientIp }: Pick<Sender, 'clientIp'>,
): RuledRequest {
  const { host, routing } = forwarded
  return { host, ...routing, mcp: () => forwarded.mcp, clientIp }
}

const MAX_QUERIES = 200

type NamedPolicies = Pick<Gate, 'name' | 'policies'>
type PolicyFinder = () => Policy | undefined

/** Finds policies of routes: the one that `?policy=` names, or the condition of `?if=`. Keeps the last queries, errors too. */
export function createPolicyReader(gate: NamedPolicies) {
  const queries = new LRUCache<string, PolicyFinder>({
    max: MAX_QUERIES,
    memoMethod(query) {
      try {
        return readQuery(gate, query)
      } catch (error) {
        return () => {
          throw error
        }
      }
    },
  })
  return (query: string) => (query === '' ? undefined : queries.memo(query)())
}

function readQuery(gate: NamedPolicies, query: string): PolicyFinder {
  const [parameter, ...extraParameters] = new URLSearchParams(query)
  if (extraParameters.length > 0)
    throw new ProfileError('PROFILE_CONDITION_INVALID', 'the query holds more than one condition')
  const [name = '', value = ''] = parameter ?? []
  if (name === 'policy') return () => policyOf(gate, value)
  if (name !== 'if')
    throw new GateError('FWA_PARAMETER_UNKNOWN', `the parameter ${quote(name)} is not known`)
  const policy: Policy = {
    name: undefined,
    condition: compileCondition(value, 'request'),
    stepUp: undefined,
  }
  return () => policy
}

function policyOf({ name, policies }: NamedPolicies, policyName: string): Policy | undefined {
  if (policyName === ANY_POLICY) return undefined
  const policy = policies.get(policyName)
  if (policy) return policy
  throw new GateError('FWA_POLICY_UNKNOWN', `the portal ${name} has no policy ${quote(policyName)}`)
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 100))
}
