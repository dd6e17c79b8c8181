import { once } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createTlsServer, Server, type ServerOptions } from 'node:https'
import type { AddressInfo } from 'node:net'
import { createDemoIdp, type DemoIdpOptions } from './idp.ts'

type Credentials = Pick<ServerOptions, 'key' | 'cert'>

export interface DemoIdp {
  readonly issuer: string
  /** New connections get this certificate from now on. */
  setCertificate(tls: Credentials): void
  close(): Promise<void>
}

/** Listens on 127.0.0.1; https when there is a key and a certificate. */
export async function startDemoIdp({
  host = 'localhost',
  port = 0,
  tls,
  ...options
}: Omit<DemoIdpOptions, 'issuer'> & {
  /** Name by which it is reached: one that is this machine, as all below `localhost` are. */
  readonly host?: string
  readonly port?: number
  readonly tls?: Credentials
}): Promise<DemoIdp> {
  const server = tls ? createTlsServer(tls) : createServer()
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const { port: given } = server.address() as AddressInfo
  const issuer = `${tls ? 'https' : 'http'}://${host}:${given}`
  server.on('request', createDemoIdp({ issuer, ...options }))
  return {
    issuer,
    setCertificate(fresh) {
      if (server instanceof Server) server.setSecureContext(fresh)
    },
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}
