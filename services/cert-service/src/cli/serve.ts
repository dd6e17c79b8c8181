import {
  applyTls,
  createMetrics,
  listenError,
  listenMetrics,
  measureReloads,
  runService,
  startOpenTelemetry,
  systemClock,
  watchConfig,
} from '@gatehouse/service-kit'
import { buildApp, buildPlainApp } from '../app.ts'
import type { Loaded } from '../config/load.ts'
import { listenForChallenges } from '../issuers/acme/challenges.ts'
import type { Logger } from '../log.ts'
import { openOwnTls } from '../own-tls.ts'
import { prepareReload } from '../reload.ts'
import { openService, type Service } from '../service.ts'
import { VERSION } from '../version.ts'

/** Sections of the configuration that are read at start only. */
const READ_ONCE = [
  'server',
  'metrics',
  'log',
  'storage',
  'ca',
  'issuers',
  'issuance',
  'events',
  'audit',
] as const

export interface ServeOptions {
  readonly loaded: Loaded
  readonly log: Logger
  /** Where its `OTEL_*` variables turn OpenTelemetry on. */
  readonly env?: NodeJS.ProcessEnv
  /** Whether a store may be made for a master key that is there already. */
  readonly isNew?: boolean
  /** Reads the configuration anew, on SIGHUP and when a secret file changes. */
  load(): Promise<Loaded>
}

export interface Serving {
  readonly url: string
  readonly service: Service
  close(): Promise<void>
}

/**
 * Runs cert-service until it is closed or told to stop.
 *
 * @throws ConfigError, CertError, PkiError, AuthError
 */
export async function serve({
  loaded,
  log,
  env = {},
  isNew,
  load,
}: ServeOptions): Promise<Serving> {
  const config = loaded.value
  const opened = new AsyncDisposableStack()
  try {
    const identity = { service: 'cert-service', version: VERSION }
    const metrics = createMetrics(identity)
    const telemetry = await startOpenTelemetry({ ...identity, env, metrics, log })
    const service = await openService(config, { clock: systemClock, log, metrics, isNew })
    opened.defer(() => service.close())

    const source = await openOwnTls(config, service, log, (credentials) =>
      applyTls(app, credentials),
    )
    opened.defer(() => source?.close())
    const app = await buildApp(config, {
      service,
      log,
      metrics,
      traceRequests: telemetry?.traceRequests,
      ...(source && { tls: source.current() }),
    })
    opened.defer(() => app.close())

    if (config.metrics.enabled) {
      const listener = await listenMetrics(metrics, config.metrics)
      opened.defer(() => listener.close())
    }
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

    const { reload, close } = watchConfig({
      loaded,
      load,
      prepare: (next) => prepareReload(next, { app, service }),
      readOnce: READ_ONCE,
      onReload: measureReloads(metrics, systemClock.now),
      log,
    })
    opened.defer(close)

    const { host, port } = config.server
    const onClose = async () => {
      await opened.disposeAsync()
      // Not after a start that failed, which has nothing to send.
      await telemetry?.close()
    }
    const running = await runService({ app, host, port, log, onReload: reload, onClose })
    service.start()
    log.info({ url: running.url }, 'ready')
    return { url: running.url, service, close: running.close }
  } catch (error) {
    await opened.disposeAsync()
    throw error
  }
}
