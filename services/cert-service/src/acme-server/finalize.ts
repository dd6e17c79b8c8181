import { AcmeProblem, readPublicKey, renewalId } from '@gatehouse/acme/server'
import type { CertificateRecord, ServedAccount, ServedOrder } from '@gatehouse/cert-store/port'
import type { Held } from '@gatehouse/issuance'
import {
  type Actor,
  type IssuanceRequest,
  parseRequest,
  readName,
} from '@gatehouse/issuance/request'
import { hasBegun, planRenewal } from '@gatehouse/issuance/times'
import { hasCode } from '@gatehouse/net'
import { type Csr, type Name, type Profile, parseCertificate, parseCsr } from '@gatehouse/pki'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { actorOf, authorize } from '../policy/authorize.ts'
import { problemOf } from './problems.ts'
import { requireEnd } from './validity.ts'

/**
 * Checks that the caller may have a certificate and an issuer signs it, now.
 * @throws CertError CERT_NAME_NOT_ALLOWED; PkiError and IssuanceError as `parseRequest`; AcmeProblem `malformed`
 */
export function requireIssuable(
  request: FastifyRequest,
  wanted: { names: readonly Name[]; profile: Profile; csr?: Csr; notAfter?: number | undefined },
): IssuanceRequest {
  const { names, profile, csr, notAfter } = wanted
  const [domain = '', ...others] = names.map(({ text }) => text)
  const fields = { domain, names: others, csr, profile, notAfter }
  const { issuers, clock } = request.server
  const issuable = parseRequest(fields, issuers, (all) => authorize(request, 'issue', all, profile))
  requireEnd(issuable, clock.now())
  return issuable
}

/**
 * Has a public CA prove the names of an order ahead, so that finalizing it is one round trip. What takes
 * longer than a caller waits goes on, and so does the order.
 * @throws IssueError, IssuanceError: what the certificate could not be issued for
 */
export async function prepare(
  request: FastifyRequest,
  { account, replaces }: Pick<ServedOrder, 'account' | 'replaces'>,
  wanted: IssuanceRequest,
): Promise<void> {
  const { issuance, store, clock } = request.server
  if (!wanted.issuer.authorize) return
  const names = wanted.names.map(({ text }) => text)
  const held = await store.listOfAccount(account, names)
  const isInUse = (one: CertificateRecord) => !isReplaced(one, replaces, clock.now())
  // A client that asks again may be given what it has.
  if (!held.some((one) => isSame(one, wanted) && isInUse(one)))
    await issuance.authorize(wanted, actorOf(request))
}

/**
 * Finalizes an order (RFC 8555 section 7.4). The same request again, such as after an answer that was
 * lost, goes on with it or gives the certificate that it led to.
 * @throws AcmeProblem `orderNotReady`, `badCSR`, and what the certificate could not be issued for
 */
export async function finalize(
  request: FastifyRequest,
  order: ServedOrder,
  csr: Buffer,
): Promise<ServedOrder> {
  const { acme } = request.server.store
  const isAgain = order.csr !== null && csr.equals(order.csr)
  if (order.status === 'valid' && isAgain) return order
  if (order.status !== 'ready' && !(order.status === 'processing' && isAgain)) throw notReady(order)
  const read = () => readWanted(request, order, csr)
  if (order.status === 'processing') return complete(request, order, read)
  const wanted = read()
  if (await acme.claimOrder(order.id, csr))
    return complete(request, { ...order, status: 'processing', csr }, () => wanted)
  // Another request was faster.
  const claimed = await acme.findOrder(order.id)
  if (!claimed || claimed.status === 'ready') throw notReady(order)
  return finalize(request, claimed, csr)
}

/** Goes on with an order that is being processed. What cannot be done now is left for later. */
export async function advance(request: FastifyRequest, order: ServedOrder): Promise<ServedOrder> {
  const { status, csr } = order
  if (status !== 'processing' || csr === null) return order
  try {
    return await complete(request, order, () => readWanted(request, order, Buffer.from(csr)))
  } catch (error) {
    return lastingOf(error) ? ended(request, order) : order
  }
}

/** Issues the certificate of an order, once, and ends the order. */
async function complete(
  request: FastifyRequest,
  order: ServedOrder,
  read: () => IssuanceRequest,
): Promise<ServedOrder> {
  const { server } = request
  const { acme } = server.store
  try {
    const held = await obtain(server, order, read(), { ...actorOf(request), servedOrder: order.id })
    if (!held) return order
    const fingerprint = held.fingerprint256
    // What is issued for an order ends it.
    const isOwn = held.record.servedOrder === order.id
    if (isOwn || (await acme.endOrder(order.id, { fingerprint })))
      return { ...order, status: 'valid', fingerprint }
  } catch (error) {
    const lasting = lastingOf(error)
    const isEnded = lasting && !(await acme.endOrder(order.id, { error: lasting.toJSON() }))
    if (!isEnded && !hasCode(error, 'CERT_ORDER_ENDED')) throw error
  }
  return ended(request, order)
}

/** An order that another request has ended. */
async function ended({ server }: FastifyRequest, order: ServedOrder): Promise<ServedOrder> {
  return (await server.store.acme.findOrder(order.id)) ?? order
}

/** Undefined while it takes longer than a caller waits. */
async function obtain(
  { issuance, clock, store }: FastifyInstance,
  order: ServedOrder,
  wanted: IssuanceRequest,
  by: Actor,
): Promise<Held | undefined> {
  const isOver = (record: CertificateRecord) => isReplaced(record, order.replaces, clock.now())
  const held = await issuance.find(wanted)
  // There is none that is better than one which ends when it has to.
  const isBest = held?.record.servedOrder === order.id || order.notAfter !== null
  if (held && (isBest || !isOver(held.record))) {
    await issuance.recordDelivery(held, by)
    return held
  }
  if (held) return (await issuance.renew(held.record, by)).held
  const before = await store.listOfAccount(order.account, order.names)
  const supersedes = before.filter(
    (one) => isSame(one, wanted) && (isOver(one) || isForKey(one, wanted)),
  )
  return (await issuance.obtain({ ...wanted, supersedes }, by)).held
}

/** Whether a certificate has the key of a request: its holder is the same, whichever end it asks for. */
function isForKey({ certificate }: CertificateRecord, { csr }: IssuanceRequest): boolean {
  return csr !== null && parseCertificate(certificate).spki.equals(csr.spki)
}

/** Whether a certificate is for the same, though for another key. */
function isSame({ issuer, names }: CertificateRecord, wanted: IssuanceRequest): boolean {
  const texts = new Set(wanted.names.map(({ text }) => text))
  const isEqual = names.length === texts.size && names.every((name) => texts.has(name))
  return isEqual && issuer === wanted.issuer.name
}

/** Whether a certificate gives way to another one: its client says so, or may renew it by now. */
function isReplaced(record: CertificateRecord, replaces: string | null, now: number): boolean {
  const start = record.windowStart ?? planRenewal(record, () => 1)
  return start <= now || !hasBegun(record, now) || renewalId(record.certificate) === replaces
}

/** Reads the CSR of an order, whose names it must have: no more, and no less. @throws AcmeProblem `badCSR` */
function readWanted(request: FastifyRequest, order: ServedOrder, der: Buffer): IssuanceRequest {
  const { profile, notAfter } = order
  const csr = parseCsr(der, profile)
  if (isKeyOf(request.acmeAccount, csr))
    throw new AcmeProblem('badCSR', 'the CSR has the key of the account: make another one')
  const texts = new Set(csr.names.map(({ text }) => text))
  if (texts.size !== order.names.length || order.names.some((name) => !texts.has(name)))
    throw new AcmeProblem(
      'badCSR',
      `the CSR is for ${[...texts].join(', ') || 'no name'}, and the order for ${order.names.join(', ')}`,
    )
  const names = order.names.map((name) => readName(name, profile))
  return requireIssuable(request, { names, profile, csr, notAfter: notAfter ?? undefined })
}

/** RFC 8555 section 11.1. */
function isKeyOf(account: ServedAccount | null, { spki }: Csr): boolean {
  const { key } = readPublicKey(account?.jwk)
  return key.export({ type: 'spki', format: 'der' }).equals(spki)
}

function notReady({ status }: ServedOrder): AcmeProblem {
  return new AcmeProblem('orderNotReady', `the order is ${status}, not ready: place another one`)
}

/** The problem of a request that would fail again: one that is neither a limit nor an outage. */
function lastingOf(error: unknown): AcmeProblem | undefined {
  const problem = problemOf(error)
  return problem && problem.status < 429 ? problem : undefined
}
