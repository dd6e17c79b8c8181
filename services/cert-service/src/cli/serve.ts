import {
  applyTls,
  createMetrics,
  listenMetrics,
  runService,
  systemClock,
  watchFiles,
} from '@gatehouse/service-kit'
import { buildApp, buildPlainApp } from '../app.ts'
import { pluginOptionsOf } from '../config/auth.ts'
import type { Loaded } from '../config/load.ts'
import type { CertServiceConfig } from '../config/schema.ts'
import type { Logger } from '../log.ts'
import { openOwnTls } from '../own-tls.ts'
import { openService, type Service } from '../service.ts'
import { VERSION } from '../version.ts'

/** Sections of the configuration that are read at start only. */
const READ_ONCE = ['server', 'metrics', 'log', 'storage', 'ca', 'issuance', 'audit'] as const

export interface ServeOptions {
  readonly loaded: Loaded
  readonly log: Logger
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
export async function serve({ loaded, log, load }: ServeOptions): Promise<Serving> {
  const config = loaded.value
  const opened: (() => Promise<void> | void)[] = []
  const closeAll = async () => {
    for (const close of opened.splice(0).reverse()) await close()
  }
  try {
    const metrics = createMetrics({ service: 'cert-service', version: VERSION })
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

    async function reload(): Promise<void> {
      const { value: next } = await load()
      app.auth.reload(pluginOptionsOf(next.auth))
      await service.reload(next)
      const waiting = changedSections(config, next)
      if (waiting.length > 0) log.warn({ sections: waiting }, 'changes that take a restart')
    }
    const watcher = watchFiles(loaded.secretFiles, () => {
      reload().catch((error) => log.error({ err: error }, 'changed secrets could not be taken up'))
    })
    opened.push(watcher.close)

    const { host, port } = config.server
    const running = await runService({ app, host, port, log, onReload: reload, onClose: closeAll })
    service.start()
    log.info({ url: running.url }, 'ready')
    return { url: running.url, service, close: running.close }
  } catch (error) {
    await closeAll()
    throw error
  }
}

function changedSections(before: CertServiceConfig, after: CertServiceConfig): readonly string[] {
  return READ_ONCE.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
}
