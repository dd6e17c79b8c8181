import type { Logger } from 'pino'
import { Member } from './member.ts'
import { BROADCAST_MS, type Broadcast } from './worker.ts'

const FIRST_DELAY_MS = 50
const LONGEST_DELAY_MS = 10_000
/** A worker that ends sooner than this is replaced later than one that has worked. */
const SOON_MS = 10_000
/** Starts that may fail in a row while no worker is left. */
const MAX_FAILURES = 5

/** A worker that could not start. */
export class StartFailure extends Error {
  readonly member: Member

  constructor(member: Member) {
    super(`a worker could not start: ${member.failure ?? member.outcome}`)
    this.member = member
  }
}

interface CrewOptions {
  readonly count: number
  readonly log: Logger
  /** Called when a worker has ended. */
  onEnd(member: Member): void
  /** Called when no worker is left and none can be started. */
  onLost(): void
}

/** The workers of a service: starts them, replaces those that end, and passes their broadcasts on. */
export class Crew {
  readonly #options: CrewOptions
  readonly #members = new Set<Member>()
  readonly #timers = new Set<NodeJS.Timeout>()
  #state: 'starting' | 'working' | 'stopping' = 'starting'
  #failures = 0
  #isClean = true

  constructor(options: CrewOptions) {
    this.#options = options
  }

  /**
   * Resolves with the URL when all workers answer requests.
   *
   * @throws StartFailure if one of them ends before that
   */
  async start(): Promise<string> {
    const members = Array.from({ length: this.#options.count }, (_, at) => this.#fork(at + 1))
    const waits = members.map((member) =>
      member.ready.catch(() => {
        throw new StartFailure(member)
      }),
    )
    const [url = ''] = await Promise.all(waits)
    this.#state = 'working'
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
    this.#state = 'stopping'
    for (const timer of this.#timers) clearTimeout(timer)
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
    const member = new Member(slot, (body, from) => this.#broadcast(body as Broadcast, from))
    this.#members.add(member)
    member.ready.then(
      () => this.#noteReady(member),
      () => {},
    )
    void member.ended.then(() => this.#noteEnd(member))
    return member
  }

  /** Resolves when each other worker has handled it, has ended, or had its time. */
  async #broadcast(broadcast: Broadcast, from: Member): Promise<void> {
    const others = [...this.#members].filter((one) => one !== from && one.hasJoined)
    await Promise.all(others.map((other) => this.#tell(other, broadcast)))
  }

  async #tell(other: Member, broadcast: Broadcast): Promise<void> {
    try {
      await other.ask('broadcast', broadcast, BROADCAST_MS)
    } catch (error) {
      if (other.outcome !== undefined) return
      const fields = { worker: other.pid, topic: broadcast.topic, err: error }
      this.#options.log.warn(fields, 'a worker could not be told')
    }
  }

  #noteReady({ pid }: Member): void {
    if (this.#state === 'working') this.#options.log.info({ worker: pid }, 'a worker is ready')
  }

  #noteEnd(member: Member): void {
    const { log, onEnd, onLost } = this.#options
    const { pid, readyAt, failure, outcome } = member
    this.#members.delete(member)
    onEnd(member)
    if (this.#state === 'stopping') this.#isClean &&= outcome === 'code 0'
    // A worker that cannot start ends the first start.
    if (this.#state === 'stopping' || (this.#state === 'starting' && readyAt === undefined)) return
    if (failure === undefined) log.error({ worker: pid, outcome }, 'a worker ended')
    else log.error({ worker: pid, reason: failure.trim() }, 'a worker could not start')
    const hasWorked = readyAt !== undefined && performance.now() - readyAt > SOON_MS
    this.#failures = hasWorked ? 0 : this.#failures + 1
    if (this.#members.size === 0 && this.#failures >= MAX_FAILURES) onLost()
    else this.#replace(member)
  }

  #replace({ slot }: Member): void {
    const delay = Math.min(FIRST_DELAY_MS * 2 ** this.#failures, LONGEST_DELAY_MS)
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      this.#fork(slot)
    }, delay)
    this.#timers.add(timer)
  }
}
