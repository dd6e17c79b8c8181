import { randomUUID } from 'node:crypto'
import {
  type EventHead,
  type EventStore,
  type EventText,
  type NewEvent,
  Outbox,
  tidy,
} from '@gatehouse/service-kit/events'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { ForwardAuthConfig } from './config/schema.ts'
import { sealValue, unsealValue } from './keys/key-ring.ts'
import { VERSION } from './version.ts'

const PURPOSE = 'event'
const MAX_TOOL = 200

/** An agent wants to call a tool, and waits for a person. The arguments of the call are no part of it. */
interface ApprovalRequest {
  readonly type: 'approval-requested'
  readonly portal: string
  /** Host of the MCP server. */
  readonly host: string
  readonly tool: string
  /** The page where a person decides. */
  readonly url: string
}

type SealedEvent = Pick<NewEvent, 'body' | 'person'>

declare module 'fastify' {
  interface FastifyInstance {
    readonly events: {
      /**
       * Tells the receivers. Never throws, and is not waited for.
       * @param event - `email`: the verified address of the person whom the agent acts for
       */
      add(event: ApprovalRequest & { readonly email: string | undefined }): void
    }
  }
}

/** Tells the configured receivers what happens. */
export const events = fp<Pick<ForwardAuthConfig, 'events'>>(
  async (app: FastifyInstance, { events: { receivers } }) => {
    const { clock, log, loops } = app
    const sender = { name: 'forward-auth', version: VERSION, textOf }
    const outbox = new Outbox(receivers, sender, { store: sealedOutbox(app), clock, log, loops })
    app.decorate('events', {
      add({ type, portal, host, tool, url, email }) {
        const head = { id: randomUUID(), at: new Date(clock.now()).toISOString() }
        const name = tidy(tool.replaceAll(/\p{C}/gu, ' '), MAX_TOOL)
        const event = { ...head, type, portal, host, tool: name, url }
        outbox.add(event, { person: email })
      },
    })
    app.addHook('onClose', () => outbox.close())
  },
  {
    name: 'forward-auth/events',
    dependencies: [
      'forward-auth/store',
      'forward-auth/keys',
      'service-kit/loops',
      'service-kit/clock',
    ],
  },
)

/** The outbox of the store, in which nobody can read an event, or write one that leads people astray. */
function sealedOutbox(app: FastifyInstance): EventStore {
  const { outbox } = app.authStore
  return {
    ...outbox,
    addEvent: ({ body, person, ...event }) =>
      outbox.addEvent({ ...event, body: sealValue({ body, person }, app.keys.record, PURPOSE) }),
    async claimDueEvents(...claim) {
      const events = await outbox.claimDueEvents(...claim)
      return events.flatMap((event) => {
        const opened = unsealValue<SealedEvent>(event.body, app.keys.record, PURPOSE)
        return opened ? [{ ...event, ...opened }] : []
      })
    },
  }
}

/** Describes an event for people. */
function textOf({ portal, host, tool, url }: EventHead & ApprovalRequest): EventText {
  return {
    title: `May an agent call ${tool}?`,
    what: `An agent wants to call the tool ${tool} at ${host}, and waits for a person.`,
    action: `Decide at ${url}. If nobody expects this call, refuse it there.`,
    details: Object.entries({ Tool: tool, Server: host, Portal: portal }),
    severity: 'warning',
  }
}
