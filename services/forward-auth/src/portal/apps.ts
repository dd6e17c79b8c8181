import type { Principal } from '@gatehouse/gate'
import { parseHostPort } from '@gatehouse/net'
import { MAX_APPS } from '../config/apps.ts'
import type { Site, Sites } from '../sites.ts'
import type { Portal } from './portals.ts'

/** An app that a portal offers to people. */
type App = NonNullable<Portal['apps']>[number]

interface PersonAtPortal {
  readonly portal: Portal
  readonly principal: Principal
  readonly sites: Sites
  readonly clientIp: () => string | undefined
  readonly now: number
}

/**
 * The apps that a person may open: those that the portal lists, or else the hosts that its rules name.
 * The gate decides about each as it decides about a check.
 */
export function openableApps(person: PersonAtPortal): readonly App[] {
  const apps = person.portal.apps ?? appsOfRules(person)
  return apps.filter((app) => mayOpen(app, person))
}

/** Whether a person may open a page of an app, which need not be one of those that the portal lists. */
export function mayOpenPage(url: URL, person: PersonAtPortal): boolean {
  const app = person.portal.apps?.find((app) => app.url.origin === url.origin)
  return mayOpen({ url, policy: app?.policy }, person)
}

function mayOpen({ url, policy }: Pick<App, 'url' | 'policy'>, person: PersonAtPortal): boolean {
  const { gate, providers } = person.portal
  const siteHost = person.sites.find(url.host)
  if (!siteHost || siteHost.isAuthHost) return false
  const { outcome } = gate.checkPage(url, siteHost.host, person, policy)
  if (outcome === 'step-up') return [...providers.values()].some(({ stepsUp }) => stepsUp)
  return outcome === 'allow' || outcome === 'anonymous'
}

function appsOfRules({ portal, sites }: PersonAtPortal): App[] {
  return portal.gate.hosts.slice(0, MAX_APPS).flatMap((host) => {
    const site = sites.find(host)?.site
    return site ? [{ name: host, url: urlOn(site, host), policy: undefined, icon: undefined }] : []
  })
}

/** Apps are behind the proxy of the sign-in pages, and so at its port. */
function urlOn({ authOrigin }: Site, host: string): URL {
  const [scheme = '', authority = ''] = authOrigin.split('//')
  const { port } = parseHostPort(authority) ?? {}
  return new URL(`${scheme}//${host}${port === undefined ? '' : `:${port}`}/`)
}
