import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { NOTES } from './notes.ts'

/**
 * A server without an SDK, which reads nothing but the body: at every path, by every method, in every media type. Its
 * arguments are a port, after `fold` if it reads names as encoding/json of Go does.
 */
const [reading, port] = process.argv.slice(2)

/** Names without their case; of the members that fold to the same, the last one counts. */
const fold = (_name: string, member: unknown) =>
  typeof member === 'object' && member !== null && !Array.isArray(member)
    ? Object.fromEntries(
        Object.entries(member).map(([name, value]) => [
          name.toLowerCase().replaceAll('\u017f', 's').replaceAll('\u212a', 'k'),
          value,
        ]),
      )
    : member

interface Message {
  readonly id?: unknown
  readonly method?: string
  readonly params?: { readonly name?: string }
}

const INITIALIZED = {
  protocolVersion: '2025-06-18',
  capabilities: { tools: {} },
  serverInfo: { name: 'notes', version: '1.0.0' },
}

function answer({ id, method, params }: Message): object {
  const run = method === 'tools/call' ? NOTES[String(params?.name)] : undefined
  const result = run ? { content: [{ type: 'text', text: run() }] } : INITIALIZED
  return { jsonrpc: '2.0', id: id ?? null, result }
}

createServer(async (request, response) => {
  response.setHeader('content-type', 'application/json')
  try {
    const body = (await text(request)).trim()
    const message = JSON.parse(body, reading === 'fold' ? fold : undefined)
    const messages: readonly Message[] = [message].flat()
    response.end(JSON.stringify(messages.map(answer).at(-1)))
  } catch {
    response.writeHead(400).end('{}')
  }
}).listen(Number(port), '127.0.0.1')
