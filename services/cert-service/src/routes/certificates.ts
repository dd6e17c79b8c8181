import { hash } from 'node:crypto'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { explainedTimes } from '../issuance/answer.ts'
import { PageQuerySchema, PageSchema } from '../schemas/certificate.ts'
import type { Service } from '../service.ts'
import type { CertificateRecord } from '../store/store.ts'
import { describeFailure } from './answers.ts'
import { GUARDED, problemAnswers } from './documented.ts'
import { readPermitted } from './listing.ts'

const PAGE = 100

/** `GET /api/certificates`. */
export const certificatesRoute: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service },
) => {
  app.get(
    '/api/certificates',
    {
      onRequest: app.requireCaller(),
      schema: {
        summary: 'What the caller may see, page by page',
        description: 'A page may hold fewer than `limit`; there are more while it has `next`.',
        tags: ['certificates'],
        security: GUARDED,
        querystring: PageQuerySchema,
        response: { 200: PageSchema, ...problemAnswers(400, 401, 503) },
      },
    },
    async (request, reply) => {
      const { after = '0', limit = `${PAGE}` } = request.query
      const { records, next } = await readPermitted(service, request, Number(limit), {
        start: Number(after),
        list: (page) => service.store.list(page),
        placeOf: ({ id }) => id,
      })
      const certificates = await Promise.all(records.map((record) => describe(service, record)))
      reply.header('cache-control', 'no-store')
      return { certificates, ...(next !== undefined && { next: String(next) }) }
    },
  )
}

async function describe(service: Service, record: CertificateRecord) {
  const { lineage, names, issuer, serialNumber, keyType } = record
  const order = await service.store.findOrderByLineage(lineage)
  return {
    domain: names[0] ?? '',
    names: [...names],
    issuer,
    serialNumber,
    fingerprint256: hash('sha256', record.certificate),
    keyType,
    ...explainedTimes(record),
    ...(order?.lastError && { lastFailure: describeFailure(order.lastError) }),
  }
}
