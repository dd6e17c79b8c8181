import { attempt } from '@gatehouse/net'
import type { HttpClient } from './client.ts'
import type { HttpAnswer } from './diagnose.ts'

/** The first version of MCP whose requests name their call in headers, and the last one before it. */
export const VERSION = '2026-07-28'
export const OLD_VERSION = '2025-11-25'
const PREFIX = 'io.modelcontextprotocol'
const CLIENT_INFO = { name: 'gatehouse-auth doctor', version: '1' }
const MEDIA_TYPES = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
}

type Headers = Readonly<Record<string, string>>

/** The answer of a server to a request, and what JSON-RPC says in it. */
export interface McpAnswer extends HttpAnswer {
  readonly result?: Readonly<Record<string, unknown>>
  readonly error?: Readonly<Record<string, unknown>>
}

export type McpClient = (message: unknown, headers?: Headers) => Promise<McpAnswer>

/** A client that sends headers that need not fit the message. A text is sent as it is. */
export function createMcpClient(url: URL, ask: HttpClient): McpClient {
  return async (message, headers) => {
    const body = typeof message === 'string' ? message : JSON.stringify(message)
    const answer = await ask(url, { method: 'POST', headers: { ...MEDIA_TYPES, ...headers }, body })
    return { ...answer, ...readMessage(answer) }
  }
}

/** The result or the error that an answer holds, in JSON or as an event. */
function readMessage({ headers, body }: HttpAnswer): Pick<McpAnswer, 'result' | 'error'> {
  const isStream = headers['content-type']?.startsWith('text/event-stream')
  const texts = isStream ? body.split('\n').map((line) => line.replace(/^data:/, '')) : [body]
  const messages = texts.flatMap((text) => attempt(() => JSON.parse(text)) ?? []).map(Object)
  const { result, error } = messages.find((message) => message.result ?? message.error) ?? {}
  return { ...(result && { result: Object(result) }), ...(error && { error: Object(error) }) }
}

/** A request of that version, which says so; of an older one without `version`. */
export function mcpRequest(method: string, params: object, version?: string) {
  const meta = {
    [`${PREFIX}/protocolVersion`]: version,
    [`${PREFIX}/clientCapabilities`]: {},
    [`${PREFIX}/clientInfo`]: CLIENT_INFO,
  }
  const request = { jsonrpc: '2.0', id: 1, method, params }
  return version === undefined ? request : { ...request, params: { ...params, _meta: meta } }
}

/** The headers that name a call. */
export function callHeaders(method: string, name?: string, version = VERSION): Headers {
  const headers = { 'mcp-protocol-version': version, 'mcp-method': method }
  return name === undefined ? headers : { ...headers, 'mcp-name': name }
}

/** Opens a session, as clients of older versions do. Returns the headers of its requests: none at servers without sessions. */
export async function openSession(send: McpClient): Promise<Headers> {
  const params = { protocolVersion: OLD_VERSION, capabilities: {}, clientInfo: CLIENT_INFO }
  const { headers } = await send(mcpRequest('initialize', params))
  const id = headers['mcp-session-id']
  if (id === undefined) return {}
  const session = { 'mcp-session-id': id }
  await send({ jsonrpc: '2.0', method: 'notifications/initialized' }, session)
  return session
}
