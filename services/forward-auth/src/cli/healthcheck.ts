import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { ForwardAuthConfig } from '../config/schema.ts'

const TIMEOUT_MS = 3_000
const UNSPECIFIED: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/** Asks the running service whether it is ready; rejects with one line if it is not. */
export async function healthcheck({ server }: ForwardAuthConfig): Promise<void> {
  const { tls, port } = server
  const host = UNSPECIFIED[server.host] ?? server.host
  const request = tls ? requestHttps : requestHttp
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const asked = request(
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
