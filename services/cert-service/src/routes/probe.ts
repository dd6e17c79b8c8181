import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { PROTOCOLS } from '@gatehouse/tls-probe'
import { Type } from 'typebox'
import { CertError } from '../errors.ts'
import { findReadableByName, readDomain } from '../lookup/certificates.ts'
import { actorOf, authorize, principalOf, requireProgram } from '../policy/authorize.ts'
import { note } from '../probe/note.ts'
import { SERVED, servedAt } from '../probe/shown.ts'
import { guarded, TargetSchema } from '../schemas.ts'

const REPORT = guarded('reportServedCertificate', [403, 404], {
  summary: 'Tell which certificate a machine serves itself',
  description:
    'As `gatehouse-certs get --probe` does after a reload. It is kept and shown as what the machine says of itself. ' +
    'The service connects to nothing because of it.',
  body: Type.Object({
    ...TargetSchema.properties,
    port: Type.Integer({ minimum: 1, maximum: 65_535 }),
    protocol: Type.Enum([...PROTOCOLS]),
    sha256: Type.String({
      pattern: '^[0-9a-f]{64}$',
      description: 'SHA-256 of the certificate that is served, hexadecimal.',
    }),
  }),
  response: {
    200: Type.Object({
      served: Type.Enum([...SERVED], { description: 'What it is for the service.' }),
    }),
  },
})

/** `POST /api/certificate/probe`. */
export const probeRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = requireProgram(app)
  app.post('/api/certificate/probe', { onRequest, schema: REPORT }, async (request, reply) => {
    const { domain, profile, port, protocol, sha256 } = request.body
    const subject = readDomain(domain, profile)
    authorize(request, 'read', [subject], subject.profile)
    if (!(await findReadableByName(app, principalOf(request), subject)))
      throw new CertError('CERT_NOT_FOUND', `no certificate for ${subject.text} is held`)
    const { ip: address } = request
    const spot = {
      name: subject.text,
      host: address,
      address,
      port,
      protocol,
      keyType: '',
    } as const
    const probe = await note(app, { ...spot, reporter: actorOf(request).actor }, { sha256 })
    reply.header('cache-control', 'no-store')
    return { served: servedAt(probe ? [probe] : []) ?? 'notSeen' }
  })
}
