import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sendPage } from '@gatehouse/service-kit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { type Inventory, inventoryPage } from '../pages/inventory.ts'
import { mayAll } from '../policy.ts'
import type { CertificateRecord, Upcoming } from '../store/store.ts'
import { readPermitted } from './lookup.ts'
import {
  askForKey,
  assertOwnOrigin,
  COOKIE,
  COOKIE_SCOPE,
  findVisitor,
  nameOf,
  originOf,
  PAGE_PATH,
  type Visitor,
} from './visitors.ts'

const PAGE = 50
const MAX_FAILED = 10
const FAILED_LOOKED_AT = 100

const QuerySchema = Type.Object({
  q: Type.Optional(Type.String({ maxLength: 253 })),
  after: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}-[0-9]{1,15}$' })),
})
const KeySchema = Type.Object({
  key: Type.String({ maxLength: 1_024 }),
  to: Type.Optional(Type.String({ pattern: PAGE_PATH })),
})

/** The inventory for people: `GET /`, `POST /` with an API key to sign in, and `POST /sign-out`. */
export const inventoryRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = app.requirePerson({ optional: true })
  const schema = { hide: true, querystring: QuerySchema }
  app.get('/', { onRequest, schema }, async (request, reply) => {
    const caller = await findVisitor(request)
    if (!caller) return askForKey(request, reply, { isWrong: false })
    return sendPage(reply, 200, inventoryPage(await readInventory(app, caller, request)))
  })

  app.post('/', { schema: { hide: true, body: KeySchema } }, async (request, reply) => {
    assertOwnOrigin(request)
    const { key, to = '/' } = request.body
    const session = await app.signIns.open(key.trim(), request.ip)
    if (!session) {
      request.log.info({ code: 'AUTH_KEY_INVALID' }, 'caller refused')
      return askForKey(request, reply, { isWrong: true, to })
    }
    const { id, caller } = session
    request.log.info({ actor: `psk:${caller.subject}` }, 'signed in at the inventory')
    return reply.setCookie(COOKIE, id, COOKIE_SCOPE).redirect(to, 303)
  })

  app.post('/sign-out', { schema: { hide: true } }, async (request, reply) => {
    assertOwnOrigin(request)
    await app.signIns.close(request.cookies[COOKIE] ?? '')
    return reply.clearCookie(COOKIE, COOKIE_SCOPE).redirect('/', 303)
  })
}

async function readInventory(
  app: FastifyInstance,
  caller: Visitor,
  request: FastifyRequest<{ Querystring: Static<typeof QuerySchema> }>,
): Promise<Inventory> {
  const { q = '', after } = request.query
  const search = q.trim().toLowerCase()
  const { records, next } = await readPermitted(app, caller, PAGE + 1, {
    start: readCursor(after),
    list: (page) => app.store.listUpcoming({ text: search, ...page }),
    cursorOf,
  })
  const shown = records.slice(0, PAGE)
  const last = records.length > PAGE ? shown.at(-1) : undefined
  const isFirst = after === undefined
  const failed = isFirst ? await readFailed(app, caller, search) : []
  const orderOf = ({ lineage }: CertificateRecord) => app.store.findOrderByLineage(lineage)
  return {
    visitor: nameOf(caller),
    search,
    rows: await Promise.all(
      shown.map(async (record) => ({
        record,
        order: await orderOf(record),
      })),
    ),
    failed: failed.slice(0, MAX_FAILED),
    hasMoreFailed: failed.length > MAX_FAILED,
    isFirst,
    nextHref: hrefOf(search, last ? cursorOf(last) : next),
    origin: originOf(request),
    now: app.clock.now(),
  }
}

async function readFailed(app: FastifyInstance, caller: Visitor, search: string) {
  const failed = await app.store.listFailedOrders(FAILED_LOOKED_AT)
  return failed.filter(
    (order) =>
      order.names.some((name) => name.includes(search)) && mayAll(app, caller, 'read', order),
  )
}

function cursorOf({ id, renewAt, notAfter }: CertificateRecord): Upcoming {
  return { at: renewAt ?? notAfter, id }
}

function readCursor(text = '0-0'): Upcoming {
  const [at = 0, id = 0] = text.split('-').map(Number)
  return { at, id }
}

function hrefOf(search: string, cursor: Upcoming | undefined): string | undefined {
  if (!cursor) return undefined
  const query = { ...(search && { q: search }), after: `${cursor.at}-${cursor.id}` }
  return `/?${new URLSearchParams(query)}`
}
