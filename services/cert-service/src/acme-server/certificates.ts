import { hash } from 'node:crypto'
import {
  AcmeProblem,
  malformed,
  type PublicKey,
  parseRenewalId,
  readRevocation,
} from '@gatehouse/acme/server'
import type { CertificateRecord, InService, ServedAccount } from '@gatehouse/cert-store/port'
import { type Actor, profileOf, readName } from '@gatehouse/issuance/request'
import { askAgainAfter, HOUR, renewalWindow, toTime } from '@gatehouse/issuance/times'
import { hasCode } from '@gatehouse/net'
import { buildChainPem, parseCertificate } from '@gatehouse/pki'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { actorOf, mayAll, principalOf } from '../policy/authorize.ts'
import { revokeAll } from '../routes/withdraw.ts'
import { verifyReader, verifySigned } from './requests.ts'
import { addLink } from './urls.ts'

const PEM = 'application/pem-certificate-chain'

type Issued = CertificateRecord & InService

interface CertificateRoute {
  readonly Params: { readonly fingerprint: string }
}

interface AlternateRoute {
  readonly Params: { readonly fingerprint: string; readonly number: string }
}

/** Certificates (RFC 8555 sections 7.4.2, 7.6) and when to renew them (RFC 9773). */
export async function certificateRoutes(app: FastifyInstance): Promise<void> {
  app.post<CertificateRoute>('/certificate/:fingerprint', async (request, reply) => {
    const { record, urls } = await download(request)
    const { fingerprint } = request.params
    for (const number of alternatesOf(app, record).keys())
      addLink(reply, urls.alternate(fingerprint, number + 1), 'alternate')
    return reply.type(PEM).send(buildChainPem(record.certificate, record.chain))
  })

  app.post<AlternateRoute>('/certificate/:fingerprint/:number', async (request, reply) => {
    const { record, urls } = await download(request)
    const { fingerprint, number } = request.params
    const chain = alternatesOf(app, record).find((_, n) => String(n + 1) === number)
    if (!chain) throw absent()
    addLink(reply, urls.certificate(fingerprint), 'alternate')
    return reply.type(PEM).send(buildChainPem(record.certificate, chain))
  })

  app.post('/revoke-cert', async (request, reply) => {
    const { account, key, signed } = await verifySigned(request, 'either')
    const { certificate, reason } = readRevocation(signed)
    const record = await app.store.findIssued(hash('sha256', certificate))
    if (!record) throw absent()
    const { requester, mayRefuseKey } = account
      ? await byAccount(request, record, account)
      : byKey(request, record, key)
    if (record.revokedAt !== null)
      throw new AcmeProblem('alreadyRevoked', 'the certificate was revoked before')
    const isKeyRefused = mayRefuseKey && reason === 'keyCompromise'
    await revokeAll(request, [[record]], () => reason, { actor: requester, isKeyRefused })
    return reply.code(200).send()
  })

  app.get<{ Params: { id: string } }>('/renewal-info/:id', async (request, reply) => {
    const id = parseRenewalId(request.params.id)
    if (!id) throw malformed('this is not the identifier of a certificate')
    const records = await app.store.listBySerial(id.serialNumber)
    const record = records.find((record) => parseCertificate(record.certificate).akid === id.akid)
    if (!record) throw absent()
    app.acme.noteRenewalInfo(record)
    return reply.header('retry-after', askAgainAfter(record)).send(describeRenewal(record))
  })
}

/**
 * Returns the chains that a client may choose instead: as far as the root that it leads to first, with that root, and
 * then, if the chain goes on by a cross certificate, without what leads to another root.
 */
function alternatesOf({ ca }: FastifyInstance, record: Issued): readonly (readonly Uint8Array[])[] {
  const root = ca.rootAbove(record)
  if (!root) return []
  const { spki } = parseCertificate(root)
  const direct = record.chain.filter((der) => !parseCertificate(der).spki.equals(spki))
  return direct.length < record.chain.length ? [[...direct, root], direct] : [[...direct, root]]
}

/** The certificate of the path, for an account that may read certificates for all of its names. */
async function download(request: FastifyRequest<CertificateRoute>) {
  const { account, urls } = await verifyReader(request)
  const { server, params } = request
  const record = await server.store.findIssued(params.fingerprint)
  const isOwn = record?.account === account.id
  if (!record || !(isOwn || mayAll(server, principalOf(request), 'read', record))) throw absent()
  if (isOwn || (await isOfCaller(server, record, account))) await noteDownload(request, record)
  return { record, urls }
}

/** Keeps that a client has its certificate: from then on, no other takes it over. One that was replaced before is in use after all. */
async function noteDownload(request: FastifyRequest, record: Issued): Promise<void> {
  const { store, clock, callerLimits } = request.server
  const { id, isCurrent, replacedBy, revokedAt, downloadedAt, notAfter } = record
  const now = clock.now()
  if (downloadedAt !== null) return
  if (isCurrent || replacedBy === null || revokedAt !== null || notAfter <= now)
    return store.setDownloaded(id, now)
  const requester = actorOf(request)
  const { actor, account = null } = requester
  const names = record.names.map((name) => readName(name, profileOf(record)))
  try {
    await callerLimits.ask({ names, isPrepared: true }, requester, false)
  } catch (error) {
    // The certificate counts again once it is in service.
    if (hasCode(error, 'CERT_CALLER_LIMITED')) return store.setDownloaded(id, now)
    throw error
  }
  await store.reinstate(record, { at: now, actor, account })
  await callerLimits.resumed(actor)
}

interface Revoker {
  readonly requester: Actor
  /** Whether nobody may have the key certified again because they say that it is compromised. */
  readonly mayRefuseKey: boolean
}

/** The one who revokes by an account: any of the caller that the certificate is of. @throws AcmeProblem `unauthorized` */
async function byAccount(
  request: FastifyRequest,
  record: Issued,
  account: ServedAccount,
): Promise<Revoker> {
  const { server } = request
  const mayRevoke = mayAll(server, principalOf(request), 'revoke', record)
  const isOwn = record.account === account.id || (await isOfCaller(server, record, account))
  if (!mayRevoke && !isOwn)
    throw new AcmeProblem('unauthorized', 'no account of this caller has ordered this certificate')
  return { requester: actorOf(request), mayRefuseKey: mayRevoke }
}

/** Whether another account of the same caller has ordered a certificate. */
async function isOfCaller(
  { store }: FastifyInstance,
  record: Issued,
  { caller }: ServedAccount,
): Promise<boolean> {
  if (caller === null || !record.account) return false
  return (await store.acme.findAccount(record.account))?.caller === caller
}

/** The one who revokes by the key of the certificate. @throws AcmeProblem `unauthorized` */
function byKey({ ip, id }: FastifyRequest, record: Issued, { key }: PublicKey): Revoker {
  const publicKey = parseCertificate(record.certificate).spki
  if (!publicKey.equals(key.export({ type: 'spki', format: 'der' })))
    throw new AcmeProblem('unauthorized', 'the request is not signed by the key of the certificate')
  const actor = `key:${hash('sha256', publicKey).slice(0, 16)}`
  return { requester: { actor, remoteAddress: ip, requestId: id, way: 'acme' }, mayRefuseKey: true }
}

const absent = () => malformed('there is no such certificate', { status: 404 })

/** The time in which a client is to renew: past if the certificate was revoked, as its CA says, or ours. */
function describeRenewal(record: Issued) {
  const { revokedAt, explanationUrl } = record
  const { start, end } =
    revokedAt === null ? renewalWindow(record) : { start: revokedAt - HOUR, end: revokedAt }
  return {
    suggestedWindow: { start: toTime(start), end: toTime(end) },
    ...(explanationUrl && { explanationURL: explanationUrl }),
  }
}
