import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Certificate, type IssuanceResult, orderPath } from '@gatehouse/issuance'
import { type IssuanceRequest, parseRequest } from '@gatehouse/issuance/request'
import { type Csr, type Name, notGranted } from '@gatehouse/pki'
import { durationOf } from '@gatehouse/service-kit/config'
import { hasTag } from '@gatehouse/service-kit/http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import Negotiator from 'negotiator'
import { Type } from 'typebox'
import { findReadable, readDomain, type Subject } from '../lookup/certificates.ts'
import {
  actorOf,
  authorize,
  certificateFor,
  recordDelivery,
  requireProgram,
} from '../policy/authorize.ts'
import {
  CertificateRequestSchema,
  certificateAnswer,
  DomainSchema,
  DryRunSchema,
  describeOrder,
  emptyAnswer,
  guarded,
  OrderSchema,
  PEM,
  ProfileSchema,
} from '../schemas.ts'

/** Seconds after which to ask for an order again. */
const POLL_AFTER = 5
const JSON_TYPE = 'application/json'

/** `POST /api/certificate` and `GET /api/certificate/:domain`. */
export const certificateRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = requireProgram(app)
  app.post('/api/certificate', { onRequest, schema: ISSUE }, (request, reply) => {
    const { body, query } = request
    const obstacles: string[] | undefined = query.dryRun === 'true' ? [] : undefined
    const authorizeNames = (names: readonly Name[]) =>
      authorize(request, 'issue', names, body.profile ?? 'server')
    const lifetime = body.lifetime === undefined ? undefined : durationOf(body.lifetime)
    const fields = { ...body, lifetime }
    const issuanceRequest = parseRequest(fields, app.issuers, authorizeNames, obstacles)
    if (!obstacles) return issue(reply, issuanceRequest)
    reply.header('cache-control', 'no-store')
    return app.dryRun(issuanceRequest, actorOf(request), obstacles)
  })
  app.get('/api/certificate/:domain', { onRequest, schema: READ }, (request, reply) =>
    read(reply, readDomain(request.params.domain, request.query.profile)),
  )
}

const ISSUE = guarded('issueCertificate', [403, 422, 429], {
  summary: 'The certificate for a name',
  description:
    'Answers with the stored certificate, or issues one. With `dryRun=true` it only describes what would happen.',
  querystring: Type.Partial(
    Type.Object({
      dryRun: Type.Enum(['true', 'false'], {
        description: '`true`: only describe what would happen; nothing is ordered or delivered.',
      }),
    }),
  ),
  body: CertificateRequestSchema,
  response: { 200: certificateAnswer(DryRunSchema), 202: OrderSchema },
})

/** Returns no promise if the answer is ready, as for nearly all requests. */
function issue(reply: FastifyReply, issuanceRequest: IssuanceRequest) {
  const { request } = reply
  const domain = issuanceRequest.names[0]?.text ?? ''
  const send = (outcome: IssuanceResult) => sendResult(reply, domain, outcome, issuanceRequest.csr)
  const outcome = request.server.issuance.obtain(issuanceRequest, actorOf(request))
  if (outcome instanceof Promise) return outcome.then(send)
  request.isRepeated = true
  send(outcome)
  return undefined
}

const READ = guarded('getCertificate', [403, 404], {
  summary: 'The stored certificate for a name',
  description:
    'The newest certificate with this first name, preferably one with its key rather than one ' +
    'for a CSR; otherwise one that contains the name among others. Only callers with the right ' +
    '`issue` get its private key. Never starts an order. Answers 304 if `If-None-Match` matches.',
  params: DomainSchema,
  querystring: ProfileSchema,
  response: { 200: certificateAnswer(), 304: emptyAnswer('The caller already has it.') },
})

async function read(reply: FastifyReply, domain: Subject): Promise<FastifyReply> {
  const { request } = reply
  const { issuance } = request.server
  authorize(request, 'read', [domain], domain.profile)
  const certificate = certificateFor(request, await findReadable(request, domain))
  const kind = `${certificate.privateKey ? '' : '-chain'}${wantsPem(request) ? '-pem' : ''}`
  const etag = `"${certificate.fingerprint256}${kind}"`
  reply.header('etag', etag)
  if (hasTag(request, etag)) {
    issuance.recordUse(certificate)
    return reply.code(304).header('cache-control', 'no-store').header('vary', 'accept').send()
  }
  const written = recordDelivery(request, certificate)
  if (written) await written
  return sendCertificate(reply, domain.text, certificate, true)
}

export function sendResult(
  reply: FastifyReply,
  domain: string,
  outcome: IssuanceResult,
  csr: Csr | null = null,
): FastifyReply {
  if (outcome.certificate) {
    const { certificate, cached } = outcome
    const ignored = csr ? notGranted(csr, certificate.record.certificate) : []
    return sendCertificate(reply, domain, certificate, cached, ignored)
  }
  const { order } = outcome
  return reply
    .code(202)
    .header('location', orderPath(order))
    .header('retry-after', POLL_AFTER)
    .header('cache-control', 'no-store')
    .send(describeOrder(order))
}

function sendCertificate(
  reply: FastifyReply,
  domain: string,
  certificate: Certificate,
  cached: boolean,
  ignored: readonly string[] = [],
): FastifyReply {
  reply.header('cache-control', 'no-store').header('vary', 'accept')
  return wantsPem(reply.request)
    ? reply.type(PEM).send(certificate.pem)
    : reply.type('application/json; charset=utf-8').send(certificate.json(domain, cached, ignored))
}

function wantsPem(request: FastifyRequest): boolean {
  const { accept } = request.headers
  // Nearly all requests send one of these, which need no negotiation.
  if (accept === undefined || accept === '*/*' || accept === JSON_TYPE) return false
  return new Negotiator(request).mediaType([JSON_TYPE, PEM]) === PEM
}
