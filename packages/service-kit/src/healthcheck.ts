import { once } from 'node:events'
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'

const TIMEOUT_MS = 3_000
const UNSPECIFIED: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/** The host at which this machine reaches a service that listens on `host`. */
export function localHost(host: string): string {
  return UNSPECIFIED[host] ?? host
}

/** Resolves if a service on this machine is ready; otherwise rejects with an error of one line. */
export async function healthcheck(server: {
  /** The configured host. */
  readonly host: string
  readonly port: number
  readonly tls: boolean
}): Promise<void> {
  const { port, tls } = server
  const request = (tls ? requestHttps : requestHttp)({
    host: localHost(server.host),
    port,
    path: '/readyz',
    timeout: TIMEOUT_MS,
    // The request stays on this machine and sends nothing secret.
    rejectUnauthorized: false,
  }).end()
  request.on('timeout', () => request.destroy(new Error(`no answer within ${TIMEOUT_MS} ms`)))
  const [response] = await once(request, 'response').catch(({ code, message }) => {
    throw new Error(`not ready: ${code ?? message}`)
  })
  response.resume()
  if (response.statusCode !== 200) throw new Error(`not ready: status ${response.statusCode}`)
}
