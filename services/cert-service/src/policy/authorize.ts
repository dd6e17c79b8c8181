import type { Certificate } from '@gatehouse/issuance'
import { type Actor, nameOrNone, profileOf } from '@gatehouse/issuance/request'
import { type Name, PkiError, type Profile } from '@gatehouse/pki'
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Right } from '../config/auth.ts'
import { CertError } from '../errors.ts'
import { isOperator, isPerson, type Principal, type Program } from './rules.ts'

/** The guard of a route for programs. Without `Authorization`, a client certificate counts. */
export function requireProgram(app: FastifyInstance): onRequestHookHandler[] {
  const guard = app.requireCaller()
  const admit: onRequestHookHandler = (request, reply, done) => {
    if (!app.mtls || request.headers.authorization !== undefined) return guard(request, reply, done)
    app.mtls(request).then(
      (caller) => {
        if (!caller) return guard(request, reply, done)
        request.proven = caller
        done()
      },
      // The guard sets the challenges of a refusal.
      (error) =>
        error instanceof PkiError ? guard(request, reply, () => done(error)) : done(error),
    )
  }
  return [admit, noteTrust]
}

/** Notes which roots a program trusts, if it says so. */
const noteTrust: onRequestHookHandler = (request, _reply, done) => {
  const { 'gatehouse-roots': roots } = request.headers
  if (typeof roots === 'string')
    request.server.rootHolders.noteTrust(identityOf(programOf(request)), request.ip, roots)
  done()
}

/** The program or the person that a guard of the route admitted. */
export function principalOf(request: FastifyRequest): Principal {
  return request.optionalPerson ?? programOf(request)
}

/** The program that a guard of the route admitted. */
export function programOf(request: FastifyRequest): Program {
  return request.proven ?? request.caller
}

/** Whether the principal has a key that is not limited to names, and may do this. */
export function isOperatorFor(request: FastifyRequest, right: Right): boolean {
  const principal = principalOf(request)
  return (
    isOperator(principal) && request.server.policy.scopeOf(principal, right).names === undefined
  )
}

/** A product of `User-Agent` (RFC 9110 section 10.1.5) of ordinary length. */
const PRODUCT = /^[\w.+-]{1,40}(?:\/[\w.+-]{1,40})?/

/** The program that sends a request, as it says itself. */
export function clientOf({ headers }: Pick<FastifyRequest, 'headers'>): string | undefined {
  return PRODUCT.exec(headers['user-agent'] ?? '')?.[0]
}

/** The principal of a request as the audit trail names it. */
export function actorOf(request: FastifyRequest): Actor {
  const { ip, id, acmeAccount, routeOptions } = request
  const caller = principalOf(request)
  const actor = identityOf(caller)
  const requester = { actor, remoteAddress: ip, requestId: id, isOperator: isOperator(caller) }
  const client = clientOf(request)
  if (acmeAccount) return { ...requester, way: 'acme', client, account: acmeAccount.id }
  return routeOptions.config.isPage
    ? { ...requester, way: 'page' }
    : { ...requester, way: 'api', client }
}

function identityOf(caller: Principal): string {
  // PostgreSQL has no text with NUL in it. What a provider says about a person may have one.
  return nameOf(caller).replaceAll('\0', '\u{fffd}')
}

function nameOf(caller: Principal): string {
  if (isPerson(caller)) return `person:${caller.provider}:${caller.id}`
  if (caller.method === 'jwt') return `jwt:${caller.issuer}#${caller.subject}`
  return `${caller.method === 'acme' ? 'device' : caller.method}:${caller.subject}`
}

/** Refuses who is not an operator with these rights. @throws CertError `CERT_NAME_NOT_ALLOWED` */
export function requireOperator(request: FastifyRequest, rights: readonly Right[]): void {
  if (rights.every((right) => isOperatorFor(request, right))) return
  const action = `Use a key without \`domains\` whose rights include ${rights.join(' and ')}.`
  throw new CertError('CERT_NAME_NOT_ALLOWED', 'only an operator may do this', {
    members: { action },
  })
}

/** Gives what the log line of a request says of its caller: undefined if the route has no guard, or refused. */
export function logFields(request: FastifyRequest): { caller: string | undefined } {
  const { proven, optionalPerson, optionalCaller } = request
  const caller = proven ?? optionalPerson ?? optionalCaller
  return { caller: caller ? identityOf(caller) : undefined }
}

/** Tells whether the audit trail has all that the log line of a request would say. */
export function isRoutine({ isRepeated }: FastifyRequest, { statusCode }: FastifyReply): boolean {
  return isRepeated && statusCode === 200
}

/**
 * Refuses, and audits, what the caller may not do with a name. Gives the longest lifetime of a certificate, in ms.
 * @throws CertError `CERT_NAME_NOT_ALLOWED`
 */
export function authorize(
  request: FastifyRequest,
  right: Right,
  names: readonly Name[],
  profile: Profile,
): number {
  const { policy, audit } = request.server
  const decision = policy(principalOf(request), right, names, profile)
  if (decision.allowed) return decision.lifetime
  const { name, reason } = decision
  audit.recordRefusal(actorOf(request), [name.text], 'CERT_NAME_NOT_ALLOWED')
  const what = profile === 'client' ? `a client certificate of ${name.text}` : name.text
  const detail = `${right} is not granted for ${what}: ${reason}`
  throw new CertError('CERT_NAME_NOT_ALLOWED', detail)
}

/** A certificate or order, or an entry about one. Its issuer says of which profile it is. */
export interface Issuable {
  readonly names: readonly string[]
  readonly issuer: string
}

/** Tells whether a caller may do this with all names of a certificate or order. */
export function mayAll(
  { policy }: Pick<FastifyInstance, 'policy'>,
  caller: Principal,
  right: Right,
  certificate: Issuable,
): boolean {
  const profile = profileOf(certificate)
  const names = certificate.names.map((text) => nameOrNone(text, profile))
  // An entry of the audit trail may be about the other profile.
  return names.every((name) => name !== undefined) && policy(caller, right, names, profile).allowed
}

/** Gives a certificate as the caller gets it: with its private key only for those who may issue it. */
export function certificateFor(request: FastifyRequest, certificate: Certificate): Certificate {
  return mayAll(request.server, principalOf(request), 'issue', certificate.record)
    ? certificate
    : certificate.withoutKey()
}

/** Records that a held certificate is delivered. The answer has to await it. */
export function recordDelivery(
  request: FastifyRequest,
  certificate: Certificate,
): Promise<void> | undefined {
  const written = request.server.issuance.recordDelivery(certificate, actorOf(request))
  request.isRepeated = written === undefined
  return written
}
