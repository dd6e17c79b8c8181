import { attempt } from '@gatehouse/net'

/** Removes from a list of tools those that its reader may not call. Other messages stay as they are. */
export function narrowTools(message: string, mayCall: (tool: string) => boolean): string {
  if (!message.includes('"tools"')) return message
  const parsed = attempt(() => parseExactly(message))
  const results = [parsed].flat().map((response) => Object(Object(response).result))
  let isNarrowed = false
  for (const result of results) {
    if (!Array.isArray(result.tools)) continue
    const tools = result.tools.filter((tool: unknown) => mayCall(String(Object(tool).name)))
    isNarrowed ||= tools.length < result.tools.length
    result.tools = tools
  }
  return isNarrowed ? JSON.stringify(parsed) : message
}

/** Parses JSON whose numbers are written again as they were, also those that a double cannot hold. */
function parseExactly(text: string): unknown {
  const keep = (_name: string, value: unknown, { source = '' }: { readonly source?: string }) =>
    typeof value === 'number' && String(value) !== source ? rawJson(source) : value
  return JSON.parse(text, keep as (name: string, value: unknown) => unknown)
}

const { rawJSON: rawJson } = JSON as typeof JSON & { rawJSON(text: string): unknown }
