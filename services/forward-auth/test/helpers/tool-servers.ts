import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { McpServer as McpServer1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { createMcpHandler, McpServer as McpServer2 } from '@modelcontextprotocol/server'
import { McpServer as McpServer112 } from 'mcp-sdk-1.12/server/mcp.js'
import { StreamableHTTPServerTransport as Transport112 } from 'mcp-sdk-1.12/server/streamableHttp.js'
import type { Test } from 'tap'

/**
 * Versions of the SDK: 2 compares the headers that name a call with the body. The others know nothing of them: 1, its
 * last one, refuses their version, and 1.12 does not even read that; its server has sessions, and nothing without one.
 */
export type Sdk = 1 | 1.12 | 2
/** What both old versions have in common. */
const OLD = {
  1: { Server: McpServer1, Transport: StreamableHTTPServerTransport },
  1.12: {
    Server: McpServer112 as unknown as typeof McpServer1,
    Transport: Transport112 as unknown as typeof StreamableHTTPServerTransport,
  },
} as const

const INFO = { name: 'notes', version: '1.0.0' }
const NAMES = ['read_note', 'delete_note', 'whoami'] as const

/** The names of the tools that have run, in order. */
type Ran = string[]

function run(ran: Ran, name: string, headers: object = {}) {
  ran.push(name)
  const text = name === 'whoami' ? JSON.stringify(headers) : name
  return { content: [{ type: 'text' as const, text }] }
}

/** A handler of SDK 2, in its most open form: it serves clients of older versions as well. */
function createToolHandler(ran: Ran) {
  return createMcpHandler(({ requestInfo }) => {
    const server = new McpServer2(INFO)
    const headers = Object.fromEntries(requestInfo?.headers ?? [])
    for (const name of NAMES) server.registerTool(name, {}, () => run(ran, name, headers))
    return server
  })
}

/** The same by an old SDK, for clients with a session and without one. */
function createOldListener(ran: Ran, sdk: keyof typeof OLD, hasSessions: boolean): RequestListener {
  const { Server, Transport: HttpTransport } = OLD[sdk]
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  return async (request, response) => {
    const known = sessions.get(String(request.headers['mcp-session-id']))
    if (known) return known.handleRequest(request, response)
    const isOpening = hasSessions || request.headers['x-test-session'] !== undefined
    const transport: StreamableHTTPServerTransport = new HttpTransport({
      ...(isOpening && {
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => void sessions.set(id, transport),
      }),
    })
    const server = new Server(INFO)
    for (const name of NAMES)
      server.registerTool(name, {}, ({ requestInfo }) => run(ran, name, requestInfo?.headers))
    await server.connect(transport as Transport)
    await transport.handleRequest(request, response)
  }
}

/**
 * An MCP server with the tools `read_note`, `delete_note` and `whoami`, at every path and for everybody.
 *
 * @param hasSessions - whether an old one opens a session for each client, and not only for those that ask for it
 */
export async function startToolServer(t: Test, sdk: Sdk, hasSessions = sdk === 1.12) {
  const ran: Ran = []
  const handler = createToolHandler(ran)
  const listener =
    sdk === 2
      ? (toNodeHandler(handler) as RequestListener)
      : createOldListener(ran, sdk, hasSessions)
  let last: IncomingHttpHeaders | undefined
  const server = createServer({ maxHeaderSize: 65_536 }, (request, response) => {
    last = request.headers
    return listener(request, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    server.close()
    server.closeAllConnections()
    await handler.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    port,
    /** The tools that have run so far. */
    ran: ran as readonly string[],
    /** The headers of the last request that has arrived. */
    last: () => last,
    /** The ID of a session that is opened without a gate. */
    openSession: () => openSession(port),
  }
}

async function openSession(port: number): Promise<string> {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: INFO }
  const { headers, body } = await fetch(`http://127.0.0.1:${port}/mcp`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'x-test-session': 'new',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
  })
  await body?.cancel()
  const id = headers.get('mcp-session-id')
  if (id === null) throw new Error('the server has opened no session')
  return id
}
