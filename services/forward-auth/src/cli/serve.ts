import {
  type BuildDeps,
  type BuiltService,
  type Running,
  type ServeOptions,
  startService,
} from '@gatehouse/service-kit'
import { buildApp } from '../app.ts'
import type { ForwardAuthConfig } from '../config/schema.ts'
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
  const app = await buildApp(config, { log, metrics, traceRequests })
  return {
    app,
    prepareReload: (next) => app.prepareReload(next),
    close: () => app.close(),
  }
}
