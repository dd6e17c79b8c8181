import type { Events } from '@gatehouse/issuance'
import type { LookupAll } from '@gatehouse/net'
import { type Clock, clock } from '@gatehouse/service-kit/clock'
import { receiversOf } from '@gatehouse/service-kit/events'
import {
  appOptions,
  FASTIFY_ERRORS,
  forwardedAddresses,
  HTTP_ERRORS,
  health,
  openapi,
  type Problem,
  problems,
  strictHttp,
  trust,
} from '@gatehouse/service-kit/http'
import { draining, loops, reload } from '@gatehouse/service-kit/lifecycle'
import { errorReference, sendPage } from '@gatehouse/service-kit/pages'
import {
  type Logger,
  type Metrics,
  type OpenTelemetry,
  requestTelemetry,
} from '@gatehouse/service-kit/telemetry'
import { serverTlsOptions } from '@gatehouse/service-kit/tls'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import fp from 'fastify-plugin'
import { acmeApiRoutes } from './acme-server/api.ts'
import { callerChanges } from './acme-server/caller-changes.ts'
import { acmeRoutes } from './acme-server/routes.ts'
import { type AcmeServerOptions, acmeServer } from './acme-server/server.ts'
import { certificateActionRoutes } from './actions/routes.ts'
import { audit } from './audit.ts'
import { certificatePageRoutes } from './certificate-page/routes.ts'
import { type CertServiceConfig, isPlain } from './config/schema.ts'
import { ERROR_TABLES, STATUS_OF } from './errors.ts'
import { events } from './events/outbox.ts'
import { incidentRoutes } from './incidents/routes.ts'
import { inventoryRoutes } from './inventory/routes.ts'
import { dryRuns } from './issuance/dry-run.ts'
import { issuance } from './issuance/issuance.ts'
import { type IssuersOptions, issuers } from './issuance/issuers.ts'
import { upkeep } from './issuance/upkeep.ts'
import { listeners } from './lifecycle/listeners.ts'
import { ownTls } from './lifecycle/own-tls.ts'
import { certGauges, certMetrics } from './metrics.ts'
import { mtls } from './mtls/mtls.ts'
import { ERRORS_PATH } from './pages/links.ts'
import { problemPage } from './pages/problem.ts'
import { type AccessOptions, access } from './policy/access.ts'
import { isRoutine, logFields } from './policy/authorize.ts'
import { type ProberOptions, prober } from './probe/prober.ts'
import { proxyRoutes } from './proxy/routes.ts'
import { requestPageRoutes } from './request-page/routes.ts'
import { rootHolders } from './root-holders.ts'
import { caRoutes, challengeRoute } from './routes/ca.ts'
import { certificateRoutes } from './routes/certificate.ts'
import { probeRoutes } from './routes/probe.ts'
import { renewRoutes } from './routes/renew.ts'
import { rollRoutes } from './routes/roll.ts'
import { statusRoutes } from './routes/status.ts'
import { withdrawRoutes } from './routes/withdraw.ts'
import { SECURITY_SCHEMES } from './schemas.ts'
import { clockOf, type StoreOptions, store } from './store.ts'
import { VERSION } from './version.ts'
import { signInRoutes } from './visitors/routes.ts'
import { readerOf, visitors } from './visitors/visitors.ts'

const BODY_LIMIT = 64 * 1024
const REQUEST_TIMEOUT = 30_000

/** The parts that are not configured; tests replace them. */
export interface AppDeps extends Pick<StoreOptions, 'elapsed' | 'isNew'> {
  readonly log: Logger
  readonly clock?: Clock
  readonly metrics?: Metrics
  readonly traceRequests?: OpenTelemetry['traceRequests'] | undefined
  /** Finds the addresses of trusted proxies, and of what is looked at. Default: that of the system. */
  readonly lookup?: LookupAll | undefined
  readonly random?: () => number
  /** Looks at what a server serves. */
  readonly look?: ProberOptions['look']
  readonly openStore?: StoreOptions['open']
  readonly issuer?: IssuersOptions['fallback']
  readonly createSolver?: IssuersOptions['createSolver']
  readonly events?: Events
  /** The ports at which devices are asked for answers to challenges. */
  readonly proofPorts?: AcmeServerOptions['ports']
}

/**
 * Builds cert-service. It is open then, but does not listen.
 * @throws CertError, PkiError, ConfigError, AuthError; nothing stays open
 */
export async function buildApp(config: CertServiceConfig, deps: AppDeps): Promise<FastifyInstance> {
  const { server, storage } = config
  const { createSolver, elapsed, isNew, issuer: fallback, metrics, random = Math.random } = deps
  const receivers = receiversOf(config.events)
  const app = createServer(deps, server, (address) => app.trust.isProxy(address))
  try {
    await registerHttp(app, deps)

    await app.register(store, { storage, server, isNew, elapsed, open: deps.openStore })
    await app.register(clock, { clock: deps.clock ?? clockOf(app.store) })
    await app.register(audit)
    await app.register(certMetrics, { metrics, issuers: config.issuers })
    await app.register(issuers, { ca: config.ca, issuers: config.issuers, fallback, createSolver })
    await app.register(loops)
    await app.register(events, { receivers, events: deps.events })
    await app.register(issuance, { ...config, random })
    await app.register(dryRuns)
    await app.register(certGauges, { metrics, issuers: config.issuers, receivers })
    await registerWork(app, config, { ...deps, random })
    await app.register(ownTls, { server })
    await app.register(listeners, { ...config, buildPlain: () => buildPlainApp(app, deps) })

    await registerCallers(app, config, deps)
    await app.register(draining)
    await app.ready()
    return app
  } catch (error) {
    await app.close()
    throw error
  }
}

async function registerWork(
  app: FastifyInstance,
  config: CertServiceConfig,
  { random, lookup, look }: Pick<AppDeps, 'lookup' | 'look'> & { readonly random: () => number },
): Promise<void> {
  await app.register(upkeep, { ...config, random })
  await app.register(prober, { ...config, random, lookup, look })
}

async function registerCallers(
  app: FastifyInstance,
  config: CertServiceConfig,
  { proofPorts, elapsed, lookup }: AppDeps,
): Promise<void> {
  await app.register(rootHolders)
  await app.register(acmeServer, { ...config, ports: proofPorts })
  await registerApi(app, { ...config, elapsed }, { server: config.server, lookup })
  await app.register(callerChanges)
}

/** Stand in for what no route uses before the first request. */
const absent = ['store', 'issuers', 'issuance'].map((name) =>
  fp(async () => {}, { name: `cert-service/${name}` }),
)

/** The routes of cert-service without anything behind them, for their documentation. */
export async function buildApi(options: AccessOptions, deps: AppDeps): Promise<FastifyInstance> {
  const app = createServer(deps, { tls: 'off' }, () => false)
  await registerHttp(app, deps)
  await app.register(clock, {})
  for (const plugin of absent) await app.register(plugin)
  await registerApi(app, options)
  return app
}

/** The app of `server.plainHttp`: certificates and lists of the CA, and responses to challenges. */
export async function buildPlainApp(app: FastifyInstance, { log }: AppDeps) {
  const plain = createServer({ log }, { tls: 'off' }, () => false)
  await plain.register(requestTelemetry, {})
  await plain.register(problems, { statusOf: STATUS_OF })
  await plain.register(strictHttp)
  plain.decorate('ca', app.ca)
  plain.decorate('rootHolders', app.rootHolders)
  plain.decorate('challenges', app.challenges)
  await plain.register(caRoutes)
  await plain.register(challengeRoute)
  return plain
}

function createServer(
  { log }: AppDeps,
  { tls }: Pick<CertServiceConfig['server'], 'tls'>,
  isProxy: (address: string) => boolean,
): FastifyInstance {
  const app = Fastify({
    ...appOptions(log),
    loggerInstance: log as FastifyBaseLogger,
    // The plugin of its own TLS provides the credentials.
    ...(!isPlain(tls) && { https: serverTlsOptions() }),
    trustProxy: isProxy,
    bodyLimit: BODY_LIMIT,
    requestTimeout: REQUEST_TIMEOUT,
    // The longest SPIFFE ID, of which `/` and `:` may be escaped.
    routerOptions: { maxParamLength: 3 * 2048 },
  })
  app.removeContentTypeParser('text/plain')
  return app
}

async function registerHttp(app: FastifyInstance, deps: AppDeps): Promise<void> {
  const { metrics, traceRequests } = deps
  await app.register(reload)
  await app.register(forwardedAddresses)
  const telemetry = { traceRequests, fieldsOf: logFields, isRoutine }
  await app.register(requestTelemetry, { ...(metrics && { metrics }), ...telemetry })
  await app.register(problems, {
    statusOf: STATUS_OF,
    docsUrl: ERRORS_PATH,
    page: sendProblemPage,
  })
  await app.register(strictHttp)
  const tables = [...ERROR_TABLES, HTTP_ERRORS, FASTIFY_ERRORS]
  await app.register(errorReference, { path: ERRORS_PATH, tables })
  await app.register(openapi, {
    title: 'Gatehouse cert-service',
    version: VERSION,
    description: 'TLS certificates over HTTP.',
    securitySchemes: SECURITY_SCHEMES,
  })
  await app.register(health, { metrics })
}

function sendProblemPage(problem: Problem, request: FastifyRequest, reply: FastifyReply) {
  return sendPage(reply, problem.status, problemPage(readerOf(request), problem))
}

async function registerApi(
  app: FastifyInstance,
  options: AccessOptions,
  proxies: Parameters<typeof trust>[1] = { server: {} },
): Promise<void> {
  await app.register(trust, proxies)
  await app.register(access, options)
  await app.register(mtls, { auth: options.auth })
  await app.register(certificateRoutes)
  await app.register(renewRoutes)
  await app.register(withdrawRoutes)
  await app.register(statusRoutes)
  await app.register(probeRoutes)
  await app.register(proxyRoutes)
  await app.register(caRoutes)
  await app.register(rollRoutes)
  await app.register(acmeRoutes, { prefix: '/acme' })
  await app.register(acmeApiRoutes)
  await app.register(incidentRoutes, { auth: options.auth })
  await app.register(pageRoutes)
}

/** The pages for people. Cookies and forms are read here only. */
async function pageRoutes(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', (route) => {
    route.config = { ...route.config, isPage: true }
  })
  await app.register(visitors)
  await app.register(signInRoutes)
  await app.register(inventoryRoutes)
  await app.register(certificatePageRoutes)
  await app.register(certificateActionRoutes)
  await app.register(requestPageRoutes)
}
