import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { answerHttp01 } from '@gatehouse/acme'
import { Type } from 'typebox'
import { CertError } from '../errors.ts'
import type { Service } from '../service.ts'

/** `GET /.well-known/acme-challenge/:token`: what CAs ask for (RFC 8555 section 8.3), for everyone. */
export const challengeRoute: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service },
) => {
  app.get(
    '/.well-known/acme-challenge/:token',
    { schema: { params: Type.Object({ token: Type.String({ maxLength: 256 }) }) } },
    async (request, reply) => {
      const answer = await answerHttp01(service.challenges, request.params.token)
      if (answer === undefined)
        throw new CertError('CERT_CHALLENGE_UNKNOWN', 'no CA has set this challenge')
      return reply.type('application/octet-stream').send(answer)
    },
  )
}
