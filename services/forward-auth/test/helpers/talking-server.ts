import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import {
  type EventStore,
  StreamableHTTPServerTransport,
} from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import {
  CallToolRequestSchema,
  CreateMessageResultSchema,
  ElicitResultSchema,
  type JSONRPCMessage,
  ListToolsRequestSchema,
  type ServerNotification,
  type ServerRequest,
} from '@modelcontextprotocol/sdk/types.js'
import type { Test } from 'tap'

/** The context of a call, and its argument. */
interface Call extends RequestHandlerExtra<ServerRequest, ServerNotification> {
  readonly text: string
}

const question = { role: 'user' as const, content: { type: 'text' as const, text: 'Why?' } }
const requestedSchema = {
  type: 'object' as const,
  properties: { name: { type: 'string' as const } },
}
/** The length of the answer of `long`. */
export const LONG = 20_000_000

/** Tools that say more than one answer. Each gives the text of its answer. */
const TOOLS: Readonly<Record<string, (call: Call) => Promise<string>>> = {
  async ask_person({ sendRequest }) {
    const params = { message: 'Who are you?', requestedSchema }
    const answer = await sendRequest({ method: 'elicitation/create', params }, ElicitResultSchema)
    return `${answer.action} ${answer.content?.name}`
  },
  async ask_model({ sendRequest }) {
    const params = { messages: [question], maxTokens: 100 }
    const answer = await sendRequest(
      { method: 'sampling/createMessage', params },
      CreateMessageResultSchema,
    )
    return JSON.stringify(answer.content)
  },
  async count({ sendNotification, _meta }) {
    const progressToken = _meta?.progressToken ?? 0
    for (const progress of [1, 2, 3])
      await sendNotification({
        method: 'notifications/progress',
        params: { progressToken, progress, total: 3 },
      })
    return 'counted'
  },
  // Its client has to come back for the answer.
  async cut({ closeSSEStream }) {
    closeSSEStream?.()
    return 'after the cut'
  },
  async wait({ signal }) {
    await once(signal, 'abort')
    return 'cancelled'
  },
  async long() {
    return 'a'.repeat(LONG)
  },
  async measure({ text }) {
    return `${text.length}`
  },
}
const TOOL_NAMES = Object.keys(TOOLS)

/** The tools that have begun, and those whose call was cancelled. */
interface Calls {
  readonly begun: string[]
  readonly cancelled: string[]
}

/** An MCP server with sessions at every path, which asks its clients back and keeps its events. */
export async function startTalkingServer(t: Test) {
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  const calls: Calls = { begun: [], cancelled: [] }
  /** The requests that have ended before their answer did, by method. */
  const cut: string[] = []
  const server = createServer(async (request, response) => {
    response.on('close', () => response.writableFinished || cut.push(String(request.method)))
    const session = sessions.get(String(request.headers['mcp-session-id']))
    await (session ?? (await openSession(sessions, calls))).handleRequest(request, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return { port, sessions, ...calls, cut }
}

async function openSession(
  sessions: Map<string, StreamableHTTPServerTransport>,
  { begun, cancelled }: Calls,
): Promise<StreamableHTTPServerTransport> {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: createEventStore(),
    retryInterval: 10,
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
  })
  const server = new Server({ name: 'talker', version: '1.0.0' }, { capabilities: { tools: {} } })
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: TOOL_NAMES.map((name) => ({ name, inputSchema: { type: 'object' as const } })),
  }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, context) => {
    const { name, arguments: { text = '' } = {} } = params
    begun.push(name)
    context.signal.addEventListener('abort', () => cancelled.push(name))
    const answer = await TOOLS[name]?.({ ...context, text: String(text) })
    return { content: [{ type: 'text' as const, text: answer }] }
  })
  await server.connect(transport as Transport)
  return transport
}

/** Keeps events in their order, which the store among the examples of the SDK loses within a millisecond. */
function createEventStore(): EventStore {
  const events: { readonly streamId: string; readonly message: JSONRPCMessage }[] = []
  return {
    storeEvent: async (streamId, message) => `${events.push({ streamId, message })}`,
    async replayEventsAfter(lastEventId, { send }) {
      const streamId = events[Number(lastEventId) - 1]?.streamId ?? ''
      for (const [index, event] of events.entries())
        if (index >= Number(lastEventId) && event.streamId === streamId)
          await send(`${index + 1}`, event.message)
      return streamId
    },
  }
}
