import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { preferBegun } from '../clocks.ts'
import { CertError } from '../errors.ts'
import { refuseCompromised } from '../issuance/compromised.ts'
import type { Outcome } from '../issuance/obtain.ts'
import { type CertificateRequest, parseRequest } from '../issuance/request.ts'
import { CertificateRequestSchema, DomainParamsSchema } from '../schemas/certificate.ts'
import { IssueQuerySchema } from '../schemas/dry-run.ts'
import type { Service } from '../service.ts'
import { authorize, findReadable, readDomain, requesterOf } from './access.ts'
import { etagOf, hasTag, sendCertificate, sendOutcome } from './answers.ts'
import { certificateAnswers, GUARDED, issueAnswers, problemAnswers } from './documented.ts'
import { sendDryRun } from './dry-run.ts'
import { takeOut } from './revoke.ts'

/** `POST /api/certificate` and `GET`, `DELETE /api/certificate/:domain`. */
export const certificateRoutes: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service },
) => {
  const guard = { onRequest: app.requireCaller() }

  app.post(
    '/api/certificate',
    {
      ...guard,
      schema: {
        summary: 'The certificate for a name',
        description:
          'Answers with the certificate that is held, or issues one; with `dryRun=true` only says what it would come to.',
        tags: ['certificates'],
        security: GUARDED,
        querystring: IssueQuerySchema,
        body: CertificateRequestSchema,
        response: {
          ...issueAnswers(),
          ...problemAnswers(400, 401, 403, 413, 415, 422, 429, 503),
        },
      },
    },
    // No promise where the answer is ready: this is the way that nearly every request takes.
    (request, reply) => {
      const certificate = parseRequest(request.body, service.issuers, (names) =>
        authorize(service, request, 'issue', names),
      )
      if (request.query.dryRun === 'true') return lookAhead(certificate)
      const [first] = certificate.names
      const send = (outcome: Outcome) =>
        sendOutcome(request, reply, first?.text ?? '', outcome, certificate.csr)
      if (certificate.csr) return certify(certificate).then(send)
      const outcome = service.issuance.obtain(certificate, requesterOf(request))
      if (outcome instanceof Promise) return outcome.then(send)
      send(outcome)

      async function certify(certificate: CertificateRequest) {
        await refuseCompromised(certificate, service.store)
        return service.issuance.obtain(certificate, requesterOf(request))
      }

      async function lookAhead(certificate: CertificateRequest) {
        await refuseCompromised(certificate, service.store)
        const run = await service.dryRun(certificate)
        return sendDryRun(reply, certificate, run, service.clock.now())
      }
    },
  )

  app.get(
    '/api/certificate/:domain',
    {
      ...guard,
      schema: {
        summary: 'The certificate held for a name',
        description:
          'The newest whose first name it is, one with its key before one for a CSR; else one that holds it among others. Never starts an order. Answers 304 where `If-None-Match` names it.',
        tags: ['certificates'],
        security: GUARDED,
        params: DomainParamsSchema,
        response: { ...certificateAnswers(304), ...problemAnswers(400, 401, 403, 404, 503) },
      },
    },
    async (request, reply) => {
      const domain = readDomain(request.params.domain)
      authorize(service, request, 'read', [domain])
      const records = await findReadable(service, request, domain)
      const now = service.clock.now()
      const record = preferBegun(records, now).find(({ notAfter }) => notAfter > now)
      if (!record)
        throw new CertError('CERT_NOT_FOUND', `what is held for ${domain.text} has ended`)

      const held = service.holdings.of(record)
      const etag = etagOf(request, held)
      reply.header('etag', etag)
      if (hasTag(request, etag)) {
        service.issuance.touch(held)
        return reply.code(304).header('cache-control', 'no-store').header('vary', 'accept').send()
      }
      await service.issuance.handOut(held, requesterOf(request))
      return sendCertificate(request, reply, domain.text, held, true)
    },
  )

  app.delete(
    '/api/certificate/:domain',
    {
      ...guard,
      schema: {
        summary: 'Stop answering and renewing the certificates of a name',
        tags: ['certificates'],
        security: GUARDED,
        params: DomainParamsSchema,
        response: {
          204: { type: 'null', description: 'Done. What was handed out stays valid to its end.' },
          ...problemAnswers(400, 401, 403, 404, 503),
        },
      },
    },
    async (request, reply) => {
      const domain = readDomain(request.params.domain)
      await takeOut(service, request, 'delete', domain, (records, entry) =>
        service.store.remove(
          records.map(({ id }) => id),
          entry,
        ),
      )
      return reply.code(204).send(null)
    },
  )
}
