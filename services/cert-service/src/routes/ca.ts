import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { toPem } from '@gatehouse/pki'
import { Type } from 'typebox'
import { CertError } from '../errors.ts'
import type { Service } from '../service.ts'
import { problemAnswers } from './documented.ts'

const PEM = 'application/pem-certificate-chain'
const CRL = 'application/pkix-crl'
/** Sent as it is. */
const FileSchema = Type.Unsafe<string | Uint8Array>({ type: 'string', format: 'binary' })
const CACHING = 'public, max-age=300'

/** `GET /ca/root.pem`, `/ca/intermediate.pem` and `/ca/crl.der`: for everyone. */
export const caRoutes: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service: { ca } },
) => {
  app.get(
    '/ca/root.pem',
    { schema: documented('The root: what clients are to trust', PEM) },
    async (_request, reply) => {
      const root = ca.root()
      if (!root) throw new CertError('CERT_NOT_FOUND', 'the root of this CA is kept elsewhere')
      return reply.type(PEM).header('cache-control', CACHING).send(toPem('CERTIFICATE', root))
    },
  )

  app.get(
    '/ca/intermediate.pem',
    { schema: documented('The intermediate that signs now', PEM) },
    async (_request, reply) =>
      reply
        .type(PEM)
        .header('cache-control', CACHING)
        .send(toPem('CERTIFICATE', ca.intermediate().certificate)),
  )

  app.get(
    '/ca/crl.der',
    {
      schema: {
        ...documented('The revocation list of the intermediate that signs now', CRL, 400),
        querystring: Type.Object({
          issuer: Type.Optional(
            Type.String({
              pattern: '^[0-9a-f]{2,128}$',
              description: 'Key identifier of another authority, as distribution points name it.',
            }),
          ),
        }),
      },
    },
    async (request, reply) => {
      const crl = await ca.crls.get(request.query.issuer ?? ca.intermediate().info.skid ?? '')
      return reply.type(CRL).header('cache-control', CACHING).send(crl)
    },
  )
}

function documented(summary: string, type: string, ...others: 400[]) {
  return {
    summary,
    tags: ['ca'],
    response: {
      200: { description: summary, content: { [type]: { schema: FileSchema } } },
      ...problemAnswers(...others, 404, 503),
    },
  }
}
