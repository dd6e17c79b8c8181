import type { Principal } from '@gatehouse/gate'
import type { McpCall } from '@gatehouse/profile'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { type Check, identityHeaders, recordRefusal, refuse } from '../check/check-answers.ts'
import { FwaError } from '../errors.ts'
import { type Portal, portalOf } from '../portal/portals.ts'
import { allowOrigins } from '../web/cross-origin.ts'
import { bareAnswer, problemAnswers } from '../web/documented.ts'
import { sendAnswer } from './answer.ts'
import { decide, decideAgain, HANDSHAKE, resourceOf, sessionsOf } from './decide.ts'
import { callOf, isKnownMethod, type Message, readMessage } from './message.ts'
import type { ProxiedCall } from './proxied-call.ts'
import { readBody } from './request.ts'
import { answerAsRpc } from './rpc-errors.ts'
import { readSessionId } from './session-id.ts'
import type { StreamKind } from './streams.ts'

const URL = '/mcp-proxy/*'
const METHODS = ['GET', 'POST', 'DELETE'] as const
/** The units of limits, in ms. */
const TIMES = { s: 1_000, m: 60_000, h: 3_600_000 } as const

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
    200: bareAnswer('The answer of the MCP server: JSON, or a stream of events.'),
    202: bareAnswer('The server has taken a notification.'),
    ...problemAnswers(400, 401, 403, 404, 413, 415, 429, 502, 503),
  }
  const schema = {
    summary: 'MCP proxy',
    description: 'For a resource with an `upstream`. The path is that of its URL.',
    tags: ['resources'],
    params: Type.Object({ portal: Type.String(), '*': Type.String() }),
    response,
  }
  for (const method of METHODS)
    app.route({ method, url: URL, exposeHeadRoute: false, schema, handler: serve })
}

async function serve(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const resource = resourceOf(request)
  const abort = new AbortController()
  reply.raw.once('close', () => abort.abort())
  let read: Pick<ProxiedCall, 'message' | 'body'> = { message: undefined, body: undefined }
  const check = await decide(resource, request, {
    async call(principal, forwarded) {
      countUntilClosed(principal, request, reply)
      if (request.method !== 'POST') return HANDSHAKE
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
  endWithSender(call, check, reply)
  return pass(call, check, reply)
}

/** A call at once with others of its sender, until it is answered. */
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

/** Counts a call for each rule that limits it. @throws FwaError FWA_RATE_LIMITED */
function limitCall(
  { portal, rules, forwarded }: Check,
  principal: Principal,
  server: FastifyInstance,
) {
  if (forwarded.mcp?.method === HANDSHAKE.method) return
  for (const rule of rules) {
    const { limit } = rule
    if (limit === undefined) continue
    const [count, unit = ''] = limit.split('/')
    const rate = {
      burst: Number(count),
      interval: TIMES[unit as keyof typeof TIMES] / Number(count),
    }
    const index = portal.gate.rules.findIndex(({ config }) => config === rule)
    const sender = `${principal.caller} ${principal.identity.client}`
    const message = `more than ${limit}, which a rule allows`
    server.signInRate.require(`calls of ${portal.name} ${index} ${sender}`, message, rate)
  }
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

/** Sends a call on, and its answer back. */
async function pass(call: ProxiedCall, check: Check, reply: FastifyReply): Promise<FastifyReply> {
  const { request, server } = reply
  const { resource, body, sessionId, abort } = call
  try {
    const answer = await server.upstreams.send(resource, {
      method: request.method as (typeof METHODS)[number],
      headers: request.headers,
      sessionId,
      identity: senderHeaders(check, request),
      body,
      signal: abort.signal,
    })
    return await sendAnswer(answer, call, check, reply)
  } catch (error) {
    if (!abort.signal.aborted) throw error
    throw new FwaError('FWA_FORBIDDEN', 'the program may not go on')
  }
}

/** The headers by which the server learns who sends a call, as after a check. */
function senderHeaders(check: Check, request: FastifyRequest): Record<string, string> {
  const { headerNames, toolsHeader } = check.portal.gate
  const headers = Object.entries(identityHeaders(check, request))
  return {
    ...Object.fromEntries(headers.filter(([name]) => headerNames.includes(name))),
    ...(toolsHeader && check.tools && { [toolsHeader]: check.tools.join(',') }),
  }
}
