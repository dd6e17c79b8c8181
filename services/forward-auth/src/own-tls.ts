import { readFile } from 'node:fs/promises'
import type { ServerOptions } from 'node:https'
import type { Server } from 'node:tls'
import { requireCertificates } from '@gatehouse/net'
import { ConfigError } from '@gatehouse/service-kit/config'
import { watchFiles } from '@gatehouse/service-kit/files'
import type { Logger } from '@gatehouse/service-kit/telemetry'
import { serverTlsOptions, tlsFromFiles } from '@gatehouse/service-kit/tls'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { ForwardAuthConfig } from './config/schema.ts'

type TlsConfig = NonNullable<ForwardAuthConfig['server']['tls']>

/**
 * Options of the HTTPS server, without the credentials that {@link ownTls} adds. With a client CA it
 * requests client certificates but requires none: a client without one is trusted by its address.
 */
export function httpsOptions({ clientCaFile }: TlsConfig): ServerOptions {
  const requestCert = clientCaFile !== undefined
  return { ...serverTlsOptions(), requestCert, rejectUnauthorized: false }
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Gives another server the credentials of `server.tls`, and replaces them with those of HTTPS. */
    readonly secureServer: (server: Server) => void
  }
}

/**
 * Gives the HTTPS server its credentials, and replaces them when their files change. Without
 * `server.tls` this does nothing.
 */
export const ownTls = fp<{ readonly tls?: TlsConfig | undefined }>(
  async (app: FastifyInstance, { tls }) => {
    if (!tls) return
    const log = app.log as Logger
    const servers: Server[] = []
    function secure(server: Server): void {
      const ca = clientCa.current()
      const options = serverTlsOptions(source.current())
      server.setSecureContext(ca === undefined ? options : { ...options, ca })
    }
    const applyTls = () => servers.forEach(secure)
    app.decorate('secureServer', (server) => {
      servers.push(server)
      secure(server)
    })
    const clientCa = await openClientCa(tls.clientCaFile, log, () => {
      applyTls()
      // Open connections were verified with the previous CA.
      app.server.closeIdleConnections()
    })
    app.addHook('onClose', async () => clientCa.close())
    const source = await tlsFromFiles({ ...tls, log, onChange: applyTls })
    app.addHook('onClose', async () => source.close())
    app.onReload(() => clientCa.prepare())
    app.secureServer(app.server as unknown as Server)
  },
  { name: 'forward-auth/own-tls', dependencies: ['service-kit/reload'] },
)

/**
 * Reads the CA of client certificates, and reads it again when its file changes. If the new CA
 * cannot be used, this is logged and the current one stays in use.
 *
 * @param onChange - called after a change
 */
export async function openClientCa(file: string | undefined, log: Logger, onChange: () => void) {
  if (file === undefined)
    return { current: () => undefined, prepare: async () => () => {}, close() {} }
  let current = await readClientCa(file)

  async function prepare() {
    const next = await readClientCa(file as string)
    return () => {
      if (next === current) return
      current = next
      onChange()
      log.info({ file }, 'client CA replaced')
    }
  }
  const watcher = watchFiles([file], () => {
    prepare().then(
      (commit) => commit(),
      (error) => log.error({ err: error, file }, 'new client CA refused, the old one stays'),
    )
  })
  return { current: () => current, prepare, close: watcher.close }
}

async function readClientCa(file: string): Promise<string> {
  try {
    const pem = await readFile(file, 'utf8')
    // Node accepts a file without a certificate, and then trusts all public CAs.
    requireCertificates(pem)
    return pem
  } catch (cause) {
    const { message } = cause as Error
    throw new ConfigError('CONFIG_TLS_INVALID', `${file}: ${message}`, { cause })
  }
}
