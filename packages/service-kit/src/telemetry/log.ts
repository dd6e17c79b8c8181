import { randomBytes } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { type DestinationStream, destination, type Logger, pino, stdSerializers } from 'pino'
import { Histogram, type Registry } from 'prom-client'
import type { Metrics } from './metrics.ts'
import { createTerminalLines } from './terminal.ts'

const MAX_FIELD = 256
const METHODS = new Set('GET HEAD POST PUT PATCH DELETE OPTIONS'.split(' '))
/** Levels at which the lines of routine requests are written. */
const VERBOSE = new Set(['trace', 'debug'])
const TRACEPARENT = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}$/

export type { Logger }

/** The options of {@link createLogger}. */
export interface LogOptions {
  /** `trace` to `fatal`, or `silent`. */
  level: string
  /** `auto` is pretty on a terminal and JSON elsewhere. */
  format: 'auto' | 'json' | 'pretty'
  /** Receives JSON lines instead of standard output. */
  stream?: DestinationStream
  /** Name of the service, on every line. */
  name: string
  /** Returns what to do about a failure with this code; a terminal shows it. */
  actionFor?: ((code: string) => string | undefined) | undefined
}

/** Creates the logger of a service. It redacts secrets, see {@link redactLine}. */
export function createLogger(options: LogOptions): Logger {
  const { level, format, stream, name, actionFor } = options
  const isPretty = format === 'pretty' || (format === 'auto' && process.stdout.isTTY)
  return pino(
    {
      level,
      base: { name },
      hooks: { streamWrite: (line) => escaped(redactLine(line)) },
      serializers: {
        req: serializeRequest,
        res: ({ statusCode }: { statusCode?: number }) => ({ statusCode }),
        err: serializeError,
      },
    },
    stream ?? (isPretty ? prettyStream(actionFor) : destination({ fd: 1, sync: true })),
  )
}

/** Leaves out headers and the query, which carry secrets. */
function serializeRequest(request: { method?: string; url?: string; ip?: string }) {
  return { method: request.method, path: request.url?.split('?', 1)[0], ip: request.ip }
}

/** `type` is the name of the error, since bundles rename the classes of errors. */
function serializeError(error: Error) {
  return error instanceof Error ? { ...stdSerializers.err(error), type: error.name } : error
}

const REDACTED = '[redacted]'

const SECRET_NAME = /^(?:key|psk|jwk|pkcs8|pem|authorization|proxy-?authorization|d)$/i
const SECRET_ENDING =
  /(?:cookie|secret|password|passphrase|token|credentials?|(?:private|api|master|data|signing)[-_]?key)$/i

/** A private key to the end of its string, over escaped quotes. */
const PRIVATE_KEY = /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^"\\]|\\.)*/gi
// A JWT or JWS; what follows an authorization scheme. Each can begin only at the start of a word, so that no
// input makes the search quadratic.
const CREDENTIAL =
  /(?:(?<![\w-])|(?<=\\[nrt]))(?:eyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]*)*|(?:APIKey|Bearer|Basic) +[^\s"\\,]{8,})/gi

/** Matches every line that {@link redactLine} could change by the name of a member. */
const SUSPECT =
  /(?:key|psk|jwk|pkcs8|pem|authorization|cookie|secret|password|passphrase|token|credentials?|"(?:d|data|0))":/i

/**
 * A log line without secrets: members are redacted by name, at any depth, and texts by shape. pino's
 * `redact` takes fixed paths, but errors and configuration values come in any shape.
 */
export function redactLine(line: string): string {
  const text = line.replace(PRIVATE_KEY, REDACTED).replace(CREDENTIAL, REDACTED)
  return SUSPECT.test(text) ? `${JSON.stringify(JSON.parse(text, redactMember))}\n` : text
}

function redactMember(name: string, value: unknown): unknown {
  if (SECRET_NAME.test(name) || SECRET_ENDING.test(name)) return REDACTED
  return isBytes(value) ? '[omitted]' : value
}

/** Buffers and typed arrays, as JSON has them. */
function isBytes(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return '0' in value || ('data' in value && 'type' in value && value.type === 'Buffer')
}

/** Loads pino-pretty only for a terminal. Lines wait for it; at an early exit they are written as JSON. */
function prettyStream(actionFor: LogOptions['actionFor']): DestinationStream {
  const waiting: string[] = []
  const flushRaw = () => process.stdout.write(waiting.join(''))
  let take = (line: string): unknown => waiting.push(line)
  process.once('exit', flushRaw)
  const start = async () => {
    const { default: pretty } = await import('pino-pretty')
    const stream = pretty({ sync: true, singleLine: true, translateTime: 'SYS:HH:MM:ss.l' })
    const write = (line: string) => void stream.write(line)
    const later = (then: () => void, ms: number) => void setTimeout(then, ms).unref()
    const lines = createTerminalLines({ write, later, actionFor, escaped })
    process.off('exit', flushRaw)
    process.once('exit', lines.flushAll)
    take = lines.take
    for (const line of waiting.splice(0)) take(line)
  }
  void start()
  return { write: (line) => void take(line) }
}

/** A text that needs no escapes, as most do: this test takes a third of the time. */
const PLAIN = /^[\n -~]*$/
/** Characters that a terminal obeys or hides rather than shows. Printed text may be of another machine. */
const OBEYED = /[^\P{Cc}\t\n\r]|\r(?!\n)|[\p{Cf}\p{Zl}\p{Zp}]/gu

/**
 * Writes what a terminal obeys as JSON escapes it, such as `\u009b`: in JSON, the value stays the same. Line breaks and
 * tabs stay.
 */
export function escaped(text: string): string {
  if (PLAIN.test(text)) return text
  return text.replace(OBEYED, (match) => match.split('').map(escapeOf).join(''))
}

const escapeOf = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`

/** The options of {@link requestTelemetry}. */
export interface RequestTelemetryOptions {
  readonly metrics?: Metrics
  /** The function that `startOpenTelemetry` returned. */
  readonly traceRequests?: ((app: FastifyInstance) => Promise<void>) | undefined
  /** Further members of the log line of a request, such as its caller. */
  fieldsOf?(request: FastifyRequest): Readonly<Record<string, string | undefined>>
  /** Whether the line of a request is logged at the level `debug`, not `info`; by default none is. */
  isRoutine?(request: FastifyRequest, reply: FastifyReply): boolean
}

/** Adds request and trace ids, one log line per request, and the histogram of durations. */
export const requestTelemetry = fp<RequestTelemetryOptions>(
  async (app: FastifyInstance, { metrics, traceRequests, fieldsOf, isRoutine }) => {
    await traceRequests?.(app)
    app.setGenReqId(createRequestIds())
    app.setChildLoggerFactory((logger, bindings, options, { headers }) => {
      // A request that is traced gets those of its span.
      const ids = traceRequests ? undefined : traceIdsOf(headers.traceparent)
      return logger.child(ids ? { ...bindings, ...ids } : bindings, options)
    })
    const durations = metrics && createDurations(metrics.registry)
    const logsRoutine = VERBOSE.has(app.log.level)
    app.addHook('onResponse', (request, reply, done) => {
      durations?.observe(labelsOf(request, reply), reply.elapsedTime / 1_000)
      const level = isRoutine?.(request, reply) ? 'debug' : 'info'
      if (level === 'info' || logsRoutine) {
        const { method, url, ip, log } = request
        const { statusCode: status, elapsedTime } = reply
        const path = url.split('?', 1)[0]?.slice(0, MAX_FIELD)
        const ms = Math.round(elapsedTime * 1_000) / 1_000
        const { code, detail } = request.problem ?? {}
        const fields = shortened({ code, detail, ...fieldsOf?.(request) })
        log[level]({ ip, method, path, status, ms, ...fields }, 'request')
      }
      done()
    })
  },
  { name: 'service-kit/request-telemetry' },
)

function labelsOf({ method, routeOptions }: FastifyRequest, { statusCode }: FastifyReply) {
  const route = routeOptions.url ?? 'unmatched'
  return { method: methodOf(method), route, status: `${Math.trunc(statusCode / 100)}xx` }
}

/** The histogram of request durations. All of its labels have few values, whatever clients send. */
export function createDurations(registry: Registry): Histogram<'method' | 'route' | 'status'> {
  return new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Seconds from the first byte of a request to the last of its answer.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [registry],
  })
}

/** The method, or `OTHER` if it is not a common one. */
export function methodOf(method: string): string {
  return METHODS.has(method) ? method : 'OTHER'
}

/** The trace and span of the caller, as its `traceparent` header names them (W3C Trace Context). */
export interface TraceIds {
  readonly trace_id: string
  readonly span_id: string
}

/** Reads a `traceparent` header; undefined if it is not valid. */
export function traceIdsOf(header: string | string[] | undefined): TraceIds | undefined {
  const [, trace_id, span_id] = (typeof header === 'string' && TRACEPARENT.exec(header)) || []
  return trace_id !== undefined && span_id !== undefined ? { trace_id, span_id } : undefined
}

/** Creates ids that clients cannot choose: a counter after a random start, unique across restarts. */
function createRequestIds(): () => string {
  const start = randomBytes(6).toString('hex')
  let count = 0
  return () => `${start}-${(count++).toString(36)}`
}

function shortened(fields: Readonly<Record<string, string | undefined>> = {}) {
  const short: Record<string, string | undefined> = {}
  for (const name in fields) short[name] = fields[name]?.slice(0, MAX_FIELD)
  return short
}
