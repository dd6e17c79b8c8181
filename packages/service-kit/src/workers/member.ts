import cluster, { type Worker } from 'node:cluster'
import { setTimeout } from 'node:timers/promises'
import { DescribedError } from '../command-line.ts'
import { Channel } from './channel.ts'
import { noteHandoffs } from './handoff.ts'
import { type Broadcast, SLOT_VARIABLE, SUPERVISOR_VARIABLE } from './worker.ts'

/** The time to wait for the last messages of a worker that has ended, in ms. */
const LAST_WORDS_MS = 100

/** A worker, as its supervisor sees it. */
export class Member {
  /** Which of the workers it is, from 1. */
  readonly slot: number
  /** Resolves with its URL when it answers requests. Rejects with a DescribedError if it ends before that. */
  readonly ready: Promise<string>
  /** Resolves when it has ended, and all that it said is known. */
  readonly ended: Promise<void>
  /** Whether broadcasts reach it. */
  hasJoined = false
  /** When it answered requests first, on the clock of the process. */
  readyAt: number | undefined
  /** The reason that it gives for a start that failed. */
  failure: string | undefined
  /** The code or signal with which it ended, if it has. */
  outcome: string | undefined
  readonly #worker: Worker
  readonly #channel: Channel
  readonly #ready = Promise.withResolvers<string>()

  /**
   * @param slot - from 1
   * @param program - the name that describes a start that failed
   * @param onBroadcast - called with what it tells the others
   */
  constructor(
    slot: number,
    program: string,
    onBroadcast: (body: Broadcast, from: Member) => Promise<void>,
  ) {
    const worker = cluster.fork({
      [SUPERVISOR_VARIABLE]: String(process.pid),
      [SLOT_VARIABLE]: String(slot),
    })
    this.slot = slot
    this.#worker = worker
    this.ready = this.#ready.promise
    this.#channel = new Channel(
      (packet) => void worker.send(packet, undefined, () => {}),
      (kind, body) =>
        kind === 'broadcast' ? onBroadcast(body as Broadcast, this) : this.#note(kind, body),
    )
    worker.on('message', (message) => this.#channel.receive(message))
    this.ended = this.#waitForEnd(program)
  }

  /** 0 if the system could not start it. */
  get pid(): number {
    return this.#worker.process.pid ?? 0
  }

  ask<T>(kind: string, body: unknown, ms: number): Promise<T> {
    return this.#channel.ask<T>(kind, body, ms)
  }

  kill(): void {
    this.#worker.process.kill('SIGKILL')
  }

  #note(kind: string, body: unknown): void {
    if (kind === 'joined') this.hasJoined = true
    else if (kind === 'failed') this.failure = String(body)
    else if (kind === 'ready') {
      this.readyAt = performance.now()
      this.#ready.resolve(String(body))
    }
  }

  async #waitForEnd(program: string): Promise<void> {
    const worker = this.#worker
    const closeHandoffs = noteHandoffs(worker.process)
    const failed = new Promise<string>((resolve) => {
      // Sending to a worker that is dying fails, too.
      worker.on('error', ({ message }) => this.pid === 0 && resolve(message))
    })
    const left = new Promise<string>((resolve) => {
      worker.on('exit', (code, signal) => resolve(signal ?? `code ${code}`))
    })
    const disconnected = new Promise((resolve) => worker.on('disconnect', resolve))
    this.outcome = await Promise.race([failed, left])
    // What it said last may come after that. Node tells nothing if it died with a connection on its way.
    await Promise.race([disconnected, setTimeout(LAST_WORDS_MS)])
    closeHandoffs()
    this.#channel.close()
    const described = `${program}: a worker ended at its start (${this.outcome})\n`
    this.#ready.reject(new DescribedError(this.failure ?? described))
  }
}
