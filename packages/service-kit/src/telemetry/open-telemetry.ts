import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Metrics } from './metrics.ts'

export interface OpenTelemetryOptions {
  /** Where the `OTEL_*` variables are; the process's own, as the libraries read some of them there. */
  readonly env: NodeJS.ProcessEnv
  /** `service.name`, unless a variable names another. */
  readonly service: string
  readonly version: string
  readonly metrics: Metrics
  readonly log: Logger
  /** Parameters of routes that become attributes of their spans, as `gatehouse.<name>`. */
  readonly params?: readonly string[]
}

export interface OpenTelemetry {
  /** Adds the hooks that make a span of each request; absent when no traces are exported. */
  readonly traceRequests?: (app: FastifyInstance) => void
  /** Sends what waits, for at most two and a half seconds. */
  close(): Promise<void>
}

/** What is exported, and to what: names of the specification, such as `otlp` and `console`. */
export interface Signals {
  readonly traces: readonly string[]
  readonly metrics: readonly string[]
}

/**
 * Exports traces and metrics as the standard `OTEL_*` variables say. `undefined` when they ask for
 * nothing: then none of OpenTelemetry is loaded.
 */
export async function startOpenTelemetry(
  options: OpenTelemetryOptions,
): Promise<OpenTelemetry | undefined> {
  const signals = readSignals(options.env)
  if (signals.traces.length + signals.metrics.length === 0) return undefined
  const { start } = await import('./otel/sdk.ts')
  return start(signals, options)
}

/** An endpoint alone turns both signals on. */
export function readSignals(env: NodeJS.ProcessEnv): Signals {
  const isDisabled = env.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true'
  const exportersOf = (signal: 'TRACES' | 'METRICS') => {
    const endpoint =
      env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`]?.trim() ||
      env.OTEL_EXPORTER_OTLP_ENDPOINT?.trim()
    const listed = env[`OTEL_${signal}_EXPORTER`]?.trim() || (endpoint ? 'otlp' : 'none')
    const names = new Set(listed.split(',').map((name) => name.trim()))
    // What Prometheus asks for is always there, at /metrics.
    for (const name of ['', 'prometheus']) names.delete(name)
    return isDisabled || names.has('none') ? [] : [...names]
  }
  return { traces: exportersOf('TRACES'), metrics: exportersOf('METRICS') }
}
