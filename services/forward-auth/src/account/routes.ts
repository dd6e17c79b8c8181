import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { FwaError } from '../errors.ts'
import { accountPage } from '../pages/account.ts'
import { MAX_SHOWN, sessionsPage } from '../pages/sessions.ts'
import { mayOpenPage, openableApps, selectApps } from '../portal/apps.ts'
import { endSessions } from '../session/ends.ts'
import type { Visitor } from '../session/session.ts'
import { clearSessionCookies, renewCookie } from '../session/session-cookies.ts'
import { isEnough } from '../sign-in/login.ts'
import { demandOf } from '../sign-in/step-up.ts'
import { pageUrl } from '../sites.ts'
import type { End } from '../store/store.ts'
import { PAGES, pageAnswer, problemAnswers, TO_SIGN_IN } from '../web/documented.ts'
import { acceptForms } from '../web/forms.ts'
import { sendToReader } from '../web/reader.ts'
import { type Realm, signInSiteOf } from '../web/realm.ts'
import { cameFrom, redirect } from '../web/redirects.ts'
import { endsAt } from './end.ts'
import { type FoundSession, findAgents, findSessions } from './find.ts'
import { requireOwnForm, sendSignedOut } from './logout.ts'

const tags = ['account', PAGES]
const accountQuery = Type.Object({
  from: Type.Optional(Type.String({ description: 'Page to go back to.' })),
  app: Type.Optional(
    Type.String({ description: 'Part of the name or host of an app.', maxLength: 300 }),
  ),
})
type AccountQuery = Static<typeof accountQuery>
const ACCOUNT_SCHEMA = {
  summary: 'The person, their apps and their sessions',
  tags,
  querystring: accountQuery,
  response: { 200: pageAnswer('The account.'), 303: TO_SIGN_IN, ...problemAnswers(403, 404, 503) },
}
const ALL_SCHEMA = {
  summary: 'The sessions of everybody, for administrators',
  tags,
  querystring: Type.Partial(
    Type.Object({
      person: Type.String({ description: 'E-mail address or identifier.', maxLength: 320 }),
    }),
  ),
  response: { 200: pageAnswer('The sessions.'), 303: TO_SIGN_IN, ...problemAnswers(403, 404, 503) },
}
const formSchema = Type.Object({
  session: Type.Optional(Type.String()),
  person: Type.Optional(Type.String()),
})
const END_SCHEMA = {
  summary: 'End sessions by a form of these pages',
  tags,
  body: formSchema,
  response: {
    200: pageAnswer('Signed out.'),
    303: TO_SIGN_IN,
    ...problemAnswers(403, 404, 413, 415, 503),
  },
}

/** `GET /account`, `GET /sessions` for administrators, and the forms of both. */
export const accountRoutes: FastifyPluginAsyncTypebox = async (app) => {
  acceptForms(app)

  app.get('/account', { schema: ACCOUNT_SCHEMA }, async (request, reply) => {
    const realm = signInSiteOf(request)
    const visitor = await app.sessions.atSignIn(request, realm)
    if (!visitor) return toSignIn('/account', realm, reply)
    await renewCookie(reply, realm, visitor.session)
    return sendAccount(realm, visitor, request.query, reply)
  })

  app.get('/sessions', { schema: ALL_SCHEMA }, async (request, reply) => {
    const { person } = request.query
    const realm = signInSiteOf(request)
    const { portal } = realm
    const visitor = await app.sessions.atSignIn(request, realm)
    if (!isAdministrator(visitor, request)) {
      if (visitor && !mayAdminister(visitor))
        throw new FwaError('FWA_FORBIDDEN', 'this page is for administrators of the portal')
      return toSignIn('/sessions', realm, reply, visitor && portal.admins?.name)
    }
    const people = person ? { text: person } : 'everybody'
    const url = (path: string) => pageUrl(realm, path)
    return sendToReader(reply, realm, 200, sessionsPage, {
      sessions: (await findSessions(app, portal, people, MAX_SHOWN + 1)).filter(isOfBrowser),
      agents: await findAgents(app, portal, people, MAX_SHOWN + 1),
      person,
      searchAction: url('/sessions'),
      endAction: url('/sessions/end'),
      endPersonAction: url('/sessions/end'),
    })
  })

  /** Answers a form: ends what `endsOf` gives; undefined if the person may not. */
  const form = (path: string, page: '/account' | '/sessions', endsOf: EndsOf) =>
    app.post(path, { schema: END_SCHEMA }, async (request, reply) => {
      const realm = signInSiteOf(request)
      requireOwnForm(request, realm.site)
      const visitor = await app.sessions.atSignIn(request, realm)
      const ends = visitor && (await endsOf(visitor, request.body, request))
      if (!ends) return toSignIn(page, realm, reply)
      const endedBy = page === '/account' ? 'person' : 'administrator'
      const actorName = visitor.session.profile.name?.full
      await endSessions(app, ends, { endedBy, actor: visitor.caller, actorName }, request)
      if (await app.sessions.find(visitor.session.sid, realm))
        return redirect(reply, pageUrl(realm, page))
      clearSessionCookies(reply, realm)
      return sendSignedOut(realm, undefined, reply)
    })

  form('/account/end', '/account', async ({ session: { person }, portal }, { session = '' }) => {
    const row = (await app.sessions.records.open(session))?.row
    return row?.person === person ? endsAt(app, portal, { session }) : []
  })
  form('/account/end-others', '/account', async ({ session: { person, sid } }) => [
    { person, except: sid },
  ])
  form('/account/end-all', '/account', async ({ session: { person } }) => [{ person }])
  form('/sessions/end', '/sessions', async (visitor, { session, person }, request) => {
    if (!isAdministrator(visitor, request)) return undefined
    return endsAt(app, visitor.portal, { session, person })
  })
}

/** Whether a browser uses a session. Pages show those that only agents use with their agents. */
const isOfBrowser = ({ isOffline }: FoundSession) => !isOffline

type EndsOf = (
  visitor: Visitor,
  body: Static<typeof formSchema>,
  request: FastifyRequest,
) => Promise<readonly End[] | undefined>

/** Whether somebody may see and end the sessions of everybody at their portal. */
function isAdministrator(visitor: Visitor | undefined, { server }: FastifyRequest): boolean {
  const admins = visitor?.portal.admins
  if (!visitor || !admins || !mayAdminister(visitor)) return false
  return isEnough(visitor, demandOf([admins]), server.clock.now())
}

/** Whether somebody is an administrator, however they signed in. */
function mayAdminister(visitor: Visitor): boolean {
  const { admins } = visitor.portal
  return visitor.isAdmitted && admins !== undefined && visitor.meets(admins)
}

function toSignIn(path: string, realm: Realm, reply: FastifyReply, policy?: string): FastifyReply {
  const query = { rd: pageUrl(realm, path), policy }
  return redirect(reply, pageUrl(realm, '/signin', query))
}

async function sendAccount(
  realm: Realm,
  visitor: Visitor,
  { from, app }: AccountQuery,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { portal } = realm
  const { request, server } = reply
  const { sites, clock, trust } = server
  const { person, sid } = visitor.session
  const clientIp = () => trust.clientIp(request.raw)
  const personAtPortal = { portal, principal: visitor, sites, clientIp, now: clock.now() }
  const apps = await openableApps(personAtPortal)
  const origin = cameFrom(request, realm, from)
  const people = { digest: person }
  const rows = await findSessions(server, portal, people, MAX_SHOWN + 1)
  const sessions = rows.filter(isOfBrowser)
  const agents = await findAgents(server, portal, people, MAX_SHOWN + 1)
  const url = (path: string) => pageUrl(realm, path)
  const { length: count } = await server.approvals.list(visitor)
  return sendToReader(reply, realm, 200, accountPage, {
    profile: visitor.session.profile,
    ...(apps && selectApps(apps, app)),
    cameFrom: origin && mayOpenPage(origin, personAtPortal) ? origin : undefined,
    calls: count > 0 ? { href: url('/account/calls'), count } : undefined,
    ownSessions: {
      sessions: sessions.map((row) => ({ ...row, isCurrent: row.id === sid, profile: undefined })),
      agents: agents.map((agent) => ({ ...agent, profile: undefined })),
      endAction: url('/account/end'),
      othersAction: url('/account/end-others'),
      everywhereAction: url('/account/end-all'),
    },
    allSessionsHref: isAdministrator(visitor, request) ? url('/sessions') : undefined,
  })
}
