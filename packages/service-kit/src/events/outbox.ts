import { toTime } from '@gatehouse/net'
import type { Clock } from '../clock.ts'
import type { Loops } from '../loops.ts'
import type { ReceiverConfig } from './config.ts'
import { createReceiver, type Receiver, type Sender } from './receiver.ts'
import type { EventHead } from './text.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const DAY = 1_440 * MINUTE
const SEND_EVERY = SECOND
/** The pauses after the first failures. After others it is a day. */
const PAUSES = [MINUTE, 10 * MINUTE, 100 * MINUTE]
export const GIVE_UP_AFTER = 7 * DAY
/** The tries in 7 days. A clock that jumps takes no try away. */
const GIVE_UP_TRIES = 10
const BATCH = 100
/** Milliseconds that an event is left to the replica that sends it. */
const CLAIMED = MINUTE

export interface NewEvent {
  /** JSON. */
  readonly body: string
  readonly at: number
  /** The names of its receivers. Each gets its own delivery. */
  readonly receivers: readonly string[]
  /** The key with which it is not sent again before `until`, unless `always`. */
  readonly once?: { readonly key: string; readonly until: number; readonly always?: boolean }
  /** The e-mail address of the person whom it is about. */
  readonly person?: string | undefined
}

/** An event that waits for one receiver. */
export interface WaitingEvent extends Pick<NewEvent, 'body' | 'at' | 'person'> {
  readonly id: number
  readonly tries: number
}

/** What receivers have not accepted yet. */
export interface EventStore {
  addEvent(event: NewEvent): Promise<void>
  /**
   * Claims events of a receiver whose next try is due, the one that waits longest first: for other replicas they are
   * due again at `until`.
   */
  claimDueEvents(
    receiver: string,
    now: number,
    limit: number,
    until: number,
  ): Promise<readonly WaitingEvent[]>
  /** Makes the events of a receiver due at `now` whose next try is after `claimedUntil`: no replica is sending them. */
  hastenEvents(receiver: string, now: number, claimedUntil: number): Promise<void>
  delayEvent(id: number, nextAt: number): Promise<void>
  deleteEvent(id: number): Promise<void>
}

export interface OutboxDeps {
  readonly store: EventStore
  readonly clock: Clock
  readonly loops: Pick<Loops, 'add'>
  readonly log: { warn(fields: object, message: string): void }
}

/** Delivers events. They wait in the store, for each receiver until it has accepted them. */
export class Outbox<Deps extends OutboxDeps = OutboxDeps> {
  protected readonly receivers: readonly Receiver[]
  protected readonly deps: Deps
  /** Aborted once the service has answered its requests, to end what is still being sent. */
  readonly #closing = new AbortController()

  /** @throws ConfigError CONFIG_FILE_UNUSABLE */
  constructor(receivers: readonly ReceiverConfig[], sender: Sender, deps: Deps) {
    this.receivers = receivers.map((receiver) => createReceiver(receiver, sender))
    this.deps = deps
    // One loop for each receiver, so that one that hangs holds up no other.
    for (const receiver of this.receivers) {
      let isFirst = true
      const deliver = async (signal: AbortSignal) => {
        // Who has started the service may have removed what kept the receiver from accepting.
        if (isFirst) await this.#hasten(receiver)
        isFirst = false
        await this.#deliver(receiver, signal)
      }
      deps.loops.add(SEND_EVERY, deliver, 'events could not be delivered', 'warn')
    }
  }

  /** Has the receivers of its type get an event. Never throws, and is not waited for. */
  add(event: EventHead, options: Pick<NewEvent, 'once' | 'person'> = {}): void {
    const { store, clock, log } = this.deps
    const { type } = event
    const receivers = this.receivers
      .filter(({ events }) => events.includes(type))
      .map(({ name }) => name)
    if (receivers.length === 0) return
    store
      .addEvent({ body: JSON.stringify(event), at: clock.now(), receivers, ...options })
      .catch((error) => log.warn({ err: error, type }, 'an event was lost'))
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.receivers.map((receiver) => receiver.close()))
  }

  async #hasten({ name }: Receiver): Promise<void> {
    const { store, clock } = this.deps
    await store.hastenEvents(name, clock.now(), clock.now() + CLAIMED)
  }

  /** Sends the due events one at a time, up to the first that fails. A stop lets that one end. */
  async #deliver(receiver: Receiver, stopping: AbortSignal): Promise<void> {
    const { store, clock } = this.deps
    for (let count = 0; count < BATCH && !stopping.aborted; count += 1) {
      const now = clock.now()
      const [event] = await store.claimDueEvents(receiver.name, now, 1, now + CLAIMED)
      if (!event || stopping.aborted) return
      const reason = await this.#send(receiver, event)
      if (reason !== undefined) return this.#delay(receiver, event, reason)
      await store.deleteEvent(event.id)
    }
  }

  /** Returns why it was not accepted. */
  async #send(receiver: Receiver, { body, person }: WaitingEvent): Promise<string | undefined> {
    const { signal } = this.#closing
    try {
      await receiver.send(body, { now: this.deps.clock.now(), signal }, person)
      return undefined
    } catch (error) {
      return (error as Error).message
    }
  }

  async #delay(
    { name: receiver }: Receiver,
    { id, at, tries }: WaitingEvent,
    reason: string,
  ): Promise<void> {
    const { store, clock, log } = this.deps
    if (this.#closing.signal.aborted) return
    const nextAt = clock.now() + (PAUSES[tries] ?? DAY)
    const isOver = nextAt - at > GIVE_UP_AFTER && tries + 1 >= GIVE_UP_TRIES
    if (!isOver) {
      const action = 'When the cause is removed, restart the service: it tries at once.'
      const waiting = { receiver, reason, nextTryAt: toTime(nextAt), action }
      log.warn(waiting, 'an event was not accepted')
      return store.delayEvent(id, nextAt)
    }
    log.warn(
      { receiver, id, reason },
      'an event could not be delivered within 7 days and was dropped',
    )
    await store.deleteEvent(id)
  }
}
