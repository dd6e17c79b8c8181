import type { Callers } from '@gatehouse/auth-core'
import type { Commit } from '@gatehouse/service-kit'
import { pluginOptionsOf } from './config/auth.ts'
import type { CertServiceConfig } from './config/schema.ts'
import type { Service } from './service.ts'

/**
 * Computes all that a changed configuration changes in a running service, and gives what takes it
 * up in one step. When any part of it throws, everything stays as it was.
 */
export async function prepareReload(
  config: CertServiceConfig,
  {
    app,
    service,
  }: { app: { readonly callers: Pick<Callers, 'prepare'> }; service: Pick<Service, 'prepare'> },
): Promise<Commit> {
  const commitService = await service.prepare(config)
  const commitCallers = app.callers.prepare(pluginOptionsOf(config.auth))
  return () => {
    commitService()
    commitCallers()
  }
}
