import { isUnder, parseHost, parseIp } from '@gatehouse/net'
import { Type } from 'typebox'

export const Labels = Type.Record(Type.String(), Type.String())
type Labels = Type.Static<typeof Labels>

/** The part of Docker's list of containers that is read: nothing of an environment. */
export const Container = Type.Object({
  Id: Type.String(),
  Names: Type.Array(Type.String()),
  ImageID: Type.String(),
  Created: Type.Number(),
  Status: Type.String(),
  Labels,
  Ports: Type.Array(Type.Object({ PrivatePort: Type.Integer(), Type: Type.String() })),
  NetworkSettings: Type.Object({
    Networks: Type.Record(Type.String(), Type.Object({ IPAddress: Type.String() })),
  }),
})
export type Container = Type.Static<typeof Container>

/** The hosts of apps: those below the domain, but none that is reserved or below such a host. */
export type Zone = { readonly domain: string; readonly reserved: readonly string[] }

/** A container: its ID is that of its Compose service, and it has the URL of a server while it runs and is healthy. */
export interface App {
  readonly id: string
  readonly name: string
  readonly host: string
  readonly server: string | undefined
}

const NETWORK = 'gatehouse-apps'
const RULE = /^traefik\.http\.routers\.[^.]+\.rule$/i
const PORT = /^traefik\.http\.services\.[^.]+\.loadbalancer\.server\.port$/i
const SCHEME = /^traefik\.http\.services\.[^.]+\.loadbalancer\.server\.scheme$/i
const COUNTING = [/^traefik\.enable$/, RULE, PORT, SCHEME]
const IGNORED =
  'only traefik.enable, a rule, a port and a scheme count, each unlike that of the image; ignored'
/** The router at the entry point with the sign-in. Every router of a file comes first. */
const ROUTER = { entryPoints: ['https'], priority: 1 }
const COMPOSE = 'com.docker.compose.'

/** Reads the labels of a container. One that the image has with the same value may be its maker's: it does not count. */
export function readApp(container: Container, image: Labels | undefined, zone: Zone) {
  const name = (container.Names[0] ?? container.Id).replace(/^\//, '')
  const warnings: string[] = []
  const ownLabels = Object.fromEntries(
    Object.entries(container.Labels).filter(([label, value]) => image && image[label] !== value),
  )
  const ignored = Object.keys(container.Labels)
    .filter((label) => /^traefik\./i.test(label))
    .filter((label) => !(label in ownLabels && COUNTING.some((kind) => kind.test(label))))
  if (ignored.length > 0) warnings.push(`${name}: ${IGNORED}: ${ignored.join(', ')}`)
  // Compose writes all of its labels or none, but some of them into images that it builds, too.
  const compose = `${COMPOSE}config-hash` in ownLabels ? container.Labels : ownLabels
  let app: App | undefined
  // `docker compose run` gives a container the labels of its service.
  if (
    /^(1|t|true)$/i.test(ownLabels['traefik.enable'] ?? '') &&
    compose[`${COMPOSE}oneoff`] !== 'True'
  )
    try {
      const { [`${COMPOSE}project`]: project, [`${COMPOSE}service`]: service } = compose
      const id = project && service ? `${project}/${service}` : container.Id
      app = { id, name, host: hostOf(ownLabels, service ?? name, zone), server: undefined }
      if (/^Up [^()]+( \(healthy\))?$/.test(container.Status))
        app = { ...app, server: serverOf(container, ownLabels) }
    } catch (error) {
      warnings.push(`${name} has no route: ${(error as Error).message}`)
    }
  return { app, warnings }
}

function hostOf(labels: Labels, service: string, { domain, reserved }: Zone): string {
  const rule = onlyOf(labels, RULE)
  const defaultHost = `${service.split(/[^\p{L}\p{N}]+/u).join('-')}.${domain}`
  const ruleHost = rule === undefined ? defaultHost : /^Host\(`([^`]+)`\)$/.exec(rule)?.[1]
  const host = parseHost(ruleHost ?? '')?.name
  if (host === undefined || (rule !== undefined && host !== ruleHost))
    throw new Error(`its rule has to be one host, as in Host(\`${defaultHost}\`)`)
  const isBelow = (parent: string) => isUnder(parent, { name: host })
  if (host === domain || !isBelow(domain) || reserved.some(isBelow))
    throw new Error(`${host} is not below ${domain}, or not for apps: choose another`)
  return host
}

function serverOf(container: Container, labels: Labels): string {
  const address = parseIp(container.NetworkSettings.Networks[NETWORK]?.IPAddress ?? '')
  if (address?.version !== 4) throw new Error(`it has no address in the network ${NETWORK}`)
  const ports = container.Ports.flatMap((port) => (port.Type === 'tcp' ? port.PrivatePort : []))
  const port = onlyOf(labels, PORT) ?? String(Math.min(...ports))
  const scheme = onlyOf(labels, SCHEME) ?? 'http'
  if (!/^[1-9]\d{0,4}$/.test(port) || Number(port) > 65_535 || !/^(https?|h2c)$/.test(scheme))
    throw new Error('its labels have to name a port, and no scheme but http, https or h2c')
  return `${scheme}://${address.text}:${port}`
}

/** The value of the only label of a kind. */
function onlyOf(labels: Labels, kind: RegExp): string | undefined {
  const [first, second] = Object.keys(labels).filter((label) => kind.test(label))
  if (second !== undefined) throw new Error(`${first} and ${second}: keep one`)
  return first && labels[first]
}

/** Makes Traefik's document of apps, from the oldest on. A host stays with the app that had it, even a stopped one. */
export function routeApps(apps: readonly App[], previousHolders: ReadonlyMap<string, string>) {
  const holders = new Map<string, string>()
  for (const { host, id } of apps)
    if (!holders.has(host) || previousHolders.get(host) === id) holders.set(host, id)
  const holds = ({ host, id }: App) => holders.get(host) === id
  const warnings = apps
    .filter((app) => !holds(app))
    .map(({ name, host }) => `${name} has no route: another app has ${host}: choose another`)
  // Traefik refuses whatever is empty, and would then keep the routes of the document before.
  const services: Record<string, object> = { none: { loadBalancer: { passHostHeader: true } } }
  let routers: Record<string, object> | undefined
  for (const [host, hostApps] of Map.groupBy(apps.filter(holds), ({ host }) => host)) {
    const servers = hostApps.flatMap(({ server }) => (server === undefined ? [] : { url: server }))
    if (servers.length === 0) continue
    services[host] = { loadBalancer: { servers } }
    routers ??= {}
    routers[host] = { rule: `Host(\`${host}\`)`, service: host, ...ROUTER }
  }
  return { document: { http: { routers, services } }, holders, warnings }
}
