import {
  type AuthDeps,
  type AuthError,
  Authenticator,
  type Caller,
  challengesOf,
} from '@gatehouse/auth-core'
import type { Host } from '@gatehouse/net'
import { type Condition, createConditions } from '@gatehouse/profile'
import type { FastifyRequest } from 'fastify'
import { authOptionsOf, type CallersConfig, type ResourceConfig } from '../config/programs.ts'
import { type Refusal, Requester } from './decide.ts'
import type { HeaderSettings } from './headers.ts'
import type { Policy } from './policy.ts'
import { compileHosts, covers, type RequestPath } from './rules.ts'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'
const BEARER = /^bearer(?: |$)/i
const DAY = 24 * 3_600_000

interface Asked {
  /** Such as `https://app.example.com`. */
  readonly origin: string
}

interface ProgramSettings extends HeaderSettings {
  /** Name of the portal. */
  readonly name: string
  readonly callers: CallersConfig | undefined
  readonly resources: readonly ResourceConfig[]
}

/** The programs of a portal, with API keys and access tokens, and the resources that they ask for. */
export class Programs {
  readonly resources: readonly Resource[]
  readonly #settings: ProgramSettings
  readonly #callers: Authenticator | undefined
  readonly #reaches: ReadonlyMap<string, Reach>
  readonly #names: ReadonlyMap<string, string>
  /** auth-core has one object for each key, and for each token that it has verified lately. */
  readonly #programs = new WeakMap<Caller, Program>()

  constructor(settings: ProgramSettings, deps: AuthDeps) {
    const { callers, resources } = settings
    this.#settings = settings
    this.#callers = callers && new Authenticator(authOptionsOf(callers), deps)
    this.resources = resources.map((resource) => new Resource(resource, callers, deps))
    const { keys = [], issuers = [] } = callers ?? {}
    this.#reaches = new Map([
      ...keys.map((row) => [`psk ${row.name}`, createReach(row)] as const),
      ...issuers.map((row) => [`jwt ${row.issuerUrl}`, createReach(row)] as const),
    ])
    this.#names = new Map(issuers.map(({ issuerUrl, name }) => [issuerUrl, name]))
  }

  /** The resource that a request is for: the one with the longest URL. */
  resourceAt({ origin }: Asked, path: RequestPath | undefined): Resource | undefined {
    if (!path) return undefined
    const found = this.resources.filter((one) => one.origin === origin && one.isAbove(path))
    return found.toSorted((a, b) => b.url.length - a.url.length)[0]
  }

  /**
   * The program whose credentials the request has; undefined if they are meant for somebody else, such
   * as the app. At a resource every token is meant for Gatehouse.
   *
   * @throws AuthError if they are not valid; asynchronous ones as a rejection
   */
  find(
    request: FastifyRequest,
    resource: Resource | undefined,
  ): Program | Promise<Program> | undefined {
    const isOfResource = resource !== undefined && BEARER.test(request.headers.authorization ?? '')
    const caller = isOfResource
      ? resource.authenticator.authenticate(request)
      : this.#callers?.find(request)
    return caller instanceof Promise
      ? caller.then((found) => this.#programOf(found, isOfResource))
      : caller && this.#programOf(caller, isOfResource)
  }

  /**
   * The challenges of a refusal (RFC 9110 section 11.6.1), that of Bearer first: some clients read no
   * more. In one value, since proxies reorder or drop further lines of `WWW-Authenticate`. Empty if the
   * portal takes no credentials of programs.
   */
  challenges(
    error: AuthError,
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

  #programOf(caller: Caller, isOfResource: boolean): Program {
    const known = this.#programs.get(caller)
    if (known) return known
    const issuer = caller.method === 'jwt' ? caller.issuer : undefined
    const row = issuer === undefined ? `psk ${caller.subject}` : `jwt ${issuer}`
    // A token for a resource reaches that resource, whatever its issuer may reach besides.
    const reach = isOfResource ? EVERYTHING : this.#reaches.get(row)
    const name = issuer === undefined ? '' : (this.#names.get(issuer) ?? issuer)
    const program = new Program({ caller, name, reach, settings: this.#settings })
    this.#programs.set(caller, program)
    return program
  }
}

/** A protected resource (RFC 9728): a part of an app that takes tokens which were issued for it. */
export class Resource {
  readonly url: string
  readonly origin: string
  readonly metadataUrl: string
  readonly authorizationServers: readonly string[]
  readonly scopes: readonly string[]
  readonly authenticator: Authenticator
  readonly isAbove: (path: RequestPath) => boolean

  constructor(config: ResourceConfig, callers: CallersConfig | undefined, deps: AuthDeps) {
    const { url, authorizationServers, scopes } = config
    const { origin, pathname } = new URL(url)
    const path = pathname.replace(/\/$/, '')
    this.url = url
    this.origin = origin
    this.metadataUrl = `${origin}${WELL_KNOWN}${path}`
    this.authorizationServers = authorizationServers
    this.scopes = scopes
    this.isAbove = covers(`${path}/*`)
    // The two spellings of a URL without a path.
    const audience = path === '' ? [origin, `${origin}/`] : [url]
    const issuers = authorizationServers.map((issuerUrl) => {
      const row = callers?.issuers.find((one) => one.issuerUrl === issuerUrl)
      const { jwksUrl, caFile, tokenFile, allowHttp, maxTokenLifetime = DAY } = row ?? {}
      return { issuerUrl, audience, jwksUrl, caFile, tokenFile, allowHttp, maxTokenLifetime }
    })
    this.authenticator = new Authenticator({ jwt: { issuers } }, deps)
  }
}

/** What a row of `callers` may reach. */
interface Reach {
  readonly hosts?: (host: Host) => boolean
  readonly policies?: ReadonlySet<string | undefined>
  readonly allow?: Condition
}

const EVERYTHING: Reach = {}

type Row = CallersConfig['keys'][number] | CallersConfig['issuers'][number]

function createReach(row: Row): Reach {
  const { hosts, policies } = row
  const allow = 'allow' in row ? row.allow : undefined
  return {
    ...(hosts && { hosts: compileHosts(hosts) }),
    ...(policies && { policies: new Set(policies) }),
    ...(allow !== undefined && allow !== 'anyone' && { allow: createConditions().compile(allow) }),
  }
}

interface ProgramOptions {
  readonly caller: Caller
  /** Name of the issuer of a token; '' for a key. */
  readonly name: string
  readonly reach: Reach | undefined
  readonly settings: HeaderSettings & { readonly name: string }
}

/** A program with valid credentials. */
export class Program extends Requester {
  readonly #reach: Reach | undefined
  #isAllowed: boolean | undefined

  constructor({ caller, name, reach, settings }: ProgramOptions) {
    const { method, subject, scopes = [] } = caller
    const claims = method === 'jwt' ? caller.claims : {}
    const id = name === '' ? subject : `${name}:${subject}`
    const profile = { provider: name, id, claims: { sub: id } }
    super(
      { method, portal: settings.name, profile, scopes },
      { claims: {}, caller: { method, scopes, claims } },
      settings,
    )
    this.#reach = reach
  }

  refusal(host: Host, policies: readonly Policy[]): Refusal | undefined {
    const { hosts, policies: named, allow } = this.#reach ?? { hosts: () => false }
    this.#isAllowed ??= allow === undefined || allow.holds(this.subject)
    if (!this.#isAllowed) return { by: 'allow', clause: allow?.refusingClause(this.subject) }
    if (hosts && !hosts(host)) return { by: 'hosts' }
    if (!named) return undefined
    const isNamed = policies.every(({ name }) => named.has(name))
    // Without hosts, the policies of a route are all that says that it is meant.
    return isNamed && (hosts || policies.length > 0) ? undefined : { by: 'policies' }
  }
}
