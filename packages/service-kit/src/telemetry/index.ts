export { createLogger, type Logger, type LogOptions, requestTelemetry } from './log.ts'
export { createMetrics, type Metrics } from './metrics.ts'
export type { OpenTelemetry } from './open-telemetry.ts'
