import { hash } from 'node:crypto'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { times } from '../issuance/answer.ts'
import { PageQuerySchema, PageSchema } from '../schemas/certificate.ts'
import type { Service } from '../service.ts'
import type { CertificateRecord } from '../store/store.ts'
import { mayAll } from './access.ts'
import { problemAnswers } from './documented.ts'

const PAGE = 100
/** A request looks at no more pages of the store than this, however few its caller may see. */
const MAX_LOOKED_AT = 20

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
        querystring: PageQuerySchema,
        response: { 200: PageSchema, ...problemAnswers(400, 401, 503) },
      },
    },
    async (request, reply) => {
      const { after = '0', limit = `${PAGE}` } = request.query
      const { records, next } = await readPage(service, request, Number(after), Number(limit))
      const certificates = await Promise.all(records.map((record) => describe(service, record)))
      reply.header('cache-control', 'no-store')
      return { certificates, ...(next !== undefined && { next: String(next) }) }
    },
  )
}

async function readPage(
  service: Service,
  request: FastifyRequest,
  start: number,
  limit: number,
): Promise<{ records: CertificateRecord[]; next?: number }> {
  const records: CertificateRecord[] = []
  let after = start
  for (let looked = 0; looked < MAX_LOOKED_AT; looked += 1) {
    const page = await service.store.list({ after, limit: PAGE })
    for (const record of page) {
      if (mayAll(service, request, 'read', record)) records.push(record)
      after = record.id
      if (records.length === limit) return { records, next: after }
    }
    if (page.length < PAGE) return { records }
  }
  return { records, next: after }
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
    ...times(record),
    ...(order?.lastError && { lastFailure: order.lastError }),
  }
}
