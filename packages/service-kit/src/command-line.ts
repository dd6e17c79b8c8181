import { Command, CommanderError, Option } from 'commander'
import type { Loaded } from './config/load.ts'
import { durationOf } from './config/schema.ts'
import { ConfigError } from './errors.ts'
import { hintAt } from './suggest.ts'

/** The error of a command line that cannot be run. Its message says what to write instead. */
export class UsageError extends Error {}

/** The meaning of a command line: a text to print, or a command to run. */
export type CommandLine<C> =
  | { readonly text: string }
  | {
      readonly command: C
      readonly words: readonly string[]
      /** The options by their names in camel case. */
      readonly options: Readonly<Record<string, unknown>>
    }

/** The usage of a command, for its help and its page. */
export interface CommandSyntax {
  /** The command with its arguments, such as `ca detach-root FILE`, `get NAME...` or `init [FILE]`. */
  readonly usage: string
  /** Heading in the list of commands. */
  readonly group: string
  /** One line, without a full stop. */
  readonly summary: string
  /** `--flag`, `--option VALUE`, or `--option VALUE...` that may be repeated, with what it means. */
  readonly options?: Readonly<Record<string, string>>
  readonly examples: readonly string[]
}

/** The options of both programs that mean the same in every command. */
export const COMMON_OPTIONS = {
  json: { '--json': 'print JSON, an object in each line' },
  since: { '--since TIME': '7d before now, 10:03, or 2030-01-31T10:03 (default 24h)' },
  until: { '--until TIME': 'the time after the last one (default: now)' },
} as const

/** A program with commands. */
export interface ProgramSyntax<C extends CommandSyntax> {
  /** Its name, such as `gatehouse-certs`. */
  readonly program: string
  readonly version: string
  /** One line, without a full stop. */
  readonly summary: string
  readonly commands: readonly C[]
}

/**
 * Reads the arguments of a program. Help and version are texts.
 * @throws UsageError that names the wrong word, and the help to read
 */
export function readCommandLine<C extends CommandSyntax>(
  args: readonly string[],
  syntax: ProgramSyntax<C>,
): CommandLine<C> {
  const { program, version, summary, commands } = syntax
  let text = ''
  let fault = ''
  let line: CommandLine<C> | undefined
  const root = new Command(program)
    .description(summary)
    .version(`${program} ${version}`, '--version', 'show the version')
    .helpOption('-h, --help', 'show help')
    .helpCommand('help [COMMAND]', 'show the help of a command')
    .configureHelp({ showGlobalOptions: false, sortOptions: false })
    .configureOutput({ writeOut: (part) => (text += part), writeErr: (part) => (fault += part) })
    .showHelpAfterError(helpOf(program))
    .exitOverride()
  for (const command of commands) {
    const added = addCommand(root, command, program)
    added.action(() => {
      line = { command, words: added.args, options: added.opts() }
    })
  }
  try {
    root.parse(args, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return { text }
    if (error.code === 'commander.help')
      throw new UsageError(`no command\n\n${root.helpInformation()}`)
    throw new UsageError(oneLine(fault))
  }
  return line ?? { text }
}

/** Adds a command below the words before it, such as `ca` of `ca detach-root`. */
function addCommand(
  root: Command,
  { usage, group, summary, options = {}, examples }: CommandSyntax,
  program: string,
): Command {
  const parts = usage.split(' ')
  const words = parts.filter((part) => /^[a-z]/.test(part))
  let parent = root
  for (const word of words.slice(0, -1))
    parent =
      parent.commands.find((command) => command.name() === word) ??
      parent
        .command(word)
        .helpGroup(group)
        .showHelpAfterError(helpOf(program, word))
        .summary(`has commands of its own: ${program} ${word} --help`)
  const added = parent
    .command(words.at(-1) ?? '')
    .helpGroup(group)
    .showHelpAfterError(helpOf(program, ...words))
    .summary(summary)
    .description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`)
  for (const part of parts.slice(words.length))
    added.argument(part.startsWith('[') ? part : `<${part}>`)
  for (const [flags, help] of Object.entries(options)) added.addOption(optionOf(flags, help))
  return added.addHelpText(
    'after',
    `\nExamples:\n${examples.map((example) => `  ${example}`).join('\n')}`,
  )
}

function optionOf(flags: string, help: string): Option {
  const [flag = '', value] = flags.split(' ')
  const isList = value?.endsWith('...')
  // Not as commander writes a list, which would take the words after it too.
  const option = new Option(
    value === undefined ? flag : `${flag} <${value.replace('...', '')}>`,
    isList ? `${help}; may be repeated` : help,
  )
  if (isList) option.argParser((text, texts: readonly string[] = []) => [...texts, text])
  // `--no-secrets` is a flag of its own, not the opposite of `--secrets`.
  option.negate = false
  option.attributeName = () =>
    flag.slice(2).replace(/-[a-z]/g, (part) => part.slice(1).toUpperCase())
  return option
}

/** The help to read about a mistake, which commander writes after it. */
const helpOf = (...words: string[]) => `; see ${words.join(' ')} --help`

function oneLine(fault: string): string {
  return fault
    .replace(/^error: /, '')
    .replace(/\.?\n; /, '; ')
    .trim()
    .replaceAll('\n', ' ')
}

/** Reads a word that an option has, if it is there. @throws UsageError */
export function readChoice<Choice extends string>(
  option: string,
  text: string | undefined,
  choices: readonly Choice[],
): Choice | undefined {
  const choice = choices.find((candidate) => candidate === text)
  if (text === undefined || choice !== undefined) return choice
  throw new UsageError(`${option} must be one of ${choices.join(', ')}${hintAt(text, choices)}`)
}

const DAY = 24 * 3_600_000
const CLOCK = /^(?:[01]?\d|2[0-3]):[0-5]\d$/
const DATE = /^\d{4}-\d{2}-\d{2}/

/**
 * A time in ms: a duration before now such as `24h`, a time of the last day such as `10:03`, or a date, with or without
 * a time and a zone. Without a zone it is one of this machine.
 *
 * @throws UsageError
 */
export function readTime(option: string, text: string, now: number): number {
  const span = durationOf(text)
  if (span !== undefined) return now - span
  const isClock = CLOCK.test(text)
  const today = new Date(now).toDateString()
  const [date = ''] = DATE.exec(text) ?? []
  // 30 February would be 2 March.
  const isDate = new Date(date).toJSON()?.startsWith(date)
  const time = Date.parse(isClock ? `${today} ${text}` : date === text ? `${text}T00:00` : text)
  if ((isClock || isDate) && !Number.isNaN(time)) return isClock && time > now ? time - DAY : time
  throw new UsageError(`${option} must be a time such as 24h, 10:03 or 2030-01-31T10:03`)
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

/**
 * The output of a program that failed: a line for each fault of a configuration, then a summary. If the error has
 * an `action`, the last line says what to do. Of several errors, each is described.
 */
export function describeFailure(name: string, error: Error): string {
  if (error instanceof AggregateError)
    return error.errors.map((each) => describeFailure(name, each)).join('')
  if (error instanceof UsageError) return `${name}: ${error.message}\n`
  const { code, action } = error as { code?: unknown; action?: unknown }
  const advice = typeof action === 'string' ? `${action}\n` : ''
  const end = `${typeof code === 'string' ? ` [${code}]` : ''}\n${advice}`
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
