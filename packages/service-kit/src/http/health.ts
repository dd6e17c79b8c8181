import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Type } from 'typebox'
import type { Metrics } from '../telemetry/metrics.ts'
import { ownProblem, ProblemSchema, sendProblem } from './problem.ts'

/** The state that one part of a service reports. */
export interface HealthReport {
  /** Parts that fail while the service still works: kind, then name, such as `issuer corp`. */
  readonly degraded?: readonly string[] | undefined
  /** The reason why the service cannot work, if it cannot. */
  readonly unready?: keyof typeof REASONS | undefined
}

/** The state of the whole service. */
export interface Readiness {
  readonly ready: boolean
  /** Present if the service is not ready. */
  readonly reason?: keyof typeof REASONS
  readonly degraded: readonly string[]
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Adds a check of one part of the service. It is called for each `GET /readyz` and each scrape. */
    addHealthCheck(check: () => HealthReport): void
    /** The state that `GET /readyz` reports. */
    readiness(): Readiness
  }
}

const REASONS = {
  starting: 'The service is starting.',
  draining: 'The service is stopping.',
  store: 'The store cannot be used.',
}
const MAX_PARTS = 100

/**
 * `GET /healthz` answers 200 while the process runs. `GET /readyz` answers 200 while the service can
 * do its work, and otherwise 503 with the reason. A service that is closing is not ready. With `metrics`, these have
 * `gatehouse_ready` and `gatehouse_degraded`.
 */
export const health = fp<{ readonly metrics?: Metrics | undefined }>(
  async (app: FastifyInstance, { metrics }) => {
    const checks: (() => HealthReport)[] = []
    let isDraining = false
    app.decorate('addHealthCheck', (check) => void checks.push(check))
    app.decorate('readiness', () => {
      const reports = checks.map((check) => check())
      const unready = reports.find(({ unready }) => unready)?.unready
      const reason = isDraining ? 'draining' : unready
      const degraded = reports.flatMap(({ degraded = [] }) => degraded)
      return { ready: !reason, ...(reason && { reason }), degraded }
    })
    app.addHook('preClose', async () => {
      isDraining = true
    })
    if (metrics) measureReadiness(metrics, () => app.readiness())
    app.get('/healthz', { logLevel: 'warn', schema: LIVENESS }, async () => ({ status: 'ok' }))
    app.get('/readyz', { logLevel: 'warn', schema: READINESS }, async (request, reply) => {
      const { ready, reason = 'starting', degraded } = app.readiness()
      if (ready) return { status: 'ready', degraded: withoutNames(degraded, request.headers) }
      return sendProblem(reply, ownProblem(app, 'NOT_READY', 503, REASONS[reason]))
    })
  },
  { name: 'service-kit/health', dependencies: ['service-kit/problems'] },
)

const LIVENESS = {
  operationId: 'getLiveness',
  summary: 'Liveness',
  tags: ['health'],
  response: { 200: Type.Object({ status: Type.Literal('ok') }) },
}

const READINESS = {
  operationId: 'getReadiness',
  summary: 'Readiness',
  tags: ['health'],
  response: {
    200: Type.Object({
      status: Type.Literal('ready'),
      degraded: Type.Array(Type.String(), {
        description:
          'Parts that do not work right now. A request through a proxy gets their kinds without names.',
      }),
    }),
    503: {
      description: 'Not ready; `detail` says why.',
      content: { 'application/problem+json': { schema: ProblemSchema } },
    },
  },
}

/** The parts that fail, without names where the request comes through a proxy, since anyone may ask there. */
function withoutNames(
  degraded: readonly string[],
  headers: IncomingHttpHeaders,
): readonly string[] {
  const isDirect = !PROXY_HEADERS.some((name) => headers[name] !== undefined)
  return isDirect ? degraded : [...new Set(degraded.map((part) => part.split(' ', 1)[0] ?? ''))]
}

const PROXY_HEADERS = ['forwarded', 'via', 'x-real-ip', 'x-forwarded-for', 'x-forwarded-host']

function measureReadiness(metrics: Metrics, readiness: () => Readiness): void {
  metrics.gauge({
    name: 'gatehouse_ready',
    help: 'Whether the service can do its work: 1, or 0 while it starts, stops or has no store.',
    collect: () => (readiness().ready ? 1 : 0),
  })
  metrics.gauges({
    name: 'gatehouse_degraded',
    help: 'Parts that do not work though the service does; always 1.',
    labels: ['part'],
    max: MAX_PARTS,
    collect: async () => readiness().degraded.map((part) => ({ labels: { part }, value: 1 })),
  })
}
