import { type BuildDeps, type ServeOptions, startService } from '@gatehouse/service-kit/lifecycle'
import { buildApp } from '../app.ts'
import type { CertServiceConfig } from '../config/schema.ts'
import { VERSION } from '../version.ts'

/** Runs cert-service until it is closed or stopped. @throws ConfigError, CertError, PkiError, AuthError */
export function serve(options: ServeOptions<CertServiceConfig>) {
  return startService(
    {
      name: 'cert-service',
      version: VERSION,
      readOnce: [
        'server.host',
        'server.port',
        'server.names',
        'server.tls',
        'server.plainHttp',
        'metrics',
        'log',
        'storage',
        'ca',
        'issuers',
        'issuance',
        'events',
        'audit',
      ],
      build,
    },
    options,
  )
}

async function build(config: CertServiceConfig, { flags, ...deps }: BuildDeps) {
  const app = await buildApp(config, { ...deps, isNew: flags.has('new') })
  try {
    await app.listenBeside()
    return app
  } catch (error) {
    await app.close()
    throw error
  }
}
