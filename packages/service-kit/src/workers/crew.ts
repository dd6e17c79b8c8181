import { setTimeout as pause } from 'node:timers/promises'
import type { Logger } from 'pino'
import { Member } from './member.ts'
import { BROADCAST_MS, type Broadcast } from './worker.ts'

const FIRST_DELAY_MS = 50
const LONGEST_DELAY_MS = 10_000
/** A worker that ends sooner than this is replaced later than one that has worked. */
const SOON_MS = 10_000
/** Starts that may fail in a row while no worker is left. */
const MAX_FAILURES = 5

interface CrewOptions {
  /** The name of the program in messages. */
  readonly program: string
  readonly count: number
  readonly log: Logger
  /** Called when no worker is left and none can be started. */
  onLost(): void
}

/** The workers of a service: starts them, replaces those that end, and passes their broadcasts on. */
export class Crew {
  readonly #options: CrewOptions
  readonly #members = new Set<Member>()
  readonly #stopping = new AbortController()
  #hasStarted = false
  #failures = 0
  #isClean = true

  constructor(options: CrewOptions) {
    this.#options = options
  }

  /**
   * Resolves with the URL when all workers answer requests.
   *
   * @throws DescribedError if one of them ends before that
   */
  async start(): Promise<string> {
    const members = Array.from({ length: this.#options.count }, (_, at) => this.#fork(at + 1))
    const [url = ''] = await Promise.all(members.map(({ ready }) => ready))
    this.#hasStarted = true
    return url
  }

  /** The workers that have not ended. */
  get members(): readonly Member[] {
    return [...this.#members]
  }

  /** The workers that answer requests. */
  get ready(): readonly Member[] {
    return [...this.#members].filter(({ readyAt }) => readyAt !== undefined)
  }

  /** Has all workers drain and end; kills them after `ms`. Resolves with whether they ended well. */
  async stop(ms: number): Promise<boolean> {
    this.#stopping.abort()
    const members = [...this.#members]
    for (const member of members) member.ask('stop', undefined, ms).catch(() => {})
    const timer = setTimeout(() => {
      for (const member of members) member.kill()
    }, ms)
    await Promise.all(members.map(({ ended }) => ended))
    clearTimeout(timer)
    return this.#isClean
  }

  #fork(slot: number): Member {
    const { program, log } = this.#options
    const member = new Member(slot, program, (body, from) => this.#broadcast(body, from))
    this.#members.add(member)
    const noteReady = () => {
      if (this.#hasStarted && !this.#stopping.signal.aborted)
        log.info({ worker: member.pid }, 'a worker is ready')
    }
    member.ready.then(noteReady, () => {})
    void member.ended.then(() => {
      this.#members.delete(member)
      this.#noteEnd(member)
    })
    return member
  }

  /** Resolves when each other worker has handled it, has ended, or had its time. */
  async #broadcast(broadcast: Broadcast, from: Member): Promise<void> {
    const tell = (other: Member) =>
      other.ask('broadcast', broadcast, BROADCAST_MS).catch((err) => {
        if (other.outcome !== undefined) return
        const fields = { worker: other.pid, topic: broadcast.topic, err }
        this.#options.log.warn(fields, 'a worker could not be told')
      })
    const others = [...this.#members].filter((one) => one !== from && one.hasJoined)
    await Promise.all(others.map(tell))
  }

  #noteEnd({ slot, pid, readyAt, failure, outcome }: Member): void {
    const { log, onLost } = this.#options
    if (this.#stopping.signal.aborted) this.#isClean &&= outcome === 'code 0'
    // A worker that cannot start ends the first start.
    if (this.#stopping.signal.aborted || (!this.#hasStarted && readyAt === undefined)) return
    if (failure === undefined) log.error({ worker: pid, outcome }, 'a worker ended')
    else log.error({ worker: pid, reason: failure.trim() }, 'a worker could not start')
    const hasWorked = readyAt !== undefined && performance.now() - readyAt > SOON_MS
    this.#failures = hasWorked ? 0 : this.#failures + 1
    if (this.#members.size === 0 && this.#failures >= MAX_FAILURES) onLost()
    else void this.#replace(slot)
  }

  async #replace(slot: number): Promise<void> {
    const delay = Math.min(FIRST_DELAY_MS * 2 ** this.#failures, LONGEST_DELAY_MS)
    const { signal } = this.#stopping
    await pause(delay, undefined, { signal }).then(
      () => this.#fork(slot),
      () => {},
    )
  }
}
