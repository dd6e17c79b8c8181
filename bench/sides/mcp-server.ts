import Fastify from 'fastify'
import { serve } from '../harness/serve.ts'

/** An MCP server without an SDK, whose tool has nothing to do. */
const app = Fastify()
app.post('/mcp', ({ body }) => {
  const { id } = body as { readonly id: number }
  return {
    jsonrpc: '2.0',
    id,
    result: { resultType: 'complete', content: [{ type: 'text', text: 'Buy milk.' }] },
  }
})
await serve(app)
