import { type OpenTelemetry, type OpenTelemetryOptions, readSignals } from './signals.ts'

/**
 * Exports traces and metrics as configured by the standard `OTEL_*` variables. Without them, none of
 * OpenTelemetry is loaded, and the result is undefined.
 */
export async function startOpenTelemetry(
  options: OpenTelemetryOptions,
): Promise<OpenTelemetry | undefined> {
  const signals = readSignals(options.env)
  if (signals.traces.length + signals.metrics.length === 0) return undefined
  const { start } = await import('./otel/sdk.ts')
  return start(signals, options)
}
