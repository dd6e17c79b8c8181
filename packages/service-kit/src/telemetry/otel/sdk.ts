import { context, propagation } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { callWithTimeout } from '@opentelemetry/core'
import {
  defaultResource,
  detectResources,
  type Resource,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceInstanceIdDetector,
  serviceNameEnvDetector,
} from '@opentelemetry/resources'
import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs'
import { PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Metrics } from '../metrics.ts'
import { createExporters, LOG_EXPORTERS, METRIC_EXPORTERS, SPAN_EXPORTERS } from './exporters.ts'
import { sendLines } from './logs.ts'
import { producerOf } from './metrics.ts'
import { traceFetches, traceRequests } from './spans.ts'
import { Variables } from './variables.ts'

/** The options of `startOpenTelemetry`. */
export interface OpenTelemetryOptions {
  /** The environment of the process, from which the libraries read some `OTEL_*` variables, too. */
  readonly env: NodeJS.ProcessEnv
  /** `service.name`, unless a variable sets another one. */
  readonly service: string
  readonly version: string
  readonly metrics?: Metrics
  /** The log of the service, whose lines are exported and which tells of failures to export. */
  readonly log: Logger
  /** Route parameters that become attributes of spans, as `gatehouse.<name>`. */
  readonly params?: readonly string[]
}

/** The exporters of each signal, by their names in the specification: `otlp`, `console`. */
export type Signals = Readonly<Record<'traces' | 'metrics' | 'logs', readonly string[]>>

export type OpenTelemetry = ReturnType<typeof start>

const SCOPE = 'gatehouse'
const FLUSH_MS = 2_500

/** Starts exporting. Requests never wait for a collector; if it is down, one line is logged. */
export function start(signals: Signals, options: OpenTelemetryOptions) {
  const { log, service, version, metrics, params = [] } = options
  const variables = new Variables(options.env, log)
  const resource = describeService(service, version)
  const provider = createTracerProvider(signals.traces, resource, variables)
  const readers = createMetricReaders(signals.metrics, variables)
  const scope = { name: SCOPE, version }
  if (metrics)
    for (const reader of readers)
      reader.setMetricProducer(producerOf(metrics.registry, resource, scope))
  const logs = createLoggerProvider(signals.logs, resource, variables)
  const stopLines = logs && sendLines(log, logs, scope)

  const tracer = provider?.getTracer(SCOPE, version)
  if (tracer) context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  const stopFetches = tracer && traceFetches(tracer)
  return {
    /** Creates a span for each request; absent if no traces are exported. */
    traceRequests: provider && ((app: FastifyInstance) => traceRequests(app, { provider, params })),
    /** Sends pending telemetry, for at most 2.5 seconds. */
    async close(): Promise<void> {
      stopFetches?.()
      stopLines?.()
      const sent = [provider, logs, ...readers].map((part) => part?.shutdown())
      await callWithTimeout(Promise.allSettled(sent), FLUSH_MS).catch(() =>
        log.warn('stopped before all telemetry was sent'),
      )
      if (!provider) return
      context.disable()
      propagation.disable()
    },
  }
}

/** The detectors of the resource: later ones override earlier ones. */
const DETECTORS = [serviceInstanceIdDetector, resourceAttributesEnvDetector, serviceNameEnvDetector]

function describeService(service: string, version: string): Resource {
  return defaultResource()
    .merge(resourceFromAttributes({ 'service.name': service, 'service.version': version }))
    .merge(detectResources({ detectors: DETECTORS }))
}

function batchSizes(processor: 'BSP' | 'BLRP', variables: Variables) {
  return variables.numbers({
    maxQueueSize: `OTEL_${processor}_MAX_QUEUE_SIZE`,
    maxExportBatchSize: `OTEL_${processor}_MAX_EXPORT_BATCH_SIZE`,
    scheduledDelayMillis: `OTEL_${processor}_SCHEDULE_DELAY`,
    exportTimeoutMillis: `OTEL_${processor}_EXPORT_TIMEOUT`,
  })
}

function createTracerProvider(names: readonly string[], resource: Resource, variables: Variables) {
  const exporters = createExporters('traces', names, SPAN_EXPORTERS, variables)
  if (exporters.length === 0) return undefined
  const sizes = batchSizes('BSP', variables)
  return new TracerProvider({
    resource,
    sampler: variables.sampler(),
    spanProcessors: exporters.map((exporter) => new BatchSpanProcessor({ ...sizes, exporter })),
  })
}

function createLoggerProvider(names: readonly string[], resource: Resource, variables: Variables) {
  const exporters = createExporters('logs', names, LOG_EXPORTERS, variables)
  if (exporters.length === 0) return undefined
  const sizes = batchSizes('BLRP', variables)
  return new LoggerProvider({
    resource,
    processors: exporters.map((exporter) => new BatchLogRecordProcessor({ ...sizes, exporter })),
  })
}

function createMetricReaders(names: readonly string[], variables: Variables) {
  const { interval = 60_000, timeout = 30_000 } = variables.numbers({
    interval: 'OTEL_METRIC_EXPORT_INTERVAL',
    timeout: 'OTEL_METRIC_EXPORT_TIMEOUT',
  })
  return createExporters('metrics', names, METRIC_EXPORTERS, variables).map(
    (exporter) =>
      new PeriodicExportingMetricReader({
        exporter,
        exportIntervalMillis: interval,
        // The reader refuses a timeout longer than the interval.
        exportTimeoutMillis: Math.min(timeout, interval),
      }),
  )
}
