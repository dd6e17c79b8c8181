import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { CertError } from '../errors.ts'
import { OrderParamsSchema, OrderSchema } from '../schemas/certificate.ts'
import type { Service } from '../service.ts'
import { mayAll } from './access.ts'
import { describeOrder } from './answers.ts'
import { GUARDED, problemAnswers } from './documented.ts'

/** `GET /api/orders/:id`. */
export const orderRoute: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service },
) => {
  app.get(
    '/api/orders/:id',
    {
      onRequest: app.requireCaller(),
      schema: {
        summary: 'How an order is getting on',
        tags: ['certificates'],
        security: GUARDED,
        params: OrderParamsSchema,
        response: { 200: OrderSchema, ...problemAnswers(400, 401, 404, 503) },
      },
    },
    async (request, reply) => {
      const { id } = request.params
      const order = await service.store.findOrder(id)
      if (!order || !mayAll(service, request, 'read', order))
        throw new CertError('CERT_ORDER_NOT_FOUND', 'there is no order with this id')
      const flight = service.issuance.flights.get(order.lineage)
      const step = flight?.id === id ? flight.step : order.step
      return reply.header('cache-control', 'no-store').send(describeOrder({ ...order, step }))
    },
  )
}
