import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import type { Test } from 'tap'

export { freePort } from '../../../../scripts/free-ports.ts'

/** Milliseconds until a program hangs. Long, as Keycloak takes minutes to start on a busy machine. */
const PATIENCE = 300_000
const PAUSE = 25

export interface ProcessOptions {
  readonly command: string
  readonly args: readonly string[]
  /** Where it may leave files. */
  readonly folder: string
  readonly port: number
  readonly env?: NodeJS.ProcessEnv
}

/** Starts a server that goes with the test, and waits until it listens. `output` is what it has printed so far. */
export async function startProcess(
  t: Test,
  { command, args, folder, port, env }: ProcessOptions,
): Promise<{ output(): string }> {
  const home = { HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder }
  const child = spawn(command, args, {
    env: { ...process.env, ...home, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  child.stdout.on('data', (chunk) => (output += chunk))
  child.stderr.on('data', (chunk) => (output += chunk))
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGTERM')
    await ended
  })
  for (const start = Date.now(); Date.now() - start < PATIENCE; await setTimeout(PAUSE)) {
    if (child.exitCode !== null) break
    if (await listens(port)) return { output: () => output }
  }
  throw new Error(`${command} does not listen:\n${output}`)
}

async function listens(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
