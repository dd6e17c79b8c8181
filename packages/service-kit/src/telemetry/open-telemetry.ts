import type { OpenTelemetry, OpenTelemetryOptions, Signals } from './otel/sdk.ts'

export type { OpenTelemetry }

/** The exporters that the variables ask for. An endpoint alone enables all signals. */
export function readSignals(env: NodeJS.ProcessEnv): Signals {
  const isDisabled = env.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true'
  const exportersOf = (signal: 'TRACES' | 'METRICS' | 'LOGS') => {
    const endpoint =
      env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`]?.trim() ||
      env.OTEL_EXPORTER_OTLP_ENDPOINT?.trim()
    const listed = env[`OTEL_${signal}_EXPORTER`]?.trim() || (endpoint ? 'otlp' : 'none')
    const names = new Set(listed.split(',').map((name) => name.trim()))
    // Metrics for Prometheus are always served at /metrics.
    for (const name of ['', 'prometheus']) names.delete(name)
    return isDisabled || names.has('none') ? [] : [...names]
  }
  return {
    traces: exportersOf('TRACES'),
    metrics: exportersOf('METRICS'),
    logs: exportersOf('LOGS'),
  }
}

/**
 * Exports traces, metrics and logs as configured by the standard `OTEL_*` variables. Without them, none
 * of OpenTelemetry is loaded, and the result is undefined.
 */
export async function startOpenTelemetry(
  options: OpenTelemetryOptions,
  signals = readSignals(options.env),
): Promise<OpenTelemetry | undefined> {
  if (Object.values(signals).every((exporters) => exporters.length === 0)) return undefined
  const { start } = await import('./otel/sdk.ts')
  return start(signals, options)
}
