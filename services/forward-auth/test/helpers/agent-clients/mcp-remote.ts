import type { Stream } from 'node:stream'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { type AgentClient, AT_ONCE, environmentOf, follow, made } from './client.ts'

const { file, lacks } = made('node_modules/mcp-remote/dist/proxy.js')

/** For programs that start their servers: it registers itself, and takes the answer on the machine of the person. */
export const mcpRemote: AgentClient = {
  title: 'mcp-remote 0.15',
  lacks,
  hasDocument: false,
  scopes: AT_ONCE,
  // It sends the person for more, and does not go on when they are back.
  scopesByBody: ['notes:read'],
  async start(t, surroundings) {
    const { url, visit } = surroundings
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [file, url, '--enable-proxy'],
      env: await environmentOf(t, surroundings),
      stderr: 'pipe',
    })
    const said = follow(transport.stderr as Stream, /visiting:\s+(\S+)\n/g, visit)
    const client = new Client({ name: 'assistant', version: '1.0.0' })
    t.teardown(() => client.close())
    try {
      await client.connect(transport, { timeout: 120_000 })
    } catch (cause) {
      throw new Error(said(), { cause })
    }
    return {
      async call(name) {
        const { content } = await client.callTool({ name })
        const [first] = content as { text?: string }[]
        return first?.text ?? ''
      },
    }
  },
}
