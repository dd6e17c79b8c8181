import { ACME_ERRORS } from '@gatehouse/acme'
import auth, { AUTH_ERRORS } from '@gatehouse/auth-core'
import { PKI_ERRORS } from '@gatehouse/pki'
import {
  appOptions,
  errorReference,
  FASTIFY_ERRORS,
  forwardedAddresses,
  HTTP_ERRORS,
  health,
  type Metrics,
  type OpenTelemetry,
  openapi,
  problems,
  requestTelemetry,
  serverTlsOptions,
  strictHttp,
  type TlsCredentials,
  trustProxy,
} from '@gatehouse/service-kit'
import Fastify, { type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import { pluginOptionsOf } from './config/auth.ts'
import type { CertServiceConfig } from './config/schema.ts'
import { CERT_ERRORS, STATUS_OF } from './errors.ts'
import type { Logger } from './log.ts'
import { callerOf } from './routes/access.ts'
import { caRoutes } from './routes/ca.ts'
import { certificateRoutes } from './routes/certificate.ts'
import { certificatesRoute } from './routes/certificates.ts'
import { challengeRoute } from './routes/challenge.ts'
import { SECURITY_SCHEMES } from './routes/documented.ts'
import { inventoryProblem, inventoryRoutes } from './routes/inventory.ts'
import { orderRoute } from './routes/orders.ts'
import { proxyRoutes } from './routes/proxy.ts'
import { renewRoute } from './routes/renew.ts'
import { revokeRoute } from './routes/revoke.ts'
import type { Service } from './service.ts'
import { VERSION } from './version.ts'

const BODY_LIMIT = 64 * 1024
const REQUEST_TIMEOUT = 30_000
/** Every error that an answer may be about. */
const ERRORS = [CERT_ERRORS, AUTH_ERRORS, PKI_ERRORS, ACME_ERRORS, HTTP_ERRORS, FASTIFY_ERRORS]
const ERRORS_PATH = '/errors'

export interface AppDeps {
  readonly service: Service
  readonly log: Logger
  readonly metrics?: Metrics
  readonly traceRequests?: OpenTelemetry['traceRequests'] | undefined
  /** What ages of token keys are measured in, as in `ServiceDeps`. */
  readonly elapsed?: (() => number) | undefined
  /** What it serves HTTPS with; absent: HTTP. */
  readonly tls?: TlsCredentials
}

/** The HTTP surface of cert-service. It does not listen. */
export async function buildApp(
  config: Pick<CertServiceConfig, 'auth'> & {
    readonly server?: Pick<CertServiceConfig['server'], 'trustedProxies'>
  },
  deps: AppDeps,
): Promise<FastifyInstance> {
  const { service, log, metrics, traceRequests, elapsed } = deps
  const app = createServer(deps, { trusted: config.server?.trustedProxies, docsUrl: ERRORS_PATH })
  await app.register(forwardedAddresses)
  await app.register(requestTelemetry, {
    ...(metrics && { metrics }),
    traceRequests,
    fieldsOf: (request) => ({ caller: callerOf(request) }),
  })
  await app.register(problems, {
    statusOf: STATUS_OF,
    docsUrl: ERRORS_PATH,
    page: inventoryProblem,
  })
  await app.register(strictHttp, { docsUrl: ERRORS_PATH })
  await app.register(errorReference, { path: ERRORS_PATH, tables: ERRORS })
  await app.register(auth, {
    ...pluginOptionsOf(config.auth),
    now: service.clock.now,
    ...(elapsed && { elapsed }),
    log,
  })
  await app.register(openapi, {
    title: 'Gatehouse cert-service',
    version: VERSION,
    description: 'TLS certificates over HTTP.',
    securitySchemes: SECURITY_SCHEMES,
  })
  await app.register(health, {
    readiness() {
      const { degraded, ...state } = service.readiness()
      const issuers = app.callers.status().degraded.map((issuer) => `issuer ${issuer}`)
      return { ...state, degraded: [...issuers, ...degraded] }
    },
    metrics,
    docsUrl: ERRORS_PATH,
  })
  for (const routes of [
    certificateRoutes,
    renewRoute,
    revokeRoute,
    orderRoute,
    certificatesRoute,
    proxyRoutes,
    caRoutes,
    inventoryRoutes,
  ])
    await app.register(routes, { service })
  app.addHook('preClose', async () => service.drain())
  await app.ready()
  return app
}

/** The listener of `server.plainHttp`: what relying software fetches, and nothing else. */
export async function buildPlainApp({ service, log }: AppDeps): Promise<FastifyInstance> {
  const app = createServer({ service, log }, { trusted: [] })
  await app.register(requestTelemetry, {})
  await app.register(problems, { statusOf: STATUS_OF })
  await app.register(strictHttp, {})
  await app.register(caRoutes, { service })
  await app.register(challengeRoute, { service })
  return app
}

function createServer(
  { log, tls }: AppDeps,
  { trusted, docsUrl }: { trusted: readonly string[] | undefined; docsUrl?: string },
): FastifyInstance {
  const app = Fastify({
    ...appOptions(log, { ...(docsUrl !== undefined && { docsUrl }) }),
    loggerInstance: log as FastifyBaseLogger,
    ...(tls && { https: serverTlsOptions(tls) }),
    trustProxy: trustProxy(trusted),
    bodyLimit: BODY_LIMIT,
    requestTimeout: REQUEST_TIMEOUT,
    routerOptions: { maxParamLength: 1024 },
  })
  app.removeContentTypeParser('text/plain')
  return app
}
