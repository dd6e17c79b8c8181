import { randomBytes } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Histogram, type Registry } from 'prom-client'
import type { Metrics } from './metrics.ts'
import type { OpenTelemetry } from './signals.ts'

const MAX_PATH = 1_024
const MAX_FIELD = 256
const METHODS = new Set('GET HEAD POST PUT PATCH DELETE OPTIONS'.split(' '))
const TRACEPARENT = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

export interface RequestTelemetryOptions {
  readonly metrics?: Metrics
  /** As returned by `startOpenTelemetry`. */
  readonly traceRequests?: OpenTelemetry['traceRequests'] | undefined
  /** Further members of the log line of a request, such as its caller. */
  fieldsOf?(request: FastifyRequest): Readonly<Record<string, string | undefined>>
  /** Whether a request gets a log line; by default every request does. */
  hasLine?(request: FastifyRequest, reply: FastifyReply): boolean
}

/** Adds request and trace ids, one log line per request, and the histogram of durations. */
export const requestTelemetry = fp<RequestTelemetryOptions>(
  async (app: FastifyInstance, { metrics, traceRequests, fieldsOf, hasLine }) => {
    await traceRequests?.(app)
    app.setGenReqId(createRequestIds())
    app.setChildLoggerFactory((logger, bindings, options, { headers }) => {
      const trace_id = traceIdOf(headers.traceparent)
      return logger.child(trace_id ? { ...bindings, trace_id } : bindings, options)
    })
    const durations = metrics && createDurations(metrics.registry)
    app.addHook('onResponse', async (request, reply) => {
      const { method, url, ip, log, routeOptions } = request
      const { statusCode: status, elapsedTime } = reply
      durations?.observe(
        {
          method: methodOf(method),
          route: routeOptions.url ?? 'unmatched',
          status: classOf(status),
        },
        elapsedTime / 1_000,
      )
      if (hasLine?.(request, reply) === false) return
      const path = url.split('?', 1)[0]?.slice(0, MAX_PATH)
      const ms = Math.round(elapsedTime * 1_000) / 1_000
      log.info({ ip, method, path, status, ms, ...shortened(fieldsOf?.(request)) }, 'request')
    })
  },
  { fastify: '5.x', name: 'service-kit/request-telemetry' },
)

/** The histogram of request durations. All of its labels have few values, whatever clients send. */
export function createDurations(registry: Registry): Histogram<'method' | 'route' | 'status'> {
  return new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Seconds from the first byte of a request to the last of its answer.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [registry],
  })
}

/** The method, or `OTHER` if it is not a common one. */
export function methodOf(method: string): string {
  return METHODS.has(method) ? method : 'OTHER'
}

/** Such as `2xx`. */
function classOf(status: number): string {
  return `${Math.trunc(status / 100)}xx`
}

/** The trace id of a `traceparent` header (W3C Trace Context); undefined if it is not valid. */
export function traceIdOf(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? TRACEPARENT.exec(header)?.[1] : undefined
}

/** Creates ids that clients cannot choose: a counter after a random start, unique across restarts. */
function createRequestIds(): () => string {
  const start = randomBytes(6).toString('hex')
  let count = 0
  return () => `${start}-${(count++).toString(36)}`
}

function shortened(fields: Readonly<Record<string, string | undefined>> = {}) {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, value?.slice(0, MAX_FIELD)]),
  )
}
