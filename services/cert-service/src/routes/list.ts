import { hash } from 'node:crypto'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { GUARDED, problemAnswers } from '../schemas/answers.ts'
import { PageQuerySchema, PageSchema } from '../schemas/certificate.ts'
import type { CertificateRecord, Store } from '../store/store.ts'
import { describeRenewal } from '../times.ts'
import { readPermitted } from './lookup.ts'
import { describeFailure } from './orders.ts'

const PAGE = 100

/** `GET /api/certificates`. */
export const listRoute: FastifyPluginAsyncTypebox = async (app) => {
  const schema = {
    summary: 'The certificates that the caller may read, page by page',
    description:
      'A page may hold fewer than `limit` certificates; there are more while it has `next`.',
    tags: ['certificates'],
    security: GUARDED,
    querystring: PageQuerySchema,
    response: { 200: PageSchema, ...problemAnswers(400, 401, 503) },
  }
  app.get(
    '/api/certificates',
    { onRequest: app.requireCaller(), schema },
    async (request, reply) => {
      const { after = '0', limit = `${PAGE}` } = request.query
      const { records, next } = await readPermitted(app, request.caller, Number(limit), {
        start: Number(after),
        list: (page) => app.store.list(page),
        cursorOf: ({ id }) => id,
      })
      const certificates = await Promise.all(records.map((record) => describe(app.store, record)))
      reply.header('cache-control', 'no-store')
      return { certificates, ...(next !== undefined && { next: String(next) }) }
    },
  )
}

async function describe(store: Store, record: CertificateRecord) {
  const { lineage, names, issuer, serialNumber, keyType } = record
  const order = await store.findOrderByLineage(lineage)
  return {
    domain: names[0] ?? '',
    names: [...names],
    issuer,
    serialNumber,
    fingerprint256: hash('sha256', record.certificate),
    keyType,
    ...describeRenewal(record),
    ...(order?.lastError && { lastFailure: describeFailure(order.lastError) }),
  }
}
