import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import {
  type CertificateRecord,
  type OrderRecord,
  PROBE_STATES,
  type ProbeRecord,
} from '@gatehouse/cert-store/port'
import { describeCertificate } from '@gatehouse/issuance'
import { nameOrNone, pointingTo, readName } from '@gatehouse/issuance/request'
import { toTime } from '@gatehouse/issuance/times'
import { KEY_TYPES } from '@gatehouse/pki'
import { optional } from '@gatehouse/service-kit/config'
import { Type } from 'typebox'
import { findOrder, readPermitted } from '../lookup/certificates.ts'
import { findOrdersAbout, readFailing } from '../lookup/failing.ts'
import { CursorText } from '../lookup/positions.ts'
import { principalOf, requireProgram } from '../policy/authorize.ts'
import { probesOf, SERVED, seesPlaces, servedAt } from '../probe/shown.ts'
import {
  describeFailure,
  describeOrder,
  FailingOrderSchema,
  FailureSchema,
  guarded,
  HeldSchema,
  IdSchema,
  NAME,
  OrderSchema,
  TextSchema,
  TimeSchema,
} from '../schemas.ts'

const Limit = Type.Optional(
  Type.String({ pattern: '^([1-9]|[1-9][0-9]|100)$', description: '1 to 100; default 100.' }),
)
const Issuer = Type.Optional(
  Type.String({ pattern: '^[\\w.-]{1,64}$', description: 'Only those of this issuer.' }),
)
const After = Type.Optional(CursorText)
const Next = Type.Optional(
  TextSchema('Send it as `after` to get the next page. Absent on the last one.'),
)

const ProbeSchema = Type.Object(
  {
    ...{ name: Type.String(), host: Type.String(), address: Type.String() },
    ...{ port: Type.Integer(), protocol: Type.String(), state: Type.Enum([...PROBE_STATES]) },
    since: TimeSchema('When the state began.'),
    seenAt: TimeSchema('When it was last looked at.'),
    ...optional({
      issuer: TextSchema('Issuer of the certificate that is served.'),
      notAfter: TimeSchema('End of that certificate.'),
      reporter: TextSchema('The caller that says so of its own machine.'),
    }),
  },
  { description: 'What is served at a place; for callers who may read every name.' },
)

const LIST = guarded('listCertificates', [404], {
  summary: 'The certificates that the caller may read, page by page',
  querystring: Type.Object({
    issuer: Issuer,
    endsBefore: Type.Optional(
      TimeSchema('Only those that end before, or have ended: those that end first come first.'),
    ),
    after: After,
    limit: Limit,
  }),
  response: {
    200: Type.Object({
      certificates: Type.Array(
        Type.Object({
          ...HeldSchema.properties,
          keyType: Type.Enum([...KEY_TYPES]),
          lastFailure: Type.Optional(FailureSchema),
          nextTryAt: Type.Optional(TimeSchema('When a renewal that failed is tried again.')),
          served: Type.Optional(
            Type.Enum([...SERVED], {
              description: 'Whether servers serve the newest one; absent if nobody has looked.',
            }),
          ),
          places: Type.Optional(Type.Array(ProbeSchema)),
        }),
      ),
      next: Next,
    }),
  },
})

const FAILING = guarded('listFailingOrders', [404], {
  summary: 'Failing orders, the most urgent first, page by page',
  description:
    'Orders for names with a certificate in service come first, by its end; then the others, by ' +
    'their next attempt. A page may contain fewer than `limit` orders.',
  querystring: Type.Object({
    state: Type.Optional(Type.Enum(['failing'], { description: 'Default: `failing`.' })),
    name: Type.Optional(Type.String({ ...NAME, description: 'Only orders for this name.' })),
    issuer: Issuer,
    after: After,
    limit: Limit,
  }),
  response: { 200: Type.Object({ orders: Type.Array(FailingOrderSchema), next: Next }) },
})

const ORDER = guarded('getOrder', [404], {
  summary: 'The progress of an order',
  params: Type.Object({ id: IdSchema }),
  response: { 200: OrderSchema },
})

/** A name of either profile; those of both are the same text. */
const anyName = (text: string) => nameOrNone(text, 'client') ?? readName(text)

/** `GET /api/certificates`, `GET /api/orders` and `GET /api/orders/:id`. */
export const statusRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = requireProgram(app)
  app.get('/api/certificates', { onRequest, schema: LIST }, async (request, reply) => {
    const { issuer, endsBefore: end, after, limit = '100' } = request.query
    const endsBefore = end === undefined ? undefined : Date.parse(end)
    const { records, next } = await readPermitted(
      app,
      principalOf(request),
      Number(limit),
      { order: end ? 'expiry' : 'newest', issuer, endsBefore, now: app.clock.now() },
      (store, ...args) => store.listCertificates(...args),
      { cursor: after, isBackwards: !end },
    )
    const orders = await findOrdersAbout(app, records)
    const probes = await probesOf(app, records)
    const isOfPlaces = seesPlaces(app, principalOf(request))
    const certificates = records.map((record, i) => ({
      ...describe(record, orders[i]),
      ...describeServed(probes[i] ?? [], isOfPlaces),
    }))
    reply.header('cache-control', 'no-store')
    return { certificates, ...(next && { next }) }
  })
  app.get('/api/orders', { onRequest, schema: FAILING }, async (request, reply) => {
    const { name, issuer, after, limit = '100' } = request.query
    const search = name ? { wildcard: pointingTo('/name', () => anyName(name)).text } : undefined
    const { failing, next } = await readFailing(
      app,
      principalOf(request),
      Number(limit),
      { search, issuer },
      { cursor: after },
    )
    const orders = failing.map(({ order, record }) => ({
      ...describeOrder(order),
      ...(record && { notAfter: toTime(record.notAfter) }),
    }))
    reply.header('cache-control', 'no-store')
    return { orders, ...(next && { next }) }
  })
  app.get('/api/orders/:id', { onRequest, schema: ORDER }, async (request, reply) => {
    const order = await findOrder(app, principalOf(request), request.params.id)
    return reply.header('cache-control', 'no-store').send(describeOrder(order))
  })
}

function describe(record: CertificateRecord, order: OrderRecord | undefined) {
  const { names, keyType } = record
  return {
    domain: names[0] ?? '',
    ...describeCertificate(record),
    keyType,
    ...(order?.lastError && { lastFailure: describeFailure(order.lastError) }),
    ...(order && typeof order.nextTryAt === 'number' && { nextTryAt: toTime(order.nextTryAt) }),
  }
}

function describeServed(probes: readonly ProbeRecord[], isOfPlaces: boolean) {
  const served = servedAt(probes)
  const places = probes.map(({ since, seenAt, issuer, notAfter, reporter, ...probe }) => ({
    ...probe,
    since: toTime(since),
    seenAt: toTime(seenAt),
    ...(issuer !== null && { issuer }),
    ...(notAfter !== null && { notAfter: toTime(notAfter) }),
    ...(reporter !== '' && { reporter }),
  }))
  return { ...(served && { served }), ...(served && isOfPlaces && { places }) }
}
