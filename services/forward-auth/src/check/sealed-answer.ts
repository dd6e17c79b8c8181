import { GateError } from '@gatehouse/gate'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { Check } from 'typebox/schema'
import { sealValue, unsealValue } from '../keys/key-ring.ts'

/** The header that brings a sealed answer to nginx, and back. In a check, nginx says `sealed` there. */
const ANSWER = 'x-gatehouse-answer'
const LIFETIME = 60_000

/** An answer for a client. It lets nothing pass, so there is none with a status below 300. */
const AnswerSchema = Type.Object({
  status: Type.Integer({ minimum: 300, maximum: 599 }),
  headers: Type.Record(
    Type.String(),
    Type.Union([Type.String(), Type.Number(), Type.Array(Type.String())]),
  ),
  body: Type.String(),
  until: Type.Number(),
})

const purposeOf = ({ params }: FastifyRequest) =>
  `answer of ${(params as { portal: string }).portal}`

/**
 * Seals the whole answer to a check that does not pass, because nginx keeps nothing of it but one header.
 *
 * @returns the body that nginx gets
 */
export function sealAnswer(reply: FastifyReply, payload: unknown): unknown {
  const { request, server, statusCode: status } = reply
  if (request.headers[ANSWER] !== 'sealed' || status < 300) return payload
  const headers = reply.getHeaders()
  for (const name of Object.keys(headers)) reply.removeHeader(name)
  try {
    const until = server.clock.now() + LIFETIME
    const answer = { status, headers, body: String(payload ?? ''), until }
    if (!Check(AnswerSchema, answer)) throw new Error('it lets something pass')
    reply.code(403).header(ANSWER, sealValue(answer, server.keys.login, purposeOf(request)))
    request.sealedAnswer = answer
  } catch (err) {
    // nginx answers by itself then: what fails while an answer is sent has no other one.
    request.log.error({ err }, 'the response for nginx could not be encrypted')
    reply.code(500)
  }
  return ''
}

/** Sends the answer that nginx brings back. It reads nothing else of the request, and decides nothing. */
export function unpackAnswer(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { server, headers } = request
  const answer = unsealValue(headers[ANSWER], server.keys.login, purposeOf(request))
  if (Check(AnswerSchema, answer) && server.clock.now() < answer.until)
    return reply.code(answer.status).headers(answer.headers).send(answer.body)
  const message = 'X-Gatehouse-Answer is not an answer of the last minute: nginx refused by itself'
  throw Object.assign(new GateError('FWA_HEADER_INVALID', message), { statusCode: 403 })
}

/** Refuses an nginx that would ask a second time instead of unpacking the answer. */
export function assertUnpacks({ headers }: FastifyRequest): void {
  if (headers[ANSWER] === 'sealed') return
  const message =
    'X-Gatehouse-Answer is missing: copy `location = /_gatehouse` and `@refused` of the example for nginx, which asks once'
  throw new GateError('FWA_HEADER_INVALID', message)
}
