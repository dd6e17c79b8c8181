import cluster from 'node:cluster'
import { availableParallelism } from 'node:os'
import { pipeline } from 'node:stream/promises'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { systemClock } from './clock.ts'
import {
  type CommandSyntax,
  describeFailure,
  describeValid,
  type ProgramSyntax,
  readCommandLine,
  UsageError,
} from './command-line.ts'
import { readNamedFile } from './config/files.ts'
import { type Loaded, locateConfig } from './config/load.ts'
import { ConfigError } from './errors.ts'
import { healthcheck } from './healthcheck.ts'
import { Progress } from './progress.ts'
import { announceReady } from './ready.ts'
import { measureReloads, type SettingPath, watchConfig } from './reload.ts'
import { type Running, runApp } from './run-app.ts'
import { createLogger, type LogOptions } from './telemetry/log.ts'
import { createMetrics, listenMetrics, type Metrics } from './telemetry/metrics.ts'
import { readSignals, startOpenTelemetry } from './telemetry/open-telemetry.ts'
import type { OpenTelemetry } from './telemetry/otel/sdk.ts'
import { printed } from './terminal.ts'
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
export interface CommandCall<Config> {
  /** The arguments after the words of the command. */
  readonly words: readonly string[]
  /** Texts and flags, by their names in camel case. */
  // biome-ignore lint/suspicious/noExplicitAny: which ones there are, the command says
  readonly options: any
  readonly process: NodeJS.Process
  readonly progress: Pick<Progress, 'say'>
  /** Reads the configuration of the service. */
  config(settings?: LoadSettings): Promise<Loaded<Config>>
}

/** A command of a program. */
export interface ServiceCommand<Config> extends CommandSyntax {
  /** Whether it reads the configuration, so that it takes `--config FILE`. */
  readonly readsConfig?: boolean
  /** Returns the text to print, at once or in parts. */
  run(call: CommandCall<Config>): Promise<string | AsyncIterable<string>>
}

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
  /** What the program is for, in one line. */
  readonly summary: string
  /** Options of `serve`. */
  readonly serveOptions?: Readonly<Record<string, string>>
  /** Commands besides those that every service has. */
  readonly commands: readonly ServiceCommand<Config>[]
  load(file: string, env: NodeJS.ProcessEnv, settings?: LoadSettings): Promise<Loaded<Config>>
  usesTls(config: Config): boolean
  /** Further lines of `check-config` about a valid configuration. */
  describe?(config: Config): string
  /** The name of the program whose configuration this is, if `migrate` can translate it. */
  recognise?(text: string, file: string): Promise<string | undefined>
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
    using progress = new Progress(process.stderr)
    const output = await runCommand(service, process, progress)
    await pipeline(printed(output, process.stdout), process.stdout, { end: false })
  } catch (error) {
    // The reader, such as `head`, has enough.
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return
    const text = describeFailure(service.program, error as Error)
    if (isWorker(process.env)) return reportFailure(text)
    for await (const safe of printed(text, process.stderr)) process.stderr.write(safe)
    process.exitCode = error instanceof UsageError ? 2 : 1
  }
}

async function runCommand<Config extends ServiceConfig>(
  service: ServiceProgram<Config>,
  process: NodeJS.Process,
  progress: Progress,
): Promise<string | AsyncIterable<string>> {
  const line = readCommandLine(process.argv.slice(2), programSyntax(service))
  if ('text' in line) return line.text
  const { env } = process
  const { words, options } = line
  const flag = options.config as string | undefined
  const config = async (settings?: LoadSettings) => {
    const file = await locateConfig({
      env,
      name: service.name,
      ...(flag !== undefined && { flag }),
    })
    try {
      return await service.load(file, env, settings)
    } catch (error) {
      throw await foreignError(service, file, error)
    }
  }
  return line.command.run({ words, options, process, progress, config })
}

/** For a file of another program, an error that names the command to run in place of its many faults. */
async function foreignError<Config extends ServiceConfig>(
  { program, recognise }: ServiceProgram<Config>,
  file: string,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof ConfigError && error.code === 'CONFIG_INVALID')) return error
  const read = readNamedFile(file)
  const name = 'text' in read ? await recognise?.(read.text, file) : undefined
  if (name === undefined) return error
  const quoted = /^[\w./-]+$/.test(file) ? file : `'${file.replaceAll("'", `'\\''`)}'`
  const message = `${file} is a configuration of ${name}; run ${program} migrate ${name} ${quoted}`
  return new ConfigError('CONFIG_FOREIGN', message, { cause: error })
}

/** All commands of a service, those that every service has too. */
export function programSyntax<Config extends ServiceConfig>(
  service: ServiceProgram<Config>,
): ProgramSyntax<ServiceCommand<Config>> {
  const { program, version, summary } = service
  const commands = [...commonCommands(service), ...service.commands].map((command) =>
    command.readsConfig
      ? { ...command, options: { ...command.options, '--config FILE': CONFIG_OPTION } }
      : command,
  )
  return { program, version, summary, commands }
}

const CONFIG_OPTION =
  'configuration file (default: $GATEHOUSE_CONFIG, config.yaml, or the one in /etc/gatehouse)'

function commonCommands<Config extends ServiceConfig>(
  service: ServiceProgram<Config>,
): readonly ServiceCommand<Config>[] {
  const { program } = service
  return [
    {
      usage: 'serve',
      group: 'Run:',
      summary: 'run the service',
      readsConfig: true,
      ...(service.serveOptions && { options: service.serveOptions }),
      examples: [`${program} serve --config config.yaml`],
      async run({ config, options, process: { env } }) {
        const flags = new Set(Object.keys(options).filter((name) => options[name] === true))
        // The supervisor of a worker has checked what a start needs.
        const loaded = await config({ beforeStart: !isWorker(env) })
        await serve(service, { loaded, env, flags, load: () => config() })
        return ''
      },
    },
    {
      usage: 'healthcheck',
      group: 'Run:',
      summary: 'ask the running service whether it is ready',
      readsConfig: true,
      examples: [`${program} healthcheck`],
      async run({ config }) {
        const { value } = await config()
        await healthcheck({ ...value.server, tls: service.usesTls(value) })
        return 'ready\n'
      },
    },
    {
      usage: 'check-config',
      group: 'Configure:',
      summary: 'check the configuration and report all errors',
      readsConfig: true,
      options: { '--no-secrets': 'skip secrets and files that do not exist here, as in CI' },
      examples: [`${program} check-config --config config.yaml`],
      async run({ config, options }) {
        const withoutSecrets = options.noSecrets === true
        const checked = await config({ beforeStart: true, withoutSecrets })
        return `${describeValid(checked)}${service.describe?.(checked.value) ?? ''}`
      },
    },
    completion(service),
  ]
}

function completion<Config extends ServiceConfig>(
  service: ServiceProgram<Config>,
): ServiceCommand<Config> {
  const { program } = service
  return {
    usage: 'completion SHELL',
    group: 'Configure:',
    summary: 'print a script that completes commands in bash, zsh or fish',
    examples: [`${program} completion bash > /etc/bash_completion.d/${program}`],
    async run({ words: [shell = ''] }) {
      const { completionScript } = await import('./completion.ts')
      return completionScript(shell, programSyntax(service))
    },
  }
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
  await supervise({ ...service, count, metrics: loaded.value.metrics, log, telemetry, env })
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
    else announceReady({ url: running.url }, { log, env })
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
