import {
  type Context,
  context,
  defaultTextMapGetter,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { methodOf } from '../requests.ts'

const propagator = new W3CTraceContextPropagator()

/**
 * One server span per request, a child of what its `traceparent` names. Nothing that a client wrote
 * is in it but the method, if known, and the parameters of `params`: paths, queries and headers carry secrets.
 */
export function traceRequests(
  app: FastifyInstance,
  { tracer, params }: { tracer: Tracer; params: readonly string[] },
): void {
  const contexts = new WeakMap<FastifyRequest, Context>()

  app.addHook('onRequest', (request, reply, done) => {
    // Health checks and the like, which the access log leaves out too.
    if (request.routeOptions.logLevel === 'warn') return done()
    const parent = propagator.extract(ROOT_CONTEXT, request.headers, defaultTextMapGetter)
    const span = startSpan(tracer, request, parent)
    for (const name of params) {
      const value = (request.params as Record<string, string> | undefined)?.[name]
      if (value !== undefined) span.setAttribute(`gatehouse.${name}`, value)
    }
    reply.raw.once('close', () => endSpan(span, reply))
    const own = trace.setSpan(parent, span)
    contexts.set(request, own)
    context.with(own, done)
  })
  // Reading a body goes on in the context of the connection.
  app.addHook('preValidation', (request, _reply, done) => {
    context.with(contexts.get(request) ?? ROOT_CONTEXT, done)
  })
  app.addHook('onError', (request, _reply, error, done) => {
    const own = contexts.get(request)
    if (own) trace.getSpan(own)?.setAttribute('gatehouse.code', error.code ?? 'INTERNAL')
    done()
  })
}

function startSpan(tracer: Tracer, request: FastifyRequest, parent: Context): Span {
  const { url: route } = request.routeOptions
  const isCommon = methodOf(request.method) === request.method
  const method = isCommon ? request.method : '_OTHER'
  const name = isCommon ? method : 'HTTP'
  const attributes = {
    'http.request.method': method,
    'url.scheme': request.protocol,
    'gatehouse.request_id': request.id,
    ...(route !== undefined && { 'http.route': route }),
  }
  const options = { kind: SpanKind.SERVER, attributes }
  return tracer.startSpan(route === undefined ? name : `${name} ${route}`, options, parent)
}

function endSpan(span: Span, { raw, statusCode }: FastifyReply): void {
  if (raw.headersSent) span.setAttribute('http.response.status_code', statusCode)
  const failure = raw.writableFinished ? statusCode >= 500 && String(statusCode) : 'aborted'
  if (failure) span.setAttribute('error.type', failure).setStatus({ code: SpanStatusCode.ERROR })
  span.end()
}
