import { ExportResultCode } from '@opentelemetry/core'
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { ConsoleSpanExporter, type SpanExporter } from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import type { Variables } from './variables.ts'

/** The exporters by the protocol of OTLP. */
const OTLP: Readonly<Record<'http/protobuf' | 'http/json', () => SpanExporter>> = {
  'http/protobuf': () => new OTLPTraceExporter(),
  'http/json': () => new JsonExporter(),
}

const namesOf = (suffix: string) => [
  `OTEL_EXPORTER_OTLP_TRACES_${suffix}`,
  `OTEL_EXPORTER_OTLP_${suffix}`,
]

/** Creates the named exporters of traces. An unknown name is logged and left out. */
export function createExporters(names: readonly string[], variables: Variables): SpanExporter[] {
  return names.flatMap((name) => {
    if (name === 'console') return [new ConsoleSpanExporter()]
    if (name === 'otlp') {
      variables.checkUrls(namesOf('ENDPOINT'))
      const create = variables.choice(namesOf('PROTOCOL'), OTLP, OTLP['http/protobuf'])
      return [logFailures(create(), variables.log)]
    }
    variables.log.warn(
      'OTEL_TRACES_EXPORTER supports otlp, console and none; other names are ignored',
    )
    return []
  })
}

/** Logs when exporting begins to fail, and when it works again. */
function logFailures(exporter: SpanExporter, log: Logger): SpanExporter {
  const send = exporter.export.bind(exporter)
  let isFailing = false
  exporter.export = (spans, done) =>
    send(spans, (result) => {
      const hasFailed = result.code !== ExportResultCode.SUCCESS
      if (hasFailed && !isFailing)
        log.warn({ reason: describe(result.error) }, 'telemetry cannot be exported')
      if (!hasFailed && isFailing) log.info('telemetry is exported again')
      isFailing = hasFailed
      done(result)
    })
  return exporter
}

/** The reason of a failure, without the body of an answer, which the collector chooses. */
function describe(error: (Error & { code?: string | number }) | undefined): string {
  return String(error?.code ?? error?.message ?? 'refused')
}
