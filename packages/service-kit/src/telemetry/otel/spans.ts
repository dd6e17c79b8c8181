import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { FastifyOtelInstrumentation } from '@fastify/otel'
import {
  type Attributes,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  type TracerProvider,
} from '@opentelemetry/api'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { methodOf, type TraceIds } from '../log.ts'

/**
 * Traces requests with @fastify/otel: one server span for each, a child of the span in `traceparent`.
 * Paths, queries, headers and messages of errors carry secrets and stay out of spans; of what clients
 * send there are only the method, if it is common, and the parameters in `params`.
 */
export async function traceRequests(
  app: FastifyInstance,
  { provider, params }: { provider: TracerProvider; params: readonly string[] },
): Promise<void> {
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  const instrumentation = new FastifyOtelInstrumentation({
    instrumentHandler: false,
    instrumentHooks: false,
    recordExceptions: false,
  })
  instrumentation.setTracerProvider(provider)
  // Health checks and documentation, which have no log lines either.
  app.addHook('onRoute', (route) => {
    if (route.logLevel === 'warn') route.config = { ...route.config, otel: false }
  })
  await app.register(instrumentation.plugin())
  app.addHook('onRequest', (request, reply, done) => {
    const { span } = request.opentelemetry()
    if (span) {
      describeRequest(span, request, params)
      const { traceId: trace_id, spanId: span_id } = span.spanContext()
      request.log = reply.log = request.log.child({ trace_id, span_id } satisfies TraceIds)
      reply.raw.once('close', () => endAborted(span, reply))
    }
    done()
  })
  // Bodies are read in the context of the connection.
  app.addHook('preValidation', (request, _reply, done) => {
    context.with(request.opentelemetry().context ?? ROOT_CONTEXT, done)
  })
  app.addHook('onError', async (request, _reply, error) => {
    request.opentelemetry().span?.setAttribute('gatehouse.code', error.code ?? 'INTERNAL')
  })
  app.addHook('onSend', async (request, reply) => {
    const { span } = request.opentelemetry()
    if (span) setStatus(span, reply)
  })
}

function describeRequest(span: Span, request: FastifyRequest, params: readonly string[]): void {
  const { url: route } = request.routeOptions
  const isCommon = methodOf(request.method) === request.method
  const name = isCommon ? request.method : 'HTTP'
  span.updateName(route === undefined ? name : `${name} ${route}`)
  span.setAttributes({
    'http.request.method': isCommon ? request.method : '_OTHER',
    'url.scheme': request.protocol,
    'gatehouse.request_id': request.id,
  })
  for (const param of params) {
    const value = (request.params as Record<string, string> | undefined)?.[param]
    if (value !== undefined) span.setAttribute(`gatehouse.${param}`, value)
  }
  // It has the query, too. The API has no way to remove an attribute.
  delete (span as Span & { attributes?: Attributes }).attributes?.['url.path']
}

/** Replaces the status of the instrumentation, which has the message of the error. */
function setStatus(span: Span, { statusCode }: FastifyReply): void {
  if (statusCode < 500) span.setStatus({ code: SpanStatusCode.OK })
  else fail(span, String(statusCode))
}

/** The instrumentation ends a span when it sends the answer. */
function endAborted(span: Span, { raw }: FastifyReply): void {
  if (raw.writableFinished || !span.isRecording()) return
  fail(span, 'aborted')
  span.end()
}

function fail(span: Span, type: string): Span {
  return span.setAttribute('error.type', type).setStatus({ code: SpanStatusCode.ERROR })
}

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
  const entries = Object.entries(listeners) as Parameters<typeof subscribe>[]
  for (const entry of entries) subscribe(...entry)
  return () => {
    for (const entry of entries) unsubscribe(...entry)
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

/** The code of an error, or its name where the code is a number, as for a DOMException. */
function typeOf(error: Message['error']): string {
  return typeof error?.code === 'string' ? error.code : (error?.name ?? 'error')
}
