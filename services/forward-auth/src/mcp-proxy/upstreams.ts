import type { IncomingHttpHeaders } from 'node:http'
import type { Gate, Resource } from '@gatehouse/gate'
import { requireNamedFile } from '@gatehouse/service-kit/config'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { type Dispatcher, Pool } from 'undici'
import { FwaError } from '../errors.ts'

/** The headers of clients that the server gets, besides those that mirror arguments (MCP 2026-07-28). */
const PASSED_ON: ReadonlySet<string | undefined> = new Set([
  'accept',
  'accept-language',
  'content-type',
  'last-event-id',
  'mcp-method',
  'mcp-name',
  'mcp-protocol-version',
  'traceparent',
  'tracestate',
  'user-agent',
])
const ARGUMENT_HEADER = 'mcp-param-'
/** The headers of answers that clients get, besides the session. A challenge would lead them to another server. */
const PASSED_BACK = ['content-type', 'cache-control', 'retry-after', 'allow']
/** Statuses whose meaning is Gatehouse's alone: who may, and where. */
const RESERVED_STATUSES: readonly number[] = [401, 403, 407]
/** The longest time without the beginning of an answer, in ms: a tool may run for long. */
const HEADERS_TIMEOUT = 3_600_000

/** A request for an MCP server, as it goes there. */
interface UpstreamRequest {
  readonly method: Dispatcher.HttpMethod
  readonly headers: IncomingHttpHeaders
  /** The session as the server names it. */
  readonly sessionId: string | undefined
  /** The headers that say who sends it. */
  readonly identity: Readonly<Record<string, string>>
  readonly body: Buffer | undefined
  readonly signal: AbortSignal
}

/** An answer of an MCP server. */
export interface UpstreamAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly sessionId: string | undefined
  readonly isStream: boolean
  readonly body: Dispatcher.ResponseData['body']
}

/** An MCP server: the connections to it, and the path of its URL. */
interface McpServer {
  readonly pool: Pool
  readonly path: string
}

/** The MCP servers behind the resources. Each has connections of its own, so that a slow one delays no other. */
class Upstreams {
  readonly #servers = new Map<Resource, McpServer>()

  /**
   * Sends a request on, once, to the URL of the configuration.
   *
   * @throws FwaError FWA_UPSTREAM_FAILED if there is no answer, or one that clients must not see
   */
  async send(resource: Resource, request: UpstreamRequest): Promise<UpstreamAnswer> {
    const { method, body = null, signal, identity, sessionId } = request
    const passed = Object.entries(request.headers).filter(
      ([name]) => PASSED_ON.has(name) || name.startsWith(ARGUMENT_HEADER),
    )
    const headers = {
      ...(Object.fromEntries(passed) as Record<string, string>),
      ...identity,
      'accept-encoding': 'identity',
      ...(sessionId !== undefined && { 'mcp-session-id': sessionId }),
    }
    const { pool, path } = this.#serverOf(resource)
    try {
      return readAnswer(await pool.request({ path, method, headers, body, signal }))
    } catch (cause) {
      if (cause instanceof FwaError) throw cause
      throw failed('the MCP server cannot be reached', cause)
    }
  }

  #serverOf(resource: Resource): McpServer {
    const server = this.#servers.get(resource) ?? createServer(resource)
    this.#servers.set(resource, server)
    return server
  }

  /** Closes the connections to servers that are not configured any more, once their answers have ended. */
  async retain(gates: Iterable<Gate>): Promise<void> {
    const resources = new Set([...gates].flatMap(({ programs }) => programs.resources))
    const replaced = [...this.#servers].filter(([resource]) => !resources.has(resource))
    for (const [resource] of replaced) this.#servers.delete(resource)
    await Promise.all(replaced.map(([, { pool }]) => pool.close()))
  }

  async close(): Promise<void> {
    await Promise.all([...this.#servers.values()].map(({ pool }) => pool.destroy()))
  }
}

function createServer({ url, upstream }: Resource): McpServer {
  if (!upstream) throw new Error(`${url} has no upstream`)
  const { caFile } = upstream
  const ca = caFile === undefined ? undefined : requireNamedFile('upstream.caFile', caFile)
  const { origin, pathname } = new URL(upstream.url)
  // The length of a stream is limited by its agent, and not by time between two messages.
  const times = { bodyTimeout: 0, headersTimeout: HEADERS_TIMEOUT }
  return { pool: new Pool(origin, { ...times, connect: ca ? { ca } : {} }), path: pathname }
}

function readAnswer({ statusCode, headers, body }: Dispatcher.ResponseData): UpstreamAnswer {
  const isRedirect = statusCode >= 300 && statusCode < 400
  const why = headers['content-encoding']
    ? 'it is encoded'
    : (isRedirect || RESERVED_STATUSES.includes(statusCode)) && `its status is ${statusCode}`
  if (why) {
    body.destroy().on('error', () => {})
    throw failed(`the answer of the MCP server is not one for clients: ${why}`)
  }
  const passed = PASSED_BACK.flatMap((name) => {
    const value = headers[name]
    return typeof value === 'string' ? [[name, value] as const] : []
  })
  const sessionId = headers['mcp-session-id']
  return {
    status: statusCode,
    headers: Object.fromEntries(passed),
    sessionId: typeof sessionId === 'string' ? sessionId : undefined,
    isStream: /^text\/event-stream(?:;|$)/i.test(String(headers['content-type'] ?? '')),
    body,
  }
}

function failed(message: string, cause?: unknown): FwaError {
  return new FwaError('FWA_UPSTREAM_FAILED', message, { cause })
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly upstreams: Upstreams
  }
}

export const upstreams = fp(
  async (app: FastifyInstance) => {
    const upstreams = new Upstreams()
    app.decorate('upstreams', upstreams)
    app.onReload(async () => () => {
      const gates = [...app.portals.values()].map(({ gate }) => gate)
      upstreams.retain(gates).catch((error) => {
        app.log.error({ err: error }, 'connections to old MCP servers were not closed')
      })
    })
    app.addHook('onClose', () => upstreams.close())
  },
  { name: 'forward-auth/upstreams', dependencies: ['forward-auth/portals', 'service-kit/reload'] },
)
