import type { IncomingHttpHeaders } from 'node:http'
import type { Host } from '@gatehouse/net'
import type { McpCall } from '@gatehouse/profile'
import { isRepeated } from '@gatehouse/service-kit/http'
import type { RequestSource } from '@gatehouse/service-kit/proxies'
import { kindOf, type RequestKind } from './decide.ts'
import { GateError } from './errors.ts'
import { foldName, readOverrides } from './header-names.ts'
import { readMcp, readMcpName } from './mcp.ts'
import { type RequestPath, readPath, UNKNOWN_PATH } from './paths.ts'

interface SignInSite {
  /** The origin of the sign-in pages, such as `https://auth.example.com`. */
  readonly authOrigin: string
}

/** A host that a request was sent to, on one of the cookie domains. */
interface SiteHost<Site> {
  readonly site: Site
  readonly host: Host
  /** Canonical host, with the port if one was given. */
  readonly authority: string
  /** Whether only the sign-in pages are at this host. */
  readonly isAuthHost: boolean
}

/** Finds the site of a Host header; undefined if the host is on none of the domains. */
export interface Sites<Site extends SignInSite> {
  find(hostHeader: string): SiteHost<Site> | undefined
}

/** The request that a proxy asks about. All members have been validated. */
export class ForwardedRequest<Site> implements SiteHost<Site> {
  readonly site: Site
  readonly host: Host
  /** Canonical host, with the port unless it is that of the scheme. */
  readonly authority: string
  readonly isAuthHost: boolean
  readonly method: string
  readonly scheme: 'http' | 'https'
  /** The origin of the app, such as `https://app.example.com`, without the default port (RFC 6454 section 6.2). */
  readonly origin: string
  /** Path and query as sent: printable ASCII and other bytes, a `/` first, a backslash only in the query, no fragment. */
  readonly target: string
  readonly #headers: IncomingHttpHeaders
  readonly #urlHeader: string | undefined
  /** The call, once it was read: of the body where that is known, and else of the headers. */
  #mcp: { readonly call: McpCall | undefined } | undefined
  #routing: { readonly path: RequestPath; readonly method: string | undefined } | undefined

  constructor(
    { site, host, authority, isAuthHost }: SiteHost<Site>,
    { method, scheme, target }: { method: string; scheme: 'http' | 'https'; target: string },
    headers: IncomingHttpHeaders,
    urlHeader: string | undefined,
    mcp?: { readonly call: McpCall | undefined },
  ) {
    const port = scheme === 'https' ? ':443' : ':80'
    const isDefault = authority.endsWith(port)
    this.site = site
    this.host = host
    this.authority = isDefault ? authority.slice(0, -port.length) : authority
    this.isAuthHost = isAuthHost
    this.method = method
    this.scheme = scheme
    this.origin = `${scheme}://${this.authority}`
    this.target = target
    this.#headers = headers
    this.#urlHeader = urlHeader
    this.#mcp = mcp
  }

  /** The same request with a call, whatever its headers name. @param call - undefined if it is not known */
  withCall(call: McpCall | undefined): ForwardedRequest<Site> {
    const request = new ForwardedRequest(this, this, this.#headers, this.#urlHeader, { call })
    request.#routing = this.#routing
    return request
  }

  /** The URL in ASCII, without a backslash. */
  get url(): string {
    return new URL(`${this.scheme}://${this.authority}${encodeRaw(this.target)}`).href
  }

  get kind(): RequestKind {
    return kindOf(this.method, this.#headers)
  }

  /** Path and method as far as all apps agree: nothing of what a header replaces, or of a path without its prefix. */
  get routing() {
    if (this.#routing) return this.#routing
    const overrides = readOverrides(this.#headers, this.#urlHeader)
    const isElsewhere = overrides.path || this.#headers['x-forwarded-prefix'] !== undefined
    this.#routing = {
      path: isElsewhere ? UNKNOWN_PATH : readPath(this.target),
      method: overrides.method ? undefined : this.method,
    }
    return this.#routing
  }

  /** The header that names another call than the body, which servers of MCP 2026-07-28 refuse too; undefined if none does. */
  mismatch(method: string | undefined, name: string | undefined): string | undefined {
    const { 'mcp-method': namedMethod, 'mcp-name': named } = this.#headers
    if (namedMethod !== undefined && namedMethod !== method) return 'Mcp-Method'
    return named === undefined || readMcpName(String(named)) === name ? undefined : 'Mcp-Name'
  }

  get mcp(): McpCall | undefined {
    if (!this.#mcp && this.#headers['mcp-method'] === undefined) return undefined
    this.#mcp ??= { call: readMcp(this.routing.method, this.#headers) }
    return this.#mcp.call
  }
}

/** Reads a request that a proxy sends on for a resource: its URL is that of the resource. @throws GateError FWA_HOST_UNKNOWN */
export function readForResource<Site extends SignInSite>(
  { origin, path }: Readonly<Record<'origin' | 'path', string>>,
  { method = '', headers }: ProxyRequest,
  sites: Sites<Site>,
): ForwardedRequest<Site> {
  const [scheme = '', host = ''] = origin.split('://')
  return validate({ headers }, sites, '', { method, scheme, host, target: path })
}

/** All bytes, since a target may have 40,000 to encode. */
const ENCODED = Array.from({ length: 256 }, (_, n) => `%${n.toString(16).toUpperCase()}`)

/** Percent-encodes backslashes and bytes that are not ASCII. */
function encodeRaw(target: string): string {
  return target.replace(/[\\\x80-\xff]/g, (byte) => ENCODED[byte.charCodeAt(0)] ?? '')
}

/** A check of a proxy, such as an `IncomingMessage` of Node. */
export interface ProxyRequest {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly headers: IncomingHttpHeaders
  /** Names and values in turn, as received. */
  readonly rawHeaders: readonly string[]
}

type ForwardedReader = <Site extends SignInSite>(
  request: ProxyRequest,
  sites: Sites<Site>,
) => ForwardedRequest<Site>

const SCHEMES: ReadonlyMap<string, 'http' | 'https'> = new Map([
  ['http', 'http'],
  ['https', 'https'],
  ['ws', 'http'],
  ['wss', 'https'],
])
const METHOD = /^[A-Za-z][A-Za-z-]{0,31}$/
// RFC 9112 section 3.2.1, and all that clients send; in a path, `\` is `/` to some.
const ORIGIN_FORM = /^\/[!"$->@-[\]-~\x80-\xff]*(?:\?[!"$-~\x80-\xff]*)?$/
const ABSOLUTE_URL = /^([a-z]{2,5}):\/\/([^/?#\\]+)([/?#\\].*)?$/
const POLICY_ROUTE = /\/authz\/[\w-]+\/policy\/[^/?]+/

/** `X-Forwarded-*`. `X-Forwarded-Port` is not read, `-Prefix` by the check. */
export const readForwarded: ForwardedReader = (request, sites) => {
  const { headers } = request
  return validate(request, sites, 'X-Forwarded-', {
    method: required('X-Forwarded-Method', headers['x-forwarded-method']),
    scheme: required('X-Forwarded-Proto', headers['x-forwarded-proto']),
    host: required('X-Forwarded-Host', headers['x-forwarded-host']),
    target: required('X-Forwarded-Uri', headers['x-forwarded-uri']),
  })
}

/** `X-Original-Method`, and the whole URL in `X-Original-URL`. */
export const readOriginal: ForwardedReader = (request, sites) => {
  const { headers } = request
  const method = required('X-Original-Method', headers['x-original-method'])
  const url = required('X-Original-URL', headers['x-original-url'])
  const [, scheme = '', host = '', target = ''] = ABSOLUTE_URL.exec(url) ?? []
  return validate(request, sites, 'X-Original-', { method, scheme, host, target })
}

/** The request line, with the path after the route of the policy, and Host. */
export const readRequestLine: ForwardedReader = (request, sites) => {
  const { method = '', url = '', headers, rawHeaders } = request
  if (isRepeated(rawHeaders, 'host'))
    throw new GateError('FWA_HEADER_INVALID', 'Host was sent more than once')
  const host = required('Host', headers.host)
  const route = POLICY_ROUTE.exec(url)
  const target = route ? url.slice(route.index + route[0].length) : ''
  const forwarded = headers['x-forwarded-proto']
  const scheme = forwarded === undefined ? configuredScheme(sites, host) : String(forwarded)
  return validate(request, sites, '', { method, scheme, host, target })
}

function required(name: string, value: string | string[] | undefined): string {
  if (typeof value === 'string' && value !== '') return value
  throw new GateError('FWA_HEADER_INVALID', `${name} is missing`)
}

type Unvalidated = Readonly<Record<'method' | 'scheme' | 'host' | 'target', string>>

/** Node joins a repeated header with a comma, which none of these grammars allows. */
function validate<Site extends SignInSite>(
  { headers }: Pick<ProxyRequest, 'headers'>,
  sites: Sites<Site>,
  source: string,
  forwarded: Unvalidated,
): ForwardedRequest<Site> {
  const { method, host, target } = forwarded
  const scheme = SCHEMES.get(forwarded.scheme)
  if (!scheme) {
    const header = source === 'X-Original-' ? 'the scheme of X-Original-URL' : 'X-Forwarded-Proto'
    const schemeText = JSON.stringify(forwarded.scheme.slice(0, 100))
    throw new GateError('FWA_HEADER_INVALID', `${header} is http or https, and not ${schemeText}`)
  }
  if (!METHOD.test(method)) throw invalid(source, 'method', forwarded)
  if (!ORIGIN_FORM.test(target)) throw invalid(source, 'path', forwarded)
  const siteHost = sites.find(host)
  const urlHeader = source === 'X-Original-' ? 'x-original-url' : undefined
  if (siteHost)
    return new ForwardedRequest(siteHost, { method, scheme, target }, headers, urlHeader)
  const quoted = JSON.stringify(host.slice(0, 100))
  const why = host.includes('_') ? ', since no host name holds "_" (RFC 1123)' : ''
  throw new GateError('FWA_HOST_UNKNOWN', `${quoted} is on none of the configured domains${why}`)
}

function configuredScheme(sites: Sites<SignInSite>, host: string): string {
  const origin = sites.find(host)?.site.authOrigin ?? 'https:'
  return origin.slice(0, origin.indexOf(':'))
}

/** The characters of a URL in an error, which says in the log what the proxy sent. */
const MAX_QUOTED = 200

function invalid(source: string, what: string, { scheme, host, target }: Unvalidated): GateError {
  const where = source === '' ? 'the request' : `${source}*`
  const [path, query] = target.split(/[?#]/, 2)
  // What follows the path may be secret, such as a ticket.
  const shown =
    `${scheme}://${host}${path}`.slice(0, MAX_QUOTED) + (query === undefined ? '' : '?…')
  const url = JSON.stringify(encodeRaw(shown))
  return new GateError('FWA_HEADER_INVALID', `${where} holds no valid ${what}: ${url}`)
}

/** Names that {@link foldName} leaves as they are, but for upper case. */
const UNFOLDED = /^[a-z0-9-]*$/i

/**
 * Makes a guard against other spellings of headers, which proxies let through.
 *
 * @param names - in lower case
 * @returns a function of names and values in turn that throws FWA_HEADER_ALIAS
 */
export function createAliasGuard(
  names: readonly string[],
): (rawHeaders: readonly string[]) => void {
  const folded = new Set(names.map(foldName))
  const lengths = new Set(names.map(({ length }) => length))

  return (rawHeaders) => {
    for (let i = 0; i < rawHeaders.length; i += 2) {
      const name = rawHeaders[i] ?? ''
      // An alias is as long as the name, so that most headers are passed over without a comparison.
      if (!lengths.has(name.length) || UNFOLDED.test(name)) continue
      if (folded.has(foldName(name)))
        throw new GateError(
          'FWA_HEADER_ALIAS',
          `${JSON.stringify(name)} resembles a trusted header`,
        )
    }
  }
}

/** @throws GateError FWA_HEADER_INVALID, FWA_HOST_UNKNOWN */
export const READERS: Readonly<Record<RequestSource, ForwardedReader>> = {
  'x-forwarded': readForwarded,
  'x-original': readOriginal,
  'request-line': readRequestLine,
}
