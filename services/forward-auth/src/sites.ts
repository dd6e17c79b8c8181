import type { ForwardedRequest } from '@gatehouse/gate'
import {
  formatHostPort,
  isLoopback,
  isUnder,
  parseHost,
  parseHostPort,
  parseOrigin,
} from '@gatehouse/net'
import { registrableDomain } from '@gatehouse/net/suffixes'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'

/** A domain of the configuration and the address of its sign-in pages. */
export interface Site {
  /** Canonical domain of the apps, such as `example.com`. */
  readonly domain: string
  /** Origin of the sign-in pages, such as `https://auth.example.com`. */
  readonly authOrigin: string
  /** Path prefix of all routes, such as `/gate`; '' for none. */
  readonly basePath: string
  /** Whether each host of an app has a cookie of its own, or all hosts of the domain share one. */
  readonly scope: 'host' | 'domain'
  /**
   * The domain that all hosts of apps share with the sign-in host. Undefined if browsers keep no cookies for it; they are
   * not the same site then.
   */
  readonly sharedDomain?: string | undefined
  /** The other domains with the same sign-in pages. */
  readonly otherDomains?: readonly string[]
}

/** A host that a request was sent to, on one of the cookie domains. */
export type SiteHost = Pick<ForwardedRequest<Site>, 'site' | 'host' | 'authority' | 'isAuthHost'>

export type Sites = ReturnType<typeof createSites>

const MAX_HOSTS = 1_000
const MAX_HOST_LENGTH = 260

/** The sites of a configuration. A bounded cache keeps the hosts that were found. */
export function createSites(list: readonly Site[]) {
  const hosts = new LRUCache<string, SiteHost>({ max: MAX_HOSTS })
  const pages = new Set(list.map(signInName))
  return {
    list,
    /** Whether sign-in pages are at a host, alone or beside apps. */
    hasPagesAt: (name: string) => pages.has(name),
    /** Finds the site of a Host header; undefined if the host is on none of the domains. */
    find(hostHeader: string): SiteHost | undefined {
      const cachedHost = hosts.get(hostHeader)
      if (cachedHost || hostHeader.length > MAX_HOST_LENGTH) return cachedHost
      const siteHost = findHost(list, hostHeader)
      if (siteHost) hosts.set(hostHeader, siteHost)
      return siteHost
    },
  }
}

function findHost(sites: readonly Site[], hostHeader: string): SiteHost | undefined {
  const parsed = parseHostPort(hostHeader)
  const site = parsed && sites.find(({ domain }) => isUnder(domain, parsed.host))
  if (!parsed || !site) return undefined
  const { host } = parsed
  // A host that is also the domain is shared with apps. Names alone count: browsers send cookies to every port of a host.
  const isAuthHost = sites.some(
    (other) => host.name !== other.domain && signInName(other) === host.name,
  )
  return { site, host, authority: formatHostPort(parsed), isAuthHost }
}

function signInName({ authOrigin }: Site): string | undefined {
  const [, authority = ''] = authOrigin.split('//')
  return parseHostPort(authority)?.host.name
}

/** The URL of a portal, which is the claim `iss` of its tokens. */
export function issuerOf({ portal, site }: PortalAt): string {
  return `${site.authOrigin}${site.basePath}/portals/${portal.name}`
}

/** A purpose for which values are sealed at a portal and a sign-in host, and are good at no other. */
export function purposeAt(
  realm: PortalAt,
  purpose: 'call' | 'client' | 'code' | 'consent' | 'granted' | 'refresh' | 'state' | 'target',
): string {
  return `${purpose} ${issuerOf(realm)}`
}

/** The site at whose sign-in host a portal has this issuer. */
export function siteOfIssuer(
  { list }: Pick<Sites, 'list'>,
  portal: PortalAt['portal'],
  issuer: string,
): Site | undefined {
  return list.find((site) => issuer === issuerOf({ portal, site }))
}

interface PortalAt {
  readonly portal: { readonly name: string }
  readonly site: Site
}

/** The parameters of a page; those that are undefined are left out. */
export type PageQuery = Readonly<Record<string, string | undefined>>

/** The absolute URL of a page of a portal, such as `/signin`. */
export function pageUrl(realm: PortalAt, path: string, query: PageQuery = {}): string {
  const parameters = Object.entries(query).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, value]],
  )
  const search = parameters.length > 0 ? `?${encodeQuery(parameters)}` : ''
  return `${issuerOf(realm)}${path}${search}`
}

/** The length from which on only what RFC 3986 demands is encoded, because proxies limit URLs. */
const LONG_QUERY = 2_048

function encodeQuery(parameters: [name: string, value: string][]): string {
  const search = String(new URLSearchParams(parameters))
  const isShort =
    search.length < LONG_QUERY || parameters.some(([, value]) => !/^[!-~]*$/.test(value))
  return isShort
    ? search
    : parameters.map(([name, value]) => `${name}=${encodeMinimally(value)}`).join('&')
}

/** Percent-encodes what a query must not contain (RFC 3986 section 3.4) and its delimiters. */
function encodeMinimally(value: string): string {
  return value.replace(
    /[^\w\-.~!$()*,;:@/?=]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

interface DomainConfig {
  readonly domain: string
  readonly authHost?: string
  readonly session: { readonly scope: Site['scope'] }
}

/** The site of an entry of `domains`, or the key that is wrong with what is wrong with it. */
export function readSite(
  { domain, authHost, session: { scope } }: DomainConfig,
  basePath: string,
): Site | { readonly key: 'domain' | 'authHost'; readonly message: string } {
  const parsed = parseHost(domain)
  if (!parsed) return { key: 'domain', message: 'is not a host name' }
  if (parsed.ip)
    return { key: 'domain', message: 'is an IP address, and cookies are for names: use one' }
  const key = authHost === undefined ? 'domain' : 'authHost'
  const address = authHost ?? domain
  const authOrigin = parseOrigin(address.includes('://') ? address : `https://${address}`)
  const host = authOrigin && parseHostPort(authOrigin.slice(authOrigin.indexOf('//') + 2))?.host
  if (!authOrigin || !host) return { key, message: 'is not a host, with a port if need be' }
  if (scope === 'domain' && !isUnder(parsed.name, host))
    return { key, message: `is not on or below ${parsed.name}, which session.scope: domain needs` }
  if (authOrigin.startsWith('http:') && !isLoopback(host))
    return { key, message: 'is plain http, which only loopback names may be: cookies need https' }
  const sharedDomain = sharedDomainOf(parsed.name, host.name)
  return { domain: parsed.name, authOrigin, basePath, scope, sharedDomain }
}

function sharedDomainOf(domain: string, host: string): string | undefined {
  const registrable = registrableDomain(domain)
  if (!registrable || registrableDomain(host) !== registrable) return undefined
  let shared = domain
  while (!`.${host}`.endsWith(`.${shared}`)) shared = shared.slice(shared.indexOf('.') + 1)
  return shared
}

interface SitesConfig {
  readonly domains: readonly DomainConfig[]
  readonly server: { readonly basePath: string }
}

export function sitesOf({ domains, server }: SitesConfig): readonly Site[] {
  const sites = domains
    .map((row) => readSite(row, server.basePath))
    .filter((site) => 'authOrigin' in site)
  return sites.map((site) => ({
    ...site,
    otherDomains: sites
      .filter(({ authOrigin, domain }) => authOrigin === site.authOrigin && domain !== site.domain)
      .map(({ domain }) => domain),
  }))
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly sites: Sites
  }
}

export const sites = fp<SitesConfig>(
  async (app: FastifyInstance, config) => {
    await app.decorateReloaded('sites', config, (newConfig) => createSites(sitesOf(newConfig)))
  },
  { name: 'forward-auth/sites', dependencies: ['service-kit/reload'] },
)
