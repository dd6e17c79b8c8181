import { parseArgs } from 'node:util'
import { describeFailure, UsageError } from '@gatehouse/service-kit'
import { ClientError } from '../../client/errors.ts'
import { CLIENT_COMMANDS, type ClientCommand } from './commands.ts'

/** The command of the client that the arguments name, if any. */
export function clientCommand(args: readonly string[]): ClientCommand | undefined {
  return CLIENT_COMMANDS.find(({ usage }) => usage.split(' ')[0] === args[0])
}

/** Runs a command of the client: exit code 1 for failures, 2 for wrong arguments. */
export async function runClient(command: ClientCommand, process: NodeJS.Process): Promise<void> {
  try {
    process.stdout.write(await runCommand(command, process))
  } catch (error) {
    process.stderr.write(describe(error as Error))
    process.exitCode = error instanceof UsageError ? 2 : 1
  }
}

async function runCommand(command: ClientCommand, process: NodeJS.Process): Promise<string> {
  const { help, ...options } = readOptions(command, process.argv.slice(3))
  if (help) return helpOf(command)
  const { words, ...given } = options
  const [name, argument = ''] = command.usage.split(' ')
  const isRight = argument.endsWith('...')
    ? words.length > 0
    : words.length === Number(argument !== '')
  if (!isRight) throw new UsageError(`usage: gatehouse-certs ${command.usage}; see ${name} --help`)
  return command.run(words, given, process)
}

function readOptions(command: ClientCommand, args: string[]) {
  const options = Object.fromEntries(
    Object.keys(command.options).map((usage) => {
      const [flag = '', value] = usage.split(' ')
      return [flag.slice(2), { type: value === undefined ? 'boolean' : 'string' } as const]
    }),
  )
  try {
    const help = { type: 'boolean', short: 'h' } as const
    const parsed = parseArgs({ args, options: { ...options, help }, allowPositionals: true })
    const { help: wantsHelp = false, ...values } = parsed.values
    const camel = Object.entries(values).map(([name, value]) => [
      name.replace(/-[a-z]/g, (part) => part.slice(1).toUpperCase()),
      value,
    ])
    return { ...Object.fromEntries(camel), help: wantsHelp, words: parsed.positionals }
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

function helpOf({ usage, summary, options, examples }: ClientCommand): string {
  const width = Math.max(...Object.keys(options).map(({ length }) => length))
  const lines = Object.entries(options).map(([flag, text]) => `  ${flag.padEnd(width)}  ${text}\n`)
  const shown = examples.map((example) => `  ${example}\n`)
  return `gatehouse-certs ${usage}: ${summary}\n\n${lines.join('')}\nExamples:\n${shown.join('')}`
}

/** The error, and what to do about it in a line of its own. */
function describe(error: Error): string {
  const text = describeFailure('gatehouse-certs', error)
  return error instanceof ClientError && error.action ? `${text}${error.action}\n` : text
}
