import {
  applyTls,
  createMetrics,
  listenMetrics,
  runService,
  startOpenTelemetry,
  systemClock,
  watchConfig,
} from '@gatehouse/service-kit'
import { buildApp, buildPlainApp } from '../app.ts'
import { pluginOptionsOf } from '../config/auth.ts'
import type { Loaded } from '../config/load.ts'
import { listenForChallenges } from '../issuers/acme/challenges.ts'
import type { Logger } from '../log.ts'
import { openOwnTls } from '../own-tls.ts'
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
export async function serve({ loaded, log, env = {}, load }: ServeOptions): Promise<Serving> {
  const config = loaded.value
  const opened: (() => Promise<void> | void)[] = []
  const closeAll = async () => {
    for (const close of opened.splice(0).reverse()) await close()
  }
  try {
    const identity = { service: 'cert-service', version: VERSION }
    const metrics = createMetrics(identity)
    const telemetry = await startOpenTelemetry({ ...identity, env, metrics, log })
    const service = await openService(config, { clock: systemClock, log, metrics })
    opened.push(() => service.close())

    const source = await openOwnTls(config, service, log, (credentials) =>
      applyTls(app, credentials),
    )
    opened.push(() => source?.close())
    const app = await buildApp(config, {
      service,
      log,
      metrics,
      traceRequests: telemetry?.traceRequests,
      ...(source && { tls: source.current() }),
    })
    opened.push(() => app.close())

    if (config.metrics.enabled) {
      const listener = await listenMetrics(metrics, config.metrics)
      opened.push(() => listener.close())
    }
    if (config.server.plainHttp) {
      const plain = await buildPlainApp({ service, log })
      opened.push(() => plain.close())
      await plain.listen(config.server.plainHttp)
    }

    const challenges = await listenForChallenges(config.issuers, service.challenges, systemClock)
    opened.push(() => challenges.close())

    const { reload, close } = watchConfig({
      loaded,
      load,
      async apply(next) {
        app.auth.reload(pluginOptionsOf(next.auth))
        await service.reload(next)
      },
      readOnce: READ_ONCE,
      log,
    })
    opened.push(close)

    const { host, port } = config.server
    const running = await runService({ app, host, port, log, onReload: reload, onClose: closeAll })
    // Closed last, and not at all by a start that failed: that has nothing to send.
    opened.unshift(() => telemetry?.close())
    service.start()
    log.info({ url: running.url }, 'ready')
    return { url: running.url, service, close: running.close }
  } catch (error) {
    await closeAll()
    throw error
  }
}
