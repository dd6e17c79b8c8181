import { type ExportResult, ExportResultCode } from '@opentelemetry/core'
import { OTLPLogExporter as JsonLogExporter } from '@opentelemetry/exporter-logs-otlp-http'
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-proto'
import { OTLPMetricExporter as JsonMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http'
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto'
import { OTLPTraceExporter as JsonSpanExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { ConsoleLogRecordExporter, type LogRecordExporter } from '@opentelemetry/sdk-logs'
import { ConsoleMetricExporter, type PushMetricExporter } from '@opentelemetry/sdk-metrics'
import { ConsoleSpanExporter, type SpanExporter } from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import type { Variables } from './variables.ts'

/** The exporters by the protocol of OTLP, and one that needs no collector. */
type ExporterKinds<E> = Readonly<Record<'http/protobuf' | 'http/json' | 'console', () => E>>

export const SPAN_EXPORTERS: ExporterKinds<SpanExporter> = {
  'http/protobuf': () => new OTLPTraceExporter(),
  'http/json': () => new JsonSpanExporter(),
  console: () => new ConsoleSpanExporter(),
}

export const METRIC_EXPORTERS: ExporterKinds<PushMetricExporter> = {
  'http/protobuf': () => new OTLPMetricExporter(),
  'http/json': () => new JsonMetricExporter(),
  console: () => new ConsoleMetricExporter(),
}

export const LOG_EXPORTERS: ExporterKinds<LogRecordExporter> = {
  'http/protobuf': () => new OTLPLogExporter(),
  'http/json': () => new JsonLogExporter(),
  console: () => new ConsoleLogRecordExporter(),
}

type Exporter = SpanExporter | PushMetricExporter | LogRecordExporter

/** Creates the named exporters. An unknown name is logged and left out. */
export function createExporters<E extends Exporter>(
  signal: 'traces' | 'metrics' | 'logs',
  names: readonly string[],
  { console, ...otlp }: ExporterKinds<E>,
  variables: Variables,
): E[] {
  const SIGNAL = signal.toUpperCase()
  const namesOf = (of: string) => [`OTEL_EXPORTER_OTLP_${SIGNAL}_${of}`, `OTEL_EXPORTER_OTLP_${of}`]
  return names.flatMap((name) => {
    if (name === 'console') return [console()]
    if (name === 'otlp') {
      variables.checkUrls(namesOf('ENDPOINT'))
      const create = variables.choice(namesOf('PROTOCOL'), otlp, otlp['http/protobuf'])
      return [logFailures(create(), signal, variables.log)]
    }
    variables.log.warn(
      `OTEL_${SIGNAL}_EXPORTER takes otlp, console and none; another name is left out`,
    )
    return []
  })
}

/** Logs when exporting begins to fail, and when it works again. */
function logFailures<E extends Exporter>(exporter: E, signal: string, log: Logger): E {
  const send = exporter.export.bind(exporter) as SpanExporter['export']
  let isFailing = false
  exporter.export = (items: never, done: (result: ExportResult) => void) =>
    send(items, (result) => {
      const hasFailed = result.code !== ExportResultCode.SUCCESS
      if (hasFailed && !isFailing)
        log.warn({ signal, reason: describe(result.error) }, 'telemetry cannot be exported')
      if (!hasFailed && isFailing) log.info({ signal }, 'telemetry is exported again')
      isFailing = hasFailed
      done(result)
    })
  return exporter
}

/** The reason of a failure, without the body of an answer, which the collector chooses. */
function describe(error: (Error & { code?: string | number }) | undefined): string {
  return String(error?.code ?? error?.message ?? 'refused')
}
