import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'

const TIMEOUT_MS = 3_000
const UNSPECIFIED: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/** Asks a service on this machine whether it is ready; rejects with one line if it is not. */
export async function healthcheck(server: {
  /** As it is configured to listen on. */
  readonly host: string
  readonly port: number
  readonly tls: boolean
}): Promise<void> {
  const { port, tls } = server
  const host = UNSPECIFIED[server.host] ?? server.host
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const asked = (tls ? requestHttps : requestHttp)(
    {
      host,
      port,
      path: '/readyz',
      timeout: TIMEOUT_MS,
      // Only a yes or no is asked of this very machine, and nothing secret is sent.
      rejectUnauthorized: false,
    },
    (response) => {
      response.resume()
      if (response.statusCode === 200) resolve()
      else reject(new Error(`not ready: status ${response.statusCode}`))
    },
  )
  asked.on('timeout', () => asked.destroy(new Error(`no answer within ${TIMEOUT_MS} ms`)))
  asked.on('error', ({ code, message }: NodeJS.ErrnoException) =>
    reject(new Error(`not ready: ${code ?? message}`)),
  )
  asked.end()
  return promise
}
