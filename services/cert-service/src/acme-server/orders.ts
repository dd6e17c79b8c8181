import { hash, randomBytes } from 'node:crypto'
import {
  AcmeProblem,
  malformed,
  parseRenewalId,
  readBase64url,
  readIdentifiers,
  readPayload,
  toIdentifier,
} from '@gatehouse/acme/server'
import type { Proof, ServedAccount, ServedOrder } from '@gatehouse/cert-store/port'
import { ORDER_OPEN } from '@gatehouse/cert-store/port'
import { readName } from '@gatehouse/issuance/request'
import { toTime } from '@gatehouse/issuance/times'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { advance, finalize, prepare, requireIssuable } from './finalize.ts'
import { verifyAccount, verifyReader } from './requests.ts'
import type { Urls } from './urls.ts'
import { readProfile, readValidity } from './validity.ts'

/** An order ends so many ms before the certificate that it asks for. */
const LATE = 1_800_000
/** Seconds after which to ask for an order again. Some clients read no date. */
const POLL_AFTER = 2
const HOUR_S = 3_600

const NewOrderSchema = Type.Object({
  identifiers: Type.Unknown(),
  profile: Type.Optional(Type.String()),
  replaces: Type.Optional(Type.String()),
  notBefore: Type.Optional(Type.Unknown()),
  notAfter: Type.Optional(Type.Unknown()),
})

const FinalizeSchema = Type.Object({ csr: Type.String() })

export interface OrderRoute {
  readonly Params: { readonly id: string }
}

/** Orders (RFC 8555 section 7.4). */
export async function orderRoutes(app: FastifyInstance): Promise<void> {
  app.post('/new-order', async (request, reply) => {
    const { account, signed, urls } = await verifyAccount(request)
    const payload = readPayload(signed, NewOrderSchema)
    const { identifiers, profile: profileText = 'server', replaces = null } = payload
    const { profile } = readProfile(profileText, app.acmeOptions)
    const profileName = profileText === profile ? null : profileText
    const names = readIdentifiers(identifiers, profile)
    // Which lineage it continues is found with the certificate. What names none of ours is recorded and counts as new.
    if (replaces !== null && !parseRenewalId(replaces))
      throw malformed('`replaces` does not name a certificate (RFC 9773)')
    const notAfter = readValidity(payload, app.clock.now())
    const issuable = requireIssuable(request, { names, profile, profileName, notAfter })
    const texts = names.map(({ text }) => text)
    const fields = { names: texts, profile, profileName, replaces, notAfter: notAfter ?? null }
    // What a device has is not proven yet, and a CA counts what it is asked for.
    if (account.caller !== null)
      await prepare(request, { account: account.id, ...fields }, issuable)
    const order = await app.store.acme.addOrder(newOrder(account, fields, app.clock.now()))
    if (order) return sendOrder(reply.code(201), order, urls)
    const detail = 'the account has too many orders: finalize those that are open, or wait'
    throw new AcmeProblem('rateLimited', detail, { retryAfter: HOUR_S })
  })

  app.post<OrderRoute>('/order/:id', async (request, reply) => {
    const { account, urls } = await verifyReader(request)
    const order = await requireOrder(request, account)
    return sendOrder(reply, await advance(request, order), urls)
  })

  app.post<OrderRoute>('/order/:id/finalize', async (request, reply) => {
    const { account, signed, urls } = await verifyAccount(request)
    const { csr } = readPayload(signed, FinalizeSchema)
    const order = await requireOrder(request, account)
    const finalized = await finalize(request, order, readBase64url(csr, '`csr`'))
    return sendOrder(reply, finalized, urls)
  })
}

function newOrder(
  { id: account, caller }: ServedAccount,
  fields: Pick<ServedOrder, 'names' | 'profile' | 'profileName' | 'replaces' | 'notAfter'>,
  now: number,
): ServedOrder {
  const newProof = (): Proof => ({
    token: randomBytes(24).toString('base64url'),
    status: 'pending',
  })
  const proofs = caller === null ? fields.names.map(newProof) : null
  const { names, profile, profileName, replaces, notAfter } = fields
  const profileText = profileName ?? profile
  return {
    id: randomBytes(16).toString('base64url'),
    account,
    wanted: hash('sha256', [profileText, replaces, notAfter, ...names.toSorted()].join()),
    ...fields,
    status: proofs ? 'pending' : 'ready',
    proofs,
    ...{ csr: null, fingerprint: null, error: null },
    at: now,
    expiresAt: Math.min(now + ORDER_OPEN, (notAfter ?? Infinity) - LATE),
  }
}

/** The order of the path. Reveals nothing about the orders of others. @throws AcmeProblem */
export async function requireOrder(
  { server, params }: FastifyRequest<OrderRoute>,
  account: ServedAccount,
): Promise<ServedOrder> {
  const order = await server.store.acme.findOrder(params.id)
  if (order?.account === account.id) return current(order, server.clock.now())
  const detail = 'the account has no such order; finished ones are kept for a limited time'
  throw malformed(detail, { status: 404 })
}

/** An order that nobody has finalized in time is over. */
function current(order: ServedOrder, now: number): ServedOrder {
  const isOpen = order.status === 'pending' || order.status === 'ready'
  return isOpen && order.expiresAt <= now ? { ...order, status: 'invalid' } : order
}

function sendOrder(reply: FastifyReply, order: ServedOrder, urls: Urls): FastifyReply {
  const { id, status, names, profile, replaces, notAfter, error, fingerprint, expiresAt } = order
  if (status === 'processing') reply.header('retry-after', POLL_AFTER)
  return reply.header('location', urls.order(id)).send({
    status,
    expires: toTime(expiresAt),
    identifiers: names.map((name) => toIdentifier(readName(name, profile))),
    profile: order.profileName ?? profile,
    ...(replaces !== null && { replaces }),
    ...(notAfter !== null && { notAfter: toTime(notAfter) }),
    authorizations: names.map((_, n) => urls.authorization(id, n)),
    finalize: urls.finalize(id),
    ...(error !== null && { error }),
    ...(fingerprint !== null && { certificate: urls.certificate(fingerprint) }),
  })
}
