import { type Finding, fault } from './diagnose.ts'
import {
  callHeaders,
  type McpAnswer,
  type McpClient,
  mcpRequest,
  OLD_VERSION,
  openSession,
  VERSION,
} from './mcp-client.ts'

const CALL = 'tools/call'
/** A tool that no server has, and a version that none knows. */
const OTHER = 'gatehouse-doctor'
const LATER = '2099-01-01'

/** What the headers say, the headers, and the call. */
type Lie = readonly [title: string, headers: Readonly<Record<string, string>>, message: unknown]

const callOf = (tool: string, version?: string) =>
  mcpRequest(CALL, { name: tool, arguments: {} }, version)

/** Calls of a tool whose headers say something else, in ways that a check believes. */
function liesAbout(tool: string): readonly Lie[] {
  const call = callOf(tool, VERSION)
  const oldCall = callOf(tool)
  const other = callHeaders(CALL, OTHER)
  const encoded = callHeaders(CALL, `=?base64?${Buffer.from(OTHER).toString('base64')}?=`)
  const twice = JSON.stringify(call).replace('"name":', `"name":"${OTHER}","name":`)
  return [
    ['another tool', other, call],
    ['another tool in Base64', encoded, call],
    ['another tool, and the body is of no version', other, oldCall],
    ['another tool, and the body is of an older version', other, callOf(tool, OLD_VERSION)],
    ['another tool, which the body names as well', other, twice],
    ['another tool, and the body is a batch', other, [oldCall]],
    ['another tool, of a later version', callHeaders(CALL, OTHER, LATER), callOf(tool, LATER)],
    ['a list of tools', callHeaders('tools/list'), call],
    ['a list of tools, and the body is of no version', callHeaders('tools/list'), oldCall],
    ['a ping, and the body is of no version', callHeaders('ping'), oldCall],
  ]
}

/** Calls a tool of an MCP server with headers that say something else, and finds out whether it runs. */
export async function examineServer(send: McpClient, tool: string): Promise<readonly Finding[]> {
  const session = await openSession(send)
  const call = await send(callOf(tool, VERSION), callHeaders(CALL, tool))
  const oldCall = await send(callOf(tool), session)
  if (!call.result && !oldCall.result)
    return [fault('tool', `${tool} does not run, whatever the headers say (${describe(oldCall)}).`)]
  const lies = liesAbout(tool)
  const isInSession = Object.keys(session).length > 0
  const runs: string[] = []
  for (const own of isInSession ? [{}, session] : [{}])
    for (const [title, headers, message] of lies)
      if (!isRefused(await send(message, { ...headers, ...own }))) runs.push(title)
  const [first] = runs
  if (first !== undefined) {
    const count = `${runs.length} of ${lies.length * (isInSession ? 2 : 1)}`
    const text = `This server runs whatever the body says: ${tool} in ${count} calls whose headers say something else, such as ${first}.`
    return [fault('lies', text)]
  }
  if (call.result) return []
  const text = `This server knows older versions of MCP only: behind rules for tools, it refuses every call (${describe(call)}).`
  return [fault('lies', text)]
}

/** Whether an answer shows that the tool has not run. */
function isRefused({ status, result, error }: McpAnswer): boolean {
  return !result && (error !== undefined || (status >= 400 && status < 500))
}

function describe({ status, error }: McpAnswer): string {
  return error ? `${status}, error ${error.code}` : `${status}`
}
