import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sendPage } from '@gatehouse/service-kit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { type Inventory, inventoryPage } from '../pages/inventory.ts'
import { readView, ViewSchema } from '../pages/view.ts'
import type { CertificateRecord } from '../store/store.ts'
import { readFailed, readListed } from './listing.ts'
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

const MAX_FAILED = 10

const KeySchema = Type.Object({
  key: Type.String({ maxLength: 1_024 }),
  to: Type.Optional(Type.String({ pattern: PAGE_PATH })),
})

/** The inventory for people: `GET /`, `POST /` with an API key to sign in, and `POST /sign-out`. */
export const inventoryRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = app.requirePerson({ optional: true })
  const schema = { hide: true, querystring: ViewSchema }
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
  request: FastifyRequest<{ Querystring: Static<typeof ViewSchema> }>,
): Promise<Inventory> {
  const view = readView(request.query)
  const { shown, ...neighbours } = await readListed(app, caller, view)
  const failed = await readFailed(app, caller, view)
  const orderOf = ({ lineage }: CertificateRecord) => app.store.findOrderByLineage(lineage)
  return {
    visitor: nameOf(caller),
    view,
    rows: await Promise.all(
      shown.map(async (record) => ({
        record,
        order: await orderOf(record),
      })),
    ),
    failed: failed.slice(0, MAX_FAILED),
    hasMoreFailed: failed.length > MAX_FAILED,
    neighbours,
    issuers: app.issuers.names(),
    origin: originOf(request),
    now: app.clock.now(),
  }
}
