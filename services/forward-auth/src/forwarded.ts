import type { IncomingHttpHeaders } from 'node:http'
import { parseIp } from '@gatehouse/net'
import { hasTwoHosts, trustProxy } from '@gatehouse/service-kit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { FwaError } from './errors.ts'
import type { SiteHost, Sites } from './sites.ts'

/** The request that a proxy asks about. All members have been validated. */
export interface ForwardedRequest extends SiteHost {
  readonly method: string
  readonly scheme: 'http' | 'https'
  /** Such as `https://app.example.com`. */
  readonly origin: string
  /**
   * Path and query as they are sent: printable ASCII and other bytes, a `/` first, a backslash only in the
   * query, no fragment.
   */
  readonly target: string
}

/** The URL in ASCII, without a backslash. */
export function urlOf({ scheme, authority, target }: ForwardedRequest): string {
  return new URL(`${scheme}://${authority}${encodeRaw(target)}`).href
}

/** Percent-encodes backslashes and bytes that are not ASCII. */
function encodeRaw(target: string): string {
  return target.replace(
    /[\\\x80-\xff]/g,
    (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

export interface ProxyRequest {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  /** Names and values in turn, as received. */
  readonly rawHeaders: readonly string[]
}

export type ForwardedReader = (request: ProxyRequest, sites: Sites) => ForwardedRequest

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
const ENVOY_ROUTE = /\/authz\/envoy\/policy\/[^/?]+/

/** Traefik, Caddy and HAProxy: `X-Forwarded-*`. `X-Forwarded-Port` is not read, `-Prefix` by the check. */
export const readForwarded: ForwardedReader = ({ headers }, sites) =>
  validate(sites, 'X-Forwarded-', {
    method: required('X-Forwarded-Method', headers['x-forwarded-method']),
    scheme: required('X-Forwarded-Proto', headers['x-forwarded-proto']),
    host: required('X-Forwarded-Host', headers['x-forwarded-host']),
    target: required('X-Forwarded-Uri', headers['x-forwarded-uri']),
  })

/** nginx: `X-Original-Method`, and the whole URL in `X-Original-URL`. */
export const readOriginal: ForwardedReader = ({ headers }, sites) => {
  const method = required('X-Original-Method', headers['x-original-method'])
  const url = required('X-Original-URL', headers['x-original-url'])
  const [, scheme = '', host = '', target = ''] = ABSOLUTE_URL.exec(url) ?? []
  return validate(sites, 'X-Original-', { method, scheme, host, target })
}

/** Envoy: the request line, with the path after the route of the policy, and Host. */
export const readRequestLine: ForwardedReader = ({ method, url, headers, rawHeaders }, sites) => {
  if (hasTwoHosts(rawHeaders))
    throw new FwaError('FWA_HEADER_INVALID', 'Host was sent more than once')
  const host = required('Host', headers.host)
  const route = ENVOY_ROUTE.exec(url)
  const target = route ? url.slice(route.index + route[0].length) : ''
  const forwarded = headers['x-forwarded-proto']
  const scheme = forwarded === undefined ? configuredScheme(sites, host) : String(forwarded)
  return validate(sites, '', { method, scheme, host, target })
}

function required(name: string, value: string | string[] | undefined): string {
  if (typeof value === 'string' && value !== '') return value
  throw new FwaError('FWA_HEADER_MISSING', `${name} is missing`)
}

type Unvalidated = Readonly<Record<'method' | 'scheme' | 'host' | 'target', string>>

/** Node joins a repeated header with a comma, which none of these grammars allows. */
function validate(sites: Sites, source: string, forwarded: Unvalidated): ForwardedRequest {
  const { method, host, target } = forwarded
  const scheme = SCHEMES.get(forwarded.scheme)
  if (!scheme) {
    const header = source === 'X-Original-' ? 'the scheme of X-Original-URL' : 'X-Forwarded-Proto'
    const sent = JSON.stringify(forwarded.scheme.slice(0, 100))
    throw new FwaError('FWA_HEADER_INVALID', `${header} is http or https, and not ${sent}`)
  }
  if (!METHOD.test(method)) throw invalid(source, 'method', forwarded)
  if (!ORIGIN_FORM.test(target)) throw invalid(source, 'path', forwarded)
  const found = sites.find(host)
  if (found) return { method, scheme, origin: originOf(scheme, found), target, ...found }
  const quoted = JSON.stringify(host.slice(0, 100))
  const why = host.includes('_') ? ', since no host name holds "_" (RFC 1123)' : ''
  throw new FwaError('FWA_HOST_UNKNOWN', `${quoted} is on none of the configured domains${why}`)
}

/** RFC 6454 section 6.2: without the default port. */
function originOf(scheme: 'http' | 'https', { authority }: SiteHost): string {
  const port = scheme === 'https' ? ':443' : ':80'
  return `${scheme}://${authority.endsWith(port) ? authority.slice(0, -port.length) : authority}`
}

function configuredScheme(sites: Sites, host: string): string {
  const origin = sites.find(host)?.site.authOrigin ?? 'https:'
  return origin.slice(0, origin.indexOf(':'))
}

/** For the log, which has to say what the proxy sent. */
const MAX_QUOTED = 200

function invalid(source: string, what: string, { scheme, host, target }: Unvalidated): FwaError {
  const where = source === '' ? 'the request' : `${source}*`
  const url = JSON.stringify(encodeRaw(`${scheme}://${host}${target}`.slice(0, MAX_QUOTED)))
  return new FwaError('FWA_HEADER_INVALID', `${where} holds no valid ${what}: ${url}`)
}

/** More hops than any genuine chain has. */
const MAX_FORWARDED_FOR = 2_048

/** The other end of a connection, such as a socket of Node. */
export interface Peer {
  readonly remoteAddress?: string | undefined
  /** For TLS sockets: whether the client certificate was verified. */
  readonly authorized?: boolean
}

type Trust = ReturnType<typeof createTrust>

/**
 * Decides which peers are trusted: listed proxies, and holders of a verified client certificate.
 *
 * @param trustedProxies - networks in CIDR notation; undefined means loopback only, an empty list
 * that only client certificates count
 */
export function createTrust(trustedProxies?: readonly string[]) {
  const isProxy = trustProxy(trustedProxies)

  function trusts({ authorized, remoteAddress = '' }: Peer): boolean {
    return authorized === true || isProxy(remoteAddress)
  }

  /**
   * The address of the client: that of an untrusted peer itself, else the first untrusted hop from
   * the right of `X-Forwarded-For`. Undefined if the chain is missing or unreadable.
   */
  function clientIp(peer: Peer, forwardedFor: string | undefined): string | undefined {
    if (!trusts(peer)) return parseIp(peer.remoteAddress ?? '')?.text
    if (forwardedFor === undefined || forwardedFor.length > MAX_FORWARDED_FOR) return undefined
    const hops = forwardedFor.split(',').map((hop) => parseIp(hop.trim())?.text)
    const client = hops.findLastIndex((hop = '') => !isProxy(hop))
    return hops[Math.max(client, 0)]
  }
  return { trusts, clientIp }
}

/** The address of the client as the trusted proxies name it. */
export function clientIpOf({ raw, server }: FastifyRequest): string | undefined {
  return server.trust.clientIp(raw.socket, raw.headers['x-forwarded-for'] as string | undefined)
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly trust: Trust
  }
}

export const trust = fp<{ readonly server: { readonly trustedProxies?: readonly string[] } }>(
  async (app: FastifyInstance, config) => {
    await app.decorateReloaded('trust', config, ({ server }) => createTrust(server.trustedProxies))
  },
  { fastify: '5.x', name: 'forward-auth/trust', dependencies: ['service-kit/reload'] },
)
