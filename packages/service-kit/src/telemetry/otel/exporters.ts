import { type ExportResult, ExportResultCode } from '@opentelemetry/core'
import { OTLPMetricExporter as JsonMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http'
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto'
import { OTLPTraceExporter as JsonSpanExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { ConsoleMetricExporter, type PushMetricExporter } from '@opentelemetry/sdk-metrics'
import { ConsoleSpanExporter, type SpanExporter } from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import type { Signals } from '../signals.ts'
import type { Variables } from './variables.ts'

/** The OTLP exporters by protocol, and one that needs no collector. */
export interface ExporterKinds<E> {
  readonly otlp: Readonly<Record<'http/protobuf' | 'http/json', () => E>>
  readonly console: () => E
}

export const SPAN_EXPORTERS: ExporterKinds<SpanExporter> = {
  otlp: {
    'http/protobuf': () => new OTLPTraceExporter(),
    'http/json': () => new JsonSpanExporter(),
  },
  console: () => new ConsoleSpanExporter(),
}

export const METRIC_EXPORTERS: ExporterKinds<PushMetricExporter> = {
  otlp: {
    'http/protobuf': () => new OTLPMetricExporter(),
    'http/json': () => new JsonMetricExporter(),
  },
  console: () => new ConsoleMetricExporter(),
}

/** Creates the named exporters. An unknown name is logged and left out. */
export function createExporters<E extends SpanExporter | PushMetricExporter>(
  signal: keyof Signals,
  names: readonly string[],
  kinds: ExporterKinds<E>,
  { variables, log }: { variables: Variables; log: Logger },
): E[] {
  const SIGNAL = signal.toUpperCase()
  return names.flatMap((name) => {
    if (name === 'console') return [kinds.console()]
    if (name === 'otlp') {
      const namesOf = (of: string) => [
        `OTEL_EXPORTER_OTLP_${SIGNAL}_${of}`,
        `OTEL_EXPORTER_OTLP_${of}`,
      ]
      variables.checkUrls(namesOf('ENDPOINT'))
      const { otlp } = kinds
      const create = variables.choice(namesOf('PROTOCOL'), otlp, otlp['http/protobuf'])
      return [logFailures(create(), signal, log)]
    }
    log.warn(`OTEL_${SIGNAL}_EXPORTER takes otlp, console and none; another name is left out`)
    return []
  })
}

/** Logs when exporting begins to fail, and when it works again. */
function logFailures<E extends SpanExporter | PushMetricExporter>(
  exporter: E,
  signal: string,
  log: Logger,
): E {
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

/** Without the body of an answer, which the collector chooses. */
function describe(error: (Error & { code?: string | number }) | undefined): string {
  return String(error?.code ?? error?.message ?? 'refused')
}
