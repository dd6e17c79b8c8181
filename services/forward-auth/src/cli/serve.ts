import { type ServeOptions, startService } from '@gatehouse/service-kit/lifecycle'
import { buildApp } from '../app.ts'
import type { ForwardAuthConfig } from '../config/schema.ts'
import { VERSION } from '../version.ts'

/** Runs forward-auth until it is closed or stopped. @throws ConfigError, FwaError */
export function serve(options: ServeOptions<ForwardAuthConfig>) {
  return startService(
    {
      name: 'forward-auth',
      version: VERSION,
      readOnce: [
        'server.host',
        'server.port',
        'server.basePath',
        'server.tls',
        'server.grpc',
        'metrics',
        'log',
        'storage',
        'audit',
        'events',
      ],
      params: ['portal', 'provider'],
      build: buildApp,
    },
    options,
  )
}
