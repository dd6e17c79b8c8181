import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { isNotServed } from '@gatehouse/cert-store/port'
import { CLIENT_ISSUER } from '@gatehouse/issuance/request'
import { type Name, PROFILES } from '@gatehouse/pki'
import { sendPage } from '@gatehouse/service-kit/pages'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { readFailing, withOrders } from '../lookup/failing.ts'
import { probesOf } from '../probe/shown.ts'
import { originOf, readerOf, requireVisitor, type Visitor } from '../visitors/visitors.ts'
import { findCovering, readListed } from './listing.ts'
import { type Inventory, inventoryPage, type Rights } from './page.ts'
import { parseSearch } from './search.ts'
import { readSummary } from './summary.ts'
import { isRefreshed, readView, refreshOf, type View, ViewSchema } from './view.ts'

const MAX_FAILED = 3

/** The inventory for people: `GET /`. */
export const inventoryRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const schema = { hide: true, querystring: ViewSchema }
  app.get('/', { ...requireVisitor(app), schema }, async (request, reply) => {
    const view = readView(request.query)
    if (isRefreshed(view)) reply.header('refresh', refreshOf(view))
    const inventory = await readInventory(request, view)
    return sendPage(reply, 200, inventoryPage(inventory))
  })
}

async function readInventory(request: FastifyRequest, view: View): Promise<Inventory> {
  const { server: app, visitor: caller } = request
  const query = parseSearch(view.search ?? '')
  const { records, ...neighbours } = await readListed(app, caller, view, query)
  const isFirst = view.search === undefined && !view.place
  const isOverview = isFirst && view.issuer === undefined
  const { failing, next } =
    isFirst && view.state === undefined
      ? await readFailing(app, caller, MAX_FAILED, { issuer: view.issuer })
      : { failing: [] }
  // Nobody filters by an issuer that has never signed, or of what he may not see.
  const hasClients =
    app.policy.namesOf(caller, 'read', 'client').length > 0 &&
    (await app.ca.clientIntermediates()).length > 0
  return {
    ...readerOf(request),
    origin: originOf(request),
    view,
    summary: isOverview ? await readSummary(app, caller) : undefined,
    query,
    covering: query?.name && (await findCovering(app, caller, query)),
    rows: await withServed(app, await withOrders(app, records)),
    failed: await withServed(app, failing),
    hasMoreFailed: next !== undefined,
    neighbours,
    issuers: app.issuers.names().filter((name) => name !== CLIENT_ISSUER || hasClients),
    rights: rightsOf(app, caller, query?.name),
    now: app.clock.now(),
  }
}

function rightsOf({ policy }: FastifyInstance, visitor: Visitor, name: Name | undefined): Rights {
  const names = name ? [name] : []
  const visibleNames = PROFILES.flatMap((profile) => policy.namesOf(visitor, 'read', profile))
  return {
    visibleNames: [...new Set(visibleNames)],
    mayRequest: policy.namesOf(visitor, 'issue', 'server').length > 0,
    maySeeName: policy(visitor, 'read', names, 'server').allowed,
    mayRequestName: policy(visitor, 'issue', names, 'server').allowed,
  }
}

async function withServed(
  app: FastifyInstance,
  rows: Inventory['rows'],
): Promise<Inventory['rows']> {
  const now = app.clock.now()
  const probes = await probesOf(
    app,
    rows.flatMap(({ record }) => record ?? []),
  )
  const unserved = probes.flat().filter((probe) => isNotServed(probe, now))
  const names = new Set(unserved.map(({ name }) => name))
  return rows.map((row) => ({
    ...row,
    isUnserved: row.record?.names.some((name) => names.has(name)) ?? false,
  }))
}
