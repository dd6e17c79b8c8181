import type { Caller } from '@gatehouse/auth-core'
import { type Name, parseName } from '@gatehouse/pki'
import type { FastifyRequest } from 'fastify'
import type { Requester } from '../audit.ts'
import { CertError } from '../errors.ts'
import type { Right } from '../policy.ts'
import type { Service } from '../service.ts'
import type { CertificateRecord } from '../store/store.ts'

/** The caller as the audit trail writes it. */
export function requesterOf(request: FastifyRequest): Requester {
  return { actor: actorOf(request.caller), remoteAddress: request.ip, requestId: request.id }
}

/** The caller as request lines name it; none where a route has no guard or refused it. */
export function callerOf(request: FastifyRequest): string | undefined {
  const caller = request.optionalCaller
  return caller ? actorOf(caller) : undefined
}

function actorOf(caller: Caller): string {
  return caller.method === 'psk'
    ? `psk:${caller.subject}`
    : `jwt:${caller.issuer}#${caller.subject}`
}

/**
 * Refuses, and writes down, what the caller may not do to one of the names.
 *
 * @throws CertError `CERT_NAME_NOT_ALLOWED`
 */
export function authorize(
  service: Service,
  request: FastifyRequest,
  right: Right,
  names: readonly Name[],
): void {
  const decision = service.policy()(request.caller, right, names)
  if (decision.allowed) return
  const { name, reason } = decision
  service.audit.refuse(requesterOf(request), [name.text], 'CERT_NAME_NOT_ALLOWED')
  const detail = `${right} is not granted for ${name.text}: ${reason}`
  throw new CertError('CERT_NAME_NOT_ALLOWED', detail)
}

/** Whether the caller may do this to every name of something stored. */
export function mayAll(
  service: Service,
  request: Pick<FastifyRequest, 'caller'>,
  right: Right,
  { names }: Pick<CertificateRecord, 'names'>,
): boolean {
  return service.policy()(request.caller, right, names.map(parseName)).allowed
}

/**
 * The certificates held whose first name is `domain`, newest first, as far as the caller may do
 * this to all of their names.
 *
 * @throws CertError `CERT_NOT_FOUND`
 */
export async function findPermitted(
  service: Service,
  request: FastifyRequest,
  right: Right,
  domain: Name,
): Promise<readonly [CertificateRecord, ...CertificateRecord[]]> {
  const held = await service.store.findByDomain(domain.text)
  const [newest, ...older] = held.filter((record) => mayAll(service, request, right, record))
  if (newest) return [newest, ...older]
  throw new CertError('CERT_NOT_FOUND', `no certificate for ${domain.text} is held`)
}

/** Reads the member `domain` of a body or path. */
export function readDomain(text: string): Name {
  try {
    return parseName(text)
  } catch (error) {
    const { message } = error as Error
    throw Object.assign(error as Error, { errors: [{ pointer: '/domain', detail: message }] })
  }
}
