import { type DestinationStream, destination, type Logger, pino } from 'pino'
import { scrubLine, scrubMembers } from './scrub.ts'

export interface LogOptions {
  /** `trace` to `fatal`, or `silent`. */
  level: string
  /** `auto` is pretty on a terminal and JSON elsewhere. */
  format: 'auto' | 'json' | 'pretty'
  /** Instead of standard output; always gets JSON lines. */
  stream?: DestinationStream
  /** Of the service, on every line. */
  name: string
}

/** A logger that replaces secrets: by name at any depth, and by shape in every text. */
export function createLogger({ level, format, stream, name }: LogOptions): Logger {
  const isPretty = format === 'pretty' || (format === 'auto' && process.stdout.isTTY)
  const log = pino(
    {
      level,
      base: { name },
      formatters: { log: scrubRecord },
      hooks: { streamWrite: scrubLine },
      // Errors are plain by then.
      serializers: { req: describeRequest, res: describeReply, err: (error) => error },
    },
    stream ?? (isPretty ? prettyStream() : destination({ fd: 1, sync: true })),
  )
  // pino has no hook for what a child logger is bound to.
  const { child } = log
  log.child = function scrubbedChild(this: Logger, bindings, options) {
    return child.call(this, scrubMembers(bindings), options)
  } as typeof child
  return log
}

/** Writes finished JSON lines to where the logger writes its own; none without a pino logger. */
export function lineWriter(log: object): ((lines: string) => void) | undefined {
  const stream = (log as { [pino.symbols.streamSym]?: DestinationStream })[pino.symbols.streamSym]
  return stream && ((lines) => stream.write(lines))
}

function scrubRecord({ req, res, ...record }: Record<string, unknown>): Record<string, unknown> {
  return { ...(req ? { req } : {}), ...(res ? { res } : {}), ...scrubMembers(record) }
}

/** Without headers and query, which carry secrets. */
function describeRequest(request: { method?: string; url?: string; ip?: string }) {
  return { method: request.method, path: request.url?.split('?', 1)[0], ip: request.ip }
}

function describeReply(reply: { statusCode?: number }) {
  return { statusCode: reply.statusCode }
}

/** Loads pino-pretty when a terminal needs it; lines wait for it, and at an early exit are written raw. */
function prettyStream(): DestinationStream {
  const waiting: string[] = []
  const flushRaw = () => process.stdout.write(waiting.join(''))
  let write = (line: string): unknown => waiting.push(line)
  process.once('exit', flushRaw)
  const start = async () => {
    const { default: pretty } = await import('pino-pretty')
    const stream = pretty({
      sync: true,
      ignore: 'pid,hostname,name',
      translateTime: 'SYS:HH:MM:ss.l',
    })
    process.off('exit', flushRaw)
    write = (line) => stream.write(line)
    for (const line of waiting.splice(0)) write(line)
  }
  void start()
  return { write: (line) => void write(line) }
}
