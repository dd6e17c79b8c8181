import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export { freePort, freePorts } from '../../../../scripts/free-ports.ts'

export interface Context {
  teardown(fn: () => unknown): void
}

/** A folder with a short path, gone with the test. */
export function makeFolder(t: Context): string {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-acme-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Starts a program, which is ended with the test; its standard error can be read. */
export function run(
  t: Context,
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ChildProcess {
  const child = spawn(program, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: `${process.env.PATH}:/usr/sbin`, ...env },
  })
  const gone = once(child, 'exit')
  child.stderr?.resume()
  t.teardown(async () => {
    child.kill()
    await gone
  })
  return child
}

/** Asks ten times a second until there is an answer, by default for ten seconds. */
export async function untilAnswered(ask: () => Promise<unknown>, tries = 100): Promise<void> {
  for (let left = tries; ; left--) {
    try {
      await ask()
      return
    } catch (error) {
      if (left === 0) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}
