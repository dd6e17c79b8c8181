import type { Server } from 'node:https'
import {
  type BuildDeps,
  type BuiltService,
  type Running,
  type ServeOptions,
  startService,
  tlsFromFiles,
} from '@gatehouse/service-kit'
import { buildApp } from '../app.ts'
import type { ForwardAuthConfig } from '../config/schema.ts'
import { openClientCa, tlsOptions } from '../own-tls.ts'
import { VERSION } from '../version.ts'

export type Serving = Running & BuiltService<ForwardAuthConfig>

/**
 * Runs forward-auth until it is closed or stopped.
 *
 * @throws ConfigError, FwaError
 */
export function serve(options: ServeOptions<ForwardAuthConfig>): Promise<Serving> {
  return startService(
    {
      name: 'forward-auth',
      version: VERSION,
      readOnce: [
        'server.host',
        'server.port',
        'server.basePath',
        'server.tls',
        'metrics',
        'log',
        'storage',
      ],
      params: ['portal', 'provider'],
      build,
    },
    options,
  )
}

async function build(
  config: ForwardAuthConfig,
  { log, metrics, traceRequests }: BuildDeps,
): Promise<BuiltService<ForwardAuthConfig>> {
  const { tls } = config.server
  const opened = new AsyncDisposableStack()
  try {
    const renewTls = () => {
      const credentials = source?.current()
      const server = app.server as Server
      if (credentials) server.setSecureContext(tlsOptions(credentials, clientCa.current()))
    }
    const clientCa = await openClientCa({
      file: tls?.clientCaFile,
      onChange() {
        renewTls()
        // Open connections were verified by the previous CA.
        app.server.closeIdleConnections()
      },
      log,
    })
    opened.defer(() => clientCa.close())
    const source = tls && (await tlsFromFiles({ ...tls, log, onChange: renewTls }))
    opened.defer(() => source?.close())
    const app = await buildApp(config, {
      log,
      metrics,
      traceRequests,
      clientCa: clientCa.current(),
      tls: source?.current(),
    })
    opened.defer(() => app.close())
    return {
      app,
      async prepareReload(next) {
        const commitClientCa = await clientCa.prepare()
        // The last step: what it opens would have to be closed if a later one failed.
        const commit = await app.prepareReload(next)
        return () => {
          commit()
          commitClientCa()
        }
      },
      close: () => opened.disposeAsync(),
    }
  } catch (error) {
    await opened.disposeAsync()
    throw error
  }
}
