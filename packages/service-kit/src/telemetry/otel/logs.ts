import {
  type Attributes,
  type Context,
  type LogRecord,
  ROOT_CONTEXT,
  SeverityNumber,
  TraceFlags,
  trace,
} from '@opentelemetry/api'
import type { LoggerProvider } from '@opentelemetry/sdk-logs'
import type { Logger } from 'pino'
import { copyLines } from '../log.ts'

/** The severities by the level of pino. */
const SEVERITIES: Readonly<Record<number, SeverityNumber>> = {
  10: SeverityNumber.TRACE,
  20: SeverityNumber.DEBUG,
  30: SeverityNumber.INFO,
  40: SeverityNumber.WARN,
  50: SeverityNumber.ERROR,
  60: SeverityNumber.FATAL,
}

/**
 * Sends every line of the log to a provider, too. It gets the lines as they are written, after secrets
 * were redacted. Call the returned function to stop.
 */
export function sendLines(
  log: Logger,
  provider: LoggerProvider,
  scope: { readonly name: string; readonly version: string },
): () => void {
  const sent = provider.getLogger(scope.name, scope.version)
  return copyLines(log, (line) => sent.emit(recordOf(line)))
}

/** A line as a record of the data model of OpenTelemetry: what is not part of that is an attribute. */
function recordOf(line: string): LogRecord {
  const { level, time, msg, name: _, trace_id, span_id, err, ...attributes } = JSON.parse(line)
  const severityNumber = SEVERITIES[level] ?? SeverityNumber.UNSPECIFIED
  return {
    timestamp: time,
    severityNumber,
    severityText: SeverityNumber[severityNumber],
    body: msg ?? '',
    attributes: { ...attributes, ...exceptionOf(err) },
    context: contextOf(trace_id, span_id),
  }
}

/** The error by the names of the semantic conventions, and what else it says as `err`. */
function exceptionOf(err: unknown): Attributes {
  if (typeof err !== 'object' || err === null) return err === undefined ? {} : { err: String(err) }
  const { type, message, stack, ...rest } = err as Attributes
  return {
    'exception.type': type,
    'exception.message': message,
    'exception.stacktrace': stack,
    ...(Object.keys(rest).length > 0 && { err: rest }),
  } as Attributes
}

/** The context of a span. The library leaves out invalid ids. */
function contextOf(traceId: unknown, spanId: unknown): Context {
  if (typeof traceId !== 'string' || typeof spanId !== 'string') return ROOT_CONTEXT
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.NONE })
}
