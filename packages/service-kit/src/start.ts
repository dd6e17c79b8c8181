import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { systemClock } from './clock.ts'
import type { Loaded } from './config/load.ts'
import { announceReady } from './ready.ts'
import { measureReloads, type SettingPath, watchConfig } from './reload.ts'
import { type Running, runApp } from './run-app.ts'
import type { LogOptions } from './telemetry/log.ts'
import { createMetrics, listenMetrics, type Metrics } from './telemetry/metrics.ts'
import { type OpenTelemetry, startOpenTelemetry } from './telemetry/open-telemetry.ts'

/** The settings that every service has. */
export interface ServiceConfig {
  readonly server: {
    readonly host: string
    readonly port: number
  }
  readonly metrics: { readonly enabled: boolean; readonly host: string; readonly port: number }
  readonly log: Pick<LogOptions, 'level' | 'format'>
}

/** The dependencies of the app that `build` of a service makes. */
export interface BuildDeps {
  readonly log: Logger
  readonly metrics: Metrics
  readonly traceRequests: OpenTelemetry['traceRequests'] | undefined
  /** The flags of the service that were given. */
  readonly flags: ReadonlySet<string>
}

/** Everything that differs between services; see {@link startService}. */
export interface ServiceDefinition<Config extends ServiceConfig> {
  /** Name in logs, metrics and traces, and of the folder in `/etc/gatehouse`. */
  readonly name: string
  readonly version: string
  /** Settings that are read only at the start: sections, or keys such as `server.port`. */
  readonly readOnce: readonly SettingPath<Config>[]
  /** Route parameters that become attributes of spans, as `gatehouse.<name>`. */
  readonly params?: readonly string[]
  /** Builds the app, which has the plugin `reload`. */
  build(config: Config, deps: BuildDeps): Promise<FastifyInstance>
}

/** A service to start, with the configuration that was read for it. */
export interface ServeOptions<Config> {
  readonly loaded: Loaded<Config>
  readonly log: Logger
  /** The environment, whose `OTEL_*` variables turn OpenTelemetry on. */
  readonly env?: NodeJS.ProcessEnv
  readonly flags?: ReadonlySet<string>
  /** Reads the configuration again, on SIGHUP and when the file of a secret changes. */
  load(): Promise<Loaded<Config>>
}

/**
 * Runs a service until it is closed or stopped by a signal: metrics, OpenTelemetry, the app, and
 * reloads of its configuration.
 *
 * @throws ConfigError CONFIG_LISTEN_FAILED, and the errors of `build`
 */
export async function startService<Config extends ServiceConfig>(
  { name, version, readOnce, params = [], build }: ServiceDefinition<Config>,
  { loaded, log, env = {}, flags = new Set(), load }: ServeOptions<Config>,
): Promise<Running & { readonly app: FastifyInstance }> {
  const config = loaded.value
  const opened = new AsyncDisposableStack()
  try {
    const identity = { service: name, version }
    const metrics = createMetrics(identity)
    const telemetry = await startOpenTelemetry({ ...identity, env, log, params })
    logWarnings(loaded, log)
    const app = await build(config, {
      log,
      metrics,
      flags,
      traceRequests: telemetry?.traceRequests,
    })
    opened.defer(() => app.close())
    if (config.metrics.enabled) {
      const listener = await listenMetrics(metrics, config.metrics)
      opened.defer(() => listener.close())
    }
    const watching = watchConfig({
      loaded,
      load: async () => logWarnings(await load(), log),
      prepare: (next) => app.prepareReload(next),
      readOnce,
      onReload: measureReloads(metrics, systemClock.now),
      log,
    })
    opened.defer(watching.close)
    const running = await runApp({
      ...config.server,
      app,
      log,
      onReload: watching.reload,
      async onClose() {
        await opened.disposeAsync()
        // A start that failed has no telemetry to send.
        await telemetry?.close()
      },
    })
    announceReady({ url: running.url }, { log, env })
    return { app, ...running }
  } catch (error) {
    await opened.disposeAsync()
    throw error
  }
}

/** Logs the warnings of a configuration, which it returns. */
function logWarnings<Config>(loaded: Loaded<Config>, log: Logger): Loaded<Config> {
  for (const warning of loaded.warnings) log.warn(`configuration: ${warning}`)
  return loaded
}
