import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Check, identityHeaders } from '../check/check-answers.ts'
import { FwaError } from '../errors.ts'
import { AnswerReader, sendAnswer } from './answer.ts'
import type { ProxiedCall } from './proxied-call.ts'
import type { UpstreamAnswer } from './upstreams.ts'

/** Sends a call on, and its answer back. */
export async function pass(
  call: ProxiedCall,
  check: Check,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const reader = new AnswerReader(call, check, reply)
  try {
    return await sendAnswer(await sendOn(call, check, reply.request), reader, reply)
  } catch (error) {
    if (!call.abort.signal.aborted) throw error
    throw new FwaError('FWA_FORBIDDEN', 'the program may not go on')
  }
}

/** Sends a call to the server. @throws FwaError FWA_UPSTREAM_FAILED */
export function sendOn(
  { resource, body, sessionId, abort }: ProxiedCall,
  check: Check,
  request: FastifyRequest,
): Promise<UpstreamAnswer> {
  return request.server.upstreams.send(resource, {
    method: request.method as 'GET' | 'POST' | 'DELETE',
    headers: request.headers,
    sessionId,
    identity: senderHeaders(check, request),
    body,
    signal: abort.signal,
  })
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
