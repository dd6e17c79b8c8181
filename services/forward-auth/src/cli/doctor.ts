import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { parseHostPort } from '@gatehouse/net'
import { localHost, readChoice, UsageError } from '@gatehouse/service-kit/program'
import { PROXIES, PROXY_NAMES, type ProxyName } from '@gatehouse/service-kit/proxies'
import type { FastifyInstance } from 'fastify'
import type { AppDeps } from '../app.ts'
import type { ForwardAuthConfig } from '../config/schema.ts'
import { type ClientOptions, createClient, type HttpClient } from '../doctor/client.ts'
import { diagnose, ECHO, type Examination, type Finding } from '../doctor/diagnose.ts'
import { examine, type SignedIn } from '../doctor/examine.ts'
import { examineServer } from '../doctor/lies.ts'
import { createMcpClient } from '../doctor/mcp-client.ts'
import { remedyFor } from '../doctor/remedies.ts'
import { examineResources } from '../doctor/resource.ts'
import { examineSignOut } from '../doctor/sign-out.ts'
import { endSessions } from '../session/ends.ts'
import type { Session } from '../session/session.ts'
import type { SiteHost } from '../sites.ts'
import { appCookieName } from '../web/cookies.ts'
import type { Realm } from '../web/realm.ts'
import { operator, startAside } from './aside.ts'
import { KEY, onePortal, readPerson } from './person.ts'

type Option = 'portal' | 'proxy' | 'resolve' | 'ca' | 'as' | 'tool'

/** The app to ask, and the options of the command. */
export type DoctorOptions = { readonly url: string; readonly insecure?: boolean } & Readonly<
  Partial<Record<Option, string | undefined>>
>

/**
 * Asks an app through its proxy, and names what is wrong with the proxy and which line to change.
 * The service has to run on this machine. Rejects with the report if there is a mistake.
 *
 * @throws UsageError
 */
export async function doctor(
  config: ForwardAuthConfig,
  options: DoctorOptions,
  deps: Pick<AppDeps, 'clock'> = {},
): Promise<string> {
  const url = readUrl(options.url)
  const { ca: caFile, as: claimsFile, insecure, tool } = options
  if (claimsFile?.startsWith(KEY))
    throw new UsageError(
      `doctor does not know the keys: give --as a file with the claims of a person, not ${claimsFile}`,
    )
  const ca = caFile === undefined ? undefined : await readFile(caFile, 'utf8')
  const ask = createClient({ address: readAddress(options.resolve), insecure, ca })
  if (tool !== undefined) return examineServer(createMcpClient(url, ask), tool)
  const app = await startAside(config, deps)
  await using resources = new AsyncDisposableStack()
  resources.defer(() => app.close())
  return await examineHost(config, options, { app, url, ask, resources })
}

interface Doctor {
  readonly app: FastifyInstance
  readonly url: URL
  readonly ask: HttpClient
  /** What is ended afterwards. */
  readonly resources: AsyncDisposableStack
}

async function examineHost(
  config: ForwardAuthConfig,
  options: DoctorOptions,
  { app, url, ask, resources }: Doctor,
): Promise<string> {
  const proxy = readChoice('--proxy', options.proxy, PROXY_NAMES)
  const siteHost = findSite(app, url)
  const { site } = siteHost
  const portal = onePortal(app.portals.values(), options.portal)
  const { programs } = portal.gate
  const resourceFindings = await Array.fromAsync(examineResources(portal.gate, url, ask))
  // There may be nothing else at the host.
  if (programs.resources.some((resource) => resource.upstream && resource.url === url.href))
    return report(url.href, proxy, resourceFindings, '')
  const session = await signInPerson(config, app, { portal, site }, url, options)
  if (session) {
    const ender = { endedBy: 'operator', actor: operator() } as const
    resources.defer(() => endSessions(app, [{ sid: session.sid }], ender).then(() => {}))
  }
  const examination = await examine({
    app: url,
    site,
    portal,
    keys: app.keys.login,
    now: app.clock.now,
    ask,
    // On this machine, as for the health check.
    askService: createClient({ insecure: true }),
    service: serviceUrl(config),
    signedIn: session && (await signInAside(app, url, siteHost, session)),
  })
  const hint = examination.app?.signedIn.body.includes(ECHO) ? '' : APP_UNSEEN
  const usedProxy = proxy ?? proxyOf(examination)
  const signOutFindings = await examineSignOut({ portal, site })
  // Some proxies cannot remove one cookie; their guides say so.
  const isCurable = ({ mistake }: Finding) =>
    mistake !== 'session-shown' || !usedProxy || mistake in PROXIES[usedProxy].remedies
  const proxyFindings = diagnose(examination).filter(isCurable)
  const findings = [...proxyFindings, ...signOutFindings, ...resourceFindings]
  return report(url.origin, usedProxy, findings, hint)
}

/** A session of the person whose claims are given, which the audit trail has; undefined for nobody. */
async function signInPerson(
  config: ForwardAuthConfig,
  app: FastifyInstance,
  realm: Realm,
  { host }: URL,
  { as: claimsFile }: DoctorOptions,
): Promise<Session | undefined> {
  if (claimsFile === undefined) return undefined
  const { name } = realm.portal
  const { providers = [] } = config.portals.find((portal) => portal.name === name) ?? {}
  const profile = await readPerson(claimsFile, providers, { sub: 'gatehouse-doctor' })
  const client = 'gatehouse-auth doctor'
  const browser = { userAgent: client, address: undefined }
  const signedIn = { profile, tokens: {} }
  const session = await app.sessions.begin({ ...realm, signedIn, browser })
  if (!session) throw new UsageError('the session of --as could not be stored')
  const ender = { actor: operator() }
  const event = { event: 'sign-in', portal: name, host, profile, client, ender } as const
  app.auditTrail.record(undefined, event)
  return session
}

function findSite({ sites }: FastifyInstance, { host }: URL): SiteHost {
  const siteHost = sites.find(host)
  if (siteHost && !siteHost.isAuthHost) return siteHost
  throw new UsageError(`${host} is not an app on one of the configured domains`)
}

/** The cookie of a session at an app, and what a check of it answers. */
async function signInAside(
  app: FastifyInstance,
  url: URL,
  { site }: SiteHost,
  session: Session,
): Promise<SignedIn> {
  const { portal } = session
  const token = app.sessions.appToken(session, site, url.host)
  const cookie = `${appCookieName({ name: portal }, site, url.host)}=${token}`
  const { statusCode, headers } = await app.inject({
    url: `${app.sites.list[0]?.basePath}/portals/${portal}`,
    headers: {
      cookie,
      accept: 'application/json',
      'x-forwarded-method': 'GET',
      'x-forwarded-proto': url.protocol.slice(0, -1),
      'x-forwarded-host': url.host,
      'x-forwarded-uri': url.pathname,
      'x-forwarded-for': '127.0.0.1',
    },
  })
  if (statusCode !== 200)
    throw new UsageError(`the portal ${portal} does not admit the person of --as (${statusCode})`)
  const names = app.portals.get(portal)?.gate.headerNames ?? []
  return {
    cookie,
    identity: Object.fromEntries(names.map((name) => [name, String(headers[name] ?? '')])),
  }
}

function serviceUrl({ server: { host, port, tls } }: ForwardAuthConfig): URL {
  const name = localHost(host)
  return new URL(`${tls ? 'https' : 'http'}://${isIP(name) === 6 ? `[${name}]` : name}:${port}`)
}

function readUrl(text: string): URL {
  const url = URL.parse(text)
  if (url && /^https?:$/.test(url.protocol)) return url
  throw new UsageError('the doctor needs the URL of an app, such as https://app.example.com')
}

function readAddress(text: string | undefined): ClientOptions['address'] {
  if (text === undefined) return undefined
  const parsed = parseHostPort(text)
  if (parsed) return { host: parsed.host.name, port: parsed.port }
  throw new UsageError('--resolve must be an address, such as 127.0.0.1 or 127.0.0.1:8443')
}

/** The proxy, by the routes of its checks, a header that no other one sends, or the header Server. */
function proxyOf({ page, program, auth }: Examination): ProxyName | undefined {
  const checks = [...page.checks, ...program.checks]
  const byRoute = PROXY_NAMES.find((proxy) => checks.some(({ dialect }) => dialect === proxy))
  if (byRoute) return byRoute
  const byMark = PROXY_NAMES.find((proxy) => {
    const { mark } = PROXIES[proxy]
    return mark && checks.some(({ headers }) => headers[mark] !== undefined)
  })
  if (byMark) return byMark
  const servers = [page, program, auth].map(({ answer }) => answer.headers.server?.toLowerCase())
  return PROXY_NAMES.find((proxy) => servers.some((server) => server?.startsWith(proxy)))
}

const APP_UNSEEN = `
Not checked: what the app receives. Let an app answer that tells its headers, such as traefik/whoami,
and name a file with the claims of a person: --as claims.json
`

function report(
  place: string,
  proxy: ProxyName | undefined,
  findings: readonly Finding[],
  hint: string,
): string {
  const behind = proxy ? ` behind ${proxy}` : ''
  if (findings.length === 0) return `${place}${behind}: no mistake found\n${hint}`
  const count = findings.length === 1 ? '1 mistake' : `${findings.length} mistakes`
  const unknown = proxy ? '' : '\nName the proxy to see which line to change: --proxy nginx\n'
  const lines = findings.map(({ mistake, text }, i) => {
    const remedy = remedyFor(mistake, proxy)
    return `${i + 1}. ${text}\n${remedy === undefined ? '' : `   Look at: ${remedy}\n`}`
  })
  throw new Error(`${place}${behind}: ${count}\n\n${lines.join('')}${unknown}${hint}`.trimEnd())
}
