import type { FastifyBaseLogger } from 'fastify'

type Bindings = Record<string, unknown>
type Options = Parameters<FastifyBaseLogger['child']>[1]

const METHODS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent', 'child'] as const

/**
 * The logger of one request, made when the request first logs. Most never do, and a child logger
 * costs more than many an answer.
 */
class RequestLog {
  #logger: FastifyBaseLogger | undefined
  readonly #parent: FastifyBaseLogger
  readonly #bindings: Bindings
  readonly #options: Options

  constructor(parent: FastifyBaseLogger, bindings: Bindings, options: Options) {
    this.#parent = parent
    this.#bindings = bindings
    this.#options = options
  }

  get logger(): FastifyBaseLogger {
    this.#logger ??= this.#parent.child(this.#bindings, this.#options)
    return this.#logger
  }

  get level(): string {
    return this.logger.level
  }

  set level(level: string) {
    this.logger.level = level
  }
}

for (const method of METHODS)
  Object.defineProperty(RequestLog.prototype, method, {
    value(this: RequestLog, ...args: [never, never]) {
      return this.logger[method](...args)
    },
  })

export function createRequestLog(
  parent: FastifyBaseLogger,
  bindings: Bindings,
  options: Options,
): FastifyBaseLogger {
  return new RequestLog(parent, bindings, options) as unknown as FastifyBaseLogger
}
