import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)
const PAUSE = 100

/** Where Debian keeps what administrators run. */
export const PATH = `${process.env.PATH}:/usr/sbin:/sbin`

/** Runs a program to its end and gives its standard output. Rejects with what it wrote to the other. */
export async function command(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const options = { env: { PATH, ...env }, maxBuffer: 2 ** 30, timeout: 60_000 }
  const { stdout } = await run(program, args, options)
  return stdout
}

/** Asks again and again until the answer is not undefined. An error counts as that, and is told at last. */
export async function until<T>(
  what: string,
  ask: () => Promise<T | undefined>,
  timeoutMs = 60_000,
): Promise<T> {
  let last: unknown
  for (const begun = performance.now(); performance.now() - begun < timeoutMs; await sleep(PAUSE)) {
    try {
      const answer = await ask()
      if (answer !== undefined) return answer
    } catch (error) {
      last = error
    }
  }
  throw new Error(`not within ${timeoutMs / 1000} s: ${what}`, { cause: last })
}
