import cluster from 'node:cluster'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Channel } from './channel.ts'

/** The time for which a broadcast waits for the other workers, in ms. */
export const BROADCAST_MS = 1_000
/** The supervisor answers by then, if it is there. */
const PATIENCE_MS = 2 * BROADCAST_MS
/** Names the supervisor in the environment of a worker, as other programs fork workers, too. */
export const SUPERVISOR_VARIABLE = 'GATEHOUSE_SUPERVISOR'
export const SLOT_VARIABLE = 'GATEHOUSE_WORKER'

/** The workers of a service, which tell each other what must not wait. A single process has nobody to tell. */
export interface Workers {
  /** Which of the workers this is, from 1; whoever takes its place is the same. 0 in a single process. */
  readonly slot: number
  /**
   * Resolves when each other worker has handled the message, or after a second; never rejects.
   *
   * @param message - as JSON
   */
  broadcast(topic: string, message?: unknown): Promise<void>
  /** Sets what this worker does with the messages of the others on a topic. */
  onBroadcast<Message>(topic: string, handle: (message: Message) => unknown): void
}

/** The workers of a single process. */
export const ALONE: Workers = { slot: 0, async broadcast() {}, onBroadcast() {} }

/** A worker that has started, as its supervisor uses it. */
export interface StartedWorker {
  readonly url: string
  /** The metrics as JSON. */
  metrics(): Promise<unknown>
  /** Returns whether the configuration was taken up. */
  reload(): Promise<boolean>
  /** Drains, and ends the process. */
  stop(): void
}

/** A broadcast on its way. */
export interface Broadcast {
  readonly topic: string
  readonly message: unknown
}

/** This process, as a worker of the supervisor that forked it. */
export class WorkerProcess implements Workers {
  readonly slot: number
  readonly #channel: Channel
  readonly #handlers = new Map<string, (message: never) => unknown>()
  readonly #started = Promise.withResolvers<StartedWorker>()

  constructor(env: NodeJS.ProcessEnv) {
    this.slot = Number(env[SLOT_VARIABLE])
    this.#channel = new Channel(send, (kind, body) => this.#answer(kind, body))
    process.on('message', (message) => this.#channel.receive(message))
    // From now on broadcasts come, so that none is missed by what has not been read from the store yet.
    this.#tell('joined', undefined)
  }

  async broadcast(topic: string, message?: unknown): Promise<void> {
    const body: Broadcast = { topic, message }
    await this.#channel.ask('broadcast', body, PATIENCE_MS).catch(() => {})
  }

  onBroadcast<Message>(topic: string, handle: (message: Message) => unknown): void {
    this.#handlers.set(topic, handle)
  }

  /** Tells the supervisor that this worker answers requests. */
  start(started: StartedWorker): void {
    this.#started.resolve(started)
    this.#tell('ready', started.url)
  }

  #tell(kind: string, body: unknown): void {
    this.#channel.ask(kind, body, PATIENCE_MS).catch(() => {})
  }

  async #answer(kind: string, body: unknown): Promise<unknown> {
    if (kind === 'broadcast') {
      const { topic, message } = body as Broadcast
      await this.#handlers.get(topic)?.(message as never)
      return undefined
    }
    if (kind === 'metrics') return (await this.#started.promise).metrics()
    if (kind === 'reload') return (await this.#started.promise).reload()
    if (kind === 'stop') return void this.#started.promise.then(({ stop }) => stop())
    throw new Error(`unknown question: ${kind}`)
  }
}

/** Whether this process is a worker of a supervisor of Gatehouse. */
export function isWorker(env: NodeJS.ProcessEnv): boolean {
  return cluster.isWorker && env[SUPERVISOR_VARIABLE] === String(process.ppid)
}

/** Has the supervisor print why this worker could not start, and ends the process. */
export function reportFailure(text: string): void {
  const packet = { gatehouse: 'ask', id: 0, kind: 'failed', body: text }
  if (process.connected) process.send?.(packet, undefined, undefined, () => process.exit(1))
  else process.exit(1)
}

/** If the supervisor has gone, Node ends this process. */
function send(packet: object): void {
  process.send?.(packet, undefined, undefined, () => {})
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly workers: Workers
  }
}

/** Decorates the app with the workers of its service; the default is a single process. */
export const workers = fp<{ readonly workers?: Workers | undefined }>(
  async (app: FastifyInstance, options) => {
    app.decorate('workers', options.workers ?? ALONE)
  },
  { fastify: '5.x', name: 'service-kit/workers' },
)
