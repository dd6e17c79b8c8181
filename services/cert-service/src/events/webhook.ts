import { randomUUID } from 'node:crypto'
import { createFetch } from '@gatehouse/net'
import { type Clock, requireNamedFile } from '@gatehouse/service-kit'
import type { WebhookConfig } from '../config/events.ts'
import type { CertEvent, Events } from '../issuance/events.ts'
import { backoff } from '../issuance/renewal.ts'
import { repeat } from '../repeat.ts'
import type { EventRecord, NewEvent, Store } from '../store/store.ts'
import { VERSION } from '../version.ts'
import { describeEvent } from './describe.ts'
import { lateness } from './expiry.ts'
import { signatureHeaders } from './signature.ts'

const SECOND = 1_000
const DAY = 86_400 * SECOND
const YEAR = 366 * DAY
const SEND_EVERY = SECOND
const LOOK_EVERY = 300 * SECOND
const TIMEOUT = 10 * SECOND
const GIVE_UP_AFTER = 7 * DAY
/** After 1, 10 and 100 minutes there is one try a day. */
const GIVE_UP_TRIES = 10
const AT_A_TIME = 100
const MAX_LATE = 1_000
const DELIVERED = [200, 201, 202, 203, 204, 205, 206]

/** A webhook: its events are kept in the store until they are delivered. */
export interface Webhook extends Events {
  /** Starts delivering, and looking for certificates that are late. */
  start(): void
  prune(): Promise<void>
  close(): Promise<void>
}

interface WebhookDeps {
  readonly store: Pick<
    Store,
    'addEvent' | 'listDueEvents' | 'delayEvent' | 'deleteEvent' | 'pruneEvents' | 'listLate'
  >
  readonly clock: Clock
  readonly log: { warn(fields: object, message: string): void }
}

export async function openWebhook(
  { url, secret, events, caFile }: WebhookConfig,
  { store, clock, log }: WebhookDeps,
): Promise<Webhook> {
  const ca = caFile === undefined ? {} : { ca: requireNamedFile('events.webhook.caFile', caFile) }
  const fetch = createFetch({ ...ca, timeoutMs: TIMEOUT })
  const closing = new AbortController()
  let loops: readonly { stop(): Promise<void> }[] = []

  function emit(event: CertEvent): void {
    if (!events.includes(event.type)) return
    store
      .addEvent(eventOf(event, clock.now()))
      .catch((error) => log.warn({ err: error, type: event.type }, 'an event was lost'))
  }

  /** One at a time; while the receiver fails, one try a turn. */
  async function deliver(): Promise<void> {
    for (const event of await store.listDueEvents(clock.now(), AT_A_TIME)) {
      if (closing.signal.aborted) return
      if (await post(event)) await store.deleteEvent(event.id)
      else return delay(event)
    }
  }

  async function post({ body }: EventRecord): Promise<boolean> {
    const headers = {
      'content-type': 'application/json',
      'user-agent': `gatehouse-cert-service/${VERSION}`,
      ...signatureHeaders(body, secret, clock.now()),
    }
    const { signal } = closing
    try {
      await fetch(url, { method: 'POST', headers, body, status: DELIVERED, signal })
      return true
    } catch (error) {
      if (!signal.aborted) log.warn({ reason: reason(error) }, 'the webhook did not take an event')
      return false
    }
  }

  /** The paths of webhooks often hold a secret. */
  function reason(error: unknown): string {
    const { origin, pathname } = new URL(url)
    return (error as Error).message.replace(origin + pathname, origin)
  }

  async function delay({ id, at, tries }: EventRecord): Promise<void> {
    if (closing.signal.aborted) return
    const nextAt = clock.now() + backoff(tries + 1)
    // Seven days take so many tries; a clock that jumped ahead gives nothing up.
    const isOver = nextAt - at > GIVE_UP_AFTER && tries + 1 >= GIVE_UP_TRIES
    if (!isOver) return store.delayEvent(id, nextAt)
    log.warn({ id }, 'an event could not be delivered within 7 days and is given up')
    await store.deleteEvent(id)
  }

  async function look(): Promise<void> {
    const now = clock.now()
    for (const certificate of await store.listLate(now, MAX_LATE))
      if (lateness(certificate, now) > 0) emit({ type: 'expiring', certificate })
  }

  return {
    emit,
    start() {
      const failed = (what: string) => (error: unknown) => log.warn({ err: error }, what)
      loops = [
        repeat(clock, SEND_EVERY, deliver, failed('events could not be delivered')),
        repeat(clock, LOOK_EVERY, look, failed('late certificates could not be looked for')),
      ]
    },
    prune: () => store.pruneEvents(clock.now()),
    async close() {
      closing.abort()
      await Promise.all(loops.map((loop) => loop.stop()))
      await fetch.close()
    },
  }
}

function eventOf(event: CertEvent, at: number): NewEvent {
  const body = describeEvent(event, randomUUID(), at)
  const once = onceOf(event, at)
  return { body, at, ...(once && { once }) }
}

/** Failures are told when they begin and daily, late certificates at each third. */
function onceOf(event: CertEvent, at: number): NewEvent['once'] {
  if (event.type === 'failing') {
    const { lineage, failures } = event.order
    return { key: `failing ${lineage}`, until: at + DAY, always: failures === 1 }
  }
  if (event.type !== 'expiring') return undefined
  const { id, notAfter } = event.certificate
  return { key: `expiring ${id} ${lateness(event.certificate, at)}`, until: notAfter + YEAR }
}
