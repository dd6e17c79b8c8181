import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'

const TIMEOUT_MS = 3_000
const UNSPECIFIED: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/** Resolves if a service on this machine is ready; otherwise rejects with an error of one line. */
export async function healthcheck(server: {
  /** As configured. */
  readonly host: string
  readonly port: number
  readonly tls: boolean
}): Promise<void> {
  const { port, tls } = server
  const host = UNSPECIFIED[server.host] ?? server.host
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const request = (tls ? requestHttps : requestHttp)(
    {
      host,
      port,
      path: '/readyz',
      timeout: TIMEOUT_MS,
      // The request stays on this machine and sends nothing secret.
      rejectUnauthorized: false,
    },
    (response) => {
      response.resume()
      if (response.statusCode === 200) resolve()
      else reject(new Error(`not ready: status ${response.statusCode}`))
    },
  )
  request.on('timeout', () => request.destroy(new Error(`no answer within ${TIMEOUT_MS} ms`)))
  request.on('error', ({ code, message }: NodeJS.ErrnoException) =>
    reject(new Error(`not ready: ${code ?? message}`)),
  )
  request.end()
  return promise
}
