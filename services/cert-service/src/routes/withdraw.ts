import { setImmediate } from 'node:timers/promises'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { AcmeError } from '@gatehouse/acme'
import type { IssuedCertificate } from '@gatehouse/cert-store/port'
import { IssueError } from '@gatehouse/issuance'
import { type Actor, isEmbedded } from '@gatehouse/issuance/request'
import { REVOCATION_REASONS, type RevocationReason } from '@gatehouse/pki'
import { optional } from '@gatehouse/service-kit/config'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type TProperties, Type } from 'typebox'
import { CertError } from '../errors.ts'
import { isOf, readDomain, type Subject } from '../lookup/certificates.ts'
import { actorOf, authorize, mayAll, principalOf, requireProgram } from '../policy/authorize.ts'
import { DomainSchema, emptyAnswer, guarded, ProfileSchema, TargetSchema } from '../schemas.ts'

const MAX_AUDITED_NAMES = 1_000
/** Milliseconds in which CAs are asked to revoke, as somebody waits; and how many certificates of one at once. */
const AT_CAS = 20_000
const AT_ONCE = 10

/** `POST /api/certificate/revoke` and `DELETE /api/certificate/:domain`. */
export const withdrawRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = requireProgram(app)
  app.post('/api/certificate/revoke', { onRequest, schema: REVOKE }, async (request, reply) => {
    const { domain, profile, reason = 'unspecified' } = request.body
    const outcome = await revoke(request, readDomain(domain, profile), reason)
    return reply.code(outcome.notRevoked ? 202 : 200).send(outcome)
  })
  app.delete('/api/certificate/:domain', { onRequest, schema: DELETE }, async (request, reply) => {
    const domain = readDomain(request.params.domain, request.query.profile)
    const unconfirmed = await remove(request, domain)
    return unconfirmed.length > 0 ? { unconfirmed: [...unconfirmed] } : reply.code(204).send(null)
  })
}

export const UnconfirmedSchema = Type.Array(Type.String(), {
  description:
    'Replicas that did not confirm within two seconds, and may go on as before until they ' +
    'reach the database; `*` if the database could not be asked. Absent if there are none.',
})

export const REASON = Type.Optional(
  Type.Enum(Object.keys(REVOCATION_REASONS) as RevocationReason[], {
    description: 'As in RFC 5280 section 5.3.1; default `unspecified`.',
  }),
)

export const REVOKED = {
  reason: Type.String(),
  serialNumbers: Type.Array(Type.String(), {
    description:
      'Serial numbers of the revoked certificates, hexadecimal; the one that ends first comes first.',
  }),
  ...optional({
    unknownAtCa: Type.Array(Type.String(), {
      description:
        'Certificates that the CA does not know (any more), which are revoked only here. Absent if there are none.',
    }),
    notRevoked: Type.Array(
      Type.Object({ serialNumber: Type.String(), issuer: Type.String(), detail: Type.String() }),
      {
        description:
          'Certificates that are valid still, as their CA has not revoked them, and why. Absent if there are none.',
      },
    ),
    unconfirmed: UnconfirmedSchema,
  }),
}

export function revokedAnswers<T extends TProperties>(moreProperties: T) {
  const description = 'Some are valid still: `notRevoked` has them. Send the request again.'
  const properties = { ...moreProperties, ...REVOKED }
  return { 200: Type.Object(properties), 202: Type.Object(properties, { description }) }
}

const REVOKE = guarded('revokeCertificate', [403, 404, 409, 422], {
  summary: 'Revoke the certificates of a name',
  description:
    'Revokes each unexpired certificate whose first name it is, and those for the same names in another order: ' +
    'in service, replaced or deleted, whoever requested it, for whichever key. What has a name that the caller may not ' +
    'revoke stays. None of them is served any more, and the next POST makes a new key. With `keyCompromise`, none of ' +
    'their keys is certified again.',
  body: Type.Object({ ...TargetSchema.properties, reason: REASON }),
  response: revokedAnswers({ domain: Type.String() }),
})

const DELETE = guarded('deleteCertificate', [403, 404], {
  summary: 'Stop serving and renewing the certificates of a name',
  params: DomainSchema,
  querystring: ProfileSchema,
  response: {
    200: Type.Object({ unconfirmed: UnconfirmedSchema }),
    204: emptyAnswer('Done. Delivered certificates stay valid until they expire or are revoked.'),
  },
})

/** Stops answering and renewing the certificates of a name. Gives the replicas that have not confirmed it. */
export async function remove(request: FastifyRequest, domain: Subject): Promise<readonly string[]> {
  const { store, holdings } = request.server
  await settle(request, 'delete', domain)
  for await (const issued of affected(request, 'delete', domain)) {
    await store.remove(idsOf(issued), entryOf(request, 'delete', issued, actorOf(request)))
    holdings.forget(issued.map(({ requestKey }) => requestKey))
  }
  return awaitReplicas(request)
}

export async function revoke(request: FastifyRequest, domain: Subject, reason: RevocationReason) {
  await settle(request, 'revoke', domain)
  const pages = affected(request, 'revoke', domain)
  return { domain: domain.text, reason, ...(await revokeAll(request, pages, () => reason)) }
}

interface Revoking {
  readonly actor?: Actor
  /** Whether their keys are never certified again. Default: if they are compromised. */
  readonly isKeyRefused?: boolean
  /** Whether none may be revoked, without an error. */
  readonly mayFail?: boolean
}

/**
 * Revokes certificates: at once where the store is the list of what is revoked, then at their CAs. Their keys are refused
 * whether or not a CA revokes them.
 * @throws IssueError or CertError: why the first was not revoked, if none was
 */
export async function revokeAll(
  request: FastifyRequest,
  pages: Iterable<Issued> | AsyncIterable<Issued>,
  reasonOf: (certificate: IssuedCertificate) => RevocationReason,
  { actor = actorOf(request), isKeyRefused, mayFail = false }: Revoking = {},
) {
  const { store, ca, holdings, clock } = request.server
  const serialNumbers: string[] = []
  const unknownAtCa: string[] = []
  const failed: Failed[] = []
  const ofCas: IssuedCertificate[] = []
  const revokeHere = async (issued: Issued) => {
    if (issued.length === 0) return
    for (const [reason, some] of Map.groupBy(issued, reasonOf)) {
      const entry = { ...entryOf(request, 'revoke', some, actor), detail: reason }
      serialNumbers.push(...(await store.revoke(idsOf(some), entry.at, reason, entry)))
    }
    ca.crls.outdate()
    holdings.forget(issued.map(({ requestKey }) => requestKey))
  }
  for await (const issued of pages) {
    const compromised = issued
      .filter((certificate) => isKeyRefused ?? reasonOf(certificate) === 'keyCompromise')
      .map(({ certificate }) => certificate)
    if (compromised.length > 0) await store.compromise(compromised, clock.now())
    await revokeHere(issued.filter(({ issuer }) => isEmbedded(issuer)))
    ofCas.push(...issued.filter(({ issuer }) => !isEmbedded(issuer)))
  }
  const until = performance.now() + AT_CAS
  const queues = Map.groupBy(ofCas, ({ issuer }) => issuer).values()
  const asking = [...queues].map(async (queue) => {
    for (let n = 0; n < queue.length; n += AT_ONCE) {
      const some = queue.slice(n, n + AT_ONCE)
      const outcomes = await Promise.all(
        some.map((certificate) => askCa(request.server, certificate, reasonOf(certificate), until)),
      )
      failed.push(...outcomes.filter((outcome) => typeof outcome === 'object'))
      const done = some.filter((_, i) => typeof outcomes[i] === 'string')
      const unknown = some.filter((_, i) => outcomes[i] === 'unknown')
      unknownAtCa.push(...unknown.map(({ serialNumber }) => serialNumber))
      await revokeHere(done)
    }
  })
  await Promise.all(asking)
  if (failed[0] && serialNumbers.length === 0 && !mayFail) throw failed[0].error
  const unconfirmed = [...(await awaitReplicas(request))]
  return {
    serialNumbers,
    ...(unknownAtCa.length > 0 && { unknownAtCa }),
    ...(failed.length > 0 && { notRevoked: failed.map(({ error: _, ...shown }) => shown) }),
    ...(unconfirmed.length > 0 && { unconfirmed }),
  }
}

type Issued = readonly IssuedCertificate[]

/** A certificate that its CA has not revoked, and why. */
interface Failed {
  readonly serialNumber: string
  readonly issuer: string
  readonly detail: string
  readonly error: Error
}

/** Has a CA revoke a certificate, if it is not too late to ask. Callers get its error: the certificate is answered until it is revoked. */
async function askCa(
  { issuers }: FastifyInstance,
  { issuer, names: [name], certificate, serialNumber }: IssuedCertificate,
  reason: RevocationReason,
  until: number,
): Promise<'revoked' | 'unknown' | Failed> {
  const signer = issuers.find(issuer)
  const fail = (error: Error) => ({ serialNumber, issuer, detail: error.message, error })
  const absent = `the issuer ${issuer} is not configured any more`
  if (!signer?.revoke) return fail(new CertError('CERT_ISSUER_ABSENT', absent))
  if (performance.now() > until) return fail(new Error('its CA has not been asked yet'))
  try {
    return await signer.revoke(certificate, reason)
  } catch (cause) {
    if (!(cause instanceof AcmeError)) throw cause
    const { code, message, retryAfterMs } = cause
    const wait = retryAfterMs !== undefined && { wait: Math.ceil(retryAfterMs / 1000) }
    return fail(
      new IssueError(code, `${name} could not be revoked: ${message}`, { cause, ...wait }),
    )
  }
}

/** Waits until no live replica answers what was taken out of service. Gives those that have not confirmed it. */
async function awaitReplicas({ server, log }: FastifyRequest): Promise<readonly string[]> {
  const unconfirmed = await server.store.awaitReplicas()
  if (unconfirmed.length > 0)
    log.warn({ unconfirmed }, 'replicas may still serve a withdrawn certificate')
  return unconfirmed
}

/** Waits for what is being issued: it would otherwise come into service right after. */
async function settle(request: FastifyRequest, action: Action, domain: Subject): Promise<void> {
  authorize(request, action, [domain], domain.profile)
  await request.server.issuance.settle(domain)
}

function entryOf({ server }: FastifyRequest, action: Action, issued: Issued, actor: Actor) {
  const [first, ...otherCertificates] = issued
  const allNames = new Set(issued.flatMap((certificate) => certificate.names))
  const names = [...allNames].slice(0, MAX_AUDITED_NAMES)
  const only = first && otherCertificates.length === 0 ? { serialNumber: first.serialNumber } : {}
  return { at: server.clock.now(), action, ...actor, names, ...only }
}

type Action = 'revoke' | 'delete'

/** What this would take out of service. @throws CertError `CERT_NAME_NOT_ALLOWED`; `CERT_NOT_FOUND` if that is nothing */
export async function listAffected(
  request: FastifyRequest,
  action: Action,
  domain: Subject,
): Promise<Issued> {
  authorize(request, action, [domain], domain.profile)
  return (await Array.fromAsync(affected(request, action, domain))).flat()
}

/**
 * The certificates of a name, page by page: those whose first name it is, and those for the same names in another
 * order, as far as the caller may do this with them. To be revoked are also those that are out of service.
 * @throws CertError `CERT_NOT_FOUND` if there are none
 */
async function* affected(request: FastifyRequest, action: Action, domain: Subject) {
  const { server } = request
  const filter = { now: server.clock.now(), isOut: action === 'revoke' }
  const isFit = (certificate: IssuedCertificate) =>
    isOf(domain.profile)(certificate) && mayAll(server, principalOf(request), action, certificate)
  const sets = new Set<string>()
  const firstNames = new Set([domain.text])
  for (const name of firstNames)
    for await (const page of pagesOf(
      (after) => server.store.listIssued(name, { ...filter, after }),
      isFit,
    )) {
      const issued = page.filter((row) => name === domain.text || sets.has(setOf(row)))
      for (const certificate of issued) sets.add(setOf(certificate))
      for (const namesake of issued.flatMap(({ names }) => names)) firstNames.add(namesake)
      if (issued.length > 0) yield issued
    }
  if (sets.size === 0)
    throw new CertError('CERT_NOT_FOUND', `no certificate for ${domain.text} is held`)
}

/** Certificates that fit page by page, each after the last one of the page before. */
export async function* pagesOf<One extends IssuedCertificate>(
  list: (after: One | undefined) => Promise<readonly One[]>,
  isFit: (certificate: One) => boolean,
) {
  let page = await list(undefined)
  for (; page.length > 0; page = await list(page.at(-1))) {
    yield page.filter(isFit)
    // Other requests get a turn.
    await setImmediate()
  }
}

const setOf = ({ names }: IssuedCertificate): string => names.toSorted().join()
const idsOf = (issued: Issued): number[] => issued.map(({ id }) => id)
