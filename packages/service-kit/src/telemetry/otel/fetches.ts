import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { type Span, SpanKind, SpanStatusCode, type Tracer } from '@opentelemetry/api'

/** A message on a diagnostics channel of undici. */
interface Message {
  readonly request: { readonly origin: string | URL; readonly method: string }
  readonly response?: { readonly statusCode: number }
  readonly error?: Error & { readonly code?: unknown }
}

/**
 * Creates a client span for each request of undici: to identity providers, issuers and certificate
 * authorities. Spans have the host and no path, and requests get no `traceparent`. The instrumentation
 * of OpenTelemetry has options for neither. Call the returned function to stop.
 */
export function traceFetches(tracer: Tracer): () => void {
  const spans = new WeakMap<object, Span>()
  const fail = (span: Span, type: string) =>
    span.setAttribute('error.type', type).setStatus({ code: SpanStatusCode.ERROR })

  const listeners: Readonly<Record<string, (message: Message) => void>> = {
    'undici:request:create'({ request }) {
      spans.set(request, startSpan(tracer, request))
    },
    'undici:request:headers'({ request, response }) {
      const { statusCode = 0 } = response ?? {}
      const span = spans.get(request)?.setAttribute('http.response.status_code', statusCode)
      if (span && statusCode >= 400) fail(span, String(statusCode))
    },
    'undici:request:trailers'({ request }) {
      spans.get(request)?.end()
    },
    'undici:request:error'({ request, error }) {
      const span = spans.get(request)
      if (span) fail(span, typeOf(error)).end()
    },
  }
  const entries = Object.entries(listeners) as [string, Parameters<typeof subscribe>[1]][]
  for (const [channel, listener] of entries) subscribe(channel, listener)
  return () => {
    for (const [channel, listener] of entries) unsubscribe(channel, listener)
  }
}

function startSpan(tracer: Tracer, { method, origin }: Message['request']): Span {
  const { protocol, hostname, port } = new URL(origin)
  const attributes = {
    'http.request.method': method,
    'server.address': hostname,
    'server.port': Number(port) || (protocol === 'https:' ? 443 : 80),
  }
  return tracer.startSpan(method, { kind: SpanKind.CLIENT, attributes })
}

/** The code, or the name where the code is a number, as for a DOMException. */
function typeOf(error: Message['error']): string {
  return typeof error?.code === 'string' ? error.code : (error?.name ?? 'error')
}
