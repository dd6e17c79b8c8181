import { type DestinationStream, destination, type Logger, pino, stdSerializers } from 'pino'

export type { Logger } from 'pino'

export interface LogOptions {
  /** `trace` to `fatal`, or `silent`. */
  level: string
  /** `auto` is pretty on a terminal and JSON elsewhere. */
  format: 'auto' | 'json' | 'pretty'
  /** Receives JSON lines instead of standard output. */
  stream?: DestinationStream
  /** Name of the service, on every line. */
  name: string
}

/** Creates the logger of a service. It redacts secrets, see {@link redactLine}. */
export function createLogger({ level, format, stream, name }: LogOptions): Logger {
  const isPretty = format === 'pretty' || (format === 'auto' && process.stdout.isTTY)
  return pino(
    {
      level,
      base: { name },
      hooks: { streamWrite: redactLine },
      serializers: { req: serializeRequest, res: serializeReply, err: serializeError },
    },
    stream ?? (isPretty ? prettyStream() : destination({ fd: 1, sync: true })),
  )
}

/** Leaves out headers and the query, which carry secrets. */
function serializeRequest(request: { method?: string; url?: string; ip?: string }) {
  return { method: request.method, path: request.url?.split('?', 1)[0], ip: request.ip }
}

function serializeReply(reply: { statusCode?: number }) {
  return { statusCode: reply.statusCode }
}

/** `type` is the name of the error, since bundles rename the classes of errors. */
function serializeError(error: Error) {
  return error instanceof Error ? { ...stdSerializers.err(error), type: error.name } : error
}

const REDACTED = '[redacted]'

const SECRET_NAME =
  /^(?:key|psk|jwk|pkcs8|pem|authorization|proxy-?authorization|d)$|(?:cookie|secret|password|passphrase|token|credentials?|(?:private|api|master|data|signing)[-_]?key)$/i

// A private key to the end of its string; a JWT or JWS; what follows an authorization scheme.
// Each can begin only at the start of a word, so that no input makes the search quadratic.
const SECRET_TEXT =
  /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^"]*|(?:(?<![\w-])|(?<=\\[nrt]))(?:eyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]*)*|(?:APIKey|Bearer|Basic) +[^\s"\\,]{8,})/gi

/** Matches every line that {@link redactLine} could change by the name of a member. */
const SUSPECT =
  /"[^"]*(?:key|psk|jwk|pkcs8|pem|authorization|cookie|secret|password|passphrase|token|credentials?)":|"(?:d|data|0)":/i

/**
 * A log line without secrets: members are redacted by name, at any depth, and texts by shape. pino's
 * `redact` takes fixed paths, but errors and configuration values come in any shape.
 */
export function redactLine(line: string): string {
  const text = line.replace(SECRET_TEXT, REDACTED)
  return SUSPECT.test(text) ? `${JSON.stringify(JSON.parse(text, redactMember))}\n` : text
}

function redactMember(name: string, value: unknown): unknown {
  if (SECRET_NAME.test(name)) return REDACTED
  return isBytes(value) ? '[omitted]' : value
}

/** Buffers and typed arrays, as JSON has them. */
function isBytes(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return '0' in value || ('data' in value && 'type' in value && value.type === 'Buffer')
}

/** Loads pino-pretty only for a terminal. Lines wait for it; at an early exit they are written as JSON. */
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
