import cookie from '@fastify/cookie'
import auth from '@gatehouse/auth-core'
import { createFetch as boundedFetch, type LookupAll } from '@gatehouse/net'
import { PROFILE_ERRORS } from '@gatehouse/profile'
import { clock } from '@gatehouse/service-kit/clock'
import {
  appOptions,
  FASTIFY_ERRORS,
  HTTP_ERRORS,
  health,
  openapi,
  type Problem,
  problems,
  strictHttp,
  trust,
} from '@gatehouse/service-kit/http'
import { draining, loops, reload } from '@gatehouse/service-kit/lifecycle'
import { errorReference, languageOf, sendPage } from '@gatehouse/service-kit/pages'
import {
  type Logger,
  type Metrics,
  type OpenTelemetry,
  requestTelemetry,
} from '@gatehouse/service-kit/telemetry'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { sessionsApi } from './account/api.ts'
import { backChannelRoutes } from './account/back-channel.ts'
import { logoutRoutes } from './account/logout.ts'
import { profileRoutes } from './account/profile.ts'
import { accountRoutes } from './account/routes.ts'
import { bearer, verifyRoute } from './account/verify.ts'
import { approvals } from './approvals/approvals.ts'
import { approvalRoutes } from './approvals/routes.ts'
import { audit } from './audit/audit.ts'
import { backlog, takeTurns } from './backlog.ts'
import { check, checkRoutes, describeCheck, isRoutine } from './check/check.ts'
import type { ForwardAuthConfig } from './config/schema.ts'
import { probes } from './doctor/probes.ts'
import { ERRORS, STATUS_OF } from './errors.ts'
import { events } from './events.ts'
import { logLimit } from './log-limit.ts'
import { mcpProxyRoutes } from './mcp-proxy/routes.ts'
import { openStreams } from './mcp-proxy/streams.ts'
import { upstreams } from './mcp-proxy/upstreams.ts'
import { agents } from './oauth/agents.ts'
import { authorizeRoutes } from './oauth/authorize.ts'
import { clients } from './oauth/clients.ts'
import { discoveryRoutes, resourceRoutes } from './oauth/discovery.ts'
import { metadataRoute } from './oauth/metadata.ts'
import { tokenRoutes } from './oauth/token.ts'
import { httpsOptions, ownTls } from './own-tls.ts'
import { errorPage } from './pages/pages.ts'
import { type PortalsOptions, portals } from './portal/portals.ts'
import { assertions } from './session/assertion.ts'
import { keys } from './session/keys.ts'
import { sessions } from './session/sessions.ts'
import { callbackRoutes } from './sign-in/callback.ts'
import { recordErrorPage } from './sign-in/login.ts'
import { logins } from './sign-in/logins.ts'
import { returnRoute } from './sign-in/return-to-app.ts'
import { homeRoute, signInRoutes } from './sign-in/sign-in.ts'
import { sites } from './sites.ts'
import { store } from './store/open.ts'
import type { StoreOptions } from './store/store.ts'
import { VERSION } from './version.ts'
import { PAGES } from './web/documented.ts'
import { faviconRoute, imageRoutes } from './web/images.ts'
import { portalFor } from './web/reader.ts'

const METADATA = 'oauth-authorization-server'
const BODY_LIMIT = 16 * 1024
/** Cookies of apps may have 12 kB, and proxies send headers of their own. */
const HEADER_LIMIT = 48 * 1024
const REQUEST_TIMEOUT = 30_000
const ERROR_TABLES = [ERRORS, PROFILE_ERRORS, HTTP_ERRORS, FASTIFY_ERRORS]

/** The parts that the service gets from outside; tests replace them. */
export interface AppDeps extends Pick<StoreOptions, 'clock' | 'monotonic'> {
  readonly log: Logger
  /** Default: that of the net package. */
  readonly createFetch?: PortalsOptions['createFetch'] | undefined
  /** Finds the addresses of trusted proxies. Default: that of the system. */
  readonly lookup?: LookupAll | undefined
  readonly metrics?: Metrics | undefined
  readonly traceRequests?: OpenTelemetry['traceRequests'] | undefined
}

/**
 * Builds the service. It does not listen, and hooks may still be added.
 *
 * @throws FwaError FWA_KEY_UNUSABLE; StoreError; ConfigError CONFIG_TLS_INVALID
 */
export async function buildApp(config: ForwardAuthConfig, deps: AppDeps): Promise<FastifyInstance> {
  const { basePath, tls } = config.server
  const http = { maxHeaderSize: HEADER_LIMIT }
  const app = Fastify({
    ...appOptions(deps.log),
    ...(tls ? { https: { ...httpsOptions(tls), ...http } } : { http }),
    bodyLimit: BODY_LIMIT,
    requestTimeout: REQUEST_TIMEOUT,
    routerOptions: { ignoreTrailingSlash: true },
  }) as unknown as FastifyInstance
  try {
    const { storage } = config
    await app.register(store, { storage, clock: deps.clock, monotonic: deps.monotonic })
    await app.register(clock, { clock: app.authStore.clock })
    await app.register(reload)
    await app.register(ownTls, config.server)
    await registerHttp(app, config, deps)
    await registerServices(app, config, deps)
    await registerRoutes(app, basePath)
    await app.register(draining)
    // Loaded only if configured, because the libraries for gRPC are large.
    if (config.server.grpc) await app.register((await import('./grpc/listener.ts')).grpc, config)
    return app
  } catch (error) {
    await app.close()
    throw error
  }
}

async function registerHttp(
  app: FastifyInstance,
  { server: { basePath }, log }: ForwardAuthConfig,
  { metrics, traceRequests }: AppDeps,
): Promise<void> {
  // Absolute, because checks are answered for hosts that have no such page, or another one.
  const docsUrl = () => `${app.sites.list[0]?.authOrigin ?? ''}${basePath}/errors`
  await app.register(requestTelemetry, {
    ...(metrics && { metrics }),
    traceRequests,
    fieldsOf: describeCheck,
    ...(log.checks === 'refused' && { isRoutine }),
  })
  await app.register(problems, { statusOf: STATUS_OF, docsUrl, page: problemPage })
  await app.register(strictHttp)
  await app.register(errorReference, { path: `${basePath}/errors`, tables: ERROR_TABLES })
  // Before `openapi`, which describes every route that it may: other spellings are not documented.
  app.addHook('onRoute', (route) => {
    const isAlias =
      route.url.startsWith(`${basePath}/portal/`) ||
      (basePath !== '' && route.url.startsWith(`${basePath}/api/`))
    if (isAlias) route.schema = { ...route.schema, hide: true }
  })
  await app.register(openapi, {
    title: 'Gatehouse forward-auth',
    version: VERSION,
    description: 'Single sign-on for apps behind a reverse proxy.',
    securitySchemes: SECURITY_SCHEMES,
    hiddenTag: PAGES,
  })
  await app.register(health, { metrics })
  await app.register(auth, { bearer })
}

async function registerServices(
  app: FastifyInstance,
  config: ForwardAuthConfig,
  { metrics, monotonic, createFetch = boundedFetch, lookup }: AppDeps,
): Promise<void> {
  await app.register(logLimit)
  await app.register(backlog, { monotonic })
  await app.register(keys, config)
  await app.register(sites, config)
  await app.register(trust, { ...config, lookup })
  await app.register(logins)
  await app.register(loops)
  await app.register(events, config)
  // A reload prepares this one last: it opens connections, which would have to be closed.
  await app.register(portals, { ...config, createFetch, findAgent })
  await app.register(assertions)
  await app.register(audit, { ...config, metrics })
  await app.register(sessions, { metrics })
  await app.register(clients, { createFetch })
  await app.register(agents)
  await app.register(approvals)
  await app.register(probes)
  await app.register(check, { metrics })
  await app.register(upstreams)
  await app.register(openStreams, { metrics })
}

/** The agents know the portals, whose checks find agents by this. */
const findAgent: PortalsOptions['findAgent'] = (token, resource, request) => {
  const check = request as FastifyRequest
  return check.server.agents.find(token, resource, check)
}

async function registerRoutes(app: FastifyInstance, basePath: string): Promise<void> {
  for (const prefix of [`${basePath}/portals/:portal`, `${basePath}/portal/:portal`]) {
    await app.register(checkRoutes, { prefix })
    await app.register(discoveryRoutes, { prefix })
    await app.register(imageRoutes, { prefix })
    await app.register(pageRoutes, { prefix })
    await app.register(backChannelRoutes, { prefix })
  }
  const portal = `${basePath}/portals/:portal`
  await app.register(authorizationServer, { prefix: portal })
  await app.register(mcpProxyRoutes, { prefix: portal })
  // RFC 8414 section 3.1, and where some clients look besides.
  for (const prefix of [`/.well-known/${METADATA}${portal}`, `${portal}/.well-known/${METADATA}`])
    await app.register(metadataRoute, { prefix })
  await app.register(homeRoute, { prefix: basePath })
  await app.register(faviconRoute)
  await app.register(resourceRoutes, { prefix: '/.well-known/oauth-protected-resource' })
  for (const prefix of new Set(['', basePath]))
    for (const route of [verifyRoute, sessionsApi])
      await app.register(route, { prefix: `${prefix}/api/portals/:portal` })
}

/** The pages of a portal. Cookies are parsed and written here only; checks read their own. */
async function pageRoutes(app: FastifyInstance): Promise<void> {
  await app.register(cookie)
  for (const routes of [signInPages, logoutRoutes, profileRoutes, accountRoutes, approvalRoutes])
    await app.register(routes)
}

async function signInPages(app: FastifyInstance): Promise<void> {
  takeTurns(app)
  app.addHook('onError', recordErrorPage)
  for (const routes of [signInRoutes, callbackRoutes, returnRoute]) await app.register(routes)
}

async function authorizationServer(app: FastifyInstance): Promise<void> {
  takeTurns(app)
  for (const routes of [authorizeRoutes, tokenRoutes]) await app.register(routes)
}

const SECURITY_SCHEMES = {
  program: {
    type: 'http',
    scheme: 'bearer',
    description: 'A token, or `APIKey <key>`, of `callers` of the portal.',
  },
  sessionToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The session token of the portal.',
  },
  sessionCookie: {
    type: 'apiKey',
    in: 'cookie',
    name: '__Host-gatehouse.<portal>',
    description: 'The session cookie of the portal, at its sign-in host.',
  },
} as const

/** A problem with the members that errors of sign-ins, and of the requests of clients, have. */
type PersonProblem = Problem & { loginUrl?: string; clientUrl?: string; providerSays?: string }

/** People get a page instead of problem+json. */
function problemPage(problem: Problem, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { status, code, loginUrl, clientUrl, providerSays } = problem as PersonProblem
  const retryAfter = Number(reply.getHeader('retry-after') ?? 0)
  const page = errorPage({
    ...portalFor(request),
    language: languageOf(request),
    status,
    code,
    problem,
    providerSays,
    // Where waiting helps, the same address is tried again.
    retryHref: loginUrl ?? (retryAfter > 0 && request.method === 'GET' ? '' : undefined),
    retryAfter,
    clientHref: clientUrl,
    requestId: request.id,
  })
  return sendPage(reply, status, page)
}
