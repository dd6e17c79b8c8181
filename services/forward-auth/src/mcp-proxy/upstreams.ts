import type { IncomingHttpHeaders } from 'node:http'
import type { Gate, Resource } from '@gatehouse/gate'
import { requireNamedFile } from '@gatehouse/service-kit/config'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Agent, type Dispatcher, request as sendRequest } from 'undici'
import { FwaError } from '../errors.ts'

/** The headers of clients that the server gets, besides those that mirror arguments (MCP 2026-07-28). */
const PASSED_ON = [
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
]
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

/** The MCP servers behind the resources. Each has connections of its own, so that a slow one delays no other. */
class Upstreams {
  readonly #agents = new Map<Resource, Agent>()

  /**
   * Sends a request on, once, to the URL of the configuration.
   *
   * @throws FwaError FWA_UPSTREAM_FAILED if there is no answer, or one that clients must not see
   */
  async send(resource: Resource, request: UpstreamRequest): Promise<UpstreamAnswer> {
    const { upstream } = resource
    if (!upstream) throw new Error(`${resource.url} has no upstream`)
    const { method, body, signal, identity, sessionId } = request
    const passed = Object.entries(request.headers).filter(
      ([name]) => PASSED_ON.includes(name) || name.startsWith(ARGUMENT_HEADER),
    )
    const headers = {
      ...(Object.fromEntries(passed) as Record<string, string>),
      ...identity,
      'accept-encoding': 'identity',
      ...(sessionId !== undefined && { 'mcp-session-id': sessionId }),
    }
    const dispatcher = this.#agentOf(resource, upstream)
    const options = { method, headers, body: body ?? null, signal, dispatcher }
    try {
      return readAnswer(await sendRequest(upstream.url, options))
    } catch (cause) {
      if (cause instanceof FwaError) throw cause
      throw failed('the MCP server cannot be reached', cause)
    }
  }

  #agentOf(resource: Resource, { caFile }: NonNullable<Resource['upstream']>): Agent {
    const agent = this.#agents.get(resource) ?? createAgent(caFile)
    this.#agents.set(resource, agent)
    return agent
  }

  /** Closes the connections to servers that are not configured any more, once their answers have ended. */
  async retain(gates: Iterable<Gate>): Promise<void> {
    const resources = new Set([...gates].flatMap(({ programs }) => programs.resources))
    const replaced = [...this.#agents].filter(([resource]) => !resources.has(resource))
    for (const [resource] of replaced) this.#agents.delete(resource)
    await Promise.all(replaced.map(([, agent]) => agent.close()))
  }

  async close(): Promise<void> {
    await Promise.all([...this.#agents.values()].map((agent) => agent.destroy()))
  }
}

function createAgent(caFile: string | undefined): Agent {
  const ca = caFile === undefined ? undefined : requireNamedFile('upstream.caFile', caFile)
  // The length of a stream is limited by its agent, and not by time between two messages.
  return new Agent({ bodyTimeout: 0, headersTimeout: HEADERS_TIMEOUT, connect: ca ? { ca } : {} })
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
