import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { FwaError } from './errors.ts'

/** The longest wait for a turn, in ms: people, browsers and proxies wait for longer. */
const MAX_WAIT = 10_000
/** The longest wait for the address from which most of those that wait come. */
const MAX_WAIT_OF_BUSIEST = 5_000
/** The share of the newest turn in what a request takes, and how many times as long as others it may count. */
const SMOOTHING = 0.1
const MAX_GROWTH = 4
/** The ms that a request is expected to take until that is measured. */
const INITIAL_PACE = 2
/** Requests of a sign-in that wait. */
const STEPS = 2
/** The requests that begin in one turn of the event loop: with fewer, the turns take longer than the requests. */
const BATCH_SIZE = 4
/** The connections that are accepted before the next requests begin. */
const MAX_ACCEPTED = 100

interface QueuedRequest {
  /** The client's address, for a first step. Later steps are never refused. */
  readonly address: string | undefined
  begin(): void
}

/**
 * The requests of people who are not signed in, which wait for their turn. In each turn of the event loop a few begin, so
 * that what waits for nothing, such as the check of a session, is answered in between. Steps of sign-ins under way go first.
 */
export class Backlog {
  readonly #now: () => number
  readonly #first: QueuedRequest[] = []
  readonly #underWay: QueuedRequest[] = []
  /** The number of waiting first steps of each address. */
  readonly #addresses = new Map<string, number>()
  /** Ms that a request takes while some wait. */
  #pace = INITIAL_PACE
  #begun = { now: 0, count: 0 }
  #isTurnTaken = false
  /** Connections that were accepted since some have begun, and whether the newest turn has accepted one. */
  #accepted = 0
  #isAccepting = false

  /** @param now - milliseconds from a clock that nobody can set */
  constructor(now: () => number) {
    this.#now = now
  }

  /**
   * Resolves when a request may begin.
   * @param address - the client, of the first step of a sign-in
   * @throws FwaError FWA_BUSY to a first step, if it would wait for too long
   */
  turn(address?: string): Promise<void> {
    if (!this.#isTurnTaken) {
      this.#take(1)
      return Promise.resolve()
    }
    if (address !== undefined) this.#admit(address)
    const queue = address === undefined ? this.#underWay : this.#first
    return new Promise((begin) => queue.push({ address, begin }))
  }

  /**
   * Notes that a connection was accepted. In each turn Node accepts one, so that of a crowd the last would wait for all that
   * the others want: as long as connections come, nothing begins.
   */
  accept(): void {
    this.#accepted += 1
    this.#isAccepting = true
  }

  #admit(address: string): void {
    const addressCount = this.#addresses.get(address) ?? 0
    const wait = (this.#underWay.length + STEPS * this.#first.length) * this.#pace
    const maxWait = addressCount > this.#first.length / 2 ? MAX_WAIT_OF_BUSIEST : MAX_WAIT
    if (wait > maxWait) {
      const text = 'more people are signing in than can be served in time'
      const retryAfter = Math.ceil(wait / 1_000)
      throw new FwaError('FWA_BUSY', text, { retryAfter, expose: true })
    }
    this.#addresses.set(address, addressCount + 1)
  }

  #take(count: number): void {
    this.#isTurnTaken = true
    this.#begun = { now: this.#now(), count }
    setImmediate(() => this.#next())
  }

  #next(): void {
    if (this.#isAccepting && this.#accepted < MAX_ACCEPTED) {
      this.#isAccepting = false
      setImmediate(() => this.#next())
      return
    }
    this.#accepted = 0
    const batch = this.#underWay.splice(0, BATCH_SIZE)
    batch.push(...this.#first.splice(0, BATCH_SIZE - batch.length))
    this.#isTurnTaken = batch.length > 0
    if (!this.#isTurnTaken) return
    const { now, count } = this.#begun
    // The turn in which a crowd comes takes much longer than all that follow.
    const took = Math.min((this.#now() - now) / count, MAX_GROWTH * this.#pace)
    this.#pace += SMOOTHING * (took - this.#pace)
    this.#take(batch.length)
    for (const { address, begin } of batch) {
      if (address !== undefined) this.#release(address)
      begin()
    }
  }

  #release(address: string): void {
    const count = (this.#addresses.get(address) ?? 1) - 1
    if (count > 0) this.#addresses.set(address, count)
    else this.#addresses.delete(address)
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly backlog: Backlog
  }
  interface FastifyContextConfig {
    /** Whether a sign-in begins here, which may be put off. */
    readonly isFirstStep?: boolean
  }
}

/** @param monotonic - milliseconds from a clock that nobody can set; default: since the process started */
export const backlog = fp<{ readonly monotonic?: (() => number) | undefined }>(
  async (app: FastifyInstance, { monotonic = () => performance.now() }) => {
    const turns = new Backlog(monotonic)
    app.server.on('connection', () => turns.accept())
    app.decorate('backlog', turns)
  },
  { name: 'forward-auth/backlog' },
)

/** Makes requests to the routes of `app` wait for their turn. */
export function takeTurns(app: FastifyInstance): void {
  app.addHook('onRequest', async ({ ip, routeOptions }, reply) => {
    await app.backlog.turn(routeOptions.config.isFirstStep ? ip : undefined)
    // Whoever has gone meanwhile needs no answer.
    if (reply.raw.destroyed) reply.hijack()
  })
}
