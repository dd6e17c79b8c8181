import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { attempt } from '@gatehouse/net'
import { ClientError } from './errors.ts'

/** The time that a command may take to end when it is asked to, in ms. */
const GRACE_MS = 5_000

const SECRETS = [
  'GATEHOUSE_KEY',
  'GATEHOUSE_TOKEN',
  'GATEHOUSE_CLIENT_SECRET',
  'ACTIONS_ID_TOKEN_REQUEST_TOKEN',
]

export interface Reload {
  /** The command for `/bin/sh -c`. */
  readonly command: string
  readonly timeoutMs: number
}

/**
 * Runs the command that makes a program read its files again. Its output goes to standard error, so that
 * standard output holds log lines only.
 * @throws ClientError CERT_CLIENT_RELOAD_FAILED; the reason of `signal`
 */
export async function runReload(
  { command, timeoutMs }: Reload,
  signal?: AbortSignal,
): Promise<void> {
  signal?.throwIfAborted()
  const deadline = AbortSignal.timeout(timeoutMs)
  // A process group of its own, so that whatever it has started ends with it.
  const child = spawn('/bin/sh', ['-c', command], {
    stdio: ['ignore', 2, 2],
    detached: true,
    env: withoutSecrets(process.env),
  })
  const stop = () => end(child)
  const ending = AbortSignal.any(signal ? [signal, deadline] : [deadline])
  ending.addEventListener('abort', stop)
  try {
    const [code, killedBy] = await once(child, 'exit')
    if (code === 0) return
    signal?.throwIfAborted()
    if (deadline.aborted) throw failed(`took longer than ${timeoutMs / 1_000} s and was ended`)
    throw failed(code === null ? `was ended by ${killedBy}` : `ended with exit code ${code}`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error
    throw failed(`could not be started (${(error as NodeJS.ErrnoException).code})`)
  } finally {
    ending.removeEventListener('abort', stop)
  }
}

/** Leaves out what the client authenticates with, which the command has no use for. */
function withoutSecrets(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !SECRETS.includes(name)))
}

function end({ pid }: ChildProcess): void {
  if (pid === undefined) return
  kill(pid, 'SIGTERM')
  setTimeout(() => kill(pid, 'SIGKILL'), GRACE_MS).unref()
}

function kill(group: number, signal: NodeJS.Signals): void {
  // The process may have ended.
  attempt(() => process.kill(-group, signal))
}

function failed(how: string): ClientError {
  return new ClientError('CERT_CLIENT_RELOAD_FAILED', `the reload command ${how}`)
}
