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
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { createExporters } from './exporters.ts'
import { traceFetches, traceRequests } from './spans.ts'
import { Variables } from './variables.ts'

/** The options of `startOpenTelemetry`. */
export interface OpenTelemetryOptions {
  /** The environment of the process, from which the libraries read some `OTEL_*` variables, too. */
  readonly env: NodeJS.ProcessEnv
  /** `service.name`, unless a variable sets another one. */
  readonly service: string
  readonly version: string
  /** The log of the service, which tells of failures to export. */
  readonly log: Logger
  /** Route parameters that become attributes of spans, as `gatehouse.<name>`. */
  readonly params?: readonly string[]
}

export type OpenTelemetry = ReturnType<typeof start>

const SCOPE = 'gatehouse'
const FLUSH_MS = 2_500

/** Starts to export traces. Requests never wait for a collector; if it is down, one line is logged. */
export function start(exporters: readonly string[], options: OpenTelemetryOptions) {
  const { log, service, version, params = [] } = options
  const variables = new Variables(options.env, log)
  const provider = createTracerProvider(exporters, describeService(service, version), variables)
  const tracer = provider?.getTracer(SCOPE, version)
  if (tracer) context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  const stopFetches = tracer && traceFetches(tracer)
  return {
    /** Creates a span for each request; absent if no exporter could be made. */
    traceRequests: provider && ((app: FastifyInstance) => traceRequests(app, { provider, params })),
    /** Sends pending spans, for at most 2.5 seconds. */
    async close(): Promise<void> {
      if (!provider) return
      stopFetches?.()
      await callWithTimeout(Promise.allSettled([provider.shutdown()]), FLUSH_MS).catch(() =>
        log.warn('stopped before all telemetry was sent'),
      )
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

function createTracerProvider(names: readonly string[], resource: Resource, variables: Variables) {
  const exporters = createExporters(names, variables)
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
