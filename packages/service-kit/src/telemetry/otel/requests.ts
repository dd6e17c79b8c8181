import { FastifyOtelInstrumentation } from '@fastify/otel'
import {
  type Attributes,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanStatusCode,
  type TracerProvider,
} from '@opentelemetry/api'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { methodOf } from '../requests.ts'

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
    if (span) describeRequest(span, request, params)
    if (span) reply.raw.once('close', () => endAborted(span, reply))
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

function fail(span: Span, type: string): void {
  span.setAttribute('error.type', type).setStatus({ code: SpanStatusCode.ERROR })
}
