import { randomUUID } from 'node:crypto'
import type { EventRecord } from '@gatehouse/cert-store/port'
import type { CertEvent, Events } from '@gatehouse/issuance'
import { backoff, DAY } from '@gatehouse/issuance/times'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { ReceiverConfig } from '../config/events.ts'
import type { Loops } from '../lifecycle/loops.ts'
import { describeEvent, lateness, onceOf } from './event.ts'
import { createReceiver, type Receiver } from './receiver.ts'

const SECOND = 1_000
const SEND_EVERY = SECOND
const LOOK_EVERY = 300 * SECOND
const GIVE_UP_AFTER = 7 * DAY
/** The tries in 7 days: after 1, 10 and 100 minutes, then daily. A clock that jumps takes no try away. */
const GIVE_UP_TRIES = 10
const BATCH = 100
/** Milliseconds that an event is left to the replica that sends it. */
const CLAIMED = 60 * SECOND
const MAX_LATE = 1_000

declare module 'fastify' {
  interface FastifyInstance {
    readonly events: Events | undefined
    readonly outbox: Outbox | undefined
  }
}

interface EventsOptions {
  readonly receivers: readonly ReceiverConfig[]
  /** Receives the events in place of the receivers. */
  readonly events?: Events | undefined
}

/** Sends events to the configured receivers while the service runs. */
export const events = fp<EventsOptions>(
  async (app: FastifyInstance, { receivers, events }) => {
    const outbox = receivers.length > 0 ? new Outbox(receivers, app) : undefined
    app.decorate('outbox', outbox)
    app.decorate('events', events ?? outbox)
    outbox?.addTo(app.loops)
    app.addHook('onClose', async () => outbox?.close())
  },
  {
    name: 'cert-service/events',
    dependencies: ['cert-service/store', 'cert-service/loops', 'service-kit/clock'],
  },
)

interface OutboxDeps extends Pick<FastifyInstance, 'clock' | 'store'> {
  readonly log: { warn(fields: object, message: string): void }
}

/** Delivers events. They wait in the store, for each receiver until it has accepted them. */
export class Outbox implements Events {
  readonly #receivers: readonly Receiver[]
  readonly #deps: OutboxDeps
  /** Aborted once the service has answered its requests, to end what is still being sent. */
  readonly #closing = new AbortController()

  /** @throws ConfigError CONFIG_FILE_UNUSABLE */
  constructor(receivers: readonly ReceiverConfig[], deps: OutboxDeps) {
    this.#receivers = receivers.map(createReceiver)
    this.#deps = deps
  }

  emit(event: CertEvent): void {
    const { store, clock, log } = this.#deps
    const now = clock.now()
    const receivers = this.#receivers
      .filter(({ events }) => events.includes(event.type))
      .map(({ name }) => name)
    if (receivers.length === 0) return
    const body = JSON.stringify(describeEvent(event, randomUUID(), now))
    const once = onceOf(event, now)
    store
      .addEvent({ body, at: now, receivers, ...(once && { once }) })
      .catch((error) => log.warn({ err: error, type: event.type }, 'an event was lost'))
  }

  /** Adds the loops that deliver events, and the one that finds certificates whose renewal is late. */
  addTo(loops: Pick<Loops, 'add'>): void {
    // One loop for each receiver, so that one that hangs holds up no other.
    for (const receiver of this.#receivers) {
      const deliver = (signal: AbortSignal) => this.#deliver(receiver, signal)
      loops.add(SEND_EVERY, deliver, 'events could not be delivered', 'warn')
    }
    const failed = 'late certificates could not be looked for'
    loops.add(LOOK_EVERY, () => this.#findLate(), failed, 'warn')
  }

  /** Deletes notes of what was sent long ago, and events for receivers that are no longer configured. */
  prune(): Promise<void> {
    const now = this.#deps.clock.now()
    const receivers = this.#receivers.map(({ name }) => name)
    return this.#deps.store.pruneEvents(now, { receivers, olderThan: now - GIVE_UP_AFTER })
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.#receivers.map((receiver) => receiver.close()))
  }

  /** Sends the due events one at a time, up to the first that fails. A stop lets that one end. */
  async #deliver(receiver: Receiver, stopping: AbortSignal): Promise<void> {
    const { store, clock } = this.#deps
    for (let count = 0; count < BATCH && !stopping.aborted; count += 1) {
      const now = clock.now()
      const [event] = await store.claimDueEvents(receiver.name, now, 1, now + CLAIMED)
      if (!event || stopping.aborted) return
      if (await this.#send(receiver, event)) await store.deleteEvent(event.id)
      else return this.#delay(receiver, event)
    }
  }

  async #send(receiver: Receiver, { body }: EventRecord): Promise<boolean> {
    const { clock, log } = this.#deps
    const { signal } = this.#closing
    try {
      await receiver.send(body, { now: clock.now(), signal })
      return true
    } catch (error) {
      const reason = (error as Error).message
      if (!signal.aborted)
        log.warn({ receiver: receiver.name, reason }, 'an event was not accepted')
      return false
    }
  }

  async #delay({ name: receiver }: Receiver, { id, at, tries }: EventRecord): Promise<void> {
    const { store, clock, log } = this.#deps
    if (this.#closing.signal.aborted) return
    const nextAt = clock.now() + backoff(tries + 1)
    const isOver = nextAt - at > GIVE_UP_AFTER && tries + 1 >= GIVE_UP_TRIES
    if (!isOver) return store.delayEvent(id, nextAt)
    log.warn({ receiver, id }, 'an event could not be delivered within 7 days and was dropped')
    await store.deleteEvent(id)
  }

  async #findLate(): Promise<void> {
    const { store, clock } = this.#deps
    const now = clock.now()
    for (const isCovered of [false, true])
      for (const certificate of await store.listLate(now, MAX_LATE, isCovered))
        if (lateness(certificate, now) > 0) this.emit({ type: 'expiring', certificate, isCovered })
  }
}
