import { type Csr, notGranted } from '@gatehouse/pki'
import type { FastifyReply, FastifyRequest } from 'fastify'
import Negotiator from 'negotiator'
import type { Static } from 'typebox'
import { actionFor } from '../errors.ts'
import { type Held, toTime } from '../issuance/answer.ts'
import { orderPath } from '../issuance/flights.ts'
import type { Outcome } from '../issuance/obtain.ts'
import type { FailureSchema, OrderSchema } from '../schemas/certificate.ts'
import type { OrderRecord } from '../store/store.ts'

/** Seconds until it makes sense to ask for an order again. */
const POLL_AFTER = 5

/** Media type of a certificate and its key in one file. */
export const PEM = 'application/x-pem-file'
const JSON_TYPE = 'application/json'

/**
 * Answers with the certificate, or with the order of one that is still on its way. What a `csr` of
 * this request asks for in vain is named.
 */
export function sendOutcome(
  request: FastifyRequest,
  reply: FastifyReply,
  domain: string,
  outcome: Outcome,
  csr: Csr | null = null,
): FastifyReply {
  if (outcome.held) {
    const { held, cached } = outcome
    const ignored = csr ? notGranted(csr, held.record.certificate) : []
    return sendCertificate(request, reply, domain, held, cached, ignored)
  }
  const { order } = outcome
  return reply
    .code(202)
    .header('location', orderPath(order))
    .header('retry-after', POLL_AFTER)
    .header('cache-control', 'no-store')
    .send(describeOrder(order))
}

/** Answers with a certificate, in the form that the caller accepts. */
export function sendCertificate(
  request: FastifyRequest,
  reply: FastifyReply,
  domain: string,
  held: Held,
  cached: boolean,
  ignored: readonly string[] = [],
): FastifyReply {
  reply.header('cache-control', 'no-store').header('vary', 'accept')
  return wantsPem(request)
    ? reply.type(PEM).send(held.pem)
    : reply.type('application/json; charset=utf-8').send(held.json(domain, cached, ignored))
}

/** One per certificate and form. */
export function etagOf(request: FastifyRequest, { fingerprint256 }: Held): string {
  return `"${fingerprint256}${wantsPem(request) ? '-pem' : ''}"`
}

/** Whether `If-None-Match` names this tag (RFC 9110 section 13.1.2). */
export function hasTag(request: FastifyRequest, etag: string): boolean {
  const known = request.headers['if-none-match']
  if (known === undefined) return false
  const tags = known.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes(etag) || tags.includes('*')
}

/** An order as answers write it. */
export function describeOrder(order: OrderRecord): Static<typeof OrderSchema> {
  const { id, status, step, since, names, lastError, nextTryAt } = order
  return {
    id,
    status,
    step,
    since: toTime(since),
    names: [...names],
    ...(lastError && { lastError: describeFailure(lastError) }),
    ...(nextTryAt !== null && { nextTryAt: toTime(nextTryAt) }),
  }
}

/** A failure as answers write it, with what to do about it. */
export function describeFailure(
  failure: NonNullable<OrderRecord['lastError']>,
): Static<typeof FailureSchema> {
  const action = actionFor(failure.code)
  return { ...failure, ...(action !== undefined && { action }) }
}

function wantsPem(request: FastifyRequest): boolean {
  const { accept } = request.headers
  // What nearly every request says, and JSON without a look at the rest.
  if (accept === undefined || accept === '*/*' || accept === JSON_TYPE) return false
  return new Negotiator(request).mediaType([JSON_TYPE, PEM]) === PEM
}
