import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { commandOn } from './child.ts'
import { untilAnswers } from './step-ca.ts'

/** A server that is a program of its own. */
export interface Running {
  readonly port: number
  readonly pid: number
  stop(): Promise<void>
}

/** Starts a program on the first core and waits until it listens. Its log is written, and goes nowhere. */
export async function startProgram(
  command: readonly string[],
  port: number,
  env: Readonly<Record<string, string>> = {},
): Promise<Running> {
  const [program = '', ...args] = command
  const [first, ...pinned] = commandOn(0, program)
  const child: ChildProcess = spawn(first, [...pinned, ...args], {
    stdio: 'ignore',
    env: { PATH: process.env.PATH, ...env },
  })
  const exited = once(child, 'exit')
  const failed = exited.then(([code]) => {
    throw new Error(`${program} ended with ${code}`)
  })
  failed.catch(() => {})
  const kill = () => child.kill()
  process.once('exit', kill)
  await Promise.race([untilAnswers(port), failed])
  return {
    port,
    pid: child.pid!,
    async stop() {
      kill()
      await exited
      process.off('exit', kill)
    },
  }
}

/** Mebibytes that a process has in memory, as Linux tells them. */
export function residentOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024
}
