import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { attempt } from '@gatehouse/net'
import { type Static, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { Option } from './provider.ts'

/** Options of the providers that run a program. */
export const programOptions = {
  user: Type.Optional(
    Type.Object(
      {
        uid: Type.Integer({ minimum: 1, maximum: 4_294_967_294, description: 'User identifier.' }),
        gid: Type.Integer({ minimum: 1, maximum: 4_294_967_294, description: 'Group identifier.' }),
      },
      {
        description:
          'User that the program runs as. Default: nobody (65534) if the service runs as root, otherwise the user of the service.',
      },
    ),
  ),
  timeout: Option.Duration('Longest run of the program.', '2m'),
}

/** Variables, each with a name and either `value` or `valueFile`. */
export const Variables = (description: string) =>
  Type.Array(
    Type.Object({
      name: Option.Text('Name of the variable.', { pattern: '^[A-Za-z_][A-Za-z0-9_]{0,99}$' }),
      value: Option.Secret('Value of the variable.', { pattern: '^[^\\x00]*$' }),
    }),
    { default: [], description },
  )

interface DnsProgram {
  /** The program and its arguments. */
  readonly command: readonly string[]
  readonly env?: Static<ReturnType<typeof Variables>>
  readonly stdin?: string
  /** Removed from error messages, whatever the program prints. */
  readonly secrets: readonly string[]
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
  /** Milliseconds. */
  readonly timeout: number
}

const NOBODY = { uid: 65_534, gid: 65_534 }
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const MAX_OUTPUT = 4_096
const MAX_REASON = 200

/**
 * Runs a program without a shell, in an empty folder of its own and with a cleared environment. After
 * the timeout it is killed with everything that it started. The error has the last line of its
 * standard error.
 */
export async function runProgram(program: DnsProgram, signal: AbortSignal): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-dns-'))
  try {
    await runIn(folder, program, signal)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function runIn(folder: string, program: DnsProgram, signal: AbortSignal): Promise<void> {
  const { command, env = [], stdin = '', timeout } = program
  const [file = '', ...args] = command
  const user = program.user ?? (process.getuid?.() === 0 ? NOBODY : undefined)
  if (user) await chown(folder, user.uid, user.gid).catch((cause) => cannotRun(file, cause))
  // An aborted signal fires no event.
  signal.throwIfAborted()
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeout)])
  const variables = Object.fromEntries(env.map(({ name, value }) => [name, value]))
  const child = spawn(file, args, {
    cwd: folder,
    env: { PATH, HOME: folder, TMPDIR: folder, ...variables },
    stdio: ['pipe', 'ignore', 'pipe'],
    // Gives it a process group of its own, which can be killed as a whole.
    detached: true,
    ...user,
  })
  const kill = () => killGroup(child)
  limit.addEventListener('abort', kill, { once: true })
  let output = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-MAX_OUTPUT)
  })
  // The program need not read its standard input.
  child.stdin?.on('error', () => {}).end(stdin)
  const { status, isWhole } = await exitOf(child).finally(() => {
    limit.removeEventListener('abort', kill)
    kill()
  })
  signal.throwIfAborted()
  if (status === 0) return
  const how = limit.aborted ? `was not done within ${timeout / 1_000} s` : `ended with ${status}`
  const detail = lastLine(output, isWhole, program.secrets)
  throw new AcmeError('ACME_DNS_PROVIDER', `${file} ${how}${detail && `: ${detail}`}`)
}

/** Waits for the end of the program and its output: the exit code or signal, and whether the output came to its end. */
async function exitOf(child: ChildProcess) {
  const closed = once(child, 'close')
  try {
    const [code, signal] = await once(child, 'exit')
    // A process that it left running may hold its output open.
    const isClosed = await Promise.race([closed.then(() => true), delay(1_000, false)])
    child.stderr?.destroy()
    return { status: code ?? signal, isWhole: isClosed && code !== null }
  } catch (cause) {
    closed.catch(() => {})
    return cannotRun(child.spawnfile, cause)
  }
}

function cannotRun(file: string, cause: unknown): never {
  const { code } = cause as NodeJS.ErrnoException
  throw new AcmeError('ACME_DNS_PROVIDER', `${file} cannot be run: ${code}`, { cause })
}

function killGroup({ pid }: ChildProcess): void {
  // The program may have exited.
  if (pid !== undefined) attempt(() => process.kill(-pid, 'SIGKILL'))
}

function lastLine(output: string, isWhole: boolean, secrets: readonly string[]): string {
  const lines = stripVTControlCharacters(output).split('\n')
  // A line that was cut off may begin or end in the middle of a secret.
  if (output.length === MAX_OUTPUT) lines.shift()
  if (!isWhole) lines.pop()
  const last = lines.findLast((line) => line.trim() !== '') ?? ''
  const parts = secrets.flatMap((secret) => secret.split('\n')).filter(Boolean)
  // Longest first, because one may be a prefix of another.
  parts.sort((a, b) => b.length - a.length)
  const line = parts.reduce((text, secret) => text.replaceAll(secret, '***'), last.trimEnd())
  return line.replace(/[^ -~]+/g, ' ').slice(0, MAX_REASON)
}
