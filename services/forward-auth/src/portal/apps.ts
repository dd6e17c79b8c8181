import type { Principal } from '@gatehouse/gate'
import { parseHostPort } from '@gatehouse/net'
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
 * The apps that a person may open, of those that the portal lists, its rules or labels name; undefined if there are none.
 * The gate decides about each as it decides about a check.
 */
export async function openableApps(person: PersonAtPortal): Promise<readonly App[] | undefined> {
  const { apps: listedApps = [], gate, labelledApps } = person.portal
  const listedHosts = new Set(listedApps.map(({ url }) => url.hostname))
  const hosts = new Set([...gate.hosts, ...(await labelledApps.hosts())])
  const otherApps = [...hosts].flatMap((host) =>
    listedHosts.has(host) ? [] : appAt(host, person.sites),
  )
  const apps = [...listedApps, ...otherApps]
  return apps.length > 0 ? apps.filter((app) => mayOpen(app, person)) : undefined
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

function appAt(host: string, sites: Sites): App[] {
  const { site, isAuthHost } = sites.find(host) ?? {}
  if (!site || isAuthHost) return []
  return [{ name: host, url: urlOn(site, host), policy: undefined, icon: undefined }]
}

/** Apps are behind the proxy of the sign-in pages, and so at its port. */
function urlOn({ authOrigin }: Site, host: string): URL {
  const [scheme = '', authority = ''] = authOrigin.split('//')
  const { port } = parseHostPort(authority) ?? {}
  return new URL(`${scheme}//${host}${port === undefined ? '' : `:${port}`}/`)
}

/** The apps of a page that show all of them: others lead to them by a search. */
const FEW_APPS = 12

/** The apps that a page shows: the first ones, or all that a search finds by their names and hosts. */
export function selectApps(apps: readonly App[], search: string | undefined) {
  const [isMany, text] = [apps.length > FEW_APPS, fold(search ?? '')]
  const matches = apps.filter(({ name, url }) => fold(`${name} ${url.host}`).includes(text))
  const shownApps = search === undefined ? apps.slice(0, FEW_APPS) : matches
  return {
    apps: shownApps,
    search: isMany ? { text: search ?? '', total: apps.length } : undefined,
  }
}

/** A text without what a search does not distinguish: case, accents and the width of letters. */
function fold(text: string): string {
  return text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase().trim()
}
