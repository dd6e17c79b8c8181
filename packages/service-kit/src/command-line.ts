import { parseArgs } from 'node:util'

/** Wrong use of a command line. */
export class UsageError extends Error {}

/** What every service takes: words, `--config FILE` and `--help`. */
export interface CommandLine {
  readonly words: readonly string[]
  readonly config: string | undefined
  readonly help: boolean
}

/** @throws UsageError */
export function readCommandLine(args: readonly string[]): CommandLine {
  const options = { config: { type: 'string' }, help: { type: 'boolean', short: 'h' } } as const
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options,
      allowPositionals: true,
    })
    return {
      words: positionals,
      config: values.config,
      help: values.help ?? false,
    }
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

/** @throws UsageError saying that there is no such command, or what commands there are */
export function refuseCommand(words: readonly string[], help: string): never {
  throw new UsageError(
    words.length === 0 ? `which command?\n\n${help}` : `cannot do "${words.join(' ')}"; see --help`,
  )
}

/** Runs the main function of a program. Failing is one line and code 1, wrong use code 2. */
export function runProgram(name: string, main: (args: string[]) => Promise<void>): void {
  main(process.argv.slice(2)).catch((error: Error) => {
    process.stderr.write(`${name}: ${error.message}\n`)
    process.exitCode = error instanceof UsageError ? 2 : 1
  })
}
