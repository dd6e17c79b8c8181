import { parseHostPort } from '@gatehouse/net'
import type { Site, Sites } from '../sites.ts'
import { type App, MAX_APPS } from './apps.ts'
import { decide, type Requester } from './decide.ts'
import { readPath } from './paths.ts'
import { admissionFor, exactHosts, type Rule } from './rules.ts'

interface Asked {
  readonly portal: {
    readonly apps: readonly App[] | undefined
    readonly rules: readonly Rule[]
    readonly providers: ReadonlyMap<string, { readonly stepsUp: boolean }>
    readonly preflight: boolean
  }
  /** The person. */
  readonly requester: Requester
  readonly sites: Sites
  readonly clientIp: () => string | undefined
  readonly now: number
}

/**
 * The apps that a person may open: those that the portal lists, or else the hosts that its rules name.
 * Each is decided by what decides a check of it.
 */
export function openableApps(asked: Asked): readonly App[] {
  const apps = asked.portal.apps ?? appsOfRules(asked)
  return apps.filter((app) => mayOpen(app, asked))
}

/** Whether a person may open a page of an app, which need not be one of those that the portal lists. */
export function mayOpenPage(url: URL, asked: Asked): boolean {
  const app = asked.portal.apps?.find((each) => each.url.origin === url.origin)
  return mayOpen({ url, policy: app?.policy }, asked)
}

function mayOpen(
  { url, policy }: Pick<App, 'url' | 'policy'>,
  { portal, requester, sites, clientIp, now }: Asked,
): boolean {
  const found = sites.find(url.host)
  if (!found || found.isAuthHost) return false
  const { host } = found
  const path = readPath(`${url.pathname}${url.search}`)
  const request = { method: 'GET', host, path, clientIp }
  const { outcome } = decide({
    portal,
    host,
    requester,
    admission: admissionFor(portal.rules, request),
    routePolicy: () => policy,
    kind: () => 'navigation',
    now,
  })
  if (outcome === 'step-up') return [...portal.providers.values()].some(({ stepsUp }) => stepsUp)
  return outcome === 'allow' || outcome === 'anonymous'
}

function appsOfRules({ portal, sites }: Asked): App[] {
  const hosts = [...new Set(portal.rules.flatMap(({ config }) => exactHosts(config)))]
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
