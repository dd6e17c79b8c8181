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
