import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { type FastifyBaseLogger, type FastifyServerOptions, LogController } from 'fastify'
import type { Logger } from 'pino'
import { answerError, ownProblem, type ProblemOptions } from './problem.ts'
import { describeErrors, strictValidatorCompiler } from './validation.ts'

/** Leaves out Fastify's lines about requests, since `requestTelemetry` logs one line for each. */
class QuietLogController extends LogController {
  override incomingRequest(): void {}
  override requestCompleted(): void {}
  override routeNotFound(): void {}
}

/**
 * Options for `Fastify()`: the logger, strict validation, and problem+json also for errors before a
 * route is found.
 */
export function appOptions(log: Logger, { docsUrl }: Pick<ProblemOptions, 'docsUrl'> = {}) {
  return {
    // `strictHttp` answers 503 with a problem.
    return503OnClosing: false,
    loggerInstance: log as FastifyBaseLogger,
    logController: new QuietLogController(),
    // Fastify types this for Ajv alone.
    schemaController: {
      compilersFactory: {
        buildValidator: () => strictValidatorCompiler as never,
      },
    },
    frameworkErrors: (error, request, reply) => {
      answerError(error, request, reply, { statusOf: {}, ...(docsUrl && { docsUrl }) })
    },
    clientErrorHandler: (error, socket) => refuseConnection(error, socket, docsUrl),
    schemaErrorFormatter: (errors) => new Error(describeErrors(errors as never)),
  } satisfies FastifyServerOptions
}

const CLIENT_ERRORS: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
}

/** Answers a connection whose bytes are not a valid HTTP request. */
function refuseConnection(
  error: NodeJS.ErrnoException,
  socket: Socket,
  docsUrl: ProblemOptions['docsUrl'],
): void {
  const status = CLIENT_ERRORS[error.code ?? ''] ?? 400
  const title = STATUS_CODES[status] ?? ''
  const body = JSON.stringify(ownProblem('HTTP_INVALID', status, `${title}.`, docsUrl))
  // Nothing can be sent after a reset, or in the middle of an answer.
  const response = (socket as Socket & { _httpMessage?: ServerResponse })._httpMessage
  if (socket.writable && error.code !== 'ECONNRESET' && !response?.headersSent)
    socket.write(
      `HTTP/1.1 ${status} ${title}\r\nContent-Type: application/problem+json\r\n` +
        `X-Content-Type-Options: nosniff\r\n` +
        `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    )
  socket.destroy(error)
}
