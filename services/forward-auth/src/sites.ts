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
  readonly others?: readonly string[]
}

/** A host that a request was sent to, on one of the cookie domains. */
export type SiteHost = Pick<ForwardedRequest<Site>, 'site' | 'host' | 'authority' | 'isAuthHost'>

export type Sites = ReturnType<typeof createSites>

const MAX_HOSTS = 1_000
const MAX_HOST_LENGTH = 260

/** The hosts that were found are kept in a bounded cache. */
export function createSites(all: readonly Site[]) {
  const hosts = new LRUCache<string, SiteHost>({ max: MAX_HOSTS })
  const pages = new Set(all.map(signInName))
  return {
    all,
    /** Whether sign-in pages are at a host, alone or beside apps. */
    hasPagesAt: (name: string) => pages.has(name),
    /** Finds the site of a Host header; undefined if the host is on none of the domains. */
    find(hostHeader: string): SiteHost | undefined {
      const known = hosts.get(hostHeader)
      if (known || hostHeader.length > MAX_HOST_LENGTH) return known
      const found = findHost(all, hostHeader)
      if (found) hosts.set(hostHeader, found)
      return found
    },
  }
}

function findHost(all: readonly Site[], hostHeader: string): SiteHost | undefined {
  const parsed = parseHostPort(hostHeader)
  const site = parsed && all.find(({ domain }) => isUnder(domain, parsed.host))
  if (!parsed || !site) return undefined
  const { host } = parsed
  const authority = formatHostPort(parsed)
  return { site, host, authority, isAuthHost: all.some((each) => isOnlyForPages(each, host.name)) }
}

/**
 * Whether only the sign-in pages are at a host. A host that is also the cookie domain is shared with apps.
 * Compares names only: browsers send cookies to every port of a host.
 */
function isOnlyForPages(site: Site, name: string): boolean {
  return name !== site.domain && signInName(site) === name
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
  at: PortalAt,
  purpose: 'client' | 'code' | 'consent' | 'granted' | 'refresh',
): string {
  return `${purpose} ${issuerOf(at)}`
}

/** The site at whose sign-in host a portal has this issuer. */
export function siteOfIssuer(
  { all }: Pick<Sites, 'all'>,
  portal: PortalAt['portal'],
  issuer: string,
): Site | undefined {
  return all.find((site) => issuer === issuerOf({ portal, site }))
}

interface PortalAt {
  readonly portal: { readonly name: string }
  readonly site: Site
}

/**
 * The absolute URL of a page of a portal, such as `/signin`. Members of the query that
 * are undefined are left out.
 */
export function pageUrl(
  at: PortalAt,
  path: string,
  query: Readonly<Record<string, string | undefined>> = {},
): string {
  const given = Object.entries(query).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, value]],
  )
  const search = given.length > 0 ? `?${encodeQuery(given)}` : ''
  return `${issuerOf(at)}${path}${search}`
}

/** The length from which on only what RFC 3986 demands is encoded, because proxies limit URLs. */
const LONG_QUERY = 2_048

function encodeQuery(given: [name: string, value: string][]): string {
  const search = String(new URLSearchParams(given))
  const isShort = search.length < LONG_QUERY || given.some(([, value]) => !/^[!-~]*$/.test(value))
  return isShort
    ? search
    : given.map(([name, value]) => `${name}=${encodeMinimally(value)}`).join('&')
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
  const written = authHost ?? domain
  const authOrigin = parseOrigin(written.includes('://') ? written : `https://${written}`)
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
    others: sites
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
    await app.decorateReloaded('sites', config, (changed) => createSites(sitesOf(changed)))
  },
  { name: 'forward-auth/sites', dependencies: ['service-kit/reload'] },
)
