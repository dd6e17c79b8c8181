import { type IncomingHttpHeaders, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import SerializerSelector, { type SerializerFactory } from '@fastify/fast-json-stringify-compiler'
import { compileNetworks, isIp, LOOPBACK_NETWORKS, parseIp } from '@gatehouse/net'
import {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyRequest,
  type FastifySchemaCompiler,
  type FastifyServerOptions,
  LogController,
} from 'fastify'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { Compile, type XSchema } from 'typebox/schema'
import { suggest } from '../suggest.ts'
import { answerError, ownProblem, type Problem, sendProblem } from './problem.ts'
import { describeErrors, MAX_ERRORS, type RawError } from './validation.ts'

/** Leaves out Fastify's lines about requests, since `requestTelemetry` logs one line for each. */
class QuietLogController extends LogController {
  override incomingRequest(): void {}
  override requestCompleted(): void {}
  override routeNotFound(): void {}
}

/**
 * Options for `Fastify()`: the logger, strict validation, and problems also for errors before a route
 * is found.
 */
export function appOptions(log: Logger) {
  return {
    // What still arrives while the service stops is answered, on a connection that then closes.
    return503OnClosing: false,
    // A database may have to be waited for at the start.
    pluginTimeout: 60_000,
    loggerInstance: log as FastifyBaseLogger,
    logController: new QuietLogController(),
    // Fastify types this for Ajv alone.
    schemaController: {
      compilersFactory: {
        buildValidator: () => strictValidatorCompiler as never,
        buildSerializer: buildSerializer as never,
      },
    },
    frameworkErrors: (error, _, reply) => {
      answerError(error, reply)
    },
    clientErrorHandler(this: FastifyInstance, error, socket) {
      refuseConnection(error, socket, this)
    },
    schemaErrorFormatter: (errors) => new Error(describeErrors(errors as never)),
  } satisfies FastifyServerOptions
}

const buildDefaultSerializer = SerializerSelector()

/** Fastify's own serializers, but each compiled by the first answer that needs it, like validators. */
const buildSerializer: SerializerFactory = (schemas, options) => {
  const compile = buildDefaultSerializer(schemas, options)
  return (route) => {
    let serialize: ReturnType<typeof compile> | undefined
    return (answer) => {
      serialize ??= compile(route)
      return serialize(answer)
    }
  }
}

/**
 * Compiles validators that refuse instead of coercing and setting defaults. Objects in a body, query
 * or path are closed unless their schema says otherwise; numbers in a query are strings with a pattern.
 */
export const strictValidatorCompiler: FastifySchemaCompiler<object> = ({ schema, httpPart }) => {
  // Compiled by the first request, since most routes are not used and compiling slows down the start.
  let validator: ReturnType<typeof Compile> | undefined
  return (value: unknown) => {
    validator ??= Compile(httpPart === 'headers' ? schema : (closed(schema) as XSchema))
    if (validator.Check(value)) return { value }
    const [, errors] = validator.Errors(value)
    return { error: withSuggestions(errors as unknown as RawError[], schema) as never }
  }
}

/** A copy in which every object with named members refuses others. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const copy = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, key === 'default' ? value : closed(value)]),
  )
  const isOpen = copy.type === 'object' && copy.additionalProperties === undefined
  return isOpen && !copy.patternProperties ? { ...copy, additionalProperties: false } : copy
}

function withSuggestions(errors: readonly RawError[], schema: object): RawError[] {
  return errors.slice(0, 2 * MAX_ERRORS).map((error) => {
    if (error.keyword !== 'boolean') return error
    const name = error.instancePath.slice(error.instancePath.lastIndexOf('/') + 1)
    return { ...error, suggestion: suggest(name, membersAt(schema, error.schemaPath)) }
  })
}

function membersAt(schema: object, path: string): string[] {
  const steps = path.split('/').slice(1, -1)
  let node: unknown = schema
  for (const step of steps) {
    if (typeof node !== 'object' || node === null || !Object.hasOwn(node, step)) return []
    node = (node as Record<string, unknown>)[step]
  }
  return Object.keys((node as { properties?: object } | undefined)?.properties ?? {})
}

const CLIENT_ERRORS: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
}

/** Answers a connection whose bytes are not a valid HTTP request. */
function refuseConnection(
  error: NodeJS.ErrnoException,
  socket: Socket,
  app: FastifyInstance,
): void {
  const status = CLIENT_ERRORS[error.code ?? ''] ?? 400
  const title = STATUS_CODES[status] ?? ''
  const body = JSON.stringify(ownProblem(app, 'HTTP_INVALID', status, `${title}.`))
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

/**
 * Refuses requests that a proxy may interpret differently: those with two Host headers, and those
 * with an encoded body. Sets `X-Content-Type-Options: nosniff` on every answer.
 */
export const strictHttp = fp(
  async (app: FastifyInstance) => {
    app.addHook('onRequest', (request, reply, done) => {
      reply.header('x-content-type-options', 'nosniff')
      const problem = faultOf(request)
      if (problem) return sendProblem(reply.header('connection', 'close'), problem)
      // Some clients send a content type without a body.
      if (request.method === 'DELETE' && !hasBody(request)) delete request.headers['content-type']
      done()
    })
  },
  { name: 'service-kit/strict-http', dependencies: ['service-kit/problems'] },
)

function faultOf(request: FastifyRequest): Problem | undefined {
  const { headers, raw, server } = request
  if (isRepeated(raw.rawHeaders, 'host'))
    return ownProblem(server, 'HTTP_INVALID', 400, 'The request has more than one Host header.')

  const transfer = headers['transfer-encoding']
  if (transfer !== undefined && transfer.trim().toLowerCase() !== 'chunked') {
    const detail = 'The body has a transfer coding other than `chunked`.'
    return ownProblem(server, 'HTTP_ENCODING', 501, detail)
  }
  const encoding = headers['content-encoding'] ?? 'identity'
  if (encoding.trim().toLowerCase() === 'identity' || !readsBody(request)) return undefined
  const detail = 'The body has a `Content-Encoding`; send it without one.'
  return ownProblem(server, 'HTTP_ENCODING', 415, detail)
}

/**
 * Whether a header is there more than once: Node uses the first `Host`, other software the last.
 *
 * @param rawHeaders - names and values, in turn
 * @param header - its name in lower case
 */
export function isRepeated(rawHeaders: readonly string[], header: string): boolean {
  let count = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? ''
    if (name.length === header.length && name.toLowerCase() === header) count++
  }
  return count > 1
}

function hasBody({ headers }: FastifyRequest): boolean {
  const length = headers['content-length'] ?? '0'
  return headers['transfer-encoding'] !== undefined || length !== '0'
}

/** Whether a body is read. A check has the headers of another request, whose body it does not read. */
function readsBody(request: FastifyRequest): boolean {
  const { mediaType, server } = request
  return hasBody(request) && mediaType !== undefined && server.hasContentTypeParser(mediaType)
}

const MAX_PEERS = 1_000
/** An IPv6 address that ends in an IPv4 address (RFC 4291 section 2.2). */
const MAX_ADDRESS_LENGTH = 45

/** More hops than any genuine chain has. */
const MAX_FORWARDED_FOR = 2_048

/** The other end of a connection, such as a socket of Node. */
export interface Peer {
  readonly remoteAddress?: string | undefined
  /** For TLS sockets: whether the client certificate was verified. */
  readonly authorized?: boolean
}

/** A request of Node, or what it has of one. */
interface ForwardedFor {
  readonly socket: Peer
  readonly headers: IncomingHttpHeaders
}

export type Trust = ReturnType<typeof createTrust>

/**
 * Decides which peers are trusted: listed proxies, and holders of a verified client certificate. Only
 * these can set `X-Forwarded-For`, `-Host` and `-Proto`. `isProxy` is Fastify's option `trustProxy`,
 * which needs {@link forwardedAddresses}.
 *
 * @param trustedProxies - networks in CIDR notation, beside host names, which are nobody's address;
 * undefined means loopback only, an empty list that only client certificates count
 */
export function createTrust(trustedProxies: readonly string[] = LOOPBACK_NETWORKS) {
  const isTrusted = compileNetworks(trustedProxies)
  // Each request asks for the same few addresses, and Fastify asks several times.
  const peers = new LRUCache<string, boolean>({ max: MAX_PEERS, memoMethod: isTrusted })
  const clients = new LRUCache<string, string>({ max: MAX_PEERS })
  const isProxy = (address: string) => address.length <= MAX_ADDRESS_LENGTH && peers.memo(address)

  function trusts({ authorized, remoteAddress = '' }: Peer): boolean {
    return authorized === true || isProxy(remoteAddress)
  }

  /**
   * The address of the client: that of an untrusted peer itself, else the first untrusted hop from
   * the right of `X-Forwarded-For`. Undefined if the chain is missing or unreadable.
   */
  function clientIp({ socket, headers }: ForwardedFor): string | undefined {
    if (!trusts(socket)) return parseIp(socket.remoteAddress ?? '')?.text
    // Node joins the values of several headers.
    const forwardedFor = headers['x-forwarded-for'] as string | undefined
    if (forwardedFor === undefined || forwardedFor.length > MAX_FORWARDED_FOR) return undefined
    const cached = clients.get(forwardedFor)
    if (cached !== undefined) return cached
    const hops = forwardedFor.split(',').map((hop) => parseIp(hop.trim())?.text)
    const client = hops.findLastIndex((hop = '') => !isProxy(hop))
    const address = hops[Math.max(client, 0)]
    if (address !== undefined) clients.set(forwardedFor, address)
    return address
  }
  return { isProxy, trusts, clientIp }
}

/**
 * Keeps `request.ip` an IP address: if a trusted proxy passes on anything else in `X-Forwarded-For`,
 * the entry to its right is used.
 */
export const forwardedAddresses = fp(
  async (app: FastifyInstance) => {
    app.addHook('onRequest', (request, _reply, done) => {
      const { headers } = request.raw
      if (headers['x-forwarded-for'] !== undefined) {
        const [, ...hops] = request.ips ?? []
        const nearest = hops.at(-1)
        if (nearest !== undefined && !isIp(nearest))
          headers['x-forwarded-for'] = hops.slice(0, -1).reverse().join(', ')
      }
      done()
    })
  },
  { name: 'service-kit/forwarded-addresses' },
)
