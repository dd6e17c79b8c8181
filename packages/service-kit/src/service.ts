import cluster from 'node:cluster'
import { availableParallelism } from 'node:os'
import { pipeline } from 'node:stream/promises'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { systemClock } from './clock.ts'
import {
  type CommandLine,
  describeFailure,
  describeValid,
  type OptionsOf,
  readCommandLine,
  refuseCommand,
  UsageError,
  type Values,
} from './command-line.ts'
import { type Loaded, locateConfig } from './config/load.ts'
import { healthcheck } from './healthcheck.ts'
import { measureReloads, type SettingPath, watchConfig } from './reload.ts'
import { type Running, runApp } from './run-app.ts'
import { createLogger, type LogOptions } from './telemetry/log.ts'
import { createMetrics, listenMetrics, type Metrics } from './telemetry/metrics.ts'
import { readSignals, startOpenTelemetry } from './telemetry/open-telemetry.ts'
import type { OpenTelemetry } from './telemetry/otel/sdk.ts'
import { ALONE, isWorker, reportFailure, WorkerProcess, type Workers } from './workers/worker.ts'

/** The settings that every service has. */
export interface ServiceConfig {
  readonly server: {
    readonly host: string
    readonly port: number
    /** Processes that share the port; `auto` is one for each core. */
    readonly workers: number | 'auto'
  }
  readonly metrics: { readonly enabled: boolean; readonly host: string; readonly port: number }
  readonly log: Pick<LogOptions, 'level' | 'format'>
}

export interface LoadSettings {
  /** Checks also what only a start needs: named files exist, and folders can be written to. */
  readonly beforeStart?: boolean
  /** Accepts a file whose secrets are absent on this machine. */
  readonly withoutSecrets?: boolean
}

/** What `build` of a service gets to work with. */
export interface BuildDeps {
  readonly log: Logger
  readonly metrics: Metrics
  readonly traceRequests: OpenTelemetry['traceRequests'] | undefined
  /** The other processes of the service. */
  readonly workers: Workers
  /** The flags of the service that were given. */
  readonly flags: ReadonlySet<string>
}

/** How a command was called. */
export interface CommandCall {
  readonly flags: ReadonlySet<string>
  readonly values: Values
  /** Whether the output is for a person at a terminal. */
  readonly isTerminal: boolean
}

/** A command that does one thing and ends. Returns the text to print, at once or in parts. */
export type ServiceCommand<Config> = (
  config: Config,
  argument: string,
  call: CommandCall,
) => Promise<string | AsyncIterable<string>>

/** Everything that differs between services; see {@link runService}. */
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

/** The command line of a service. */
export interface ServiceProgram<Config extends ServiceConfig> {
  /** Name of the program, such as `gatehouse-certs`. */
  readonly program: string
  readonly name: string
  readonly version: string
  /** Text of `--help`. */
  readonly help: string
  /** Flags of the service, and options with a value. */
  readonly flags?: OptionsOf
  readonly values?: OptionsOf
  /** Commands besides `serve`, `check-config` and `healthcheck`, by usage such as `backup FILE`. */
  readonly commands?: Readonly<Record<string, ServiceCommand<Config>>>
  load(file: string, env: NodeJS.ProcessEnv, settings?: LoadSettings): Promise<Loaded<Config>>
  usesTls(config: Config): boolean
  /** Further lines of `check-config` about a valid configuration. */
  describe?(config: Config): string
  /** Runs the service; imported only for `serve`. */
  serve(options: ServeOptions<Config>): Promise<unknown>
}

export interface ServeOptions<Config> {
  readonly loaded: Loaded<Config>
  readonly log: Logger
  /** Its `OTEL_*` variables turn OpenTelemetry on. */
  readonly env?: NodeJS.ProcessEnv
  readonly flags?: ReadonlySet<string>
  /** This process, if it is one of several. */
  readonly worker?: WorkerProcess | undefined
  /** Reads the configuration again, on SIGHUP and when the file of a secret changes. */
  load(): Promise<Loaded<Config>>
}

/**
 * Runs the command that the arguments name. Errors are printed as one line with exit code 1, wrong
 * usage with exit code 2.
 */
export async function runService<Config extends ServiceConfig>(
  service: ServiceProgram<Config>,
  process: NodeJS.Process,
): Promise<void> {
  try {
    const line = readCommandLine(process.argv.slice(2), service)
    const output = await runCommand(service, line, process)
    await pipeline(output, process.stdout, { end: false })
  } catch (error) {
    // The reader, such as `head`, has enough.
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return
    const text = describeFailure(service.program, error as Error)
    if (isWorker(process.env)) return reportFailure(text)
    process.stderr.write(text)
    process.exitCode = error instanceof UsageError ? 2 : 1
  }
}

async function runCommand<Config extends ServiceConfig>(
  service: ServiceProgram<Config>,
  { help, version, words, config: flag, flags, values }: CommandLine,
  { env, stdout }: NodeJS.Process,
): Promise<string | AsyncIterable<string>> {
  const { name, program, load, usesTls } = service
  if (help) return service.help
  if (version) return `${program} ${service.version}\n`
  const [command, argument] = readCommand(words, service)
  const file = await locateConfig({ env, name, ...(flag !== undefined && { flag }) })
  if (command === 'check-config') {
    const withoutSecrets = flags.has('no-secrets')
    const checked = await load(file, env, { beforeStart: true, withoutSecrets })
    return `${describeValid(checked)}${service.describe?.(checked.value) ?? ''}`
  }
  // The supervisor of a worker has checked what a start needs.
  const beforeStart = command === 'serve' && !isWorker(env)
  const loaded = await load(file, env, { beforeStart })
  if (command === 'serve') {
    await serve(service, { loaded, env, flags, load: () => load(file, env) })
    return ''
  }
  if (command === 'healthcheck') {
    await healthcheck({ ...loaded.value.server, tls: usesTls(loaded.value) })
    return 'ready\n'
  }
  return command(loaded.value, argument, { flags, values, isTerminal: stdout.isTTY })
}

/** Runs the service in this process, or in several that this one supervises. */
async function serve<Config extends ServiceConfig>(
  service: ServiceProgram<Config>,
  options: Omit<ServeOptions<Config>, 'log'> & { readonly env: NodeJS.ProcessEnv },
): Promise<void> {
  const { loaded, env } = options
  const { server, log: logged } = loaded.value
  const count = server.workers === 'auto' ? availableParallelism() : server.workers
  const worker = isWorker(env) ? new WorkerProcess(env) : undefined
  const isSeveral = worker !== undefined || (count > 1 && cluster.isPrimary)
  const log = createLogger({ ...logged, name: service.name, withPid: isSeveral })
  if (worker || !isSeveral) {
    await service.serve({ ...options, log, worker })
    return
  }
  const { supervise } = await import('./workers/supervisor.ts')
  const telemetry = await startOpenTelemetry(
    { service: service.name, version: service.version, env, log },
    // The workers export the rest.
    { traces: [], metrics: [], logs: readSignals(env).logs },
  )
  logWarnings(loaded, log)
  await supervise({ ...service, count, metrics: loaded.value.metrics, log, telemetry })
}

function readCommand<Config extends ServiceConfig>(
  words: readonly string[],
  { commands = {}, help }: ServiceProgram<Config>,
): ['serve' | 'check-config' | 'healthcheck' | ServiceCommand<Config>, argument: string] {
  const text = words.join(' ')
  if (text === 'serve' || text === 'check-config' || text === 'healthcheck') return [text, '']
  const last = words.at(-1) ?? ''
  for (const [usage, command] of Object.entries(commands))
    if (usage.replace(/[A-Z]+$/, () => last) === text) return [command, last]
  return refuseCommand(words, help)
}

/**
 * Runs a service until it is closed or stopped by a signal: metrics, OpenTelemetry, the app, and
 * reloads of its configuration.
 *
 * @throws ConfigError CONFIG_LISTEN_FAILED, and the errors of `build`
 */
export async function startService<Config extends ServiceConfig>(
  { name, version, readOnce, params = [], build }: ServiceDefinition<Config>,
  { loaded, log, env = {}, flags = new Set(), worker, load }: ServeOptions<Config>,
): Promise<Running & { readonly app: FastifyInstance }> {
  const config = loaded.value
  const opened = new AsyncDisposableStack()
  try {
    const identity = { service: name, version }
    const metrics = createMetrics(identity)
    const telemetry = await startOpenTelemetry({ ...identity, env, metrics, log, params })
    // The supervisor of a worker has logged them.
    if (!worker) logWarnings(loaded, log)
    const app = await build(config, {
      ...{ log, metrics, flags },
      traceRequests: telemetry?.traceRequests,
      workers: worker ?? ALONE,
    })
    opened.defer(() => app.close())
    // The supervisor of a worker serves those of all workers.
    if (config.metrics.enabled && !worker) {
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
      ...{ app, log, isSupervised: worker !== undefined },
      onReload: watching.reload,
      async onClose() {
        await opened.disposeAsync()
        // A start that failed has no telemetry to send.
        await telemetry?.close()
      },
    })
    if (worker) worker.start({ ...running, metrics: () => metrics.registry.getMetricsAsJSON() })
    else log.info({ url: running.url }, 'ready')
    return { app, ...running }
  } catch (error) {
    await opened.disposeAsync()
    throw error
  }
}

function logWarnings<Config>(loaded: Loaded<Config>, log: Logger): Loaded<Config> {
  for (const warning of loaded.warnings) log.warn(`configuration: ${warning}`)
  return loaded
}
