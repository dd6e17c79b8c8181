import { parseHostPort } from '@gatehouse/net'
import { canStepUp } from '../login/step-up.ts'
import type { Portal } from '../portals.ts'
import type { Site, Sites } from '../sites.ts'
import { type App, MAX_APPS } from './apps.ts'
import { decide } from './decide.ts'
import { readPath } from './paths.ts'
import { admissionFor, exactHosts } from './rules.ts'
import type { Visitor } from './visitor.ts'

interface Asked {
  readonly sites: Sites
  readonly clientIp: () => string | undefined
  readonly now: number
}

/**
 * The apps that a person may open: those that the portal lists, or else the hosts that its rules name.
 * Each is decided by what decides a check of it.
 */
export function openableApps(visitor: Visitor, asked: Asked): readonly App[] {
  const { portal } = visitor
  const apps = portal.apps ?? appsOfRules(portal, asked.sites)
  return apps.filter((app) => mayOpen(visitor, app, asked))
}

/** Whether a person may open a page of an app, which need not be one of those that the portal lists. */
export function mayOpenPage(visitor: Visitor, url: URL, asked: Asked): boolean {
  const app = visitor.portal.apps?.find((each) => each.url.origin === url.origin)
  return mayOpen(visitor, { url, policy: app?.policy }, asked)
}

function mayOpen(
  visitor: Visitor,
  { url, policy }: Pick<App, 'url' | 'policy'>,
  { sites, clientIp, now }: Asked,
): boolean {
  const found = sites.find(url.host)
  if (!found || found.isAuthHost) return false
  const { portal } = visitor
  const { host } = found
  const path = readPath(`${url.pathname}${url.search}`)
  const request = { method: 'GET', host, path, clientIp }
  const { outcome } = decide({
    portal,
    host,
    requester: visitor,
    admission: admissionFor(portal.rules, request),
    routePolicy: () => policy,
    kind: () => 'navigation',
    now,
  })
  if (outcome === 'step-up') return [...portal.providers.values()].some(canStepUp)
  return outcome === 'allow' || outcome === 'anonymous'
}

function appsOfRules({ rules }: Portal, sites: Sites): App[] {
  const hosts = [...new Set(rules.flatMap(({ config }) => exactHosts(config)))]
  return hosts.slice(0, MAX_APPS).flatMap((host) => {
    const site = sites.find(host)?.site
    return site ? [{ name: host, url: urlOn(site, host), policy: undefined }] : []
  })
}

/** Apps are behind the proxy of the sign-in pages, and so at its port. */
function urlOn({ authOrigin }: Site, host: string): URL {
  const [scheme = '', authority = ''] = authOrigin.split('//')
  const { port } = parseHostPort(authority) ?? {}
  return new URL(`${scheme}//${host}${port === undefined ? '' : `:${port}`}/`)
}
