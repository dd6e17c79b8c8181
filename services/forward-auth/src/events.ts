import { randomUUID } from 'node:crypto'
import { type EventHead, type EventText, Outbox, tidy } from '@gatehouse/service-kit/events'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { ForwardAuthConfig } from './config/schema.ts'
import { seal, unseal } from './keys/key-ring.ts'
import { VERSION } from './version.ts'

const PURPOSE = 'address of an event'
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
    const { authStore, clock, log, loops } = app
    const sender = {
      name: 'forward-auth',
      version: VERSION,
      textOf,
      personOf: (sealed: string) => unseal(sealed, app.keys.record, PURPOSE),
    }
    const outbox = new Outbox(receivers, sender, { store: authStore.outbox, clock, log, loops })
    app.decorate('events', {
      add({ type, portal, host, tool, url, email }) {
        const head = { id: randomUUID(), at: new Date(clock.now()).toISOString() }
        const name = tidy(tool.replaceAll(/\p{C}/gu, ' '), MAX_TOOL)
        const event = { ...head, type, portal, host, tool: name, url }
        outbox.add(event, email ? { person: seal(email, app.keys.record, PURPOSE) } : {})
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
