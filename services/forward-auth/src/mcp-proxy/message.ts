import { createHash } from 'node:crypto'
import { isObject } from '@gatehouse/net'
import { ANY_ARGUMENTS, type McpCall } from '@gatehouse/profile'
import { canonicalJson } from '../canonical-json.ts'
import { fold, JsonReader, type Path, unreadable } from './json.ts'

/** The members of a JSON object. Integers that a double cannot hold are bigints. */
type Members = Readonly<Record<string, unknown>>

/** A JSON-RPC message of a client (MCP "Messages"), as every parser reads it. */
export interface Message {
  /** Undefined for a notification. */
  readonly id: string | number | undefined
  /** Undefined for a response to a request of the server. */
  readonly method: string | undefined
  readonly params: Members
}

/** The methods that every client of a server needs, whatever it calls. */
const HANDSHAKE: ReadonlySet<string> = new Set([
  'initialize',
  'notifications/cancelled',
  'notifications/initialized',
  'notifications/progress',
  'notifications/roots/list_changed',
  'notifications/tasks/status',
  'ping',
  'server/discover',
])
/** The other methods of clients in all revisions, with the member of `params` that tells what each is about. */
const CALLS: ReadonlyMap<string, 'name' | 'uri' | 'taskId' | undefined> = new Map([
  ['completion/complete', undefined],
  ['logging/setLevel', undefined],
  ['prompts/get', 'name'],
  ['prompts/list', undefined],
  ['resources/list', undefined],
  ['resources/read', 'uri'],
  ['resources/subscribe', 'uri'],
  ['resources/templates/list', undefined],
  ['resources/unsubscribe', 'uri'],
  ['subscriptions/listen', undefined],
  ['tasks/cancel', 'taskId'],
  ['tasks/get', 'taskId'],
  ['tasks/list', undefined],
  ['tasks/result', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tools/call', 'name'],
  ['tools/list', undefined],
])

const MEMBERS: readonly string[] = ['jsonrpc', 'id', 'method', 'params', 'result', 'error']
const STATE: readonly string[] = ['requestState', 'inputResponses']
const READ = ['name', 'arguments', 'uri', 'taskId', ...STATE, '_meta', 'progressToken']
/** What is read of `params` and its `_meta`, by what SDKs may make of other spellings, such as `task_id`. */
const SPELLINGS: ReadonlyMap<string, string> = new Map(READ.map((name) => [spelling(name), name]))
const NAME = /^\P{Cc}{1,1000}$/u

/**
 * Reads the body of a request.
 *
 * @throws FwaError FWA_CALL_UNREADABLE: says what is wrong, and where by a JSON pointer
 */
export function readMessage(body: Buffer): Message {
  const message = membersOf(new JsonReader(body).read(), [])
  const stranger = Object.keys(message).find((name) => !MEMBERS.includes(name))
  if (stranger !== undefined) throw unreadable('a member that messages do not have', [stranger])
  if (message.jsonrpc !== '2.0') throw unreadable('not "2.0"', ['jsonrpc'])
  const kinds = ['method', 'result', 'error'].filter((name) => name in message)
  if (kinds.length !== 1) throw unreadable('not one of method, result and error', [])
  const id = readId(message.id)
  if (!('method' in message)) return readResponse(id, message)
  const method = readName(message.method, ['method'])
  return { id, method, params: readParams(method, message.params) }
}

function readId(id: unknown): Message['id'] {
  if (id === undefined || typeof id === 'string') return id
  if (typeof id === 'number' && Number.isSafeInteger(id)) return id
  throw unreadable('neither a text nor a safe integer', ['id'])
}

function readResponse(id: Message['id'], { params, result, error }: Members): Message {
  if (id === undefined || params !== undefined || !isObject(result ?? error))
    throw unreadable('not a response', [])
  return { id, method: undefined, params: {} }
}

function readParams(method: string, value: unknown): Members {
  const params = membersOf(value, ['params'])
  const meta = membersOf(params._meta, ['params', '_meta'])
  membersOf(params.arguments, ['params', 'arguments'])
  assertSpelling(params, ['params'])
  assertSpelling(meta, ['params', '_meta'])
  const member = CALLS.get(method)
  if (member !== undefined) readName(params[member], ['params', member])
  return params
}

/** The members of an object, which may be absent. */
function membersOf(value: unknown = {}, path: Path): Members {
  if (isObject(value)) return value
  throw unreadable('not an object', path)
}

function readName(value: unknown, path: Path): string {
  if (typeof value === 'string' && NAME.test(value)) return value
  throw unreadable('not a text of 1 to 1000 characters without control characters', path)
}

function assertSpelling(members: Members, path: Path): void {
  const alias = Object.keys(members).find(
    (name) => (SPELLINGS.get(spelling(name)) ?? name) !== name,
  )
  if (alias !== undefined) throw unreadable('another spelling of a name', [...path, alias])
}

function spelling(name: string): string {
  return fold(name).replaceAll(/[-_]/g, '')
}

/** What rules decide about before a client has called anything: whoever may list tools may do that. */
export const LISTING: McpCall = { method: 'tools/list', arguments: ANY_ARGUMENTS }

/** The call that rules decide about. What {@link isHandshake} is asked for as `tools/list`. */
export function callOf(message: Message): McpCall {
  const { method, params } = message
  if (method === undefined || isHandshake(message) || method === LISTING.method) return LISTING
  const member = CALLS.get(method)
  return {
    method,
    ...(member !== undefined && { name: params[member] as string }),
    ...(member === 'name' && { arguments: (params.arguments ?? {}) as Members }),
  }
}

/** Whether a revision of MCP, or its extension for tasks, lets clients call a method. */
export function isKnownMethod(method: string): boolean {
  return HANDSHAKE.has(method) || CALLS.has(method)
}

/** Whether a client sends this before it calls anything, as a notification or as an answer to the server. */
export function isHandshake({ method }: Message): boolean {
  return method === undefined || HANDSHAKE.has(method)
}

/** Digest of arguments, the same whatever the order of members (RFC 8785) and different for integers of any size. */
export function digestOf(args: Members | undefined): string {
  return createHash('sha256').update(canonicalJson(args)).digest('base64url')
}

/** The body without `requestState` and `inputResponses` of `params`; all other members keep their text. */
export function withoutState(body: Buffer): Buffer {
  const reader = new JsonReader(body)
  reader.read()
  const { text, params } = reader
  const kept = [...params].filter(([name]) => !STATE.includes(name))
  const places = [...params.values()]
  if (kept.length === places.length) return body
  const members = kept.map(([, [start, end]]) => text.slice(start, end)).join()
  return Buffer.from(text.slice(0, places[0]?.[0]) + members + text.slice(places.at(-1)?.[1]))
}
