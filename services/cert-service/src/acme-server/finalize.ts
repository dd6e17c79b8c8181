import { AcmeProblem, readPublicKey, renewalId } from '@gatehouse/acme/server'
import type { Head, ServedAccount, ServedOrder } from '@gatehouse/cert-store/port'
import type { Certificate } from '@gatehouse/issuance'
import {
  type Actor,
  type IssuanceRequest,
  parseRequest,
  readName,
} from '@gatehouse/issuance/request'
import { hasCode } from '@gatehouse/net'
import { type Csr, parseCsr } from '@gatehouse/pki'
import type { FastifyRequest } from 'fastify'
import { actorOf, authorize } from '../policy/authorize.ts'
import { headsOf, isDue, predecessorOf } from './lineage.ts'
import { problemOf } from './problems.ts'
import { readProfile, requireEnd } from './validity.ts'

/**
 * Checks that the caller may have a certificate and an issuer signs it, now.
 * @throws CertError CERT_NAME_NOT_ALLOWED; PkiError and IssuanceError as `parseRequest`; AcmeProblem `malformed`
 */
export function requireIssuable(
  request: FastifyRequest,
  issuanceRequest: Pick<ServedOrder, 'profile' | 'profileName'> &
    Pick<IssuanceRequest, 'names' | 'notAfter'> & { readonly csr?: Csr },
): IssuanceRequest {
  const { names, profile, profileName, csr, notAfter } = issuanceRequest
  const [domain = '', ...otherNames] = names.map(({ text }) => text)
  const fields = { domain, names: otherNames, csr, profile, notAfter }
  const { issuers, clock, acmeOptions } = request.server
  const { lifetime } = readProfile(profileName ?? profile, acmeOptions)
  const issuable = parseRequest(fields, issuers, (parsedNames) =>
    Math.min(authorize(request, 'issue', parsedNames, profile), lifetime),
  )
  requireEnd(issuable, clock.now(), profileName)
  return issuable
}

/**
 * Lets a public CA prove the names of an order ahead, so that finalizing it is one round trip. What takes
 * longer than a caller waits goes on, and so does the order.
 * @throws IssueError, IssuanceError: what the certificate could not be issued for
 */
export async function prepare(
  request: FastifyRequest,
  order: Pick<ServedOrder, 'account' | 'names' | 'profile' | 'replaces'>,
  issuanceRequest: IssuanceRequest,
): Promise<void> {
  const { issuance, clock } = request.server
  if (!issuanceRequest.issuer.authorize) return
  const heads = await headsOf(request, order)
  const predecessor = await predecessorOf(request, order, null, heads)
  const isInUse = (head: Head) =>
    head.issuer === issuanceRequest.issuer.name &&
    head.account === order.account &&
    head.id !== predecessor?.id &&
    !isDue(head, clock.now())
  // A client that asks again may be given what it has.
  if (!heads.some(isInUse))
    await issuance.authorize({ ...issuanceRequest, predecessor }, actorOf(request))
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
  const issuanceRequest = read()
  if (await acme.claimOrder(order.id, csr))
    return complete(request, { ...order, status: 'processing', csr }, () => issuanceRequest)
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
    const actor = { ...actorOf(request), servedOrder: order.id }
    const certificate = await obtain(request, order, read(), actor)
    if (!certificate) return order
    const fingerprint = certificate.fingerprint256
    // The certificate of an order ends it.
    const isOwn = certificate.record.servedOrder === order.id
    if (isOwn || (await acme.endOrder(order.id, { fingerprint })))
      return { ...order, status: 'valid', fingerprint }
  } catch (error) {
    const lasting = lastingOf(error)
    const isEnded = lasting && !(await acme.endOrder(order.id, { error: lasting.toJSON() }))
    if (!isEnded && !hasCode(error, 'CERT_ORDER_ENDED')) throw error
  }
  return ended(request, order)
}

async function ended({ server }: FastifyRequest, order: ServedOrder): Promise<ServedOrder> {
  return (await server.store.acme.findOrder(order.id)) ?? order
}

/** Undefined while it takes longer than a caller waits. */
async function obtain(
  request: FastifyRequest,
  order: ServedOrder,
  issuanceRequest: IssuanceRequest,
  actor: Actor,
): Promise<Certificate | undefined> {
  const { issuance, clock } = request.server
  const certificate = await issuance.find(issuanceRequest)
  if (!certificate) {
    const predecessor = await predecessorOf(request, order, issuanceRequest.csr)
    return (await issuance.obtain({ ...issuanceRequest, predecessor }, actor)).certificate
  }
  const { record } = certificate
  // No stored certificate is better than one that ends at the requested time.
  const isBest = record.servedOrder === order.id || order.notAfter !== null
  const isOver = isDue(record, clock.now()) || renewalId(record.certificate) === order.replaces
  const { lifetime } = issuanceRequest
  if (isOver && !isBest) return (await issuance.renew({ ...record, lifetime }, actor)).certificate
  await issuance.recordDelivery(certificate, actor)
  return certificate
}

/** Reads the CSR of an order, whose names it must have: no more, and no less. @throws AcmeProblem `badCSR` */
function readWanted(request: FastifyRequest, order: ServedOrder, der: Buffer): IssuanceRequest {
  const { profile, profileName } = order
  const notAfter = order.notAfter ?? undefined
  const csr = parseCsr(der, profile)
  if (isKeyOf(request.acmeAccount, csr))
    throw new AcmeProblem('badCSR', 'the CSR has the key of the account: make another one')
  const texts = new Set(csr.names.map(({ text }) => text))
  const ownNames = [...texts].join(', ') || 'no name'
  const detail = `the CSR is for ${ownNames}, and the order for ${order.names.join(', ')}`
  if (texts.size !== order.names.length || order.names.some((name) => !texts.has(name)))
    throw new AcmeProblem('badCSR', detail)
  const names = order.names.map((name) => readName(name, profile))
  return requireIssuable(request, { names, profile, profileName, csr, notAfter })
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
