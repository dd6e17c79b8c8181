import type { Principal } from '@gatehouse/gate'
import type { McpCall } from '@gatehouse/profile'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { type Check, recordRefusal, refuse } from '../check/check-answers.ts'
import { FwaError } from '../errors.ts'
import { type Portal, portalOf } from '../portal/portals.ts'
import { allowOrigins } from '../web/cross-origin.ts'
import { bareAnswer } from '../web/documented.ts'
import { approvalFor, askFirst } from './approval.ts'
import { decide, decideAgain, resourceOf, sessionsOf } from './decide.ts'
import { limitCall } from './limit.ts'
import { callOf, isKnownMethod, LISTING, type Message, readMessage } from './message.ts'
import { pass } from './pass.ts'
import type { ProxiedCall } from './proxied-call.ts'
import { readBody } from './request.ts'
import { answerAsRpc, rpcAnswers } from './rpc-errors.ts'
import { readSessionId } from './session-id.ts'
import type { StreamKind } from './streams.ts'

const URL = '/mcp-proxy/*'
/** The name of the operation of each method. */
const OPERATIONS = {
  GET: 'openMcpStream',
  POST: 'sendMcpMessage',
  DELETE: 'endMcpSession',
} as const
const METHODS = ['GET', 'POST', 'DELETE'] as const
const ANSWERS = {
  'application/json': { schema: Type.Object({}) },
  'text/event-stream': { schema: Type.String() },
}
/** Why what was begun for a request is ended: one for all, since each error describes the place that it is made at. */
const CLOSED = new Error('the request is over')

/**
 * The MCP proxy: a proxy in front sends it the requests of clients for a resource with an `upstream`. It reads what they
 * call, and sends on to the server what the rules allow.
 */
export async function mcpProxyRoutes(app: FastifyInstance): Promise<void> {
  // Nobody has a body read before it is known who sends it.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  allowOrigins(app, [URL], METHODS)
  app.decorateRequest('rpcId', undefined)
  app.addHook('onSend', answerAsRpc)
  app.addHook('onError', async (request, _reply, error) => {
    recordRefusal(error as FwaError, request.check?.forwarded, request)
  })
  const response = {
    200: { description: 'The answer of the MCP server.', content: ANSWERS },
    202: bareAnswer('The server has taken a notification.'),
    ...rpcAnswers(400, 401, 403, 404, 413, 415, 429, 502, 503),
  }
  const schema = {
    summary: 'MCP proxy',
    description: 'For a resource with an `upstream`. The path is that of its URL.',
    tags: ['resources'],
    params: Type.Object({ portal: Type.String(), '*': Type.String() }),
    response,
  }
  for (const method of METHODS) {
    const named = { ...schema, operationId: OPERATIONS[method] }
    app.route({ method, url: URL, exposeHeadRoute: false, schema: named, handler: serve })
  }
}

async function serve(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const resource = resourceOf(request)
  const abort = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) abort.abort(CLOSED)
  })
  let read: Pick<ProxiedCall, 'message' | 'body'> = { message: undefined, body: undefined }
  const check = await decide(resource, request, {
    async call(principal, forwarded) {
      assertOpen(abort.signal)
      countUntilClosed(principal, request, reply)
      if (request.method !== 'POST') return LISTING
      const body = await readBody(request, resource.upstream?.maxBody ?? 0)
      const message = readMessage(body)
      request.rpcId = message.id
      read = { message, body }
      return readCall(message, portalOf(request), forwarded)
    },
  })
  request.check = check
  const { principal } = check
  if (!principal || check.decision.outcome !== 'allow') throw refuse(check, reply)
  const sessionId = readSessionId(resource, principal, request)
  if (read.message?.method === undefined && request.method === 'POST' && !sessionId)
    throw new FwaError('FWA_MCP_SESSION_UNKNOWN', 'a response belongs to a session')
  limitCall(check, principal, request.server)
  const call: ProxiedCall = { resource, ...read, sessionId, abort }
  assertOpen(abort.signal)
  endWithSender(call, check, reply)
  const approve = approvalFor(check)
  return approve ? askFirst(call, approve, check, reply) : pass(call, check, reply)
}

/** Nobody would tell when a request ends that has ended before. */
function assertOpen({ aborted }: AbortSignal): void {
  if (aborted) throw new FwaError('FWA_FORBIDDEN', 'the client has left')
}

/** Counts a call or stream with the others of its sender, until it has ended. */
function countUntilClosed(
  { caller, identity }: Principal,
  { server, method }: FastifyRequest,
  { raw }: FastifyReply,
): void {
  const kind = kindOf(method)
  raw.once('close', server.openStreams.count(kind, `${caller} ${identity.client}`))
}

/** A stream that is open for messages of the server, or one call. */
function kindOf(method: string): StreamKind {
  return method === 'GET' ? 'streams' : 'calls'
}

/**
 * What a message calls, for the rules.
 *
 * @throws FwaError FWA_CALL_MISMATCH, FWA_TOOL_REFUSED
 */
function readCall(message: Message, { gate }: Portal, forwarded: Check['forwarded']): McpCall {
  const { method } = message
  const call = callOf(message)
  const header = forwarded.mismatch(method, call.name)
  if (header !== undefined)
    throw new FwaError('FWA_CALL_MISMATCH', `${header} is not what the body names`)
  if (method === undefined || isKnownMethod(method) || gate.namesMethod(method)) return call
  const quoted = JSON.stringify(method.slice(0, 100))
  throw new FwaError('FWA_TOOL_REFUSED', `${quoted} is no method of MCP, and no rule names it`)
}

/** Has a request end with its agent, with the session of the person, and with the rules that allow it. */
function endWithSender(call: ProxiedCall, check: Check, reply: FastifyReply): void {
  const { request } = reply
  const { principal } = check
  if (!principal) return
  const ended = request.server.openStreams.add({
    kind: kindOf(request.method),
    sessions: sessionsOf(principal),
    isAllowed: async () => (await decideAgain(check, request))?.decision.outcome === 'allow',
    end: () => call.abort.abort(),
  })
  reply.raw.once('close', ended)
}
