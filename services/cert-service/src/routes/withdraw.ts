import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { AcmeError } from '@gatehouse/acme'
import type {
  AuditEntry,
  CertificateRecord,
  IssuedCertificate,
  Store,
} from '@gatehouse/cert-store/port'
import { IssueError } from '@gatehouse/issuance'
import type { Actor } from '@gatehouse/issuance/request'
import { REVOCATION_REASONS, type RevocationReason } from '@gatehouse/pki'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { CertError } from '../errors.ts'
import { isOf, readDomain, type Subject } from '../lookup/certificates.ts'
import { actorOf, authorize, mayAll, principalOf } from '../policy/authorize.ts'
import {
  DomainSchema,
  emptyAnswer,
  guarded,
  OfProfileSchema,
  ProfileQuerySchema,
} from '../schemas.ts'

const MAX_AUDITED_NAMES = 1_000

/** `POST /api/certificate/revoke` and `DELETE /api/certificate/:domain`. */
export const withdrawRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = app.requireCaller()
  app.post('/api/certificate/revoke', { onRequest, schema: REVOKE }, (request) => {
    const { domain, profile, reason = 'unspecified' } = request.body
    return revoke(request, readDomain(domain, profile), reason)
  })
  app.delete('/api/certificate/:domain', { onRequest, schema: DELETE }, async (request, reply) => {
    const domain = readDomain(request.params.domain, request.query.profile)
    const unconfirmed = await remove(request, domain)
    return unconfirmed.length > 0 ? { unconfirmed: [...unconfirmed] } : reply.code(204).send(null)
  })
}

const UnconfirmedSchema = Type.Array(Type.String(), {
  description:
    'Replicas that did not confirm within two seconds, and may serve the certificates until ' +
    'they reach the database; `*` if the database could not be asked. Absent if there are none.',
})

const REVOKE = guarded([403, 404, 409, 422], {
  summary: 'Revoke the certificates of a name',
  description:
    'Adds the certificates, and unexpired ones that they replaced, to the revocation list and ' +
    'stops serving them; the next POST makes a new key.',
  body: Type.Object({
    ...OfProfileSchema.properties,
    reason: Type.Optional(
      Type.Enum(Object.keys(REVOCATION_REASONS) as RevocationReason[], {
        description: 'As in RFC 5280 section 5.3.1; default `unspecified`.',
      }),
    ),
  }),
  response: {
    200: Type.Object({
      domain: Type.String(),
      reason: Type.String(),
      serialNumbers: Type.Array(Type.String(), {
        description: 'Serial numbers of the revoked certificates, hexadecimal.',
      }),
      unknownAtCa: Type.Optional(
        Type.Array(Type.String(), {
          description:
            'Certificates that the CA does not know (any more), which are revoked only here. Absent if there are none.',
        }),
      ),
      unconfirmed: Type.Optional(UnconfirmedSchema),
    }),
  },
})

const DELETE = guarded([403, 404], {
  summary: 'Stop serving and renewing the certificates of a name',
  params: DomainSchema,
  querystring: ProfileQuerySchema,
  response: {
    200: Type.Object({ unconfirmed: UnconfirmedSchema }),
    204: emptyAnswer('Done. Delivered certificates stay valid until they expire.'),
  },
})

/** Stops answering and renewing the certificates of a name. Gives the replicas that have not confirmed it. */
export async function remove(request: FastifyRequest, domain: Subject): Promise<readonly string[]> {
  const { server } = request
  const { issued, entry } = await findIssued(request, 'delete', domain)
  await server.store.remove(idsOf(issued), entry)
  return answerNoMore(request, issued)
}

/** Waits until no live replica answers what was taken out of service. Gives those that have not confirmed it. */
async function answerNoMore(
  { server, log }: FastifyRequest,
  issued: readonly IssuedCertificate[],
): Promise<readonly string[]> {
  server.holdings.forget(issued.map(({ lineage }) => lineage))
  const unconfirmed = await server.store.awaitReplicas()
  if (unconfirmed.length > 0)
    log.warn({ unconfirmed }, 'replicas that may still answer what was taken out of service')
  return unconfirmed
}

/** Revokes one certificate, at its CA and then here. Others for its key stay. */
export async function revokeAlone(
  request: FastifyRequest,
  record: CertificateRecord,
  reason: RevocationReason,
  by: Actor,
): Promise<void> {
  const { server } = request
  const { names, serialNumber } = record
  await revokeAtCa(server, record, [record], reason)
  const entry = { at: server.clock.now(), action: 'revoke', ...by, names, serialNumber } as const
  await revokeHere(request, [record], reason, entry, { isAlone: true })
}

/** Revokes in the store, and has no replica answer it or keep a list without it. */
async function revokeHere(
  request: FastifyRequest,
  issued: readonly IssuedCertificate[],
  reason: RevocationReason,
  entry: AuditEntry,
  options?: Parameters<Store['revoke']>[4],
) {
  const { store, ca } = request.server
  const audited = { ...entry, detail: reason }
  const serialNumbers = await store.revoke(idsOf(issued), entry.at, reason, audited, options)
  ca.crls.outdate()
  return { serialNumbers, unconfirmed: await answerNoMore(request, issued) }
}

export async function revoke(request: FastifyRequest, domain: Subject, reason: RevocationReason) {
  const { server } = request
  const { issued, entry } = await findIssued(request, 'revoke', domain)
  const unknownAtCa: string[] = []
  for (const one of issued) {
    const all = await server.store.listUnexpired(one, entry.at)
    unknownAtCa.push(...(await revokeAtCa(server, one, all, reason)))
  }
  const { serialNumbers, unconfirmed } = await revokeHere(request, issued, reason, entry)
  return {
    domain: domain.text,
    reason,
    serialNumbers: [...serialNumbers],
    ...(unknownAtCa.length > 0 && { unknownAtCa }),
    ...(unconfirmed.length > 0 && { unconfirmed: [...unconfirmed] }),
  }
}

/** The certificates of a name, as far as the caller may do this with them, and the audit row of it. */
async function findIssued(request: FastifyRequest, action: 'revoke' | 'delete', domain: Subject) {
  const { server } = request
  authorize(request, action, [domain], domain.profile)
  // A certificate that is being issued would otherwise come into service right after.
  await server.issuance.settle(domain)
  const issued = await listAffected(request, action, domain)
  const at = server.clock.now()
  const [first, ...others] = issued
  const names = [...new Set(issued.flatMap((one) => one.names))].slice(0, MAX_AUDITED_NAMES)
  const only = first && others.length === 0 ? { serialNumber: first.serialNumber } : {}
  const entry: AuditEntry = { at, action, ...actorOf(request), names, ...only }
  return { issued, entry }
}

/**
 * The certificates that this would take out of service.
 * @throws CertError `CERT_NAME_NOT_ALLOWED`; `CERT_NOT_FOUND` if there are none
 */
export async function listAffected(
  request: FastifyRequest,
  action: 'revoke' | 'delete',
  domain: Subject,
): Promise<readonly IssuedCertificate[]> {
  const { server } = request
  const caller = principalOf(request)
  authorize(request, action, [domain], domain.profile)
  // Deleted certificates may have been copied, so they can still be revoked.
  const of = { now: server.clock.now(), isOut: action === 'revoke' }
  const all = await server.store.listIssued(domain.text, of)
  const issued = all
    .filter(isOf(domain.profile))
    .filter((one) => mayAll(server, caller, action, one))
  if (issued.length > 0) return issued
  throw new CertError('CERT_NOT_FOUND', `no certificate for ${domain.text} is held`)
}

function idsOf(issued: readonly IssuedCertificate[]): number[] {
  return issued.map(({ id }) => id)
}

/**
 * Revokes certificates of a lineage at their CA. This comes first, so that what is
 * revoked here is revoked for everyone. Returns the serial numbers that the CA does not know, which
 * are revoked here only.
 */
async function revokeAtCa(
  { issuers }: FastifyInstance,
  issued: IssuedCertificate,
  certificates: readonly CertificateRecord[],
  reason: RevocationReason,
): Promise<string[]> {
  const { issuer: name, names } = issued
  const issuer = issuers.find(name)
  if (!issuer)
    throw new CertError('CERT_ISSUER_ABSENT', `the issuer ${name} is not configured any more`)
  if (!issuer.revoke) return []
  const unknown: string[] = []
  for (const { certificate, serialNumber } of certificates) {
    const result = await issuer.revoke(certificate, reason).catch((error) => {
      throw revocationError(names[0], error)
    })
    if (result === 'unknown') unknown.push(serialNumber)
  }
  return unknown
}

/** Callers get the error of the CA: the certificate is answered until it is revoked. */
function revocationError(name: string | undefined, cause: unknown): unknown {
  if (!(cause instanceof AcmeError)) return cause
  const { code, message, retryAfterMs } = cause
  return new IssueError(code, `${name} could not be revoked: ${message}`, {
    cause,
    ...(retryAfterMs !== undefined && { wait: Math.ceil(retryAfterMs / 1000) }),
  })
}
