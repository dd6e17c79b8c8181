import cookie from '@fastify/cookie'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { AuthError, type KeyCaller } from '@gatehouse/auth-core'
import { isLoopback, parseHost } from '@gatehouse/net'
import type { Name } from '@gatehouse/pki'
import { type Problem, sendPage } from '@gatehouse/service-kit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { actionFor, CertError } from '../errors.ts'
import {
  ACTIONS,
  type Action,
  confirmPage,
  type Inventory,
  inventoryPage,
  problemPage,
  signInPage,
  tokensOnlyPage,
} from '../pages/inventory.ts'
import { authorize, mayAll, type Person } from '../policy.ts'
import { SignIns } from '../sign-ins.ts'
import type { CertificateRecord, Upcoming } from '../store/store.ts'
import { renewNewest } from './certificate.ts'
import { readDomain, readPermitted } from './lookup.ts'
import { remove, revoke } from './withdraw.ts'

const COOKIE = '__Host-gatehouse-certs'
const COOKIE_SCOPE = { path: '/', httpOnly: true, secure: true, sameSite: 'strict' } as const
const FORM = 'application/x-www-form-urlencoded'
const FORM_LIMIT = 4_096
const PAGE = 50
const MAX_FAILED = 10
const FAILED_LOOKED_AT = 100
const PATHS = ['/', '/sign-out', '/confirm']

const QuerySchema = Type.Object({
  q: Type.Optional(Type.String({ maxLength: 253 })),
  after: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}-[0-9]{1,15}$' })),
})
const ActionSchema = Type.Object({
  action: Type.Enum([...ACTIONS]),
  domain: Type.String({ minLength: 1, maxLength: 254 }),
})
const KeySchema = Type.Object({ key: Type.String({ maxLength: 1_024 }) })

/** The inventory for people: `GET /`, `POST /` with an API key to sign in, and `POST /sign-out`. */
export const inventoryRoutes: FastifyPluginAsyncTypebox = async (app) => {
  await app.register(cookie)
  app.addContentTypeParser(
    FORM,
    { parseAs: 'string', bodyLimit: FORM_LIMIT },
    (_request, body, done) => done(null, Object.fromEntries(new URLSearchParams(body as string))),
  )
  const signIns = new SignIns({
    store: app.store,
    now: () => app.clock.now(),
    findKey: (sha256) => app.callers.findKey(sha256),
  })

  const onRequest = app.requirePerson({ optional: true })
  const schema = { hide: true, querystring: QuerySchema }
  app.get('/', { onRequest, schema }, async (request, reply) => {
    const caller = request.optionalPerson ?? (await signIns.find(request.cookies[COOKIE] ?? ''))
    if (!caller) return askForKey(request, reply, false)
    return sendPage(reply, 200, inventoryPage(await readInventory(app, caller, request)))
  })

  app.post('/', { schema: { hide: true, body: KeySchema } }, async (request, reply) => {
    assertOwnOrigin(request)
    const session = await signIns.open(request.body.key.trim(), request.ip)
    if (!session) {
      request.log.info({ code: 'AUTH_KEY_INVALID' }, 'caller refused')
      return askForKey(request, reply, true)
    }
    const { id, caller } = session
    request.log.info({ actor: `psk:${caller.subject}` }, 'signed in at the inventory')
    return reply.setCookie(COOKIE, id, COOKIE_SCOPE).redirect('/', 303)
  })

  app.post('/sign-out', { schema: { hide: true } }, async (request, reply) => {
    assertOwnOrigin(request)
    await signIns.close(request.cookies[COOKIE] ?? '')
    return reply.clearCookie(COOKIE, COOKIE_SCOPE).redirect('/', 303)
  })
  addActions(app)
}

/** What people may do with a certificate: `GET /confirm` asks, `POST /confirm` does it. */
function addActions(app: FastifyInstance): void {
  // Only people, who are known by the assertion: a session of an API key looks on.
  const onRequest = [
    app.requirePerson({ optional: true }),
    async ({ optionalPerson }: FastifyRequest) => {
      if (!optionalPerson) throw new AuthError('AUTH_ASSERTION_MISSING')
    },
  ]
  type Asked = { Querystring: Static<typeof ActionSchema> }
  const asked = { hide: true, querystring: ActionSchema }
  app.get<Asked>('/confirm', { onRequest, schema: asked }, async (request, reply) => {
    const { action, domain } = request.query
    authorize(request, action, [readDomain(domain)])
    return sendPage(reply, 200, confirmPage(action, domain))
  })
  type Confirmed = { Body: Static<typeof ActionSchema> }
  const confirmed = { hide: true, body: ActionSchema }
  app.post<Confirmed>('/confirm', { onRequest, schema: confirmed }, async (request, reply) => {
    assertOwnOrigin(request)
    const { action, domain } = request.body
    await act(request, action, readDomain(domain))
    return reply.redirect(`/?${new URLSearchParams({ q: domain })}`, 303)
  })
}

async function act(request: FastifyRequest, action: Action, domain: Name): Promise<void> {
  if (action === 'renew') await renewNewest(request, domain)
  else if (action === 'revoke') await revoke(request, domain, 'unspecified')
  else await remove(request, domain)
}

function askForKey(request: FastifyRequest, reply: FastifyReply, isWrong: boolean): FastifyReply {
  if (!request.server.callers.methods().includes('psk'))
    return sendPage(reply, 403, tokensOnlyPage(originOf(request)))
  reply.header('www-authenticate', 'APIKey realm="api"')
  return sendPage(reply, 401, signInPage({ isWrong }))
}

/** The page of a problem at one of the routes of the inventory; other routes answer programs. */
export function inventoryProblem(
  problem: Problem,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply | undefined {
  if (!PATHS.includes(request.routeOptions.url ?? '')) return undefined
  return sendPage(reply, problem.status, problemPage(problem, actionFor(problem.code)))
}

async function readInventory(
  app: FastifyInstance,
  caller: KeyCaller | Person,
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
    visitor: visitorOf(caller),
    search,
    rows: await Promise.all(
      shown.map(async (record) => ({
        record,
        order: await orderOf(record),
        actions: actionsFor(app, caller, record),
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

function visitorOf(caller: KeyCaller | Person): Inventory['visitor'] {
  return 'provider' in caller
    ? { person: caller.name?.full ?? caller.email?.address ?? caller.id }
    : { key: caller.subject }
}

/** What a visitor may do with a certificate. A key that was entered here looks on. */
function actionsFor(
  app: FastifyInstance,
  caller: KeyCaller | Person,
  record: CertificateRecord,
): readonly Action[] {
  if (!('provider' in caller)) return []
  return ACTIONS.filter((action) => mayAll(app, caller, action, record))
}

async function readFailed(app: FastifyInstance, caller: KeyCaller | Person, search: string) {
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

function originOf({ protocol, host }: FastifyRequest): string {
  return `${protocol}://${host}`
}

/** Browsers send Origin with every POST. Over plain HTTP they do not keep the cookie either. */
function assertOwnOrigin({ headers, host }: FastifyRequest): void {
  const origin = URL.parse(headers.origin ?? '')
  const name = origin && parseHost(origin.hostname)
  const isSecure = origin?.protocol === 'https:' || (name && isLoopback(name))
  if (origin?.host === host && isSecure) return
  throw new CertError('CERT_ORIGIN_FOREIGN', `Origin is not https://${host}`)
}
