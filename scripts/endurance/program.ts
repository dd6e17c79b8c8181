import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { PATH } from './commands.ts'
import type { Host } from './network.ts'

/** Pause before a program that ended by itself is started again, in ms. */
const PAUSE = 1_000

export interface ProgramOptions {
  readonly host: Host
  readonly command: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  /** Default: root. */
  readonly user?: string
  /** What it prints is appended there. */
  readonly logFile: string
  readonly onLine?: (line: string) => void
}

/** A program on a host of its own, which is started again whenever it ends. */
export class Program {
  readonly host: Host
  /** How often it ended by itself. */
  crashes = 0
  readonly #options: ProgramOptions
  #child: ChildProcess | undefined
  #isWanted = false

  constructor(options: ProgramOptions) {
    this.#options = options
    this.host = options.host
  }

  start(): void {
    this.#isWanted = true
    const { host, command, env = {}, user, logFile, onLine } = this.#options
    const asUser = user === undefined ? [] : ['--reuid', user, '--regid', user, '--init-groups']
    const variables = Object.entries(env).map((pair) => pair.join('='))
    const args = [
      ...['netns', 'exec', host.namespace, 'unshare', '--uts'],
      // A name of its own, by which replicas tell each other apart.
      ...['sh', '-c', 'hostname "$0" && exec "$@"', host.name],
      // No process outlives this one, however it ends.
      ...['setpriv', '--pdeathsig', 'KILL', ...asUser],
      // What is set here is for the program alone: a moved clock is not for those that start it.
      ...['env', ...variables, ...command],
    ]
    const child = spawn('ip', args, {
      env: { PATH, HOME: '/nonexistent', LANG: 'C.UTF-8' },
      stdio: ['ignore', 'pipe', 'pipe'],
      // A group of its own: Ctrl-C is for the harness, which ends everything in order.
      detached: true,
    })
    this.#child = child
    const log = createWriteStream(logFile, { flags: 'a' })
    child.stdout.pipe(log, { end: false })
    child.stderr.pipe(log, { end: false })
    if (onLine)
      for (const stream of [child.stdout, child.stderr])
        createInterface({ input: stream }).on('line', onLine)
    child.on('close', () => log.end())
    child.on('exit', () => void this.#revive(child))
  }

  /** SIGKILL; it is started again at once, or after that many ms. */
  async kill(downMs = 0): Promise<void> {
    await this.end()
    await sleep(downMs)
    this.start()
  }

  /** Ends it for good; a signal other than SIGKILL lets it finish what it does. */
  async end(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.#isWanted = false
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill(signal)
    await exited
  }

  async #revive(child: ChildProcess): Promise<void> {
    if (!this.#isWanted || child !== this.#child) return
    this.crashes += 1
    await sleep(PAUSE)
    if (this.#isWanted && child === this.#child) this.start()
  }
}
