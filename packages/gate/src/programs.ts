import { hash } from 'node:crypto'
import {
  type AuthDeps,
  AuthError,
  Authenticator,
  type AuthOptions,
  type Caller,
  challengesOf,
  type TokenCaller,
} from '@gatehouse/auth-core'
import type { Host } from '@gatehouse/net'
import { type Condition, compileCondition, withUnknown } from '@gatehouse/profile'
import { isRepeated } from '@gatehouse/service-kit/http'
import { parseBasic } from './basic.ts'
import { Principal, type Refusal } from './decide.ts'
import type { HeaderSettings } from './headers.ts'
import type {
  CallersConfig,
  GateConfig,
  ReachConfig,
  ResourceConfig,
  ScopeConfig,
  UpstreamConfig,
} from './options.ts'
import { compilePath, fitPath, type PathPattern, type RequestPath } from './paths.ts'
import { compileHosts } from './patterns.ts'
import type { Policy } from './policy.ts'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'
const BEARER = /^bearer(?: |$)/i
/** A scheme, as leniently as any app reads it. */
const ANY_SCHEME = /^[\w-]*[\s:=]+/
const DAY = 24 * 3_600_000
const CLIENT_ID = /^[ -~]{1,256}$/

type AuthenticatedRequest = Parameters<Authenticator['find']>[0]

/** The beginning of the names of API keys for apps; those of tokens begin with their issuer. */
export const KEYS = 'psk'

export function authOptionsOf({ keys, issuers }: CallersConfig): AuthOptions {
  const keyRows = keys.map(({ hosts, policies, basic, scopes = [], ...key }) => ({
    ...key,
    scopes,
  }))
  const issuerRows = issuers.map(({ name, allow, hosts, policies, ...issuer }) => issuer)
  return {
    ...(keyRows.length > 0 && { psk: { keys: keyRows } }),
    ...(issuerRows.length > 0 && { jwt: { issuers: issuerRows } }),
  }
}

/** The beginnings of the IDs of the programs of a portal. */
export function prefixesOf({ callers, resources }: ProgramsConfig): string[] {
  const servers = resources.flatMap(({ authorizationServers = [] }) => authorizationServers)
  const issuers = callers?.issuers.map(({ name }) => name) ?? []
  return [...(callers ? [KEYS] : []), ...issuers, ...servers].map((name) => `${name}:`)
}

/** A program that a person allows to act for them, and the token that says so. */
type Agent = Principal & { readonly token: TokenCaller }

/** Finds the agent that has a token of a resource's own portal; undefined if it is not valid there now. */
type FindAgent = (
  token: string,
  resource: Resource,
  request: AuthenticatedRequest,
) => Agent | undefined | Promise<Agent | undefined>

/** The dependencies of programs. Without `findAgent`, no token that a portal has issued is valid. */
export interface ProgramDeps extends AuthDeps {
  readonly findAgent?: FindAgent | undefined
}

/** The same, for its token: that of auth-core for {@link Programs.find}. */
type FindCaller = (...parameters: Parameters<FindAgent>) => Promise<TokenCaller | undefined>

type ProgramsConfig = Pick<GateConfig, 'name' | 'callers' | 'resources'>
type ProgramSettings = HeaderSettings & ProgramsConfig

/** The programs of a portal, with API keys and access tokens, and the resources that they ask for. */
export class Programs {
  readonly resources: readonly Resource[]
  readonly #settings: ProgramSettings
  readonly #callers: Authenticator | undefined
  /** The names of the keys that are passwords too. */
  readonly #basic: readonly string[]
  readonly #reaches: ReadonlyMap<string, Reach>
  /** auth-core has one object for each key, and for each token that it has verified lately. */
  readonly #programs = new WeakMap<Caller, Principal>()

  constructor(settings: ProgramSettings, deps: ProgramDeps) {
    const { callers, resources } = settings
    this.#settings = settings
    this.#callers = callers && new Authenticator(authOptionsOf(callers), deps)
    const findCaller: FindCaller = async (...parameters) => {
      const agent = await deps.findAgent?.(...parameters)
      if (agent) this.#programs.set(agent.token, agent)
      return agent?.token
    }
    this.resources = resources.map((resource) => new Resource(resource, callers, deps, findCaller))
    const { keys = [], issuers = [] } = callers ?? {}
    this.#basic = keys.filter(({ basic }) => basic).map(({ name }) => name)
    this.#reaches = new Map([
      ...keys.map((row) => [`psk ${row.name}`, createReach(row)] as const),
      ...issuers.map((row) => [`jwt ${row.issuerUrl}`, createReach(row)] as const),
    ])
  }

  /**
   * The program whose credentials the request has; undefined if they are meant for somebody else, such
   * as the app. At a resource every token is meant for Gatehouse.
   *
   * @throws AuthError if they are not valid, or are a key in a form that an app may get; asynchronous ones as a
   * rejection
   */
  find(
    request: AuthenticatedRequest,
    resource: Resource | undefined,
  ): Principal | Promise<Principal> | undefined {
    const { authorization } = request.headers
    if (authorization === undefined) return undefined
    const basicProgram = this.#findBasic(request)
    if (basicProgram) return basicProgram
    const isOfResource = resource !== undefined && BEARER.test(authorization)
    const keyProgram = isOfResource && this.#findBearerKey(request)
    if (keyProgram) return keyProgram
    const caller = isOfResource
      ? resource.authenticator.authenticate(request)
      : this.#callers?.find(request)
    if (!caller) return this.#refuseKey(authorization)
    return caller instanceof Promise
      ? caller.then((tokenCaller) => this.#programOf(tokenCaller, isOfResource))
      : this.#programOf(caller, isOfResource)
  }

  /**
   * The program whose key comes as `Bearer`: some clients of resources can send a key in no other way. No app gets it.
   *
   * @throws AuthError if there is another one beside it
   */
  #findBearerKey({ raw }: AuthenticatedRequest): Principal | undefined {
    const key = raw.headers.authorization?.replace(BEARER, '').trim() ?? ''
    const caller = this.#callers?.findKey(hash('sha256', key, 'buffer'))
    if (!caller) return undefined
    if (isRepeated(raw.rawHeaders, 'authorization'))
      throw new AuthError('AUTH_HEADER_INVALID', { detail: 'more than one Authorization header' })
    return this.#programOf(caller, false)
  }

  findByKeyName(name: string): Principal | undefined {
    const caller = this.#callers?.findNamed(name)
    return caller && this.#programOf(caller, false)
  }

  /** Refuses a key with another scheme, or with none: it would reach the app, as what is meant for it. */
  #refuseKey(authorization: string): undefined {
    if (!this.#callers?.methods().includes('psk')) return undefined
    for (const text of [authorization, authorization.replace(ANY_SCHEME, '')])
      if (this.#callers.findKey(hash('sha256', text, 'buffer')))
        throw new AuthError('AUTH_HEADER_INVALID', { detail: 'a key that is not sent as APIKey' })
  }

  /**
   * The program whose key is the password of `Authorization: Basic`; undefined if the user is none of a row that takes
   * it and the password no key, since they are then meant for the app.
   *
   * @throws AuthError if they do not belong together, or an app may read them otherwise
   */
  #findBasic({ raw }: AuthenticatedRequest): Principal | undefined {
    const basic = this.#callers && parseBasic(raw.headers.authorization ?? '')
    if (!basic) return undefined
    const { user, password, isPlain } = basic
    const caller = this.#callers.findKey(hash('sha256', password, 'buffer'))
    const isNamed = this.#basic.includes(user)
    if (!caller && !isNamed) return undefined
    if (!isPlain || isRepeated(raw.rawHeaders, 'authorization'))
      throw new AuthError('AUTH_HEADER_INVALID', { detail: 'not exactly one Basic in base64' })
    if (!isNamed || caller?.subject !== user) throw new AuthError('AUTH_KEY_INVALID')
    return this.#programOf(caller, false)
  }

  /** The challenge for clients that know Basic alone, where a row of theirs may reach the host. */
  basicChallenge(host: Host): string | undefined {
    const reaches = this.#basic.map((name) => this.#reaches.get(`psk ${name}`))
    const isOpen = reaches.some((reach) => reach?.hosts?.(host) ?? true)
    return isOpen ? `Basic realm="${this.#settings.name}", charset="UTF-8"` : undefined
  }

  /**
   * The challenges of a refusal (RFC 9110 section 11.6.1), that of Bearer first: some clients read no
   * more. In one value, since proxies reorder or drop further lines of `WWW-Authenticate`. Empty if the
   * portal takes no credentials of programs.
   */
  challenges(
    error: Parameters<typeof challengesOf>[0],
    resource: Resource | undefined,
    parameters: Readonly<Record<string, string>> = {},
  ): string {
    const methods = [
      ...(resource || this.#callers?.methods().includes('jwt') ? ['jwt' as const] : []),
      ...(this.#callers?.methods().includes('psk') ? ['psk' as const] : []),
    ]
    const { scopes = resource?.scopes ?? [] } = error
    return challengesOf(error, {
      methods,
      realm: this.#settings.name,
      parameters: {
        ...(resource && scopes.length > 0 && { scope: scopes.join(' ') }),
        ...(resource && { resource_metadata: resource.metadataUrl }),
        ...parameters,
      },
    }).join(', ')
  }

  async close(): Promise<void> {
    await this.#callers?.close()
    await Promise.all(this.resources.map(({ authenticator }) => authenticator.close()))
  }

  #programOf(caller: Caller, isOfResource: boolean): Principal {
    const cached = this.#programs.get(caller)
    if (cached) return cached
    const issuer = caller.method === 'jwt' ? caller.issuer : undefined
    const row = issuer === undefined ? `psk ${caller.subject}` : `jwt ${issuer}`
    const rowReach = this.#reaches.get(row) ?? NOTHING
    // A token for a resource reaches that resource, whatever else its issuer may reach.
    const reach = isOfResource ? { allow: rowReach.allow } : rowReach
    const rows = this.#settings.callers?.issuers ?? []
    const name = rows.find(({ issuerUrl }) => issuerUrl === issuer)?.name ?? issuer ?? ''
    const program = new Program(caller, name, reach, this.#settings)
    this.#programs.set(caller, program)
    return program
  }
}

/** The resource with the longest URL that a path belongs to; undefined if it may belong to a longer one. */
export function resourceAt<R extends Pick<Resource, 'url' | 'origin' | 'paths'>>(
  resources: readonly R[],
  origin: string,
  path: RequestPath,
): R | undefined {
  let match: R | undefined
  let open = 0
  for (const resource of resources) {
    const fit = resource.origin === origin ? fitPath(resource.paths, path) : 'no'
    const { length } = resource.url
    if (fit === 'maybe') open = Math.max(open, length)
    if (fit === 'yes' && length > (match?.url.length ?? 0)) match = resource
  }
  return match && match.url.length >= open ? match : undefined
}

/** A protected resource (RFC 9728): a part of an app that takes tokens which were issued for it. */
export class Resource {
  readonly url: string
  readonly origin: string
  readonly path: string
  readonly paths: PathPattern
  readonly metadataUrl: string
  /** The authorization servers; undefined if the portal issues its tokens. */
  readonly authorizationServers: readonly string[] | undefined
  /** The time for which programs work without their person, in ms; undefined: not at all. */
  readonly lifetime: number | undefined
  /** The scopes that clients request at first. */
  readonly scopes: readonly string[]
  /** The scopes that people can allow. */
  readonly grantableScopes: readonly ScopeConfig[]
  /** The MCP server, if its requests go through the MCP proxy. */
  readonly upstream: UpstreamConfig | undefined
  readonly authenticator: Authenticator
  /** All of them by name. */
  readonly #scopeNames: ReadonlySet<string>

  constructor(
    config: ResourceConfig,
    callers: CallersConfig | undefined,
    deps: AuthDeps,
    findCaller: FindCaller,
  ) {
    const { url, authorizationServers, scopes, lifetime, upstream } = config
    const { origin, pathname: fullPath } = new URL(url)
    const pathname = fullPath.replace(/\/$/, '')
    this.url = url
    this.origin = origin
    this.path = fullPath
    this.paths = pathsBelow(new URL(url))
    this.lifetime = lifetime
    this.upstream = upstream
    this.metadataUrl = `${origin}${WELL_KNOWN}${pathname}`
    this.authorizationServers = authorizationServers
    this.grantableScopes = scopes.filter((scope) => typeof scope !== 'string')
    const onDemandScopes = new Set(
      this.grantableScopes.filter(({ onDemand }) => onDemand).map(({ name }) => name),
    )
    this.#scopeNames = new Set(scopes.map(scopeName))
    this.scopes = [...this.#scopeNames].filter((name) => !onDemandScopes.has(name))
    // The two spellings of a URL without a path.
    const audience = pathname === '' ? [origin, `${origin}/`] : [url]
    const issuers = authorizationServers?.map((issuerUrl) => {
      const row = callers?.issuers.filter((issuer) => issuer.issuerUrl === issuerUrl) ?? []
      const [limits] = authOptionsOf({ keys: [], issuers: row }).jwt?.issuers ?? []
      return { maxTokenLifetime: DAY, ...limits, issuerUrl, audience }
    })
    this.authenticator = issuers
      ? new Authenticator({ jwt: { issuers } }, deps)
      : new Authenticator({}, deps, {
          verify: (token, request) => findCaller(token, this, request),
        })
  }

  offers(scope: string): boolean {
    return this.#scopeNames.has(scope)
  }
}

export function pathsBelow({ pathname }: URL): PathPattern {
  return compilePath(`${decodeURIComponent(pathname).replace(/\/$/, '')}/*`)
}

export function scopeName(scope: ResourceConfig['scopes'][number]): string {
  return typeof scope === 'string' ? scope : scope.name
}

/** The compiled limits of a row of `callers`. */
interface Reach {
  readonly hosts?: (host: Host) => boolean
  readonly policies?: ReadonlySet<string | undefined>
  readonly allow?: Condition | undefined
}

const NOTHING: Reach = { hosts: () => false }

export function createReach({ hosts, policies, allow }: ReachConfig): Reach {
  return {
    ...(hosts && { hosts: compileHosts(hosts) }),
    ...(policies && { policies: new Set(policies) }),
    ...(allow !== undefined && allow !== 'anyone' && { allow: compileCondition(allow) }),
  }
}

/** Finds the reason why a row does not admit a program at a host to a route with that purpose. */
export function refusalOf(
  { hosts, policies }: Reach,
  host: Host,
  purpose: readonly Policy[] | undefined,
): Refusal | undefined {
  if (hosts && !hosts(host)) return { reason: 'hosts' }
  if (!policies) return undefined
  const isNamed = purpose?.every(({ name }) => policies.has(name)) && purpose.length > 0
  return isNamed ? undefined : { reason: 'policies' }
}

/** The client that a token was issued to: RFC 9068 section 2.2, or as OpenID Connect names it. */
function clientOf(caller: Caller): string | undefined {
  const { client_id, azp } = caller.method === 'jwt' ? caller.claims : {}
  const isId = (claim: unknown): claim is string =>
    typeof claim === 'string' && CLIENT_ID.test(claim)
  return [client_id, azp].find(isId)
}

export class Program extends Principal {
  readonly #reach: Reach
  #isAllowed: boolean | undefined

  /** @param name - of the issuer of a token; '' for a key */
  constructor(
    caller: Caller,
    name: string,
    reach: Reach,
    settings: HeaderSettings & Pick<ProgramsConfig, 'name'>,
  ) {
    const { method, subject, scopes = [] } = caller
    const claims = method === 'jwt' ? withUnknown(caller.claims) : {}
    const id = `${name || KEYS}:${subject}`
    const profile = { provider: name, id, claims: { sub: id } }
    super(
      { method, portal: settings.name, profile, scopes, client: clientOf(caller) },
      { claims: {}, caller: { method, scopes, claims } },
      settings,
    )
    this.#reach = reach
  }

  refusal(host: Host, purpose: readonly Policy[] | undefined): Refusal | undefined {
    const { allow } = this.#reach
    this.#isAllowed ??= allow === undefined || allow.holds(this.subject)
    if (!this.#isAllowed) return { reason: 'allow', clause: allow?.refusingClause(this.subject) }
    return refusalOf(this.#reach, host, purpose)
  }
}
