import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Type } from 'typebox'
import type { Metrics } from '../telemetry/metrics.ts'
import { measureReadiness } from '../telemetry/service-metrics.ts'
import { ownProblem, type ProblemOptions, ProblemSchema, sendProblem } from './problem.ts'

export interface Readiness {
  readonly ready: boolean
  /** Why not. */
  readonly reason?: 'starting' | 'draining' | 'store'
  /** What does not work though the service does: its kind, then its name, such as `issuer corp`. */
  readonly degraded: readonly string[]
}

export interface HealthOptions {
  readiness(): Readiness
  /** Where readiness is measured, too. */
  readonly metrics?: Metrics | undefined
  /** As for `problems`. */
  readonly docsUrl?: ProblemOptions['docsUrl']
}

const REASONS = {
  starting: 'The service is starting.',
  draining: 'The service is stopping.',
  store: 'The store cannot be used.',
}

/** `GET /healthz`: the process answers. `GET /readyz`: it can do its work, or 503 says why not. */
export const health = fp<HealthOptions>(
  async (app: FastifyInstance, { readiness, metrics, docsUrl }) => {
    if (metrics) measureReadiness(metrics, readiness)
    app.get(
      '/healthz',
      {
        logLevel: 'warn',
        schema: {
          summary: 'Liveness',
          tags: ['health'],
          response: { 200: Type.Object({ status: Type.Literal('ok') }) },
        },
      },
      async () => ({ status: 'ok' }),
    )
    app.get(
      '/readyz',
      {
        logLevel: 'warn',
        schema: {
          summary: 'Readiness',
          tags: ['health'],
          response: {
            200: Type.Object({
              status: Type.Literal('ready'),
              degraded: Type.Array(Type.String(), {
                description:
                  'What does not work right now. A request that came through a proxy is told the kinds and no names.',
              }),
            }),
            503: ProblemSchema,
          },
        },
      },
      async (request, reply) => {
        const { ready, reason = 'starting', degraded } = readiness()
        if (ready) return { status: 'ready', degraded: tellable(degraded, request.headers) }
        return sendProblem(reply, ownProblem('NOT_READY', 503, REASONS[reason], docsUrl))
      },
    )
  },
  { fastify: '5.x', name: 'service-kit/health' },
)

/** Behind a proxy anybody may ask; names are for who reaches the service itself. */
function tellable(degraded: readonly string[], headers: IncomingHttpHeaders): readonly string[] {
  const isDirect = !PROXY_HEADERS.some((name) => headers[name] !== undefined)
  return isDirect ? degraded : [...new Set(degraded.map((name) => name.split(' ', 1)[0] ?? ''))]
}

const PROXY_HEADERS = ['forwarded', 'via', 'x-real-ip', 'x-forwarded-for', 'x-forwarded-host']
