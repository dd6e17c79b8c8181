import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createDemoIdp, type DemoIdpOptions } from './idp.ts'

export interface DemoIdp {
  readonly issuer: string
  /** The origin that it listens on, which differs from the issuer behind a proxy. */
  readonly url: string
  close(): Promise<void>
}

export interface StartOptions extends Omit<DemoIdpOptions, 'issuer' | 'isProxied'> {
  /** Origin of the reverse proxy in front. Without it, the issuer is the origin that it listens on. */
  readonly issuer?: string
  /** Default: 127.0.0.1. */
  readonly host?: string
  /** Default: any free port. */
  readonly port?: number
}

/** Listens on plain HTTP. */
export async function startDemoIdp({
  host = '127.0.0.1',
  port = 0,
  ...options
}: StartOptions): Promise<DemoIdp> {
  const server = createServer().listen(port, host)
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { issuer = url } = options
  server.on('request', createDemoIdp({ ...options, issuer, isProxied: issuer !== url }))
  return {
    issuer,
    url,
    async close() {
      if (!server.listening) return
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}
