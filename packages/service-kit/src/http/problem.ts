import { STATUS_CODES } from 'node:http'
import type { TitledError } from '@gatehouse/net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import createRouter from 'find-my-way'
import { type Static, Type } from 'typebox'
import { FASTIFY_ERRORS, HTTP_ERRORS } from '../errors.ts'
import { prefersPage } from './navigation.ts'
import { describeMediaType, fieldErrors } from './validation.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The options of {@link problems}, once it is registered. */
    readonly problemOptions?: ProblemOptions
  }
  interface FastifyContextConfig {
    /** Whether a route is for people, whatever their browser says: its problems are pages. */
    readonly isPage?: boolean
  }
  interface FastifyRequest {
    /** The problem that this request is answered with; the log line of the request names it. */
    problem?: { readonly code: string; readonly detail?: string | undefined } | undefined
  }
}

/** Body of every error answer (RFC 9457), sent as `application/problem+json`. */
export const ProblemSchema = Type.Object(
  {
    type: Type.String({
      format: 'uri-reference',
      description: 'Row of the error page that says what to do, or about:blank.',
    }),
    title: Type.String({ description: 'The same words for every problem with this code.' }),
    status: Type.Integer({ description: 'HTTP status.' }),
    detail: Type.Optional(Type.String({ description: 'What was wrong with this request.' })),
    code: Type.String({ description: 'Stable name of the problem.' }),
    errors: Type.Optional(
      Type.Array(
        Type.Object({
          pointer: Type.String({ description: 'JSON pointer to the member.' }),
          detail: Type.String({ description: 'What is wrong with it.' }),
        }),
        { description: 'One entry per member that was refused.' },
      ),
    ),
    action: Type.Optional(Type.String({ description: 'What to do in this case.' })),
    requestId: Type.Optional(
      Type.String({ description: 'Finds the cause of a 5xx answer in the log.' }),
    ),
  },
  { description: 'A problem (RFC 9457).' },
)
export type Problem = Static<typeof ProblemSchema>

/** The options of {@link problems}. */
export interface ProblemOptions {
  /** The status of each error code that clients may see. */
  readonly statusOf: Readonly<Record<string, number>>
  /** Page of the error reference; `type` is this URL with the code as fragment. */
  readonly docsUrl?: string | (() => string)
  /** Answers people with a page, where a browser shows the answer. Default: they get problem+json too. */
  page?(problem: Problem, request: FastifyRequest, reply: FastifyReply): FastifyReply
}

/** The members of an error that its answer is made of. */
interface ClientError extends Partial<Omit<TitledError, 'code' | 'name' | 'cause'>> {
  readonly code?: unknown
  /** The status 4xx or 5xx, for codes of a service, instead of the one in its table. */
  readonly statusCode?: unknown
  /** Path of a resource with more details, for callers that may read it. */
  readonly location?: string
  readonly errors?: Problem['errors']
  readonly validation?: Parameters<typeof fieldErrors>[0]
}

const MEANT_FOR_CLIENTS = /^(FST|AUTH)_/

/** The problem of an error whose code is in `statusOf`, or that is of Fastify (4xx) or auth-core; of any other a bare 500. */
function toProblem(
  error: ClientError | undefined,
  requestId: string,
  { statusOf = {}, docsUrl }: Partial<ProblemOptions> = {},
): Problem {
  const code = String(error?.code)
  const status = statusOfError(error, statusOf)
  if (!error || status === undefined) {
    const { title } = HTTP_ERRORS.INTERNAL
    return { type: typeUrl('INTERNAL', docsUrl), title, status: 500, code: 'INTERNAL', requestId }
  }
  const isExposed = (error.expose ?? status < 500) === true
  const errors = error.validation ? fieldErrors(error.validation) : error.errors
  return {
    ...(isExposed && error.members),
    type: typeUrl(code, docsUrl),
    title: String(error.title ?? TITLED[code]?.title ?? STATUS_CODES[status] ?? code),
    status,
    ...(isExposed && { detail: String(error.message) }),
    code,
    ...(isExposed && errors && { errors }),
    ...((status >= 500 || error.expose === false) && { requestId }),
  }
}

const TITLED: Readonly<Record<string, { readonly title: string }>> = {
  ...FASTIFY_ERRORS,
  INTERNAL: HTTP_ERRORS.INTERNAL,
}

/** Sends a problem. Nothing else writes one. */
export function sendProblem(reply: FastifyReply, problem: Problem): FastifyReply {
  return reply
    .code(problem.status)
    .type('application/problem+json')
    .header('cache-control', 'no-store')
    .header('x-content-type-options', 'nosniff')
    .send(JSON.stringify(problem))
}

/** A problem that a service answers by itself. */
export function ownProblem(
  { problemOptions }: Pick<FastifyInstance, 'problemOptions'>,
  code: keyof typeof HTTP_ERRORS,
  status: number,
  detail: string,
): Problem {
  const type = typeUrl(code, problemOptions?.docsUrl)
  return { type, title: HTTP_ERRORS[code].title, status, detail, code }
}

/** Answers an error with its problem, and logs the error itself. */
export function answerError(error: unknown, reply: FastifyReply): FastifyReply {
  const { request, server } = reply
  if (request.raw.destroyed && (error as ClientError | undefined)?.code === 'ECONNRESET') {
    request.log.info('client hung up before its request was complete')
    return sendProblem(reply, ownProblem(server, 'HTTP_INVALID', 400, 'The body is not whole.'))
  }
  const described = describeError(error, request)
  const problem = toProblem(described, request.id, server.problemOptions)
  const isOurs = problem.requestId !== undefined
  const level = problem.code === 'INTERNAL' ? 'error' : isOurs ? 'warn' : 'debug'
  request.log[level]({ err: error, code: problem.code }, 'request refused')
  const retryAfter = Number(described?.retryAfter)
  if (retryAfter > 0) reply.header('retry-after', Math.ceil(retryAfter))
  if (problem.code !== 'INTERNAL') {
    if (described?.headers) reply.headers(described.headers)
    if (described?.location !== undefined) reply.header('location', described.location)
  }
  return answer(problem, reply)
}

/** Answers with a problem, or its page. An error of the page must not reach Fastify, which would send its message. */
function answer(problem: Problem, reply: FastifyReply): FastifyReply {
  const { request, server } = reply
  const { page } = server.problemOptions ?? {}
  request.problem = problem
  try {
    if (page && (request.routeOptions.config.isPage || prefersPage(request)))
      return page(problem, request, reply)
  } catch (error) {
    request.log.error({ err: error }, 'the error page could not be rendered')
  }
  return sendProblem(reply, problem)
}

/** Error and not-found handler of a service. Register it before any route. */
export const problems = fp<ProblemOptions>(
  async (app: FastifyInstance, options) => {
    const methods = createMethodTable()
    app.decorate('problemOptions', options)
    app.decorateRequest('problem', undefined)
    app.addHook('onRoute', ({ url, method }) => methods.add(url, method))
    app.setErrorHandler((error, _, reply) => answerError(error, reply))
    app.setNotFoundHandler((request, reply) => {
      const supported = methods.allowedFor(request.url)
      // A route that found nothing allows the method.
      const allowed = supported.includes(request.method) ? [] : supported
      if (allowed.length > 0) reply.header('allow', allowed.join(', '))
      return answer(nothingThere(app, allowed), reply)
    })
  },
  { name: 'service-kit/problems' },
)

function nothingThere(app: FastifyInstance, allowed: readonly string[]): Problem {
  if (allowed.length === 0)
    return ownProblem(app, 'NOT_FOUND', 404, 'There is nothing at this path.')
  const detail = `This path answers ${allowed.join(', ')}.`
  return ownProblem(app, 'METHOD_NOT_ALLOWED', 405, detail)
}

/** The status of an error that clients may know about; undefined for any other error. */
export function statusOfError(
  error: unknown,
  statusOf: ProblemOptions['statusOf'],
): number | undefined {
  const { code: named, statusCode } = (error ?? {}) as ClientError
  const code = String(named)
  const status = Number(statusCode)
  const isStatus = status >= 400 && status < 600
  if (code === 'INTERNAL') return isStatus ? status : undefined
  if (Object.hasOwn(statusOf, code)) return isStatus ? status : statusOf[code]
  const isKnown = isStatus && (status < 500 || code.startsWith('AUTH_'))
  return isKnown && MEANT_FOR_CLIENTS.test(code) ? status : undefined
}

function typeUrl(code: string, docsUrl: ProblemOptions['docsUrl']): string {
  const page = typeof docsUrl === 'function' ? docsUrl() : docsUrl
  return page ? `${page}#${code}` : 'about:blank'
}

/** The methods that each path answers, to distinguish a wrong method from a wrong path. */
function createMethodTable() {
  const patterns = createRouter()
  const methodsOf = new Map<string, Set<string>>()

  return {
    add(pattern: string, method: string | readonly string[]): void {
      const methods = methodsOf.get(pattern) ?? new Set()
      for (const name of [method].flat()) methods.add(name)
      if (methodsOf.has(pattern)) return
      methodsOf.set(pattern, methods)
      patterns.on('GET', pattern, () => {}, methods)
    },
    /** Empty if nothing answers the path. */
    allowedFor(url: string): string[] {
      const route = patterns.find('GET', url.split('?', 1)[0] ?? url)
      return route ? [...(route.store as Set<string>)].toSorted() : []
    },
  }
}

/** The error itself, but with a message about the expected media type where Fastify has none. */
function describeError(error: unknown, request: FastifyRequest): ClientError | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  const { code } = error as ClientError
  if (code !== 'FST_ERR_CTP_INVALID_MEDIA_TYPE') return error
  return { code, statusCode: 415, message: describeMediaType(request) }
}
