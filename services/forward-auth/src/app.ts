import { PROFILE_ERRORS } from '@gatehouse/profile'
import {
  appOptions,
  errorReference,
  FASTIFY_ERRORS,
  HTTP_ERRORS,
  health,
  type Metrics,
  type OpenTelemetry,
  openapi,
  type Problem,
  problems,
  requestTelemetry,
  sendPage,
  strictHttp,
  type TlsCredentials,
} from '@gatehouse/service-kit'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import { isNavigation } from './check/kind.ts'
import { FWA_ERRORS, STATUS_OF } from './errors.ts'
import type { Logger } from './log.ts'
import { tlsOptions } from './own-tls.ts'
import { errorPage } from './pages/pages.ts'
import { sessionJwt } from './plugins/session-jwt.ts'
import { CHECK_ROUTES } from './routes/authz.ts'
import { portalRoutes } from './routes/portal.ts'
import { verifyRoute } from './routes/verify.ts'
import type { Service } from './service.ts'
import { VERSION } from './version.ts'

const BODY_LIMIT = 16 * 1024
/** Cookies of a session may have 12 kB, and proxies send headers of their own. */
const HEADER_LIMIT = 48 * 1024
const REQUEST_TIMEOUT = 30_000
/** Every error that an answer may be about. */
const ERRORS = [FWA_ERRORS, PROFILE_ERRORS, HTTP_ERRORS, FASTIFY_ERRORS]

export interface AppDeps {
  readonly service: Service
  readonly log: Logger
  readonly metrics?: Metrics
  readonly traceRequests?: OpenTelemetry['traceRequests'] | undefined
  /** Whether checks that let a request pass have a line in the log. */
  readonly logAllowedChecks?: boolean
  /** What it serves HTTPS with; absent: HTTP. */
  readonly tls?: TlsCredentials
  /** CA of client certificates, in PEM. */
  readonly clientCa?: string | undefined
}

/** The HTTP surface of forward-auth. It does not listen. */
export async function buildApp(basePath: string, deps: AppDeps): Promise<FastifyInstance> {
  const { service, metrics, traceRequests } = deps
  // Absolute, since a check is answered to hosts that have another page at this path, or none.
  const docsUrl = () => `${service.sites.all[0]?.authOrigin ?? ''}${basePath}/errors`
  const app = createServer(deps, docsUrl)
  app.decorateRequest('checked', undefined)
  await app.register(requestTelemetry, {
    ...(metrics && { metrics }),
    traceRequests,
    fieldsOf: (request) => fieldsOf(service, request),
    // The proxy has a line of what passes, and there is a check for each image of a page.
    hasLine: ({ checked }, { statusCode }) =>
      deps.logAllowedChecks === true || !checked || statusCode !== 200,
  })
  await app.register(problems, { statusOf: STATUS_OF, docsUrl, page: pageFor(service) })
  await app.register(strictHttp, { docsUrl })
  await app.register(errorReference, { path: `${basePath}/errors`, tables: ERRORS })
  await app.register(sessionJwt)
  // What is registered before `openapi` is served and not described.
  await registerPortal(app, `${basePath}/portal/:portal`, service)
  if (basePath !== '') await app.register(verifyRoute, { service, prefix: `${basePath}${VERIFY}` })
  await app.register(openapi, {
    title: 'Gatehouse forward-auth',
    version: VERSION,
    description: 'Single sign-on for what a reverse proxy serves.',
    securitySchemes: SECURITY_SCHEMES,
  })
  await app.register(health, { readiness: () => service.readiness(), metrics, docsUrl })
  await registerPortal(app, `${basePath}/portals/:portal`, service)
  await app.register(verifyRoute, { service, prefix: VERIFY })
  app.addHook('preClose', async () => service.drain())
  await app.ready()
  return app
}

const SECURITY_SCHEMES = {
  sessionToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The session token of the portal.',
  },
  sessionCookie: {
    type: 'apiKey',
    in: 'cookie',
    name: '__Secure-gatehouse.<portal>',
    description: 'The session cookie of the portal.',
  },
} as const

const VERIFY = '/api/portals/:portal'

async function registerPortal(
  app: FastifyInstance,
  prefix: string,
  service: Service,
): Promise<void> {
  for (const routes of [...CHECK_ROUTES, portalRoutes])
    await app.register(routes, { service, prefix })
}

function createServer({ log, tls, clientCa }: AppDeps, docsUrl: () => string): FastifyInstance {
  const http = { maxHeaderSize: HEADER_LIMIT }
  return Fastify({
    ...appOptions(log, { docsUrl }),
    loggerInstance: log as FastifyBaseLogger,
    ...(tls ? { https: { ...tlsOptions(tls, clientCa), ...http } } : { http }),
    bodyLimit: BODY_LIMIT,
    requestTimeout: REQUEST_TIMEOUT,
    routerOptions: { ignoreTrailingSlash: true },
  }) as unknown as FastifyInstance
}

/** What a line of the log says beside the request itself: the portal, the host that was asked for, and who asked. */
function fieldsOf(service: Service, { checked, params }: FastifyRequest) {
  const { portal = '' } = (params ?? {}) as { portal?: string }
  const { provider, id } = checked?.session?.profile ?? {}
  return {
    portal: service.portals().has(portal) ? portal : undefined,
    host: checked?.forwarded.authority,
    caller: provider === undefined ? undefined : `${provider}:${id}`,
  }
}

/** People get a page where programs get problem+json. */
function pageFor(service: Service) {
  return (problem: Problem, request: FastifyRequest, reply: FastifyReply) => {
    if (!isNavigation(request.method, request.headers)) return undefined
    const { portal: name = '' } = (request.params ?? {}) as { portal?: string }
    const portal = service.portals().get(name)
    const { status, title, detail = '', loginUrl } = problem as Problem & { loginUrl?: string }
    const page = errorPage({
      ...(portal && { portal }),
      status,
      title,
      text: detail,
      retryHref: loginUrl,
      requestId: request.id,
    })
    return sendPage(reply, status, page)
  }
}
