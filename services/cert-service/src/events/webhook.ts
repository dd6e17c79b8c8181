import { createHmac, randomUUID } from 'node:crypto'
import { type BoundedFetch, createFetch } from '@gatehouse/net'
import { requireNamedFile } from '@gatehouse/service-kit'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { WebhookConfig } from '../config/schema.ts'
import type { CertEvent, Events } from '../issuance/issue.ts'
import { backoff, describeTimes, planRenewal, toTime } from '../issuers/issuer.ts'
import { type Loop, repeat } from '../plugins/loops.ts'
import type { CertificateRecord, EventRecord, NewEvent } from '../store/store.ts'
import { VERSION } from '../version.ts'

const SECOND = 1_000
const DAY = 86_400 * SECOND
const YEAR = 366 * DAY
const SEND_EVERY = SECOND
const LOOK_EVERY = 300 * SECOND
const TIMEOUT = 10 * SECOND
const GIVE_UP_AFTER = 7 * DAY
/** What 7 days take: tries after 1, 10 and 100 minutes, then daily. A clock that jumps takes no try away. */
const GIVE_UP_TRIES = 10
const BATCH = 100
/** For how long an event is left to the replica that posts it. */
const CLAIMED = 60 * SECOND
const MAX_LATE = 1_000
const DELIVERED = [200, 201, 202, 203, 204, 205, 206]

declare module 'fastify' {
  interface FastifyInstance {
    readonly events: Events | undefined
    readonly webhook: Webhook | undefined
  }
}

interface EventsOptions {
  readonly webhook: WebhookConfig | undefined
  /** Receives the events in place of the webhook. */
  readonly events?: Events | undefined
}

/** Sends events to the configured webhook, once the service listens. */
export const events = fp<EventsOptions>(
  async (app: FastifyInstance, { webhook: config, events }) => {
    const webhook = config && new Webhook(config, app)
    app.decorate('webhook', webhook)
    app.decorate('events', events ?? webhook)
    app.addHook('onListen', async () => webhook?.start())
    app.addHook('onClose', async () => webhook?.close())
  },
  { fastify: '5.x', name: 'cert-service/events', dependencies: ['cert-service/store'] },
)

interface WebhookDeps extends Pick<FastifyInstance, 'clock' | 'store'> {
  readonly log: { warn(fields: object, message: string): void }
}

/** Posts events to a URL. They wait in the store until they are delivered. */
export class Webhook implements Events {
  readonly #config: WebhookConfig
  readonly #deps: WebhookDeps
  readonly #fetch: BoundedFetch
  readonly #closing = new AbortController()
  #loops: readonly Loop[] = []

  /** @throws ConfigError CONFIG_FILE_UNUSABLE */
  constructor(config: WebhookConfig, deps: WebhookDeps) {
    const { caFile } = config
    this.#config = config
    this.#deps = deps
    this.#fetch = createFetch({
      ...(caFile !== undefined && { ca: requireNamedFile('events.webhook.caFile', caFile) }),
      timeoutMs: TIMEOUT,
    })
  }

  emit(event: CertEvent): void {
    const { store, clock, log } = this.#deps
    if (!this.#config.events.includes(event.type)) return
    store
      .addEvent(toRow(event, clock.now()))
      .catch((error) => log.warn({ err: error, type: event.type }, 'an event was lost'))
  }

  /** Starts to deliver, and to look for certificates whose renewal is late. */
  start(): void {
    const { clock, log } = this.#deps
    const failed = (what: string) => (error: unknown) => log.warn({ err: error }, what)
    this.#loops = [
      repeat(clock, SEND_EVERY, () => this.#deliver(), failed('events could not be delivered')),
      repeat(
        clock,
        LOOK_EVERY,
        () => this.#findLate(),
        failed('late certificates could not be looked for'),
      ),
    ]
  }

  prune(): Promise<void> {
    return this.#deps.store.pruneEvents(this.#deps.clock.now())
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.#loops.map((loop) => loop.stop()))
    await this.#fetch.close()
  }

  /** Posts the due events one at a time, up to the first that fails. */
  async #deliver(): Promise<void> {
    const { store, clock } = this.#deps
    for (let posted = 0; posted < BATCH; posted += 1) {
      const now = clock.now()
      const [event] = await store.claimDueEvents(now, 1, now + CLAIMED)
      if (!event || this.#closing.signal.aborted) return
      if (await this.#post(event)) await store.deleteEvent(event.id)
      else return this.#delay(event)
    }
  }

  async #post({ body }: EventRecord): Promise<boolean> {
    const { clock, log } = this.#deps
    const { url, secret } = this.#config
    const { signal } = this.#closing
    const headers = {
      'content-type': 'application/json',
      'user-agent': `gatehouse-cert-service/${VERSION}`,
      ...signatureHeaders(body, secret, clock.now()),
    }
    try {
      await this.#fetch(url, { method: 'POST', headers, body, status: DELIVERED, signal })
      return true
    } catch (error) {
      // The path of a webhook often holds a secret.
      const { origin, pathname } = new URL(url)
      const reason = (error as Error).message.replace(origin + pathname, origin)
      if (!signal.aborted) log.warn({ reason }, 'the webhook did not take an event')
      return false
    }
  }

  async #delay({ id, at, tries }: EventRecord): Promise<void> {
    const { store, clock, log } = this.#deps
    if (this.#closing.signal.aborted) return
    const nextAt = clock.now() + backoff(tries + 1)
    const isOver = nextAt - at > GIVE_UP_AFTER && tries + 1 >= GIVE_UP_TRIES
    if (!isOver) return store.delayEvent(id, nextAt)
    log.warn({ id }, 'an event could not be delivered within 7 days and is given up')
    await store.deleteEvent(id)
  }

  async #findLate(): Promise<void> {
    const { store, clock } = this.#deps
    const now = clock.now()
    for (const certificate of await store.listLate(now, MAX_LATE))
      if (lateness(certificate, now) > 0) this.emit({ type: 'expiring', certificate })
  }
}

/** The body of an event. It never contains key material. */
export function describeEvent(event: CertEvent, id: string, at: number): string {
  const head = { id, type: event.type, at: toTime(at) }
  if (event.type === 'failing') {
    const { names, issuer, failures, lastError, nextTryAt } = event.order
    return JSON.stringify({
      ...head,
      names,
      issuer,
      failures,
      ...(lastError && { error: lastError }),
      ...(nextTryAt !== null && { nextTryAt: toTime(nextTryAt) }),
    })
  }
  const { names, issuer, serialNumber } = event.certificate
  return JSON.stringify({
    ...head,
    names,
    issuer,
    serialNumber,
    ...describeTimes(event.certificate),
  })
}

/** Authenticates a body by an HMAC-SHA256 of the Unix time, a dot and the body. */
export function signatureHeaders(
  body: string,
  secret: string,
  now: number,
): Record<'x-gatehouse-timestamp' | 'x-gatehouse-signature', string> {
  const timestamp = String(Math.floor(now / 1000))
  const signature = createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')
  return { 'x-gatehouse-timestamp': timestamp, 'x-gatehouse-signature': `sha256=${signature}` }
}

/**
 * How many thirds of the time between planned renewal and expiry have passed: 0 is on time, 1 and 2
 * call for a warning, 3 is expired.
 */
export function lateness(certificate: CertificateRecord, now: number): 0 | 1 | 2 | 3 {
  const { notAfter } = certificate
  const margin = notAfter - planRenewal(certificate, () => 0)
  const thirds = Math.floor((3 * (now - (notAfter - margin))) / margin)
  return Math.min(3, Math.max(0, thirds)) as 0 | 1 | 2 | 3
}

function toRow(event: CertEvent, at: number): NewEvent {
  const once = onceOf(event, at)
  return { body: describeEvent(event, randomUUID(), at), at, ...(once && { once }) }
}

/** Failures are reported when they begin and then daily, late renewals once per third. */
function onceOf(event: CertEvent, at: number): NewEvent['once'] {
  if (event.type === 'failing') {
    const { lineage, failures } = event.order
    return { key: `failing ${lineage}`, until: at + DAY, always: failures === 1 }
  }
  if (event.type !== 'expiring') return undefined
  const { id, notAfter } = event.certificate
  return { key: `expiring ${id} ${lateness(event.certificate, at)}`, until: notAfter + YEAR }
}
