import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { Duration, Secret, Text } from '../schema.ts'

/** What every provider takes that runs a program. */
export const programOptions = {
  user: Type.Optional(
    Type.Object(
      {
        uid: Type.Integer({ minimum: 1, maximum: 4_294_967_294, description: 'User identifier.' }),
        gid: Type.Integer({ minimum: 1, maximum: 4_294_967_294, description: 'Group identifier.' }),
      },
      {
        description:
          'User that the program runs as. Left out: nobody (65534) if we are root, else the same user.',
      },
    ),
  ),
  timeout: Duration('How long the program may run.', '2m'),
}

/** Variables by name, each with its value or `valueFile`. */
export const Variables = (description: string) =>
  Type.Array(
    Type.Object({
      name: Text('Name of the variable.', { pattern: '^[A-Za-z_][A-Za-z0-9_]{0,99}$' }),
      value: Secret('Its value.', { pattern: '^[^\\u0000]*$' }),
    }),
    { default: [], description },
  )

export interface Variable {
  readonly name: string
  readonly value: string
}

export interface Program {
  readonly command: readonly [string, ...string[]]
  readonly env?: readonly Variable[]
  readonly stdin?: string
  /** Never told, whatever the program prints. */
  readonly secrets: readonly string[]
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
  readonly timeout: number
}

const NOBODY = { uid: 65_534, gid: 65_534 }
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const MAX_OUTPUT = 4_096
const MAX_REASON = 200

/**
 * Runs a program without a shell, in an empty folder of its own, with a cleared environment, and ends
 * it with all that it has started when the time is over. What it writes to standard error last is told.
 *
 * @throws AcmeError `ACME_DNS_PROGRAM`
 */
export async function runProgram(program: Program, signal: AbortSignal): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-dns-'))
  try {
    await runIn(folder, program, signal)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function runIn(folder: string, program: Program, signal: AbortSignal): Promise<void> {
  const { command, env = [], stdin = '', timeout } = program
  const [file, ...args] = command
  const user = program.user ?? (process.getuid?.() === 0 ? NOBODY : undefined)
  if (user) await chown(folder, user.uid, user.gid).catch((cause) => cannotRun(file, cause))
  // A signal that is aborted already tells nobody any more.
  signal.throwIfAborted()
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeout)])
  const child = spawn(file, args, {
    cwd: folder,
    env: { PATH, HOME: folder, TMPDIR: folder, ...toEnvironment(env) },
    stdio: ['pipe', 'ignore', 'pipe'],
    // A process group of its own, so that all of it can be ended.
    detached: true,
    ...user,
  })
  const end = () => endGroup(child)
  limit.addEventListener('abort', end, { once: true })
  let output = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-MAX_OUTPUT)
  })
  // A program that does not read it is no fault.
  child.stdin?.on('error', () => {}).end(stdin)
  const status = await exitOf(child).finally(() => {
    limit.removeEventListener('abort', end)
    end()
  })
  signal.throwIfAborted()
  if (status === 0) return
  const how = limit.aborted ? `was not done within ${timeout / 1_000} s` : `ended with ${status}`
  const said = lastLine(output, program.secrets)
  throw new AcmeError('ACME_DNS_PROGRAM', `${file} ${how}${said && `: ${said}`}`)
}

/** The exit code, or the signal that ended it, once what it wrote has been read. */
async function exitOf(child: ChildProcess): Promise<number | string> {
  const closed = once(child, 'close')
  try {
    const [code, signal] = await once(child, 'exit')
    // What it has left running may hold its output open.
    await Promise.race([closed, delay(1_000)])
    child.stderr?.destroy()
    return code ?? signal
  } catch (cause) {
    closed.catch(() => {})
    return cannotRun(child.spawnfile, cause)
  }
}

function cannotRun(file: string, cause: unknown): never {
  const { code } = cause as NodeJS.ErrnoException
  throw new AcmeError('ACME_DNS_PROGRAM', `${file} cannot be run: ${code}`, { cause })
}

function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // It is gone.
  }
}

const toEnvironment = (variables: readonly Variable[]) =>
  Object.fromEntries(variables.map(({ name, value }) => [name, value]))

function lastLine(output: string, secrets: readonly string[]): string {
  const lines = stripVTControlCharacters(output).trimEnd().split('\n')
  // Its start was cut off, and may have been within a secret.
  if (lines.length === 1 && output.length === MAX_OUTPUT) return ''
  const parts = secrets.flatMap((secret) => secret.split('\n')).filter(Boolean)
  // The longest first: one may be the start of another.
  parts.sort((a, b) => b.length - a.length)
  const line = parts.reduce((text, secret) => text.replaceAll(secret, '***'), lines.at(-1) ?? '')
  return line.replace(/[^ -~]+/g, ' ').slice(0, MAX_REASON)
}
