import type { Server } from 'node:https'
import {
  createMetrics,
  listenMetrics,
  measureReloads,
  runService,
  startOpenTelemetry,
  systemClock,
  tlsFromFiles,
  watchConfig,
} from '@gatehouse/service-kit'
import { buildApp } from '../app.ts'
import type { Loaded } from '../config/load.ts'
import type { ForwardAuthConfig } from '../config/schema.ts'
import type { Logger } from '../log.ts'
import { openClientCa, tlsOptions } from '../own-tls.ts'
import { openService, type Service } from '../service.ts'
import { VERSION } from '../version.ts'

/** What of the configuration is read at start only. */
const READ_ONCE = [
  ...(['server.host', 'server.port', 'server.basePath', 'server.tls'] as const),
  ...(['metrics', 'log', 'storage'] as const),
]

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
 * Runs forward-auth until it is closed or told to stop.
 *
 * @throws ConfigError, FwaError
 */
export async function serve({ loaded, log, env = {}, load }: ServeOptions): Promise<Serving> {
  const config = loaded.value
  const opened = new AsyncDisposableStack()
  try {
    const { host, port, basePath, tls } = config.server
    const identity = { service: 'forward-auth', version: VERSION }
    const metrics = createMetrics(identity)
    const telemetry = await startOpenTelemetry({
      ...identity,
      env,
      metrics,
      log,
      params: ['portal', 'provider'],
    })
    const renewTls = () => {
      const credentials = source?.current()
      const server = app.server as Server
      if (credentials) server.setSecureContext(tlsOptions(credentials, clientCa.current()))
    }
    const clientCa = await openClientCa({
      file: tls?.clientCaFile,
      onChange() {
        renewTls()
        // What is open was verified by the CA before.
        app.server.closeIdleConnections()
      },
      log,
    })
    opened.defer(() => clientCa.close())
    const source = tls && (await tlsFromFiles({ ...tls, log, onChange: renewTls }))
    opened.defer(() => source?.close())
    const service = await openService(config, { clock: systemClock, log, metrics })
    opened.defer(() => service.close())
    const app = await buildApp(basePath, {
      service,
      log,
      metrics,
      traceRequests: telemetry?.traceRequests,
      clientCa: clientCa.current(),
      logAllowedChecks: config.log.checks === 'all',
      ...(source && { tls: source.current() }),
    })
    opened.defer(() => app.close())

    if (config.metrics.enabled) {
      const listener = await listenMetrics(metrics, config.metrics)
      opened.defer(() => listener.close())
    }

    async function prepare(changed: ForwardAuthConfig) {
      const commitClientCa = await clientCa.prepare()
      // Last, since what it has made would have to be closed.
      const commit = await service.prepare(changed)
      return () => {
        commit()
        commitClientCa()
      }
    }
    const { reload, close } = watchConfig({
      loaded,
      load,
      prepare,
      readOnce: READ_ONCE,
      onReload: measureReloads(metrics, systemClock.now),
      log,
    })
    opened.defer(close)

    const onClose = async () => {
      await opened.disposeAsync()
      // Not after a start that failed, which has nothing to send.
      await telemetry?.close()
    }
    const running = await runService({ app, host, port, log, onReload: reload, onClose })
    log.info({ url: running.url }, 'ready')
    return { url: running.url, service, close: running.close }
  } catch (error) {
    await opened.disposeAsync()
    throw error
  }
}
