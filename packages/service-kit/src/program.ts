import { pipeline } from 'node:stream/promises'
import {
  type CommandSyntax,
  describeFailure,
  describeValid,
  type ProgramSyntax,
  readCommandLine,
  UsageError,
} from './command-line.ts'
import { readNamedFile } from './config/files.ts'
import { type Loaded, type LoadSettings, locateConfig } from './config/load.ts'
import { ConfigError } from './errors.ts'
import { healthcheck } from './healthcheck.ts'
import { readJsonSchema } from './json-schema.ts'
import { Progress } from './progress.ts'
import type { ServeOptions, ServiceConfig } from './start.ts'
import { createLogger, escaped } from './telemetry/log.ts'

export {
  COMMON_OPTIONS,
  describeFailure,
  readChoice,
  readTime,
  UsageError,
} from './command-line.ts'
export { healthcheck, localHost } from './healthcheck.ts'
export { readJsonSchema } from './json-schema.ts'
export { isOfSystem, statePrefix, writeNewFiles } from './new-files.ts'
export { labelled, listing, localTime, printable, type TableColumns } from './output.ts'
export { hintAt } from './suggest.ts'
export { escaped } from './telemetry/log.ts'

/** The arguments of a command, and what it works with. */
export interface CommandCall<Config> {
  /** The arguments after the words of the command. */
  readonly words: readonly string[]
  /** Texts and flags, by their names in camel case. */
  // biome-ignore lint/suspicious/noExplicitAny: the command says which ones there are
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

/** The command line of a service. */
export interface ServiceProgram<Config extends ServiceConfig>
  extends Omit<ProgramSyntax<never>, 'commands'> {
  /** Name of the service in logs, and of the folder in `/etc/gatehouse`. */
  readonly name: string
  /** Options of `serve`. */
  readonly serveOptions?: Readonly<Record<string, string>>
  /** Commands besides those that every service has. */
  readonly commands: readonly ServiceCommand<Config>[]
  load(file: string, env: NodeJS.ProcessEnv, settings?: LoadSettings): Promise<Loaded<Config>>
  /** Returns what to do about an error with this code; logs on a terminal show it. */
  actionFor?(code: string): string | undefined
  usesTls(config: Config): boolean
  /** Further lines of `check-config` about a valid configuration. */
  describe?(config: Config): string
  /** The name of the program whose configuration this is, if `migrate` can translate it. */
  recognise?(text: string, file: string): Promise<string | undefined>
  /** Runs the service; imported only for `serve`. */
  serve(options: ServeOptions<Config>): Promise<unknown>
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
    await pipeline(printed(output), process.stdout, { end: false })
  } catch (error) {
    // The reader, such as `head`, has enough.
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return
    const text = describeFailure(service.program, error as Error)
    process.stderr.write(escaped(text))
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
  const { command, words, options } = line
  const { env } = process
  const flag = options.config as string | undefined
  return command.run({
    words,
    options,
    process,
    progress,
    async config(settings) {
      const file = await locateConfig({ env, name: service.name, flag })
      try {
        return await service.load(file, env, settings)
      } catch (error) {
        throw await foreignError(service, file, error)
      }
    },
  })
}

/** An error for a file of another program that names the command to run, in place of its many faults. */
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

const CONFIG_OPTION =
  'configuration file (default: $GATEHOUSE_CONFIG, config.yaml, or the one in /etc/gatehouse)'

/** All commands of a service, with those that every service has. */
export function programSyntax<Config extends ServiceConfig>(
  service: ServiceProgram<Config>,
): ProgramSyntax<ServiceCommand<Config>> {
  const commands = [...commonCommands(service), ...service.commands].map((command) =>
    command.readsConfig
      ? { ...command, options: { ...command.options, '--config FILE': CONFIG_OPTION } }
      : command,
  )
  return { ...service, commands }
}

function commonCommands<Config extends ServiceConfig>(
  service: ServiceProgram<Config>,
): readonly ServiceCommand<Config>[] {
  const { program, serveOptions = {} } = service
  return [
    {
      usage: 'serve',
      group: 'Run:',
      summary: 'run the service',
      readsConfig: true,
      options: serveOptions,
      examples: [`${program} serve --config config.yaml`],
      async run({ config, options, process: { env } }) {
        const flags = new Set(Object.keys(options).filter((name) => options[name] === true))
        const loaded = await config({ beforeStart: true })
        const { name, actionFor } = service
        const log = createLogger({ ...loaded.value.log, name, actionFor })
        await service.serve({ loaded, log, env, flags, load: () => config() })
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
        const looksUp = !withoutSecrets
        const checked = await config({ beforeStart: true, withoutSecrets, looksUp })
        return `${describeValid(checked)}${service.describe?.(checked.value) ?? ''}`
      },
    },
    {
      usage: 'schema',
      group: 'Configure:',
      summary: 'print the JSON Schema of the configuration, which editors read',
      examples: [`${program} schema > ${service.name}.schema.json`],
      run: async () => readJsonSchema(service.name),
    },
    {
      usage: 'completion SHELL',
      group: 'Configure:',
      summary: 'print a script that completes commands in bash, zsh or fish',
      examples: [`${program} completion bash > /etc/bash_completion.d/${program}`],
      async run({ words: [shell = ''] }) {
        const { completionScript } = await import('./completion.ts')
        return completionScript(shell, programSyntax(service))
      },
    },
  ]
}

/** The output of a command. What is written to a file or a pipe comes to a terminal later. */
async function* printed(output: string | AsyncIterable<string>): AsyncGenerator<string> {
  const parts = typeof output === 'string' ? [output] : output
  for await (const text of parts) yield escaped(text)
}
