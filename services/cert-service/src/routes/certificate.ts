import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Csr, notGranted } from '@gatehouse/pki'
import type { FastifyReply, FastifyRequest } from 'fastify'
import Negotiator from 'negotiator'
import { CertError } from '../errors.ts'
import { orderPath } from '../issuance/flight.ts'
import type { Held } from '../issuance/held.ts'
import type { Outcome } from '../issuance/issuance.ts'
import { parseRequest, type RequestFields } from '../issuance/request.ts'
import { authorize, requesterOf } from '../plugins/access.ts'
import {
  certificateAnswers,
  GUARDED,
  issueAnswers,
  PEM,
  problemAnswers,
} from '../schemas/answers.ts'
import {
  CertificateRequestSchema,
  DomainParamsSchema,
  DomainRequestSchema,
  IssueQuerySchema,
} from '../schemas/certificate.ts'
import { isMisdated, planRenewal, preferBegun, toTime } from '../times.ts'
import { sendDryRun } from './dry-run.ts'
import { findPermitted, findReadable, readDomain } from './lookup.ts'
import { describeOrder } from './orders.ts'

/** Seconds after which to ask for an order again. */
const POLL_AFTER = 5
const JSON_TYPE = 'application/json'

/** `POST /api/certificate`, `POST /api/certificate/renew` and `GET /api/certificate/:domain`. */
export const certificateRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = app.requireCaller()
  app.post('/api/certificate', { onRequest, schema: ISSUE }, (request, reply) =>
    issue(request, reply, request.body, request.query.dryRun === 'true'),
  )
  app.post('/api/certificate/renew', { onRequest, schema: RENEW }, (request, reply) =>
    renew(request, reply, request.body.domain),
  )
  app.get('/api/certificate/:domain', { onRequest, schema: READ }, (request, reply) =>
    read(request, reply, request.params.domain),
  )
}

const ISSUE = {
  summary: 'The certificate for a name',
  description:
    'Answers with the certificate that is held, or issues one. With `dryRun=true` it only describes what would happen.',
  tags: ['certificates'],
  security: GUARDED,
  querystring: IssueQuerySchema,
  body: CertificateRequestSchema,
  response: {
    ...issueAnswers(),
    ...problemAnswers(400, 401, 403, 413, 415, 422, 429, 503),
  },
}

/** Returns no promise if the answer is ready, as for nearly all requests. */
function issue(
  request: FastifyRequest,
  reply: FastifyReply,
  body: RequestFields,
  isDryRun: boolean,
): Promise<FastifyReply> | undefined {
  const { issuers, issuance, dryRuns, clock } = request.server
  const wanted = parseRequest(body, issuers, (names) => authorize(request, 'issue', names))
  if (isDryRun)
    return dryRuns.run(wanted).then((run) => sendDryRun(reply, wanted, run, clock.now()))
  const domain = wanted.names[0]?.text ?? ''
  const send = (outcome: Outcome) => sendOutcome(request, reply, domain, outcome, wanted.csr)
  const outcome = issuance.obtain(wanted, requesterOf(request))
  if (outcome instanceof Promise) return outcome.then(send)
  send(outcome)
  return undefined
}

const RENEW = {
  summary: 'Renew the newest certificate held for a name',
  description: 'Once it is due; until then 429 says when that is.',
  tags: ['certificates'],
  security: GUARDED,
  body: DomainRequestSchema,
  response: {
    ...certificateAnswers(202),
    ...problemAnswers(400, 401, 403, 404, 413, 415, 422, 429, 503),
  },
}

async function renew(
  request: FastifyRequest,
  reply: FastifyReply,
  text: string,
): Promise<FastifyReply> {
  const { clock, issuance } = request.server
  const domain = readDomain(text)
  authorize(request, 'renew', [domain])
  const [newest] = await findPermitted(request, 'renew', domain)
  const dueAt = newest.renewAt ?? planRenewal(newest, () => 0)
  const now = clock.now()
  const wait = dueAt - now
  if (wait > 0 && !isMisdated(newest, now))
    throw new CertError('CERT_RENEW_TOO_SOON', `it is due at ${toTime(dueAt)}`, {
      retryAfter: Math.ceil(wait / 1000),
    })
  const outcome = await issuance.renew(newest, requesterOf(request))
  return sendOutcome(request, reply, domain.text, outcome)
}

const READ = {
  summary: 'The certificate held for a name',
  description:
    'The newest whose first name it is, one with its key before one for a CSR; otherwise one that has it among others. Never starts an order. Answers 304 if `If-None-Match` matches.',
  tags: ['certificates'],
  security: GUARDED,
  params: DomainParamsSchema,
  response: { ...certificateAnswers(304), ...problemAnswers(400, 401, 403, 404, 503) },
}

async function read(
  request: FastifyRequest,
  reply: FastifyReply,
  text: string,
): Promise<FastifyReply> {
  const { clock, holdings, issuance } = request.server
  const domain = readDomain(text)
  authorize(request, 'read', [domain])
  const records = await findReadable(request, domain)
  const now = clock.now()
  const record = preferBegun(records, now).find(({ notAfter }) => notAfter > now)
  if (!record)
    throw new CertError('CERT_NOT_FOUND', `the certificate for ${domain.text} has expired`)

  const held = holdings.of(record)
  const etag = etagOf(request, held)
  if (hasTag(request, etag)) {
    issuance.recordUse(held)
    reply.code(304).header('etag', etag).header('cache-control', 'no-store')
    return reply.header('vary', 'accept').send()
  }
  await issuance.recordDelivery(held, requesterOf(request))
  reply.header('etag', etag)
  return sendCertificate(request, reply, domain.text, held, true)
}

/**
 * Answers with the certificate, or with the order of one that is not issued yet. What the `csr` of
 * this request asks for in vain is listed.
 */
function sendOutcome(
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
function sendCertificate(
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

/** The entity tag of a certificate in the form that the caller accepts. */
function etagOf(request: FastifyRequest, { fingerprint256 }: Held): string {
  return `"${fingerprint256}${wantsPem(request) ? '-pem' : ''}"`
}

/** Whether `If-None-Match` holds this tag (RFC 9110 section 13.1.2). */
function hasTag(request: FastifyRequest, etag: string): boolean {
  const known = request.headers['if-none-match']
  if (known === undefined) return false
  const tags = known.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes(etag) || tags.includes('*')
}

function wantsPem(request: FastifyRequest): boolean {
  const { accept } = request.headers
  // Nearly all requests send one of these, which need no negotiation.
  if (accept === undefined || accept === '*/*' || accept === JSON_TYPE) return false
  return new Negotiator(request).mediaType([JSON_TYPE, PEM]) === PEM
}
