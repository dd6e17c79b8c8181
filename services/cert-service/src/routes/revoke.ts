import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { AcmeError } from '@gatehouse/acme'
import type { Name, RevocationReason } from '@gatehouse/pki'
import type { FastifyRequest } from 'fastify'
import { CertError, IssueError } from '../errors.ts'
import { RevokedSchema, RevokeRequestSchema } from '../schemas/certificate.ts'
import type { Service } from '../service.ts'
import type { AuditEntry, IssuedCertificate } from '../store/store.ts'
import { authorize, mayAll, readDomain, requesterOf } from './access.ts'
import { GUARDED, problemAnswers } from './documented.ts'

/** In one row of the audit trail. */
const MAX_AUDITED_NAMES = 1_000

/** `POST /api/certificate/revoke`. */
export const revokeRoute: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service },
) => {
  app.post(
    '/api/certificate/revoke',
    {
      onRequest: app.requireCaller(),
      schema: {
        summary: 'Revoke the certificates of a name',
        description:
          'Puts them, and the unexpired ones that they replaced, on the revocation list and answers them no more; the next POST makes a new key.',
        tags: ['certificates'],
        security: GUARDED,
        body: RevokeRequestSchema,
        response: {
          200: RevokedSchema,
          ...problemAnswers(400, 401, 403, 404, 409, 413, 415, 422, 503),
        },
      },
    },
    async (request) => {
      const { reason = 'unspecified' } = request.body
      const domain = readDomain(request.body.domain)
      const unknownAtCa: string[] = []
      const serialNumbers = await takeOut(
        service,
        request,
        'revoke',
        domain,
        async (issued, entry) => {
          for (const one of issued) unknownAtCa.push(...(await revokeAtCa(service, one, reason)))
          const ids = issued.map(({ id }) => id)
          return service.store.revoke(ids, entry.at, reason, { ...entry, detail: reason })
        },
      )
      service.ca.crls.outdate()
      return {
        domain: domain.text,
        reason,
        serialNumbers: [...serialNumbers],
        ...(unknownAtCa.length > 0 && { unknownAtCa }),
      }
    },
  )
}

/**
 * First, so that what is revoked here is revoked for everyone: it and the ones that it replaced.
 * Gives the serial numbers that the CA does not know: those are revoked here only.
 */
async function revokeAtCa(
  { issuers, store, clock }: Service,
  issued: IssuedCertificate,
  reason: RevocationReason,
): Promise<string[]> {
  const issuer = issuers.find(issued.issuer)
  if (!issuer)
    throw new CertError(
      'CERT_ISSUER_ABSENT',
      `the issuer ${issued.issuer} is not configured any more`,
    )
  if (!issuer.revoke) return []
  const unknown: string[] = []
  for (const { certificate, serialNumber } of await store.listUnexpired(issued, clock.now()))
    if ((await issuer.revoke(certificate, reason).catch(tell(issued.names))) === 'unknown')
      unknown.push(serialNumber)
  return unknown
}

/** What the CA says is told: the certificate goes on being answered until it is revoked. */
function tell([name]: readonly string[]) {
  return (cause: unknown): never => {
    if (!(cause instanceof AcmeError)) throw cause
    const { code, message, retryAfterMs } = cause
    throw new IssueError(code, `${name} could not be revoked: ${message}`, {
      cause,
      ...(retryAfterMs !== undefined && { wait: Math.ceil(retryAfterMs / 1000) }),
    })
  }
}

/** Takes the certificates of a name out of service, as far as the caller may; gives what `write` gives. */
export async function takeOut<T>(
  service: Service,
  request: FastifyRequest,
  action: 'revoke' | 'delete',
  domain: Name,
  write: (issued: readonly IssuedCertificate[], entry: AuditEntry) => Promise<T>,
): Promise<T> {
  authorize(service, request, action, [domain])
  // What is on its way would otherwise come into service right after.
  await service.issuance.settle(domain)
  const at = service.clock.now()
  // What was deleted may have been copied, so it can still be revoked.
  const all = await service.store.listIssued(domain.text, { now: at, isOut: action === 'revoke' })
  const issued = all.filter((one) => mayAll(service, request, action, one))
  const [first, ...others] = issued
  if (!first) throw new CertError('CERT_NOT_FOUND', `no certificate for ${domain.text} is held`)
  const names = [...new Set(issued.flatMap((one) => one.names))].slice(0, MAX_AUDITED_NAMES)
  const only = others.length === 0 ? { serialNumber: first.serialNumber } : {}
  const written = await write(issued, { at, action, ...requesterOf(request), names, ...only })
  for (const { lineage } of issued) service.holdings.forget(lineage)
  return written
}
