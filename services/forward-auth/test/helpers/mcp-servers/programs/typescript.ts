import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import type { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { NOTES } from './notes.ts'

/** A server of an SDK 1 for TypeScript: its arguments are the folder of the SDK, a port, and `stateless` or `sessions`. */
const [folder = '', port, mode] = process.argv.slice(2)
const load = createRequire(join(folder, 'package.json'))
const { McpServer: Server } = load('./dist/cjs/server/mcp.js')
const { StreamableHTTPServerTransport: Transport } = load('./dist/cjs/server/streamableHttp.js')

const sessions = new Map<string, StreamableHTTPServerTransport>()

async function open(): Promise<StreamableHTTPServerTransport> {
  const transport: StreamableHTTPServerTransport = new Transport({
    sessionIdGenerator: mode === 'sessions' ? randomUUID : undefined,
    onsessioninitialized: (id: string) => void sessions.set(id, transport),
  })
  const server: McpServer = new Server({ name: 'notes', version: '1.0.0' })
  for (const [name, run] of Object.entries(NOTES))
    server.tool(name, async () => ({ content: [{ type: 'text', text: run() }] }))
  await server.connect(transport)
  return transport
}

createServer(async (request, response) => {
  const session = sessions.get(String(request.headers['mcp-session-id']))
  await (session ?? (await open())).handleRequest(request, response)
}).listen(Number(port), '127.0.0.1')
