import type { OpenTelemetry, OpenTelemetryOptions } from './otel/sdk.ts'

export type { OpenTelemetry }

/** The way in which a collector gets what is not exported, by the variables that ask for it. */
const ELSEWHERE = {
  OTEL_METRICS_EXPORTER: 'scrape /metrics',
  OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'scrape /metrics',
  OTEL_LOGS_EXPORTER: 'read standard output',
  OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: 'read standard output',
} as const

/** Reads the exporters of traces that the variables ask for, and what to say about the other variables. */
export function readVariables(env: NodeJS.ProcessEnv) {
  const read = (name: string) => env[name]?.trim() ?? ''
  const isDisabled = read('OTEL_SDK_DISABLED').toLowerCase() === 'true'
  const exportersOf = (listed: string) => {
    const names = new Set(listed.split(',').map((name) => name.trim()))
    // Metrics for Prometheus are always served at /metrics.
    for (const name of ['', 'prometheus']) names.delete(name)
    return isDisabled || names.has('none') ? [] : [...names]
  }
  const endpoint = read('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT') || read('OTEL_EXPORTER_OTLP_ENDPOINT')
  const exporters = exportersOf(read('OTEL_TRACES_EXPORTER') || (endpoint && 'otlp'))
  const ignored = Object.entries(ELSEWHERE).flatMap(([name, way]) =>
    exportersOf(read(name)).length > 0
      ? `${name} is ignored, since traces alone are exported: have the collector ${way}`
      : [],
  )
  return { exporters, ignored }
}

/** Exports traces as the standard `OTEL_*` variables say. Without them, none of OpenTelemetry is loaded. */
export async function startOpenTelemetry(
  options: OpenTelemetryOptions,
): Promise<OpenTelemetry | undefined> {
  const { exporters, ignored } = readVariables(options.env)
  for (const line of ignored) options.log.warn(line)
  if (exporters.length === 0) return undefined
  const { start } = await import('./otel/sdk.ts')
  return start(exporters, options)
}
