import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Static } from 'typebox'
import { actionFor, CertError } from '../errors.ts'
import { mayAll } from '../plugins/access.ts'
import { GUARDED, problemAnswers } from '../schemas/answers.ts'
import { type FailureSchema, OrderParamsSchema, OrderSchema } from '../schemas/certificate.ts'
import type { OrderRecord } from '../store/store.ts'
import { toTime } from '../times.ts'

/** `GET /api/orders/:id`. */
export const orderRoute: FastifyPluginAsyncTypebox = async (app) => {
  const schema = {
    summary: 'The progress of an order',
    tags: ['certificates'],
    security: GUARDED,
    params: OrderParamsSchema,
    response: { 200: OrderSchema, ...problemAnswers(400, 401, 404, 503) },
  }
  app.get('/api/orders/:id', { onRequest: app.requireCaller(), schema }, async (request, reply) => {
    const { id } = request.params
    const order = await app.store.findOrder(id)
    if (!order || !mayAll(app, request.caller, 'read', order))
      throw new CertError('CERT_ORDER_NOT_FOUND', 'there is no order with this id')
    const flight = app.issuance.flights.get(order.lineage)
    const step = flight?.id === id ? flight.step : order.step
    return reply.header('cache-control', 'no-store').send(describeOrder({ ...order, step }))
  })
}

/** An order as answers write it. */
export function describeOrder(order: OrderRecord): Static<typeof OrderSchema> {
  const { id, status, step, since, names, lastError, nextTryAt } = order
  return {
    id,
    status,
    step,
    since: toTime(since),
    names: [...names],
    ...(lastError && { lastError: describeFailure(lastError) }),
    ...(nextTryAt !== null && { nextTryAt: toTime(nextTryAt) }),
  }
}

/** A failure as answers write it, with what to do about it. */
export function describeFailure(
  failure: NonNullable<OrderRecord['lastError']>,
): Static<typeof FailureSchema> {
  const action = actionFor(failure.code)
  return { ...failure, ...(action !== undefined && { action }) }
}
