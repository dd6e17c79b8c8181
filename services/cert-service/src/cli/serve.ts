import {
  applyTls,
  type BuildDeps,
  type BuiltService,
  listenError,
  type Running,
  type ServeOptions,
  startService,
  systemClock,
} from '@gatehouse/service-kit'
import { buildApp, buildPlainApp } from '../app.ts'
import type { CertServiceConfig } from '../config/schema.ts'
import { listenForChallenges } from '../issuers/acme/challenges.ts'
import { openOwnTls } from '../own-tls.ts'
import { prepareReload } from '../reload.ts'
import { openService, type Service } from '../service.ts'
import { VERSION } from '../version.ts'

interface Built extends BuiltService<CertServiceConfig> {
  readonly service: Service
}
export type Serving = Running & Built

/**
 * Runs cert-service until it is closed or stopped.
 *
 * @throws ConfigError, CertError, PkiError, AuthError
 */
export function serve(options: ServeOptions<CertServiceConfig>): Promise<Serving> {
  return startService(
    {
      name: 'cert-service',
      version: VERSION,
      readOnce: [
        'server',
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

async function build(
  config: CertServiceConfig,
  { log, metrics, traceRequests, flags }: BuildDeps,
): Promise<Built> {
  const opened = new AsyncDisposableStack()
  try {
    const isNew = flags.has('new')
    const service = await openService(config, { clock: systemClock, log, metrics, isNew })
    opened.defer(() => service.close())
    const source = await openOwnTls(config, service, log, (fresh) => applyTls(app, fresh))
    opened.defer(() => source?.close())
    const tls = source && { tls: source.current() }
    const app = await buildApp(config, { service, log, metrics, traceRequests, ...tls })
    opened.defer(() => app.close())
    const { plainHttp } = config.server
    if (plainHttp) {
      const plain = await buildPlainApp({ service, log })
      opened.defer(() => plain.close())
      await plain.listen(plainHttp).catch((error: unknown) => {
        throw listenError(error, plainHttp)
      })
    }
    const challenges = await listenForChallenges(config.issuers, service.challenges, systemClock)
    opened.defer(() => challenges.close())
    return {
      app,
      service,
      prepareReload: (next) => prepareReload(next, { app, service }),
      onListen: () => service.start(),
      close: () => opened.disposeAsync(),
    }
  } catch (error) {
    await opened.disposeAsync()
    throw error
  }
}
