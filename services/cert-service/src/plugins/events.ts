import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { CertServiceConfig } from '../config/schema.ts'
import { Webhook } from '../events/webhook.ts'
import type { Events } from '../issuance/issue.ts'

declare module 'fastify' {
  interface FastifyInstance {
    readonly events: Events | undefined
    readonly webhook: Webhook | undefined
  }
}

export interface EventsOptions {
  readonly webhook: CertServiceConfig['events']['webhook']
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
