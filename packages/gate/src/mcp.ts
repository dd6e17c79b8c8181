import type { IncomingHttpHeaders } from 'node:http'
import { attempt } from '@gatehouse/net'
import type { McpCall } from '@gatehouse/profile'

/** The headers in which a request of MCP names its call, in lower case. */
export const MCP_HEADERS = ['mcp-protocol-version', 'mcp-method', 'mcp-name'] as const
/** Headers of older versions with sessions, whose servers do not compare the others with the body. */
export const SESSION_HEADERS = ['mcp-session-id', 'last-event-id'] as const

/** The first version whose servers compare these headers with the body. */
const FIRST_VERSION = '2026-07-28'
const VERSION = /^\d{4}-\d{2}-\d{2}$/
const METHOD = /^[a-z]+(?:\/[a-z_]+)*$/i
/** A name as it is sent, without a comma: Node, and some proxies, join a header that comes twice with one. */
const PLAIN_NAME = /^(?!=\?)[!-+\--~](?:[ -+\--~]*[!-+\--~])?$/
const ENCODED_NAME =
  /^=\?base64\?((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)\?=$/
/** The methods whose requests have a name. */
const NAMED: ReadonlySet<string> = new Set([
  'tools/call',
  'prompts/get',
  'resources/read',
  'tasks/get',
  'tasks/update',
  'tasks/cancel',
])
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Reads the call that a request of MCP names in its headers (revision 2026-07-28, "Request Metadata").
 * Undefined if that is not certain: servers of older versions or with sessions do not compare the headers with the body.
 *
 * @param method - of the request; undefined if a header replaces it
 */
export function readMcp(
  method: string | undefined,
  headers: IncomingHttpHeaders,
): McpCall | undefined {
  if (SESSION_HEADERS.some((header) => headers[header] !== undefined)) return undefined
  const [version, called, name] = MCP_HEADERS.map((header) => headers[header])
  if (method !== 'POST' || typeof version !== 'string' || typeof called !== 'string')
    return undefined
  if (!VERSION.test(version) || version < FIRST_VERSION || !METHOD.test(called)) return undefined
  if (!NAMED.has(called)) return { method: called }
  const read = typeof name === 'string' ? readMcpName(name) : undefined
  return read === undefined ? undefined : { method: called, name: read }
}

/** The name that the header `Mcp-Name` contains; undefined if that is not certain. */
export function readMcpName(text: string): string | undefined {
  if (PLAIN_NAME.test(text)) return text
  const encoded = ENCODED_NAME.exec(text)?.[1]
  if (encoded === undefined) return undefined
  const bytes = Buffer.from(encoded, 'base64')
  // Several texts decode to the same bytes; only the canonical one is accepted.
  if (bytes.toString('base64') !== encoded) return undefined
  const name = attempt(() => utf8.decode(bytes))
  // SDKs for TypeScript drop a byte order mark, and run the tool whose name is the rest.
  return name?.startsWith('\uFEFF') ? undefined : name
}
