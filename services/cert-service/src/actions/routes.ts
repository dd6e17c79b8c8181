import { issueFailed } from '@gatehouse/issuance'
import { type IssuanceRequest, parseRequest, rerouteRequest } from '@gatehouse/issuance/request'
import { hasCode } from '@gatehouse/net'
import { sendPage } from '@gatehouse/service-kit/pages'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { CertError } from '../errors.ts'
import { findPermitted, isOf, readDomain, type Subject } from '../lookup/certificates.ts'
import { nameHref } from '../pages/links.ts'
import { actorOf, authorize, mayAll, principalOf } from '../policy/authorize.ts'
import { renewalOf, renewNewest, retry } from '../routes/renew.ts'
import { listAffected, REASON, remove, revoke } from '../routes/withdraw.ts'
import { IdSchema, NAME, ProfileSchema } from '../schemas.ts'
import {
  assertOwnOrigin,
  readerOf,
  requirePersonOnly,
  toFailedOrder,
} from '../visitors/visitors.ts'
import { type Done, keepDone } from './done.ts'
import { dryRunPage } from './dry-run-page.ts'
import { ACTIONS, type Action, confirmPage } from './page.ts'

const ParamsSchema = Type.Object({ domain: Type.String(NAME) })
const OrderProperty = { order: Type.Optional(IdSchema) }
const QuerySchema = Type.Object({ ...OrderProperty, ...ProfileSchema.properties })
const BodySchema = Type.Object({ ...OrderProperty, reason: REASON })
interface Route {
  Params: Static<typeof ParamsSchema>
  Querystring: Static<typeof QuerySchema>
  Body: Static<typeof BodySchema>
}

/**
 * The actions of people on the certificates of a name: `GET /certificates/:domain/renew`, `/revoke`,
 * `/delete`, `/retry` and `/dry-run` ask, `POST` does it.
 */
export async function certificateActionRoutes(app: FastifyInstance): Promise<void> {
  const onRequest = requirePersonOnly(app)
  const schema = { hide: true, params: ParamsSchema }
  for (const action of ACTIONS) {
    const url = `/certificates/:domain/${action}`
    const querySchema = { ...schema, querystring: QuerySchema }
    app.get<Route>(url, { onRequest, schema: querySchema }, async (request, reply) => {
      const name = readDomain(request.params.domain, request.query.profile)
      return sendPage(reply, 200, await ask(request, action, name))
    })
    const confirmed = { ...querySchema, body: BodySchema }
    app.post<Route>(url, { onRequest, schema: confirmed }, async (request, reply) => {
      assertOwnOrigin(request)
      const name = readDomain(request.params.domain, request.query.profile)
      if (action === 'dry-run') return tryOut(request, reply, name)
      try {
        keepDone(reply, await act(request, action, name))
        return reply.redirect(nameHref(name.text, name.profile), 303)
      } catch (error) {
        return toFailedOrder(error, reply)
      }
    })
  }
}

async function ask(request: FastifyRequest<Route>, action: Action, name: Subject) {
  const now = request.server.clock.now()
  const { order } = request.query
  const { text: domain, profile } = name
  const reader = readerOf(request)
  const about = { domain, profile, now, ...(order !== undefined && { order }) }
  if (action === 'revoke' || action === 'delete') {
    const affected = await listAffected(request, action, name)
    return confirmPage(reader, action, { ...about, affected })
  }
  if (action === 'dry-run' || action === 'retry') {
    authorize(request, 'issue', [name], profile)
    return confirmPage(reader, action, about)
  }
  authorize(request, action, [name], profile)
  const newest = await findPermitted(request, action, name)
  const dueAt = renewalOf(newest, now)
  const isOfClient = Boolean(newest.account)
  return confirmPage(reader, action, { ...about, isOfClient, ...(dueAt > now && { dueAt }) })
}

async function act(
  request: FastifyRequest<Route>,
  action: Exclude<Action, 'dry-run'>,
  name: Subject,
): Promise<Done> {
  const done = { action, domain: name.text }
  if (action === 'renew') {
    const outcome = await renewNewest(request, name)
    if ('asked' in outcome) return { ...done, action: 'ask' }
    const { order } = { order: undefined, ...outcome }
    // Its page says why, and when it is tried again.
    if (order?.status === 'failed') throw issueFailed(order, request.server.clock.now())
    return { ...done, ...(order && { order: order.id }) }
  }
  if (action === 'retry') {
    const orders = await retry(request, name)
    const failed = orders.find(({ status }) => status === 'failed')
    if (failed) throw issueFailed(failed, request.server.clock.now())
    const order = orders.find(({ status }) => status === 'pending')
    return { ...done, ...(order && { order: order.id }) }
  }
  if (action === 'delete') return { ...done, unconfirmed: (await remove(request, name)).length }
  const { reason = 'unspecified' } = request.body
  const outcome = await revoke(request, name, reason)
  return {
    ...done,
    reason,
    count: outcome.serialNumbers.length,
    unknownAtCa: outcome.unknownAtCa?.length ?? 0,
    notRevoked: outcome.notRevoked?.length ?? 0,
    unconfirmed: outcome.unconfirmed?.length ?? 0,
  }
}

async function tryOut(
  request: FastifyRequest<Route>,
  reply: FastifyReply,
  name: Subject,
): Promise<FastifyReply> {
  authorize(request, 'issue', [name], name.profile)
  const issuanceRequest = await requestFor(request, name)
  authorize(request, 'issue', issuanceRequest.names, issuanceRequest.profile)
  const run = await request.server.dryRun(issuanceRequest, actorOf(request))
  return sendPage(reply, 200, dryRunPage(readerOf(request), run))
}

/** Makes the request that the newest certificate of a name, or else an order, would be made for today. */
async function requestFor(request: FastifyRequest<Route>, name: Subject): Promise<IssuanceRequest> {
  const { server, body } = request
  const { profile } = name
  const stored =
    body.order === undefined
      ? await findPermitted(request, 'issue', name).catch(noneIfNotFound)
      : await server.store.findOrder(body.order)
  if (!stored)
    return parseRequest({ domain: name.text, profile }, server.issuers, (names) =>
      authorize(request, 'issue', names, profile),
    )
  const isOfName = stored.names[0] === name.text && isOf(profile)(stored)
  if (!isOfName || !mayAll(server, principalOf(request), 'issue', stored))
    throw new CertError('CERT_ORDER_NOT_FOUND', 'there is no order of this name with this id')
  const issuanceRequest = rerouteRequest(stored, server.issuers)
  if (issuanceRequest) return issuanceRequest
  throw new CertError('CERT_NOT_PERMITTED', 'no issuer signs all names of this certificate now')
}

function noneIfNotFound(error: unknown): undefined {
  if (hasCode(error, 'CERT_NOT_FOUND')) return undefined
  throw error
}
