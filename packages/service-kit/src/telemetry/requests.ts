import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Logger } from 'pino'
import { createAccessLog } from './access-log.ts'
import { createDurations } from './durations.ts'
import { lineWriter } from './log.ts'
import type { Metrics } from './metrics.ts'
import type { OpenTelemetry } from './open-telemetry.ts'
import { createRequestLog } from './request-log.ts'
import { createRequestIds, traceIdOf } from './trace.ts'

const INFO = 30

export interface RequestTelemetryOptions {
  readonly metrics?: Metrics
  /** Of `startOpenTelemetry`. */
  readonly traceRequests?: OpenTelemetry['traceRequests'] | undefined
  /** At most three more members of the line of a request, such as its caller. */
  fieldsOf?(request: FastifyRequest): Readonly<Record<string, string | undefined>>
  /** Whether a request gets a line of its own; left out: each does. */
  hasLine?(request: FastifyRequest, reply: FastifyReply): boolean
}

/** Request and trace ids, one access line per request, and the histogram of durations. */
export const requestTelemetry = fp<RequestTelemetryOptions>(
  async (app: FastifyInstance, { metrics, traceRequests, fieldsOf, hasLine = () => true }) => {
    traceRequests?.(app)
    app.setGenReqId(createRequestIds())
    app.setChildLoggerFactory((logger, bindings, options, raw) => {
      const traceId = traceIdOf(raw.headers.traceparent)
      return createRequestLog(
        logger,
        traceId ? { ...bindings, trace_id: traceId } : bindings,
        options,
      )
    })

    const write = lineWriter(app.log)
    const access = write && createAccessLog(write)
    const observe = metrics && createDurations(metrics.registry)
    app.addHook('onResponse', (request, reply, done) => {
      const durationMs = reply.elapsedTime
      // Made anew at each call.
      const { logLevel, url: route = 'unmatched' } = request.routeOptions
      if (access && isLogged(app.log, logLevel) && hasLine(request, reply))
        access.add({
          time: Date.now(),
          requestId: request.id,
          traceId: traceIdOf(request.headers.traceparent),
          ip: request.ip,
          method: request.method,
          url: request.url,
          status: reply.statusCode,
          durationMs,
          fields: fieldsOf?.(request),
        })
      observe?.(request.method, route, reply.statusCode, durationMs / 1_000)
      done()
    })
    if (!access) return
    process.once('exit', access.flush)
    app.addHook('onClose', async () => {
      access.flush()
      process.off('exit', access.flush)
    })
  },
  { fastify: '5.x', name: 'service-kit/request-telemetry' },
)

/** By the logger's level, or the route's own. */
function isLogged(log: object, routeLevel: string | undefined): boolean {
  const { levels, levelVal } = log as Pick<Logger, 'levels' | 'levelVal'>
  return (routeLevel ? (levels.values[routeLevel] ?? 0) : levelVal) <= INFO
}
