import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { CertError } from '../errors.ts'
import { toTime } from '../issuance/answer.ts'
import { isMisdated, planRenewal } from '../issuance/renewal.ts'
import { DomainRequestSchema } from '../schemas/certificate.ts'
import type { Service } from '../service.ts'
import { authorize, findPermitted, readDomain, requesterOf } from './access.ts'
import { sendOutcome } from './answers.ts'
import { certificateAnswers, GUARDED, problemAnswers } from './documented.ts'

/** `POST /api/certificate/renew`. */
export const renewRoute: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service },
) => {
  app.post(
    '/api/certificate/renew',
    {
      onRequest: app.requireCaller(),
      schema: {
        summary: 'Renew the newest certificate held for a name',
        description: 'Once it is due; until then 429 says when that is.',
        tags: ['certificates'],
        security: GUARDED,
        body: DomainRequestSchema,
        response: {
          ...certificateAnswers(202),
          ...problemAnswers(400, 401, 403, 404, 413, 415, 422, 429, 503),
        },
      },
    },
    async (request, reply) => {
      const domain = readDomain(request.body.domain)
      authorize(service, request, 'renew', [domain])
      const [newest] = await findPermitted(service, request, 'renew', domain)
      const dueAt = newest.renewAt ?? planRenewal(newest, () => 0)
      const now = service.clock.now()
      const wait = dueAt - now
      if (wait > 0 && !isMisdated(newest, now))
        throw new CertError('CERT_RENEW_TOO_SOON', `it is due at ${toTime(dueAt)}`, {
          retryAfter: Math.ceil(wait / 1000),
        })
      const outcome = await service.issuance.renew(newest, requesterOf(request))
      return sendOutcome(request, reply, domain.text, outcome)
    },
  )
}
