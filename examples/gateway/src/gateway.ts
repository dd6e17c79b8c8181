// A small reverse proxy for the demo. It asks forward-auth as Traefik does. In production, use a proxy of
// examples/proxies instead.
import { type IncomingHttpHeaders, STATUS_CODES } from 'node:http'
import httpProxy, { type FastifyHttpProxyOptions } from '@fastify/http-proxy'
import { createFetch, type FetchAnswer, parseHostPort } from '@gatehouse/net'
import { appOptions } from '@gatehouse/service-kit/http'
import type { createLogger } from '@gatehouse/service-kit/telemetry'
import { serverTlsOptions, type TlsCredentials } from '@gatehouse/service-kit/tls'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { ask, forwardedHeaders } from './check.ts'
import { clientHeaders, endToEnd, withoutSession } from './headers.ts'

const HTTPS_PORT = 443
/** The cookies of a session may have 12 kB. */
const HEADER_LIMIT = 32 * 1024
const TIMEOUT_MS = 30_000
const MAX_CONNECTIONS = 1_000
/** Limits of WebSockets, in bytes and ms. */
const WEB_SOCKET = { maxPayload: 1_048_576, closeTimeout: 1_000, handshakeTimeout: 5_000 }

/** The upstream of a host. */
export interface Route {
  /** Origin of the upstream server. */
  readonly upstream: string
  /** URL of the check to make first. Without it, everybody may pass. */
  readonly check?: string
  /** Whether the upstream is Gatehouse itself, which gets its cookies. */
  readonly isGatehouse?: boolean
}

export interface GatewayOptions {
  /** Returns the upstream of a host name; called for each request. */
  readonly routes: ReadonlyMap<string, Route>
  /**
   * `authResponseHeaders` of Traefik: every header that the portal sends, so that no header of a client
   * reaches an app.
   */
  readonly identityHeaders: readonly string[]
  /** Timeout of a check in milliseconds. Default: 5,000. */
  readonly checkTimeoutMs?: number
  readonly tls: TlsCredentials
  /** PEM certificates of the CAs that upstreams are trusted by. */
  readonly ca?: string
  readonly log: ReturnType<typeof createLogger>
}

/** The upstream of a request, and the headers to send to it. */
interface Onward {
  readonly upstream: string
  readonly headers: IncomingHttpHeaders
}

/** Builds the gateway, which does not listen yet. */
export async function buildGateway(options: GatewayOptions): Promise<FastifyInstance> {
  const { routes, identityHeaders, checkTimeoutMs = 5_000, tls, ca, log } = options
  const identity = identityHeaders.map((name) => name.toLowerCase())
  const fetch = createFetch({ timeoutMs: checkTimeoutMs })
  const app = Fastify({
    ...appOptions(log),
    return503OnClosing: true,
    https: { ...serverTlsOptions(tls), maxHeaderSize: HEADER_LIMIT },
    requestTimeout: TIMEOUT_MS,
  }) as unknown as FastifyInstance
  app.server.maxConnections = MAX_CONNECTIONS
  app.decorateRequest('onward')
  app.addHook('onClose', () => fetch.close())
  app.setErrorHandler((error: { statusCode?: number }, request, reply) => {
    request.log.warn({ err: error }, 'refused')
    return sendStatus(reply, error.statusCode ?? 500)
  })

  // Runs before upgrades as well. Whatever throws here denies the request.
  app.addHook('onRequest', async (request, reply) => {
    const place = parseHostPort(request.headers.host ?? '')
    const route = place && routes.get(place.host.name)
    if (!route) return sendStatus(reply, 404)
    const { upstream, check, isGatehouse = false } = route
    const headers: IncomingHttpHeaders = {
      ...clientHeaders(request.headers, identity),
      ...forwardedHeaders(request.raw, place.port ?? HTTPS_PORT),
    }
    if (check !== undefined) {
      const verdict = await ask(fetch, check, request.raw, headers)
      if (verdict.status >= 300) return passOn(reply, verdict)
      // What the client sent, or empty if it was a key for Gatehouse.
      Object.assign(headers, pick(verdict.headers, [...identity, 'authorization']))
    }
    const onward = { upstream, headers: isGatehouse ? headers : withoutSession(headers) }
    request.setDecorator<Onward>('onward', onward)
  })
  await app.register(httpProxy, proxyOptions(ca))
  return app
}

function proxyOptions(ca: string | undefined): FastifyHttpProxyOptions & { websocket: true } {
  const onwardOf = (request: unknown) => (request as FastifyRequest).getDecorator<Onward>('onward')
  return {
    upstream: '',
    undici: {
      headersTimeout: TIMEOUT_MS,
      bodyTimeout: TIMEOUT_MS,
      ...(ca !== undefined && { connect: { ca } }),
    },
    destroyAgent: true,
    disableRequestLogging: true,
    internalRewriteLocationHeader: false,
    replyOptions: {
      getUpstream: (request) => onwardOf(request).upstream,
      rewriteRequestHeaders: (request) => onwardOf(request).headers,
      rewriteHeaders: (headers) => endToEnd(headers as IncomingHttpHeaders),
      onError: (reply) => sendStatus(reply as FastifyReply, 502),
      // A 503 is a response and not a reason to retry.
      retryDelay: () => null,
    },
    websocket: true,
    wsServerOptions: WEB_SOCKET,
    wsClientOptions: {
      ...WEB_SOCKET,
      rewriteRequestHeaders: (_headers: object, request: FastifyRequest) =>
        onwardOf(request).headers,
    },
  }
}

/** Sends the response of a check that denies, unchanged. */
function passOn(reply: FastifyReply, { status, headers, body }: FetchAnswer): FastifyReply {
  const { 'content-length': _length, ...rest } = endToEnd(headers)
  return reply.code(status).headers(rest).send(body)
}

function sendStatus(reply: FastifyReply, status: number): FastifyReply {
  return reply.code(status).type('text/plain').send(`${status} ${STATUS_CODES[status]}\n`)
}

function pick(headers: IncomingHttpHeaders, names: readonly string[]): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => names.includes(name)))
}
