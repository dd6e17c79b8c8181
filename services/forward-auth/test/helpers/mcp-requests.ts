/** The first version of MCP in which headers name a call. */
export const VERSION = '2026-07-28'

const PREFIX = 'io.modelcontextprotocol'

/** What each request of this version says about its client, in `params._meta`. */
export function envelope(version: string = VERSION) {
  return {
    [`${PREFIX}/protocolVersion`]: version,
    [`${PREFIX}/clientCapabilities`]: {},
    [`${PREFIX}/clientInfo`]: { name: 'assistant', version: '1.0.0' },
  }
}

/** A call of a tool, as clients of this version send it. */
export function toolCall(name: string) {
  const params = { name, arguments: {}, _meta: envelope() }
  return { jsonrpc: '2.0', id: 1, method: 'tools/call', params }
}

/** The same, as clients of older versions send it. */
export function oldToolCall(name: string) {
  return { ...toolCall(name), params: { name, arguments: {} } }
}

/** The headers that name a call. */
export function callHeaders(name: string, version = VERSION): readonly Line[] {
  return [
    ['MCP-Protocol-Version', version],
    ['Mcp-Method', 'tools/call'],
    ['Mcp-Name', name],
  ]
}

/** Name and value of a header, as they are sent. */
export type Line = readonly [name: string, value: string]
