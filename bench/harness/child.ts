import { fork, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'

/** A process that answers every message with one message. */
export interface Child<Ready = unknown> {
  /** Its first message. */
  readonly ready: Ready
  readonly pid: number
  call<Answer>(message: unknown): Promise<Answer>
  stop(): Promise<void>
}

/** What is measured has the first core for itself, what drives it the second. */
export type Core = 0 | 1

const canPin = availableParallelism() > 1 && spawnSync('taskset', ['-V']).status === 0

/** The command that runs a program on one core, where the system can do that. */
export function commandOn(core: Core, program: string): readonly [string, ...string[]] {
  return canPin ? ['taskset', '-c', String(core), program] : [program]
}

export function nodeCommand(core: Core): readonly [string, ...string[]] {
  return commandOn(core, process.execPath)
}

/** Starts a module of bench/ in a process of its own and waits until it is ready. */
export async function startChild<Ready>(
  module: string,
  options: { core: Core; args?: readonly string[] },
): Promise<Child<Ready>> {
  const [execPath, ...pinned] = nodeCommand(options.core)
  const child = fork(new URL(module, import.meta.url), options.args ?? [], {
    execPath,
    execArgv: [...pinned, '--expose-gc', '--conditions=@gatehouse/source'],
    // Access logs are written, and go nowhere.
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const exited = once(child, 'exit')
  const failed = exited.then(([code]) => {
    throw new Error(`${module} ended with ${code}`)
  })
  failed.catch(() => {})
  const nextMessage = async () => (await Promise.race([once(child, 'message'), failed]))[0]

  return {
    ready: await nextMessage(),
    pid: child.pid!,
    call(message) {
      const answer = nextMessage()
      child.send(message as object)
      return answer
    },
    async stop() {
      child.disconnect()
      await exited
    },
  }
}
