import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { AcmeError } from '@gatehouse/acme'
import type { Name, RevocationReason } from '@gatehouse/pki'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { CertError, IssueError } from '../errors.ts'
import { authorize, mayAll, requesterOf } from '../plugins/access.ts'
import { GUARDED, problemAnswers } from '../schemas/answers.ts'
import { DomainParamsSchema, RevokedSchema, RevokeRequestSchema } from '../schemas/certificate.ts'
import type { AuditEntry, IssuedCertificate } from '../store/store.ts'
import { readDomain } from './lookup.ts'

/** In one row of the audit trail. */
const MAX_AUDITED_NAMES = 1_000

/** `POST /api/certificate/revoke` and `DELETE /api/certificate/:domain`. */
export const withdrawRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = app.requireCaller()
  app.post('/api/certificate/revoke', { onRequest, schema: REVOKE }, async (request) => {
    const { domain, reason = 'unspecified' } = request.body
    return revoke(request, readDomain(domain), reason)
  })
  app.delete('/api/certificate/:domain', { onRequest, schema: DELETE }, async (request, reply) => {
    const domain = readDomain(request.params.domain)
    await withdraw(request, 'delete', domain, (issued, entry) =>
      app.store.remove(
        issued.map(({ id }) => id),
        entry,
      ),
    )
    return reply.code(204).send(null)
  })
}

const REVOKE = {
  summary: 'Revoke the certificates of a name',
  description:
    'Adds them, and the unexpired ones that they replaced, to the revocation list and answers them no more; the next POST makes a new key.',
  tags: ['certificates'],
  security: GUARDED,
  body: RevokeRequestSchema,
  response: {
    200: RevokedSchema,
    ...problemAnswers(400, 401, 403, 404, 409, 413, 415, 422, 503),
  },
}

const DELETE = {
  summary: 'Stop answering and renewing the certificates of a name',
  tags: ['certificates'],
  security: GUARDED,
  params: DomainParamsSchema,
  response: {
    204: {
      type: 'null',
      description: 'Done. Delivered certificates stay valid until they expire.',
    },
    ...problemAnswers(400, 401, 403, 404, 503),
  },
}

async function revoke(request: FastifyRequest, domain: Name, reason: RevocationReason) {
  const { server } = request
  const unknownAtCa: string[] = []
  const serialNumbers = await withdraw(request, 'revoke', domain, async (issued, entry) => {
    for (const one of issued) unknownAtCa.push(...(await revokeAtCa(server, one, reason)))
    const ids = issued.map(({ id }) => id)
    return server.store.revoke(ids, entry.at, reason, { ...entry, detail: reason })
  })
  server.ca.crls.outdate()
  return {
    domain: domain.text,
    reason,
    serialNumbers: [...serialNumbers],
    ...(unknownAtCa.length > 0 && { unknownAtCa }),
  }
}

/**
 * Takes the certificates of a name out of service, as far as the caller may; returns what `write`
 * returns.
 */
async function withdraw<T>(
  request: FastifyRequest,
  action: 'revoke' | 'delete',
  domain: Name,
  write: (issued: readonly IssuedCertificate[], entry: AuditEntry) => Promise<T>,
): Promise<T> {
  const { server, caller } = request
  authorize(request, action, [domain])
  // What is being issued would otherwise come into service right after.
  await server.issuance.settle(domain)
  const at = server.clock.now()
  // Deleted certificates may have been copied, so they can still be revoked.
  const all = await server.store.listIssued(domain.text, { now: at, isOut: action === 'revoke' })
  const issued = all.filter((one) => mayAll(server, caller, action, one))
  const [first, ...others] = issued
  if (!first) throw new CertError('CERT_NOT_FOUND', `no certificate for ${domain.text} is held`)
  const names = [...new Set(issued.flatMap((one) => one.names))].slice(0, MAX_AUDITED_NAMES)
  const only = others.length === 0 ? { serialNumber: first.serialNumber } : {}
  const written = await write(issued, { at, action, ...requesterOf(request), names, ...only })
  for (const { lineage } of issued) server.holdings.forget(lineage)
  return written
}

/**
 * Revokes a certificate and those that it replaced at their CA. This comes first, so that what is
 * revoked here is revoked for everyone. Returns the serial numbers that the CA does not know, which
 * are revoked here only.
 */
async function revokeAtCa(
  { issuers, store, clock }: FastifyInstance,
  issued: IssuedCertificate,
  reason: RevocationReason,
): Promise<string[]> {
  const { issuer: name, names } = issued
  const issuer = issuers.find(name)
  if (!issuer)
    throw new CertError('CERT_ISSUER_ABSENT', `the issuer ${name} is not configured any more`)
  if (!issuer.revoke) return []
  const unknown: string[] = []
  for (const { certificate, serialNumber } of await store.listUnexpired(issued, clock.now())) {
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
