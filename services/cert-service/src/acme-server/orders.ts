import { hash, randomBytes } from 'node:crypto'
import {
  AcmeProblem,
  type Identifier,
  parseRenewalId,
  readIdentifiers,
  readPayload,
  toIdentifier,
} from '@gatehouse/acme/server'
import type { CertificateRecord, ServedAccount, ServedOrder } from '@gatehouse/cert-store/port'
import { parseRequest } from '@gatehouse/issuance/request'
import type { Name } from '@gatehouse/pki'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { authorize } from '../policy/authorize.ts'
import { advance, finalize } from './finalize.ts'
import { problemOf } from './problems.ts'
import { requireNoPayload, verifyAccount } from './requests.ts'
import type { Urls } from './urls.ts'

const DAY = 86_400_000
/** Milliseconds in which an order can be finalized. */
const OPEN_FOR = DAY
/** Seconds after which to ask for an order again. Some clients read no date. */
const POLL_AFTER = 2

const NewOrderSchema = Type.Object({
  identifiers: Type.Unknown(),
  profile: Type.Optional(Type.String({ maxLength: 100 })),
  replaces: Type.Optional(Type.String({ maxLength: 200 })),
})

const FinalizeSchema = Type.Object({ csr: Type.String() })

interface OfOrder {
  readonly Params: { readonly id: string }
}

/** Orders (RFC 8555 section 7.4). */
export async function orderRoutes(app: FastifyInstance): Promise<void> {
  app.post('/acme/new-order', async (request, reply) => {
    const { account, signed, urls } = await verifyAccount(request)
    const { identifiers, profile, replaces } = readPayload(signed, NewOrderSchema)
    const wanted = { names: readIdentifiers(identifiers), profile: readProfile(profile) }
    requireIssuable(request, wanted)
    await requireReplaceable(app, replaces)
    const order = await app.store.acme.addOrder(
      newOrder(account, { ...wanted, replaces }, app.clock.now()),
    )
    if (!order)
      throw new AcmeProblem(
        'rateLimited',
        'the account has too many open orders: finalize them, or wait until they expire',
        { retryAfter: 3_600 },
      )
    return sendOrder(reply.code(201), order, urls)
  })

  app.post<OfOrder>('/acme/order/:id', async (request, reply) => {
    const signer = await verifyAccount(request)
    requireNoPayload(signer)
    const order = await requireOrder(request, signer.account)
    return sendOrder(reply, await advance(request, order), signer.urls)
  })

  app.post<OfOrder>('/acme/order/:id/finalize', async (request, reply) => {
    const { account, signed, urls } = await verifyAccount(request)
    const { csr } = readPayload(signed, FinalizeSchema)
    const order = await requireOrder(request, account)
    return sendOrder(reply, await finalize(request, order, readCsr(csr)), urls)
  })
}
