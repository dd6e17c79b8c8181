import { parseJson } from '@gatehouse/net'
import { UsageError } from '@gatehouse/service-kit/program'
import type { HeaderRecord, HttpClient } from './client.ts'
import type { HttpAnswer } from './diagnose.ts'

/** The first version of MCP whose requests name their call in headers. */
export const VERSION = '2026-07-28'
const PREFIX = 'io.modelcontextprotocol'
const CLIENT_INFO = { name: 'gatehouse-auth doctor', version: '1' }
const LIST = 'tools/list'
/** Pages of a list that are read. */
const MAX_PAGES = 100
const ACCEPT = 'application/json, text/event-stream'

/** The answer of a server, and what JSON-RPC says in it. */
interface McpAnswer extends HttpAnswer {
  readonly result: Readonly<Record<string, unknown>> | undefined
  readonly error: Readonly<Record<string, unknown>> | undefined
}

export type McpClient = (message: unknown, headers?: HeaderRecord) => Promise<McpAnswer>

/** A client that sends headers that need not fit the message. */
export function createMcpClient(url: URL, ask: HttpClient): McpClient {
  return async (message, extraHeaders) => {
    const headers = { 'content-type': 'application/json', accept: ACCEPT, ...extraHeaders }
    const answer = await ask(url, { method: 'POST', headers, body: JSON.stringify(message) })
    // In JSON, or in events.
    const texts = [answer.body, ...answer.body.replaceAll(/^data:/gm, '').split('\n')]
    const messages = texts.flatMap(parseJson).map(Object)
    const { result, error } = messages.find((reply) => reply.result ?? reply.error) ?? {}
    return { ...answer, result, error }
  }
}

/** A request. Since {@link VERSION} it says its version; older ones do not. */
export function mcpRequest(method: string, params: object, version?: string) {
  const envelope = version && {
    [`${PREFIX}/protocolVersion`]: version,
    [`${PREFIX}/clientCapabilities`]: {},
    [`${PREFIX}/clientInfo`]: CLIENT_INFO,
  }
  return { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: envelope } }
}

/** The headers that say what a request calls, without its name. */
export function callHeaders(method: string): HeaderRecord {
  return { 'mcp-protocol-version': VERSION, 'mcp-method': method }
}

/** Opens a session, as older clients do. Returns the headers of its requests; undefined at servers without sessions. */
export async function openSession(send: McpClient): Promise<HeaderRecord | undefined> {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: CLIENT_INFO }
  const { headers } = await send(mcpRequest('initialize', params))
  const id = headers['mcp-session-id']
  if (id === undefined) return undefined
  await send({ jsonrpc: '2.0', method: 'notifications/initialized' }, { 'mcp-session-id': id })
  return { 'mcp-session-id': id }
}

/** The names of all tools of a server, new or old. @throws UsageError */
export async function listTools(send: McpClient): Promise<string[]> {
  const session = await openSession(send)
  const names: string[] = []
  let cursor: unknown
  for (let page = 0; page < MAX_PAGES; page++) {
    const answer = await send(mcpRequest(LIST, { cursor }, VERSION), callHeaders(LIST))
    const { status, result } = answer.result
      ? answer
      : await send(mcpRequest(LIST, { cursor }), session)
    if (!Array.isArray(result?.tools))
      throw new UsageError(`the MCP server does not list its tools (${status})`)
    names.push(...result.tools.map((tool) => String(Object(tool).name)))
    cursor = result.nextCursor
    if (cursor === undefined) break
  }
  return names
}
