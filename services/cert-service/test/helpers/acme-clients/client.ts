import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

/** Where a client asks, and as whom. */
export interface Account {
  readonly directory: string
  /** PEM of the root that signed the certificate of the server. */
  readonly rootFile: string
  readonly kid: string
  readonly hmacKey: string
}

/** What came of it. */
export interface Outcome {
  /** PEM, if it has a certificate now. */
  readonly chain?: string
  /** Everything that it printed. */
  readonly said: string
}

/** A client with a folder and an account of its own. */
export interface Session {
  /** Gets the first certificate for a name; at first an account. */
  issue(name: string): Promise<Outcome>
  /** Gets the next one, whether or not it is due. */
  renew(name: string): Promise<Outcome>
  /** Does what it does from time to time; gives what it has then. */
  wake?(name: string): Promise<Outcome>
  revoke?(name: string): Promise<Outcome>
}

/** A client of the ACME server. */
export interface AcmeClient {
  /** With its version. */
  readonly title: string
  /** What it calls itself first, in its User-Agent. */
  readonly product: string
  /** Why it is not tried here. */
  readonly lacks: string | false
  /** Whether it asks for the next certificate with the key of the last one. */
  readonly keepsKey?: boolean
  /** It takes minutes to build, so nobody misses it where it is not. */
  readonly isExtra?: boolean
  /** What it does when it is told to come later. */
  readonly atLimit: 'ends' | 'waits'
  start(account: Account, folder: string): Session
}

/** The folder of what `scripts/acme-clients.sh` makes. */
const MADE = process.env.ACME_CLIENTS

/** A program that was made, and why it is not there. */
export function made(name: string): { readonly program: string; readonly lacks: string | false } {
  if (MADE === undefined) return { program: name, lacks: '$ACME_CLIENTS names no folder' }
  const program = join(MADE, name)
  return { program, lacks: !existsSync(program) && `${program} is not there` }
}

/** Whether a program of the system is there. */
export function ofSystem(program: string): string | false {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin']
  return (
    !folders.some((folder) => existsSync(join(folder, program))) && `${program} is not installed`
  )
}

interface Command {
  readonly program: string
  readonly args: readonly string[]
  readonly folder: string
  readonly env?: Readonly<Record<string, string>>
}

interface Server extends Command {
  /** Default: SIGTERM. */
  readonly stop?: NodeJS.Signals
}

const PATIENCE = 120_000

/** No proxy and no configuration of whoever runs the tests. */
const surroundings = ({ folder, env = {} }: Command) => ({
  PATH: `${process.env.PATH}:/usr/sbin`,
  HOME: folder,
  XDG_CONFIG_HOME: folder,
  XDG_DATA_HOME: folder,
  ...env,
})

/** Runs a command to its end. */
export function run(command: Command): Promise<{ readonly code: number; readonly said: string }> {
  const { program, args, folder } = command
  const options = { cwd: folder, env: surroundings(command), timeout: PATIENCE }
  return new Promise((resolve) =>
    execFile(program, args, options, (error, stdout, stderr) =>
      resolve({ code: error ? 1 : 0, said: stdout + stderr }),
    ),
  )
}

/** Runs a command that leaves a chain in a file. */
export async function runFor(command: Command, file: string): Promise<Outcome> {
  const { code, said } = await run(command)
  return code === 0 && existsSync(file) ? { chain: readFileSync(file, 'utf8'), said } : { said }
}

/** Runs a command that is to end well. */
export async function runWell(command: Command): Promise<Outcome> {
  const { code, said } = await run(command)
  if (code !== 0) throw new Error(`${command.program} failed: ${said}`)
  return { said }
}

/** Runs a server until it has what it is to have, or says that it does not get it. */
export async function serveUntil(
  command: Server,
  find: () => string | undefined,
  failed?: RegExp,
): Promise<Outcome> {
  const { program, args, folder } = command
  const child = spawn(program, args, {
    cwd: folder,
    env: surroundings(command),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = once(child, 'close')
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += chunk))
  let chain: string | undefined
  for (const end = performance.now() + PATIENCE; performance.now() < end; await pause(25)) {
    chain = find()
    if (chain !== undefined || failed?.test(said) || child.exitCode !== null) break
  }
  child.kill(command.stop)
  await ended
  return { said, ...(chain !== undefined && { chain }) }
}

/** The text of a file, if it holds a certificate that is not this one. */
export function readChain(file: string, not?: string): string | undefined {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  return text.includes('-----END CERTIFICATE-----') && text !== not ? text : undefined
}
