import { randomUUID } from 'node:crypto'
import type { Store } from '@gatehouse/cert-store/port'
import type { CertEvent, Events } from '@gatehouse/issuance'
import {
  GIVE_UP_AFTER,
  Outbox,
  type OutboxDeps,
  type ReceiverConfig,
} from '@gatehouse/service-kit/events'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { VERSION } from '../version.ts'
import { describeEvent, lateness, onceOf } from './event.ts'
import { textOf } from './text.ts'

const LOOK_EVERY = 300_000
const MAX_LATE = 1_000

declare module 'fastify' {
  interface FastifyInstance {
    readonly certEvents: Events | undefined
    readonly outbox: CertOutbox | undefined
  }
}

interface EventsOptions {
  readonly receivers: readonly ReceiverConfig[]
  /** Receives the events in place of the receivers. */
  readonly events?: Events | undefined
}

export const events = fp<EventsOptions>(
  async (app: FastifyInstance, { receivers, events }) => {
    const outbox = receivers.length > 0 ? new CertOutbox(receivers, app) : undefined
    app.decorate('outbox', outbox)
    app.decorate('certEvents', events ?? outbox)
    app.addHook('onClose', async () => outbox?.close())
  },
  {
    name: 'cert-service/events',
    dependencies: ['cert-service/store', 'service-kit/loops', 'service-kit/clock'],
  },
)

type CertOutboxDeps = OutboxDeps & { readonly store: Store }

/** The outbox of events about certificates. It finds those whose renewal is late. */
export class CertOutbox extends Outbox<CertOutboxDeps> implements Events {
  /** @throws ConfigError CONFIG_FILE_UNUSABLE */
  constructor(receivers: readonly ReceiverConfig[], deps: CertOutboxDeps) {
    super(receivers, { name: 'cert-service', version: VERSION, textOf }, deps)
    const failed = 'late certificates could not be looked for'
    deps.loops.add(LOOK_EVERY, () => this.#findLate(), failed, 'warn')
  }

  emit(event: CertEvent): void {
    const now = this.deps.clock.now()
    const once = onceOf(event, now)
    this.add(describeEvent(event, randomUUID(), now), once && { once })
  }

  /** Deletes notes of what was sent long ago, and events for receivers that are no longer configured. */
  prune(): Promise<void> {
    const { store, clock } = this.deps
    const now = clock.now()
    const receivers = this.receivers.map(({ name }) => name)
    return store.pruneEvents(now, { receivers, olderThan: now - GIVE_UP_AFTER })
  }

  async #findLate(): Promise<void> {
    const { store, clock } = this.deps
    const now = clock.now()
    for (const isCovered of [false, true])
      for (const certificate of await store.listLate(now, MAX_LATE, isCovered))
        if (lateness(certificate, now) > 0) this.emit({ type: 'expiring', certificate, isCovered })
  }
}
