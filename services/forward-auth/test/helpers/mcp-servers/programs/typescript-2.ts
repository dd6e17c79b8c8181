import { createServer, type RequestListener } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { NOTES } from './notes.ts'

/** A server of SDK 2 for TypeScript: its arguments are those of the others. */
const [, port] = process.argv.slice(2)

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'notes', version: '1.0.0' })
  for (const [name, run] of Object.entries(NOTES))
    server.registerTool(name, {}, () => ({ content: [{ type: 'text', text: run() }] }))
  return server
})

createServer(toNodeHandler(handler) as RequestListener).listen(Number(port), '127.0.0.1')
