import type { IncomingHttpHeaders } from 'node:http'
import { FwaError } from '../errors.ts'
import type { Sites } from '../sites.ts'
import type { ForwardedRequest } from './request.ts'

/** The request of a proxy itself. */
export interface Check {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  /** Names and values in turn, as they came. */
  readonly rawHeaders: readonly string[]
}

/**
 * Reads what a proxy tells in its dialect.
 *
 * @throws FwaError FWA_HEADER_MISSING, FWA_HEADER_INVALID, FWA_HOST_UNKNOWN
 */
export type Reader = (check: Check, sites: Sites) => ForwardedRequest

/** Every header that a reader reads, and that of the condition. */
export const READ_HEADERS = [
  'x-forwarded-method',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-uri',
  'x-forwarded-for',
  'x-original-method',
  'x-original-url',
  'x-forward-auth-if',
] as const

const SCHEMES: ReadonlyMap<string, 'http' | 'https'> = new Map([
  ['http', 'http'],
  ['https', 'https'],
  ['ws', 'http'],
  ['wss', 'https'],
])
const METHOD = /^[A-Za-z][A-Za-z-]{0,31}$/
// RFC 9112 section 3.2.1, and all that browsers send; `//` begins an authority, `\` is `/` to some.
const ORIGIN_FORM = /^\/(?!\/)[!"$-[\]-~]*$/
const ABSOLUTE_URL = /^([a-z]{2,5}):\/\/([^/?#\\]+)(.*)$/
const ENVOY_ROUTE = /\/authz\/envoy\/policy\/[^/?]+/

/** Traefik, Caddy and HAProxy: `X-Forwarded-*`. The port is that of the host, the prefix not read. */
export const readForwarded: Reader = ({ headers }, sites) =>
  assemble(sites, 'X-Forwarded-', {
    method: required('X-Forwarded-Method', headers['x-forwarded-method']),
    scheme: required('X-Forwarded-Proto', headers['x-forwarded-proto']),
    host: required('X-Forwarded-Host', headers['x-forwarded-host']),
    target: required('X-Forwarded-Uri', headers['x-forwarded-uri']),
  })

/** nginx: `X-Original-Method` and the whole URL in `X-Original-URL`. */
export const readOriginal: Reader = ({ headers }, sites) => {
  const method = required('X-Original-Method', headers['x-original-method'])
  const url = required('X-Original-URL', headers['x-original-url'])
  const [, scheme = '', host = '', target = ''] = ABSOLUTE_URL.exec(url) ?? []
  return assemble(sites, 'X-Original-', { method, scheme, host, target })
}

/** Envoy: the request line, with the path behind the route of the policy, and Host. */
export const readRequestLine: Reader = ({ method, url, headers, rawHeaders }, sites) => {
  if (countOf(rawHeaders, 'host') > 1)
    throw new FwaError('FWA_HEADER_INVALID', 'Host was sent more than once')
  const host = required('Host', headers.host)
  const route = ENVOY_ROUTE.exec(url)
  const target = route ? url.slice(route.index + route[0].length) : ''
  const told = headers['x-forwarded-proto']
  const scheme = told === undefined ? schemeOf(sites, host) : String(told)
  return assemble(sites, '', { method, scheme, host, target })
}

/** How often a header was sent. */
export function countOf(rawHeaders: readonly string[], name: string): number {
  let count = 0
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]?.toLowerCase() === name) count += 1
  return count
}

function required(name: string, value: string | string[] | undefined): string {
  if (typeof value === 'string' && value !== '') return value
  throw new FwaError('FWA_HEADER_MISSING', `${name} is missing`)
}

interface Told {
  readonly method: string
  readonly scheme: string
  readonly host: string
  readonly target: string
}

/** A header that was sent twice holds a comma and fits none of the grammars. */
function assemble(sites: Sites, source: string, told: Told): ForwardedRequest {
  const { method, host, target } = told
  const scheme = SCHEMES.get(told.scheme)
  if (!scheme) throw invalid(source, 'scheme')
  if (!METHOD.test(method)) throw invalid(source, 'method')
  if (!ORIGIN_FORM.test(target)) throw invalid(source, 'path')
  const place = sites.find(host)
  if (!place)
    throw new FwaError(
      'FWA_HOST_UNKNOWN',
      `${JSON.stringify(host.slice(0, 100))} is on none of the configured domains`,
    )
  return { method, scheme, target, ...place }
}

function schemeOf(sites: Sites, host: string): string {
  const origin = sites.find(host)?.site.authOrigin ?? 'https:'
  return origin.slice(0, origin.indexOf(':'))
}

function invalid(source: string, what: string): FwaError {
  const where = source === '' ? 'the request' : `${source}*`
  return new FwaError('FWA_HEADER_INVALID', `${where} holds no valid ${what}`)
}
