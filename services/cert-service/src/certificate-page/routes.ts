import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { CertificateRecord, OrderRecord } from '@gatehouse/cert-store/port'
import { nameOrNone, profileOf } from '@gatehouse/issuance/request'
import { buildChainPem, PROFILES, type Profile } from '@gatehouse/pki'
import { sendPage } from '@gatehouse/service-kit/pages'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { donePage, takeDone } from '../actions/done.ts'
import { ACTIONS, type Action } from '../actions/page.ts'
import { CertError } from '../errors.ts'
import {
  findOrder,
  findReadableByName,
  isOf,
  type Subject,
  withStep,
} from '../lookup/certificates.ts'
import { findOrdersAbout, readFailing } from '../lookup/failing.ts'
import { nameHref, orderHref } from '../pages/links.ts'
import { type Issuable, mayAll } from '../policy/authorize.ts'
import { isPerson } from '../policy/rules.ts'
import { probesOf, seesPlaces, servedAt } from '../probe/shown.ts'
import { IdSchema, NAME, PEM, ProfileSchema } from '../schemas.ts'
import { originOf, readerOf, requireVisitor, type Visitor } from '../visitors/visitors.ts'
import { certificatePage, nameWithoutCertificatePage, orderPage } from './page.ts'
import type { Shown } from './status.ts'

const MAX_ENTRIES = 20
const HEX = /^[0-9a-f]+$/i

const NameSchema = Type.Object({ domain: Type.String({ maxLength: NAME.maxLength }) })
const SerialSchema = Type.Object({
  ...NameSchema.properties,
  serialNumber: Type.String({ maxLength: 128 }),
})

/**
 * `GET /certificates/:domain`, `/certificates/:domain/:serialNumber` with its PEM files, and
 * `/orders/:id`. What a visitor may not see looks as if it did not exist.
 */
export const certificatePageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const guards = requireVisitor(app)
  const schema = { hide: true }
  for (const url of ['/certificates', '/orders'])
    app.get(url, { schema }, async (_request, reply) => reply.redirect('/'))
  app.get(
    '/certificates/:domain',
    { ...guards, schema: { ...schema, params: NameSchema, querystring: ProfileSchema } },
    async (request, reply) =>
      showName(reply, readNameOf(request.params.domain, request.query.profile)),
  )
  const ofOne = { ...guards, schema: { ...schema, params: SerialSchema } }
  app.get('/certificates/:domain/:serialNumber', ofOne, async (request, reply) =>
    showCertificate(reply, await findExactly(request)),
  )
  for (const file of ['leaf.pem', 'chain.pem'] as const)
    app.get(`/certificates/:domain/:serialNumber/${file}`, ofOne, async (request, reply) =>
      sendPem(reply, await findExactly(request), file),
    )
  app.get(
    '/orders/:id',
    { ...guards, schema: { ...schema, params: Type.Object({ id: IdSchema }) } },
    async (request, reply) => {
      const { visitor, params } = request
      const order = await findOrder(app, visitor, params.id)
      const actions = actionsOf(app, visitor, order, [...retryOf(order), 'dry-run'])
      const now = app.clock.now()
      return sendPage(reply, 200, orderPage({ ...readerOf(request), order, actions, now }))
    },
  )
}

async function showName(reply: FastifyReply, name: Subject): Promise<FastifyReply> {
  const { server, visitor } = reply.request
  const record = await findReadableByName(server, visitor, name)
  const [domain = ''] = record?.names ?? []
  if (record && domain !== name.text) return reply.redirect(nameHref(domain, name.profile))
  if (record) return showCertificate(reply, { ...record, isCurrent: true })
  return showNameWithout(reply, name)
}

async function showNameWithout(reply: FastifyReply, name: Subject): Promise<FastifyReply> {
  const { request } = reply
  const { server, visitor } = request
  const domain = name.text
  const history = await readHistory(server, visitor, name)
  const done = takeDone(reply, domain)
  const search = { search: { wildcard: domain } }
  const isFit = isOf(name.profile)
  const { failing } = await readFailing(server, visitor, 1, search, { isFit })
  const order = failing[0]?.order
  if (history.length > 0) {
    const subject = { names: [domain], issuer: history[0]?.issuer ?? '' }
    const page = nameWithoutCertificatePage({
      ...readerOf(request),
      domain,
      profile: name.profile,
      history,
      done,
      order,
      now: server.clock.now(),
      activity: await readActivity(server, visitor, subject),
      actions: actionsOf(server, visitor, subject, [...retryOf(order), 'revoke', 'dry-run']),
    })
    return sendPage(reply, 200, page)
  }
  if (order) return reply.redirect(orderHref(order))
  if (done) return sendPage(reply, 200, donePage(readerOf(request), done))
  throw absence(request, name)
}

async function showCertificate(reply: FastifyReply, record: Shown): Promise<FastifyReply> {
  const { request } = reply
  const { server, visitor } = request
  const [domain = ''] = record.names
  const { store } = server
  const now = server.clock.now()
  const isLate = record.isCurrent && (record.renewAt ?? 0) <= now
  const [history, [order], activity, coverage, account, transitions, [probes = []]] =
    await Promise.all([
      readHistory(server, visitor, { text: domain, profile: profileOf(record) }),
      findOrdersAbout(server, [record]),
      readActivity(server, visitor, record),
      isLate ? store.findCoverage(record.id) : undefined,
      record.account ? store.acme.findAccount(record.account) : undefined,
      store.listTransitions(record.id),
      probesOf(server, record.isCurrent ? [record] : []),
    ])
  const served = servedAt(probes)
  const places = seesPlaces(server, visitor) ? probes : []
  const isInForce = account !== undefined && server.externalAccounts.isInForce(account)
  // Nobody renews what is of an account that has ended.
  const absent: readonly Action[] = record.account && !isInForce ? ['renew', 'retry'] : ['retry']
  const page = certificatePage({
    ...readerOf(request),
    record,
    order: order && withStep(server, order),
    history,
    activity,
    actions: actionsOf(server, visitor, record, [
      ...retryOf(order),
      ...(record.isCurrent ? ACTIONS.filter((action) => !absent.includes(action)) : []),
    ]),
    root: server.ca.rootAbove(record),
    ownRoot: server.ca.root(),
    done: takeDone(reply, domain),
    origin: originOf(request),
    coverage,
    lastSeen: isInForce ? account.usedAt : undefined,
    transitions: activity && transitions,
    served: served && { served, places },
    now,
  })
  return sendPage(reply, 200, page)
}

function sendPem(
  reply: FastifyReply,
  { certificate, chain, names: [domain = ''] }: CertificateRecord,
  file: 'leaf.pem' | 'chain.pem',
): FastifyReply {
  const name = domain.replace(/[^\w.-]/g, '_')
  return reply
    .type(PEM)
    .header('cache-control', 'no-store')
    .header('x-content-type-options', 'nosniff')
    .header('content-disposition', `attachment; filename="${name}-${file}"`)
    .send(buildChainPem(certificate, file === 'leaf.pem' ? [] : chain))
}

/** Reads a name. Unlike at the API, a text that is none finds nothing. */
function readNameOf(text: string, profile: Profile = 'server'): Subject {
  const name = nameOrNone(text, profile)
  if (!name) throw notFound()
  return { ...name, profile }
}

async function findExactly(request: FastifyRequest) {
  const { server, visitor, params } = request
  const { domain, serialNumber } = params as Static<typeof SerialSchema>
  const name = nameOrNone(domain) ?? readNameOf(domain, 'client')
  if (!HEX.test(serialNumber)) throw notFound()
  const record = await server.store.findBySerial(name.text, serialNumber.toLowerCase())
  if (record && mayAll(server, visitor, 'read', record)) return record
  throw absence(request, { profile: 'server', ...name })
}

/** The error where there is nothing to see: for a name that the visitor may not see, it is one, whatever is stored. */
function absence({ server, visitor }: FastifyRequest, name: Subject): CertError {
  const profiles = name.profile === 'client' ? (['client'] as const) : PROFILES
  const decisions = profiles.map((profile) => server.policy(visitor, 'read', [name], profile))
  if (decisions.some(({ allowed }) => allowed)) return notFound()
  return new CertError('CERT_NAME_NOT_ALLOWED', `you may not see certificates for ${name.text}`)
}

/** The error for what does not exist, and for what the visitor may not see. */
function notFound(): CertError {
  return new CertError('CERT_NOT_FOUND', 'no certificate that you may see is at this address')
}

async function readHistory(
  app: FastifyInstance,
  visitor: Visitor,
  { text, profile }: Pick<Subject, 'text' | 'profile'>,
) {
  const records = (await app.store.listHistory(text)).filter(isOf(profile))
  return records.filter((record) => mayAll(app, visitor, 'read', record))
}

/** Reads the audit trail for those who may revoke the certificate: they have to know who uses it. */
async function readActivity(app: FastifyInstance, visitor: Visitor, certificate: Issuable) {
  if (!mayAll(app, visitor, 'revoke', certificate)) return undefined
  const entries = await app.store.listAuditOf(certificate.names[0] ?? '', MAX_ENTRIES)
  const { issuer } = certificate
  return entries.filter(({ names }) => mayAll(app, visitor, 'read', { names, issuer }))
}

const retryOf = (order: OrderRecord | undefined): readonly Action[] =>
  order?.status === 'failed' ? ['retry'] : []

/** Finds the actions that a visitor may take. A dry run and a try are for those who may request the certificate. */
function actionsOf(
  app: FastifyInstance,
  visitor: Visitor,
  certificate: Issuable,
  offered: readonly Action[],
): readonly Action[] {
  if (!isPerson(visitor)) return []
  const rightOf = (name: Action) => (name === 'dry-run' || name === 'retry' ? 'issue' : name)
  return offered.filter((action) => mayAll(app, visitor, rightOf(action), certificate))
}
