import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Metrics } from './metrics.ts'

export interface OpenTelemetryOptions {
  /** The environment of the process, from which the libraries read some `OTEL_*` variables, too. */
  readonly env: NodeJS.ProcessEnv
  /** `service.name`, unless a variable sets another one. */
  readonly service: string
  readonly version: string
  readonly metrics: Metrics
  readonly log: Logger
  /** Route parameters that become attributes of spans, as `gatehouse.<name>`. */
  readonly params?: readonly string[]
}

export interface OpenTelemetry {
  /** Creates a span for each request; absent if no traces are exported. */
  readonly traceRequests?: (app: FastifyInstance) => Promise<void>
  /** Sends pending telemetry, for at most 2.5 seconds. */
  close(): Promise<void>
}

/** The exporters of each signal, by their names in the specification: `otlp`, `console`. */
export interface Signals {
  readonly traces: readonly string[]
  readonly metrics: readonly string[]
}

/** The exporters that the variables ask for. An endpoint alone enables both signals. */
export function readSignals(env: NodeJS.ProcessEnv): Signals {
  const isDisabled = env.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true'
  const exportersOf = (signal: 'TRACES' | 'METRICS') => {
    const endpoint =
      env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`]?.trim() ||
      env.OTEL_EXPORTER_OTLP_ENDPOINT?.trim()
    const listed = env[`OTEL_${signal}_EXPORTER`]?.trim() || (endpoint ? 'otlp' : 'none')
    const names = new Set(listed.split(',').map((name) => name.trim()))
    // Metrics for Prometheus are always served at /metrics.
    for (const name of ['', 'prometheus']) names.delete(name)
    return isDisabled || names.has('none') ? [] : [...names]
  }
  return { traces: exportersOf('TRACES'), metrics: exportersOf('METRICS') }
}
