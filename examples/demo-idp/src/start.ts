import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createDemoIdp, type DemoIdpOptions } from './idp.ts'

export interface DemoIdp {
  readonly issuer: string
  /** Where it listens: another origin than the issuer's behind a proxy. */
  readonly url: string
  close(): Promise<void>
}

export interface StartOptions extends Omit<DemoIdpOptions, 'issuer' | 'isProxied'> {
  /** Origin of the reverse proxy that it is behind; absent: none, and the issuer is where it listens. */
  readonly issuer?: string
  /** Default: 127.0.0.1. */
  readonly host?: string
  /** Default: any that is free. */
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
