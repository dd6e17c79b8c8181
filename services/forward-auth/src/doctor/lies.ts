import { UsageError } from '@gatehouse/service-kit/program'
import { callHeaders, type McpClient, mcpRequest, openSession, VERSION } from './mcp-client.ts'

const CALL = 'tools/call'
/** A tool that no server has, and a version that none knows. */
const UNKNOWN_TOOL = 'gatehouse-doctor'
const LATER = '2099-01-01'

const callOf = (tool: string, version?: string) =>
  mcpRequest(CALL, { name: tool, arguments: {} }, version)
const headersOf = (tool: string) => ({ ...callHeaders(CALL), 'mcp-name': tool })

/** Calls of a tool whose headers say something else, in ways that a check believes. */
function liesAbout(tool: string) {
  const [call, oldCall] = [callOf(tool, VERSION), callOf(tool)]
  const wrongHeaders = headersOf(UNKNOWN_TOOL)
  return [
    ['another tool', wrongHeaders, call],
    ['another tool, for a call of an older version', wrongHeaders, oldCall],
    ['another tool, for a batch', wrongHeaders, [oldCall]],
    ['a later version', { ...wrongHeaders, 'mcp-protocol-version': LATER }, callOf(tool, LATER)],
    ['a list of tools', callHeaders('tools/list'), call],
    ['a list of tools, for a call of an older version', callHeaders('tools/list'), oldCall],
    ['a ping, for a call of an older version', callHeaders('ping'), oldCall],
  ] as const
}

/**
 * Calls a tool of an MCP server with headers that say something else. Rejects if it runs, or if the server refuses
 * whatever has such headers.
 *
 * @throws UsageError
 */
export async function examineServer(send: McpClient, tool: string): Promise<string> {
  const session = await openSession(send)
  const { status, result, error } = await send(callOf(tool, VERSION), headersOf(tool))
  const answer = error ? `${status}, error ${error.code}` : status
  const oldCall = await send(callOf(tool), session)
  if (!result && !oldCall.result)
    throw new UsageError(`${tool} does not run even if nothing is wrong with the call (${answer})`)
  const lies = liesAbout(tool)
  const sessions = session ? [{}, session] : [{}]
  const titles: string[] = []
  for (const sessionHeaders of sessions)
    for (const [title, headers, message] of lies) {
      const { status, result, error } = await send(message, { ...headers, ...sessionHeaders })
      const isRefused = !result && (error !== undefined || (status >= 400 && status < 500))
      if (!isRefused) titles.push(title)
    }
  const count = `${titles.length} of ${lies.length * sessions.length} calls whose headers say something else`
  const runs = `This server runs whatever the body says: ${tool} in ${count}, such as ${titles[0]}. ${UPSTREAM}`
  if (titles.length > 0) throw new Error(runs)
  const refuses = `This server knows older versions of MCP only: behind rules for tools, it refuses every call (${answer}). ${UPSTREAM}`
  if (!result) throw new Error(refuses)
  return `This server compares headers and body: ${tool} ran in ${count}.\n`
}

const UPSTREAM = 'Give the resource an `upstream`: then Gatehouse reads the body of each call.'
