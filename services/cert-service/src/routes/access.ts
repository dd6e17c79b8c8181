import type { Caller } from '@gatehouse/auth-core'
import { type Name, parseName } from '@gatehouse/pki'
import type { FastifyRequest } from 'fastify'
import type { Requester } from '../audit.ts'
import { CertError } from '../errors.ts'
import type { Right } from '../policy.ts'
import type { Service } from '../service.ts'
import { NAME_PAGE } from '../store/certificates.ts'
import type { CertificateRecord } from '../store/store.ts'

/** The caller as the audit trail writes it. */
export function requesterOf(request: FastifyRequest): Requester {
  const { caller, ip, id } = request
  const isOperator = caller.method === 'psk' && !caller.domains
  return { actor: actorOf(caller), remoteAddress: ip, requestId: id, isOperator }
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
 * A page of certificates held whose first name is `domain`, those with a key of ours before others
 * and the newest first, as far as the caller may do this to all of their names.
 *
 * @throws CertError `CERT_NOT_FOUND`
 */
export async function findPermitted(
  service: Service,
  request: FastifyRequest,
  right: Right,
  domain: Name,
): Promise<readonly [CertificateRecord, ...CertificateRecord[]]> {
  const { store } = service
  const isFit = (record: CertificateRecord) => mayAll(service, request, right, record)
  const [newest, ...older] = await firstFit((skip) => store.findByDomain(domain.text, skip), isFit)
  if (newest) return [newest, ...older]
  throw new CertError('CERT_NOT_FOUND', `no certificate for ${domain.text} is held`)
}

/**
 * As {@link findPermitted} for reading, and where no certificate that is valid now has `domain` as
 * its first name, those that hold it among others.
 *
 * @throws CertError `CERT_NOT_FOUND`
 */
export async function findReadable(
  service: Service,
  request: FastifyRequest,
  domain: Name,
): Promise<readonly [CertificateRecord, ...CertificateRecord[]]> {
  const { store, clock } = service
  const isFit = (record: CertificateRecord) =>
    record.notAfter > clock.now() && mayAll(service, request, 'read', record)
  for (const find of [store.findByDomain, store.findByName]) {
    const [newest, ...older] = await firstFit((skip) => find(domain.text, skip), isFit)
    if (newest) return [newest, ...older]
  }
  // Nothing is valid now: what there is says why.
  return findPermitted(service, request, 'read', domain)
}

/** Pages of a name that are looked at, however few its caller may see. */
const MAX_PAGES = 20

/** What fits of the first page that has any. */
export async function firstFit(
  read: (skip: number) => Promise<readonly CertificateRecord[]>,
  isFit: (record: CertificateRecord) => boolean,
): Promise<readonly CertificateRecord[]> {
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const records = await read(page * NAME_PAGE)
    const fitting = records.filter(isFit)
    if (fitting.length > 0 || records.length < NAME_PAGE) return fitting
  }
  return []
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
