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
import { PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import type { FastifyInstance } from 'fastify'
import type { OpenTelemetry, OpenTelemetryOptions, Signals } from '../signals.ts'
import { createExporters, METRIC_EXPORTERS, SPAN_EXPORTERS } from './exporters.ts'
import { traceFetches } from './fetches.ts'
import { producerOf } from './metrics.ts'
import { traceRequests } from './requests.ts'
import { Variables } from './variables.ts'

const SCOPE = 'gatehouse'
const FLUSH_MS = 2_500

/** Starts exporting. Requests never wait for a collector; if it is down, one line is logged. */
export function start(signals: Signals, options: OpenTelemetryOptions): OpenTelemetry {
  const { log, service, version, metrics, params = [] } = options
  const variables = new Variables(options.env, log)
  const resource = describeService(service, version)
  const provider = createTracerProvider(signals.traces, resource, { variables, log })
  const readers = createMetricReaders(signals.metrics, { variables, log })
  for (const reader of readers)
    reader.setMetricProducer(producerOf(metrics.registry, resource, { name: SCOPE, version }))

  const tracer = provider?.getTracer(SCOPE, version)
  if (tracer) context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  const stopFetches = tracer && traceFetches(tracer)
  return {
    ...(provider && {
      traceRequests: (app: FastifyInstance) => traceRequests(app, { provider, params }),
    }),
    async close() {
      stopFetches?.()
      const sent = [provider, ...readers].map((part) => part?.shutdown())
      await callWithTimeout(Promise.allSettled(sent), FLUSH_MS).catch(() =>
        log.warn('stopped before all telemetry was sent'),
      )
      if (!provider) return
      context.disable()
      propagation.disable()
    },
  }
}

function describeService(service: string, version: string): Resource {
  const own = resourceFromAttributes({ 'service.name': service, 'service.version': version })
  // Later detectors override earlier ones.
  const detectors = [
    serviceInstanceIdDetector,
    resourceAttributesEnvDetector,
    serviceNameEnvDetector,
  ]
  return defaultResource().merge(own).merge(detectResources({ detectors }))
}

type Sources = { readonly variables: Variables } & Pick<OpenTelemetryOptions, 'log'>

function createTracerProvider(
  names: readonly string[],
  resource: Resource,
  { variables, log }: Sources,
): TracerProvider | undefined {
  const exporters = createExporters('traces', names, SPAN_EXPORTERS, { variables, log })
  if (exporters.length === 0) return undefined
  const sizes = variables.numbers({
    maxQueueSize: 'OTEL_BSP_MAX_QUEUE_SIZE',
    maxExportBatchSize: 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE',
    scheduledDelayMillis: 'OTEL_BSP_SCHEDULE_DELAY',
    exportTimeoutMillis: 'OTEL_BSP_EXPORT_TIMEOUT',
  })
  return new TracerProvider({
    resource,
    sampler: variables.sampler(),
    spanProcessors: exporters.map((exporter) => new BatchSpanProcessor({ ...sizes, exporter })),
  })
}

function createMetricReaders(
  names: readonly string[],
  { variables, log }: Sources,
): PeriodicExportingMetricReader[] {
  const { interval = 60_000, timeout = 30_000 } = variables.numbers({
    interval: 'OTEL_METRIC_EXPORT_INTERVAL',
    timeout: 'OTEL_METRIC_EXPORT_TIMEOUT',
  })
  return createExporters('metrics', names, METRIC_EXPORTERS, { variables, log }).map(
    (exporter) =>
      new PeriodicExportingMetricReader({
        exporter,
        exportIntervalMillis: interval,
        // The reader refuses a timeout longer than the interval.
        exportTimeoutMillis: Math.min(timeout, interval),
      }),
  )
}
