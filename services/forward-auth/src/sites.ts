import { type Host, parseHostPort } from '@gatehouse/net'
import type { Site } from './portal.ts'
import { remember } from './remember.ts'

const MAX_KNOWN = 1_000
const MAX_LENGTH = 260

/** Where a request was sent to. */
export interface Place {
  readonly site: Site
  /** Canonical host, and the port if one was given. */
  readonly authority: string
  /**
   * Whether the sign-in pages are at this host. Not so if it is also the cookie domain, which is how
   * pages and apps are set up that share one host.
   */
  readonly isAuthHost: boolean
}

/** The cookie domains of the configuration. */
export interface Sites {
  readonly all: readonly Site[]
  /** The place that a Host header names, if it is on one of the domains. */
  find(hostHeader: string): Place | undefined
}

/** Makes {@link Sites}; what it was asked before costs one lookup. */
export function createSites(all: readonly Site[]): Sites {
  const known = new Map<string, Place>()
  return {
    all,
    find(hostHeader) {
      const place = known.get(hostHeader)
      if (place || hostHeader.length > MAX_LENGTH) return place
      const found = locate(all, hostHeader)
      if (found) remember(known, MAX_KNOWN, hostHeader, found)
      return found
    },
  }
}

/** Whether the host is the domain or below it. */
export function isUnder(domain: string, { name, ip }: Host): boolean {
  return name === domain || (!ip && name.endsWith(`.${domain}`))
}

/** By name: the ports of one host are as good as the same to a browser's cookies. */
function isOnlyForPages({ domain, authOrigin }: Site, name: string): boolean {
  const [, authority = ''] = authOrigin.split('//')
  return name !== domain && parseHostPort(authority)?.host.name === name
}

function locate(all: readonly Site[], hostHeader: string): Place | undefined {
  const parsed = parseHostPort(hostHeader)
  const site = parsed && all.find(({ domain }) => isUnder(domain, parsed.host))
  if (!parsed || !site) return undefined
  const { host, port } = parsed
  const name = host.ip?.version === 6 ? `[${host.name}]` : host.name
  const authority = port === undefined ? name : `${name}:${port}`
  return { site, authority, isAuthHost: all.some((each) => isOnlyForPages(each, host.name)) }
}
