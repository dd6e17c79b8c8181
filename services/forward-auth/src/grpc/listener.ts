import { once } from 'node:events'
import { createServer } from 'node:net'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:tls'
import { limitConnections, listenError } from '@gatehouse/service-kit/lifecycle'
import { Server, ServerCredentials, type ServerUnaryCall } from '@grpc/grpc-js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import inject, { type InjectOptions } from 'light-my-request'
import type { ForwardAuthConfig } from '../config/schema.ts'
import { httpsOptions } from '../own-tls.ts'
import { denied, toCheck, toResponse } from './ext-authz.ts'
import {
  type CheckRequest,
  type CheckResponse,
  EXT_AUTHZ,
  HEALTH,
  NOT_SERVING,
  SERVING,
} from './messages.ts'

/** Envoy takes 60 kB of headers by default. Bodies are not asked for. */
const MAX_MESSAGE = 98_304
const MAX_STREAMS = 1_000

/**
 * Answers Envoy's `ext_authz` over gRPC, and gRPC health checks. Each call becomes a request to the
 * route for HTTP, so that all hooks count and the decision is the same. Listens when the app is ready.
 */
export const grpc = fp<Pick<ForwardAuthConfig, 'server'>>(
  async (app: FastifyInstance, { server: { grpc: address, basePath, tls } }) => {
    if (!address) return
    const isAuthorized = tls?.clientCaFile !== undefined
    const ask = (call: ServerUnaryCall<unknown, unknown>, request: InjectOptions) =>
      inject(
        (raw, response) => {
          Object.assign(raw.socket, { authorized: isAuthorized })
          app.routing(raw, response)
        },
        // grpc-js writes it with the port.
        { ...request, remoteAddress: call.getPeer().replace(/:\d*$/, '') },
      )

    async function check(call: ServerUnaryCall<CheckRequest, CheckResponse>) {
      const names = [...app.portals.keys()]
      const onlyPortal = names.length === 1 ? names[0] : undefined
      const { portal, request } = toCheck(call.request, { basePath, onlyPortal })
      const answer = await ask(call, request)
      return toResponse(answer, app.portals.get(portal)?.gate.headerNames, call.request)
    }

    const server = new Server({
      'grpc.max_receive_message_length': MAX_MESSAGE,
      'grpc.max_concurrent_streams': MAX_STREAMS,
    })
    server.addService(EXT_AUTHZ, {
      Check: unary(check, (error) => {
        app.log.error({ err: error }, 'gRPC check failed')
        return denied({ statusCode: 403, headers: {}, payload: '' })
      }),
    })
    server.addService(HEALTH, {
      Check: unary(
        async (call) => ({
          status: (await ask(call, { url: '/readyz' })).statusCode === 200 ? SERVING : NOT_SERVING,
        }),
        () => ({ status: NOT_SERVING }),
      ),
    })
    listenWith(app, server, address, tls)
  },
  {
    name: 'forward-auth/grpc',
    dependencies: ['forward-auth/check', 'forward-auth/own-tls', 'forward-auth/portals'],
  },
)

/** A handler that never answers with an error of gRPC. */
function unary<Request, Response>(
  handle: (call: ServerUnaryCall<Request, Response>) => Promise<Response>,
  onError: (error: unknown) => Response,
) {
  return (
    call: ServerUnaryCall<Request, Response>,
    callback: (error: null, response: Response) => void,
  ) => {
    void handle(call)
      .catch(onError)
      .then((response) => callback(null, response))
  }
}

/** Listens with the credentials of HTTPS, and ends with the app once open calls are answered. */
function listenWith(
  app: FastifyInstance,
  server: Server,
  address: { readonly host: string; readonly port: number },
  tls: ForwardAuthConfig['server']['tls'],
): void {
  // A connection over TLS is that of HTTPS already.
  const { injectConnection } = server.createConnectionInjector(ServerCredentials.createInsecure())
  const options = tls && { ...httpsOptions(tls), ALPNProtocols: ['h2'] }
  const listener = options
    ? createTlsServer(
        { ...options, rejectUnauthorized: options.requestCert === true },
        injectConnection,
      )
    : createServer(injectConnection)
  if (tls) app.secureServer(listener as TlsServer)
  limitConnections(listener, app.log)

  app.addHook('onReady', async () => {
    listener.listen(address.port, address.host)
    await once(listener, 'listening').catch((error) => {
      throw listenError(error, address)
    })
    app.log.info({ address: listener.address() }, 'ready for gRPC')
  })
  app.addHook('preClose', async () => {
    if (!listener.listening) return
    // When the last connection is closed; `tryShutdown` calls back before open calls are answered.
    const closed = once(listener, 'close')
    listener.close()
    server.tryShutdown(() => {})
    await closed
  })
}
