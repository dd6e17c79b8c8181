import { randomInt } from 'node:crypto'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { CertificateRecord } from '@gatehouse/cert-store/port'
import type { IssuanceResult } from '@gatehouse/issuance'
import { limitLifetime, pointingTo, readName } from '@gatehouse/issuance/request'
import { DAY, isMisdated, planRenewal, renewalWindow, toTime } from '@gatehouse/issuance/times'
import { KEY_TYPES } from '@gatehouse/pki'
import { durationOf, optional } from '@gatehouse/service-kit/config'
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { CertError } from '../errors.ts'
import { findPermitted, isOf, readDomain, type Subject } from '../lookup/certificates.ts'
import { readFailing } from '../lookup/failing.ts'
import {
  actorOf,
  authorize,
  certificateFor,
  type Issuable,
  mayAll,
  principalOf,
  requireOperator,
  requireProgram,
} from '../policy/authorize.ts'
import { isOperator } from '../policy/rules.ts'
import { certificateAnswer, describeOrder, guarded, OrderSchema, TargetSchema } from '../schemas.ts'
import { sendResult } from './certificate.ts'
import { pagesOf } from './withdraw.ts'

/** Clients that never ask are listed by their certificates, up to this number. */
const MAX_LISTED = 100

/** `POST /api/certificate/renew`, `/api/certificate/retry` and `/api/certificates/renew`. */
export const renewRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = requireProgram(app)
  app.post('/api/certificate/renew', { onRequest, schema: RENEW }, async (request, reply) => {
    const domain = readDomain(request.body.domain, request.body.profile)
    const outcome = await renewNewest(request, domain)
    if ('asked' in outcome) return reply.code(202).send(outcome)
    const { certificate } = outcome
    const answer = certificate
      ? { ...outcome, certificate: certificateFor(request, certificate) }
      : outcome
    return sendResult(reply, domain.text, answer)
  })
  app.post('/api/certificate/retry', { onRequest, schema: RETRY }, async (request, reply) => {
    const { domain, profile } = request.body
    const orders = await retry(request, readDomain(domain, profile))
    reply.header('cache-control', 'no-store')
    return { orders: orders.map(describeOrder) }
  })
  app.post('/api/certificates/renew', { onRequest, schema: RENEW_ALL }, (request) =>
    renewAll(request, request.body),
  )
}

const AskedSchema = Type.Object(
  {
    renewing: Type.Integer({
      description: 'Certificates that the service renews. What nobody fetches is not among them.',
    }),
    asked: Type.Integer({
      description: 'Certificates whose ACME clients are asked to renew them (RFC 9773).',
    }),
    neverAsking: Type.Array(
      Type.Object({
        domain: Type.String(),
        client: Type.Optional(Type.String()),
        address: Type.Optional(Type.String()),
        isEnded: Type.Optional(
          Type.Boolean({ description: 'Whether its account has ended: the client needs another.' }),
        ),
      }),
      {
        description:
          'Those older than a day whose clients never ask when to renew: restart these. And those whose accounts ' +
          `have ended. At most ${MAX_LISTED}.`,
      },
    ),
    until: Type.String({ format: 'date-time', description: 'By when all have begun.' }),
  },
  { description: 'What is renewed, by whom.' },
)
type Asked = Static<typeof AskedSchema>

const RENEW = guarded('renewCertificate', [403, 404, 422, 429], {
  summary: 'Renew the newest stored certificate for a name',
  description:
    'Once it is due; until then 429 says when that is. Only callers with the right `issue` get the private key. The ' +
    'certificate of an ACME client is renewed by that client, which is asked to: 202 says so.',
  body: TargetSchema,
  response: { 200: certificateAnswer(), 202: Type.Union([OrderSchema, AskedSchema]) },
})

const SCOPE_MEMBERS = ['domain', 'caller', 'issuer', 'under', 'keyType', 'before']

export const BeforeSchema = Type.String({
  format: 'date-time',
  // No leap second.
  pattern: 'T\\d\\d:\\d\\d:[0-5]',
  description: 'They were issued before this time, such as `2027-01-31T00:00:00Z`.',
})

const RenewAllSchema = Type.Object(
  {
    domain: Type.Optional(TargetSchema.properties.domain),
    profile: TargetSchema.properties.profile,
    ...optional({
      caller: Type.String({
        maxLength: 300,
        description: 'As the audit trail has it, such as `psk:web`; without a method, a key.',
      }),
      issuer: Type.String({
        pattern: '^[\\w.-]{1,64}$',
        description: 'The issuer by its name, such as `ca`.',
      }),
      under: Type.String({
        pattern: '^[0-9A-Fa-f:]{2,191}$',
        description:
          'The key identifier or the SHA-256 of an intermediate or a root of the private CA, in hexadecimal: what it has ' +
          'signed, or what its intermediates have. What it comes to by a cross certificate alone is not below it.',
      }),
      keyType: Type.Enum([...KEY_TYPES], { description: 'Type of their keys.' }),
      before: BeforeSchema,
      spread: Type.String({
        pattern: '^[1-9][0-9]{0,5}[smhd]$',
        description: 'The time in which all begin, such as `24h`. Default: all at once.',
      }),
      dryRun: Type.Boolean({ description: 'Only say what would be renewed.' }),
    }),
  },
  {
    description:
      'With at least one of `domain`, `caller`, `issuer`, `under`, `keyType` and `before`: with several, what all of them fit.',
    anyOf: SCOPE_MEMBERS.map((member) => ({ required: [member] })),
  },
)

const RENEW_ALL = guarded('renewCertificates', [403, 404, 422], {
  summary: 'Renew all certificates that have something in common, whether or not they are due',
  description:
    'For operators, whose key is not limited to names. The service renews what it has made keys or stored requests for, and asks ' +
    'ACME clients to renew theirs. It signs nothing that nobody has. A dry run afterwards says how many are left.',
  body: RenewAllSchema,
  response: { 200: AskedSchema },
})

/** Renews the newest certificate of a name that is due, or asks its ACME client to. */
export async function renewNewest(
  request: FastifyRequest,
  domain: Subject,
): Promise<IssuanceResult | Asked> {
  const { clock, issuance } = request.server
  authorize(request, 'renew', [domain], domain.profile)
  const newest = await findPermitted(request, 'renew', domain)
  const now = clock.now()
  const dueAt = renewalOf(newest, now)
  const mayBeEarly = newest.account && isOperator(principalOf(request))
  if (dueAt > now && !mayBeEarly) {
    const retryAfter = Math.ceil((dueAt - now) / 1000)
    throw new CertError('CERT_RENEW_TOO_SOON', `it is due at ${toTime(dueAt)}`, { retryAfter })
  }
  // No client of ACME would fetch a certificate that the service renews by itself.
  if (newest.account) return renewSome(request, [newest], { spread: 0 })
  const names = newest.names.map((text) => readName(text, domain.profile))
  const longest = authorize(request, 'renew', names, domain.profile)
  return issuance.renew(limitLifetime(newest, longest), actorOf(request))
}

/** Gives the time from which a certificate may be renewed: now, if a wrong clock dated it. */
export function renewalOf(record: CertificateRecord, now: number): number {
  return isMisdated(record, now) ? now : (record.renewAt ?? planRenewal(record, () => 0))
}

async function renewAll(request: FastifyRequest, body: Static<typeof RenewAllSchema>) {
  const { domain, profile = 'server', spread = '0s', dryRun } = body
  requireOperator(request, ['renew'])
  const name = domain === undefined ? undefined : readDomain(domain, profile)
  const isWanted = (record: CertificateRecord) =>
    (!name || isOf(name.profile)(record)) &&
    mayAll(request.server, principalOf(request), 'renew', record)
  const options = { spread: durationOf(spread) ?? 0, isDryRun: dryRun === true }
  const scope = { ...(await scopeOf(request, body)), domain: name?.text }
  const list = (after?: CertificateRecord) => request.server.store.listInService(scope, after)
  let total: Asked = await renewSome(request, [], options)
  for await (const page of pagesOf(list, isWanted)) {
    const { renewing, asked, neverAsking } = await renewSome(request, page, options)
    total = {
      ...total,
      renewing: total.renewing + renewing,
      asked: total.asked + asked,
      neverAsking: [...total.neverAsking, ...neverAsking].slice(0, MAX_LISTED),
    }
  }
  if (dryRun || total.renewing + total.asked + total.neverAsking.length > 0) return total
  throw new CertError('CERT_NOT_FOUND', 'no certificate that is in service and renewed fits')
}

/** Reads what certificates are to have in common. @throws CertError CERT_NOT_FOUND */
async function scopeOf(
  { server: { ca, clock } }: FastifyRequest,
  body: Static<typeof RenewAllSchema>,
) {
  const { caller, issuer, under, keyType, before } = body
  const keyId = under?.replaceAll(':', '').toLowerCase()
  const signers = keyId === undefined ? undefined : await ca.signersBelow(keyId)
  const why =
    `no root or intermediate of this CA has the key identifier or SHA-256 ${under}: \`gatehouse-certs ca roll status\` has ` +
    'those of the roots, and a certificate has that of its intermediate as its authority key identifier'
  pointingTo('/under', () => {
    if (keyId !== undefined && !signers) throw new CertError('CERT_NOT_FOUND', why)
  })
  return {
    ...{ issuer, keyType, signers },
    askedBy: caller === undefined || caller.includes(':') ? caller : `psk:${caller}`,
    // What is renewed meanwhile would come again on a later page.
    madeBefore: Math.min(before === undefined ? Infinity : Date.parse(before), clock.now() + 1),
  }
}

/** Has certificates renewed, each at a moment of its own within a time. */
async function renewSome(
  request: FastifyRequest,
  records: readonly CertificateRecord[],
  { spread, isDryRun = false }: { readonly spread: number; readonly isDryRun?: boolean },
): Promise<Asked> {
  const { store, clock, holdings, externalAccounts } = request.server
  const now = clock.now()
  const ofClients = records.filter(({ account }) => account)
  const ours = records.filter(({ account, renewAt }) => !account && renewAt !== null)
  const moment = () => now + randomInt(spread + 1)
  if (!isDryRun) {
    const later = ofClients.filter((record) => renewalWindow(record).start > now)
    const moments = new Map(later.map(({ id }) => [id, moment()]))
    const allNames = [...later, ...ours].flatMap((record) => record.names)
    const names = [...new Set(allNames)].slice(0, MAX_LISTED)
    const entry = { at: now, action: 'request-renewal', ...actorOf(request), names } as const
    if (names.length > 0) await store.requestRenewals(moments, entry)
    await Promise.all(
      ours.map(({ id, renewAt }) => store.setRenewAt(id, Math.min(renewAt ?? now, moment()))),
    )
    holdings.forget(records.map(({ requestKey }) => requestKey))
  }
  const inForce = await externalAccounts.findInForce(ofClients)
  const isEnded = ({ account }: CertificateRecord) => !inForce.has(account)
  // A client has a day after the issuance to ask for the first time.
  const isSilent = (record: CertificateRecord) =>
    isEnded(record) || (!record.renewalInfoReadAt && (record.madeAt ?? 0) + DAY < now)
  // A covered one is what a machine held before it was built anew: nothing is left to restart.
  const silent = ofClients.filter(isSilent).slice(0, MAX_LISTED)
  const neverAsking = await Array.fromAsync(silent, async (record) =>
    (await store.findCoverage(record.id))
      ? []
      : [{ ...describeClient(record), ...(isEnded(record) && { isEnded: true }) }],
  )
  return {
    renewing: ours.length,
    asked: ofClients.filter((record) => !isEnded(record)).length,
    neverAsking: neverAsking.flat(),
    until: toTime(now + spread),
  }
}

function describeClient({ names: [domain = ''], client, address }: CertificateRecord) {
  return { domain, ...(client && { client }), ...(address && { address }) }
}

const RETRY = guarded('retryOrders', [403, 404, 429], {
  summary: 'Try the failed orders of a name now',
  description:
    'Ends the wait of the orders for this name that have failed, and tries them within the limits of their CAs. ' +
    'Answers with these orders as they are once that has ended, or after `issuance.wait`.',
  body: TargetSchema,
  response: { 200: Type.Object({ orders: Type.Array(OrderSchema) }) },
})

/** Failed orders of a name that are tried at once. */
const MAX_RETRIED = 10

/** Tries the failed orders of a name whose certificates the caller may request. @throws CertError `CERT_ORDER_NOT_FOUND` */
export async function retry(request: FastifyRequest, domain: Subject) {
  const { server } = request
  authorize(request, 'issue', [domain], domain.profile)
  const caller = principalOf(request)
  const about = { search: { wildcard: domain.text } }
  const isFit = (order: Issuable) =>
    isOf(domain.profile)(order) &&
    order.names.includes(domain.text) &&
    mayAll(server, caller, 'issue', order)
  const { failing } = await readFailing(server, caller, MAX_RETRIED, about, { isFit })
  const orders = failing.map(({ order }) => order)
  const none = `no order for ${domain.text} has failed, so none waits for another try`
  if (orders.length === 0) throw new CertError('CERT_ORDER_NOT_FOUND', none)
  return server.issuance.retry(domain.text, orders, actorOf(request))
}
