import { parseArgs } from 'node:util'
import type { Loaded } from './config/load.ts'
import { ConfigError } from './errors.ts'

export class UsageError extends Error {}

/** A start that failed in another process, which has described it already. */
export class DescribedError extends Error {}

export type CommandLine = ReturnType<typeof readCommandLine>

/** Names of options, each with the commands that it is for. */
export type OptionsOf = Readonly<Record<string, readonly string[]>>

/**
 * Reads the command line of a service: words, `--config FILE`, flags and options with a value.
 *
 * @throws UsageError
 */
export function readCommandLine(
  args: readonly string[],
  own: { readonly flags?: OptionsOf | undefined; readonly values?: OptionsOf | undefined } = {},
) {
  const flagsOf = { 'no-secrets': ['check-config'], ...own.flags }
  const options = {
    ...allOf(flagsOf, { type: 'boolean' } as const),
    ...allOf(own.values ?? {}, { type: 'string' } as const),
    config: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
    version: { type: 'boolean' },
  } as const
  const { values, positionals: words } = attempt(() =>
    parseArgs({ args: [...args], options, allowPositionals: true }),
  )
  const { config, help = false, version = false, ...given } = values
  for (const [option, commands] of Object.entries({ ...flagsOf, ...own.values }))
    if (option in given && !commands.includes(words[0] ?? ''))
      throw new UsageError(`--${option} is for ${commands.join(' and ')}`)
  const entries = Object.entries(given)
  return {
    ...{ words, config, help, version },
    flags: new Set(entries.filter(([, value]) => value === true).map(([flag]) => flag)),
    values: Object.fromEntries(entries.filter(([, value]) => typeof value === 'string')) as Values,
  }
}

/** The options with a value that were given. */
export type Values = Readonly<Record<string, string>>

function allOf<T>(options: OptionsOf, type: T): Record<string, T> {
  return Object.fromEntries(Object.keys(options).map((option) => [option, type]))
}

function attempt<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

/** @throws UsageError about the unknown command, or with the help if none was given */
export function refuseCommand(words: readonly string[], help: string): never {
  throw new UsageError(
    words.length === 0 ? `no command\n\n${help}` : `cannot run "${words.join(' ')}"; see --help`,
  )
}

/** The output of `check-config` for a valid file. */
export function describeValid({
  file,
  absent,
  warnings,
}: Pick<Loaded<unknown>, 'file' | 'absent' | 'warnings'>): string {
  const lines = warnings.map((warning) => `${warning} (warning)\n`).join('')
  if (absent === 0) return `${lines}${file} is valid\n`
  return `${lines}${file} is valid; skipped secrets and files that do not exist: ${absent}\n`
}

/** The output of a program that failed: a line for each fault of a configuration, then a summary. */
export function describeFailure(name: string, error: Error): string {
  if (error instanceof DescribedError) return error.message
  if (error instanceof UsageError) return `${name}: ${error.message}\n`
  const code = (error as { code?: unknown }).code
  const end = typeof code === 'string' ? ` [${code}]\n` : '\n'
  if (!(error instanceof ConfigError) || error.faults.length === 0)
    return `${name}: ${messageOf(error)}${end}`
  const file = error.faults[0]?.file
  const count = error.faults.length === 1 ? '1 fault' : `${error.faults.length} faults`
  return `${error.message}\n${name}: ${count} in ${file}${end}`
}

/** Describes errors of system calls by their path, since their message names only the call. */
function messageOf(error: NodeJS.ErrnoException): string {
  if (error.syscall === undefined || error.path === undefined) return error.message
  return `${error.path} cannot be used: ${REASONS[error.code ?? ''] ?? error.message}`
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'it does not exist',
  ENOTDIR: 'a part of its path is not a folder',
  EACCES: 'this user may not use it',
  EPERM: 'this user may not use it',
  EISDIR: 'it is a folder',
  EROFS: 'it is on a read-only file system',
  ENOSPC: 'the disk is full',
}
