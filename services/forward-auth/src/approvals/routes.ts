import { isDeepStrictEqual } from 'node:util'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { endsAt } from '../account/end.ts'
import { requireOwnForm } from '../account/logout.ts'
import { sealValue, unsealValue } from '../keys/key-ring.ts'
import { type CallForm, type CallOutcome, callPage, callsPage } from '../pages/calls.ts'
import { endSessions } from '../session/ends.ts'
import type { Visitor } from '../session/session.ts'
import { isEnough } from '../sign-in/login.ts'
import { demandOf } from '../sign-in/step-up.ts'
import { pageUrl, purposeAt } from '../sites.ts'
import { PAGES, pageAnswer, problemAnswers, TO_SIGN_IN } from '../web/documented.ts'
import { acceptForms } from '../web/forms.ts'
import { sendToReader } from '../web/reader.ts'
import { type Realm, signInSiteOf } from '../web/realm.ts'
import { redirect, signInUrl } from '../web/redirects.ts'
import type { OpenedCall } from './approvals.ts'

const LIST = '/account/calls'
const CALL = `${LIST}/:id`
/** Seconds after which the list is renewed. */
const RENEWAL = '5'

const params = Type.Object({ portal: Type.String(), id: Type.String() })
const page = pageAnswer('The page.')
const response = { 200: page, 303: TO_SIGN_IN, ...problemAnswers(403, 404, 503) }
const common = { tags: ['account', PAGES], response }
const LIST_SCHEMA = { ...common, summary: 'The calls of programs that wait for the person' }
const CALL_SCHEMA = { ...common, summary: 'A call that the person may approve', params }
const DECISION = Type.Enum(['once', 'remember', 'deny', 'end'])
const DECIDE_SCHEMA = {
  summary: 'Decide about a call by the form of its page',
  tags: common.tags,
  params,
  body: Type.Object({ form: Type.String(), decision: DECISION }),
  response: { ...response, ...problemAnswers(400, 413, 415) },
}

/** The contents of a form: a session, and the call that it has shown. */
type FormKey = readonly [sid: string, id: string, begun: number]

/** `GET /account/calls`, and the page and form of each call. */
export const approvalRoutes: FastifyPluginAsyncTypebox = async (app) => {
  acceptForms(app)

  app.get(LIST, { schema: LIST_SCHEMA }, async (request, reply) => {
    const realm = signInSiteOf(request)
    const visitor = await app.sessions.atSignIn(request, realm)
    if (!visitor) return redirect(reply, signInUrl(realm, { returnTo: pageUrl(realm, LIST) }))
    const calls = (await app.approvals.list(visitor)).map(({ row, contents }) => {
      return { ...contents, href: callUrl(realm, row.key) }
    })
    const { profile, idle } = visitor.session
    // Otherwise a session would not become idle in front of an empty chair.
    if (idle === null) reply.header('refresh', RENEWAL)
    return sendToReader(reply, realm, 200, callsPage, { profile, calls })
  })

  app.get(CALL, { schema: CALL_SCHEMA }, async (request, reply) => {
    const realm = signInSiteOf(request)
    const visitor = await app.sessions.atSignIn(request, realm)
    const { id } = request.params
    if (!visitor) return redirect(reply, signInUrl(realm, { returnTo: callUrl(realm, id) }))
    const call = await app.approvals.find(id, visitor)
    return call ? sendCall(realm, visitor, call, reply) : reply.callNotFound()
  })

  app.post(CALL, { schema: DECIDE_SCHEMA }, async (request, reply) => {
    const realm = signInSiteOf(request)
    requireOwnForm(request, realm.site)
    const visitor = await app.sessions.atSignIn(request, realm)
    const { id } = request.params
    const returnTo = callUrl(realm, id)
    if (!visitor) return redirect(reply, signInUrl(realm, { returnTo }))
    const { decision, form: sealed } = request.body
    const call = await app.approvals.find(id, visitor)
    const form = unsealValue<FormKey>(sealed, app.keys.login, purposeAt(realm, 'call'))
    if (!call || !isDeepStrictEqual(form, formKeyOf(visitor, call))) return reply.callNotFound()
    const now = app.clock.now()
    const demands = call.policies.map((policy) => demandOf([policy]))
    const stepUp = demands.find((demand) => !isEnough(visitor, demand, now))
    if (stepUp) return redirect(reply, signInUrl(realm, { returnTo, stepUp }))
    await app.approvals.decide(call, decision === 'end' ? 'deny' : decision, visitor, request)
    if (decision === 'end' && call.row.agent !== null) {
      await endAgent(call.row.agent, visitor, request)
      return sendCall(realm, visitor, call, reply, 'ended')
    }
    // Somebody may have been quicker.
    const decided = await app.approvals.find(id, visitor)
    return decided ? sendCall(realm, visitor, decided, reply) : reply.callNotFound()
  })
}

/** Ends what the client of an agent has of its person. */
async function endAgent(agent: string, visitor: Visitor, request: FastifyRequest): Promise<void> {
  const { caller: actor, session, portal } = visitor
  const ends = await endsAt(request.server, portal, { session: agent })
  const ender = { endedBy: 'person', actor, actorName: session.profile.name?.full } as const
  await endSessions(request.server, ends, ender, request)
}

function formKeyOf({ session }: Visitor, { row, contents }: OpenedCall): FormKey {
  return [session.sid, row.key, contents.begun]
}

/** Sends the page of a call: with a form, if it waits. */
function sendCall(
  realm: Realm,
  visitor: Visitor,
  call: OpenedCall,
  reply: FastifyReply,
  outcome = outcomeOf(call, reply.server.clock.now()),
): FastifyReply {
  const { row, contents, policies } = call
  const { profile, person } = visitor.session
  const form: CallForm = {
    action: callUrl(realm, row.key),
    form: sealValue(formKeyOf(visitor, call), reply.server.keys.login, purposeAt(realm, 'call')),
    remember: contents.approve.remember,
    isOfAgent: row.agent !== null,
    hasStepUp: policies.some(({ stepUp }) => stepUp),
  }
  const principal = row.person === person ? undefined : contents.principal
  return sendToReader(reply, realm, 200, callPage, {
    profile,
    call: { ...contents, principal },
    result: outcome ?? form,
    listHref: pageUrl(realm, LIST),
  })
}

/** What has become of a call; undefined if it waits. */
function outcomeOf({ row }: OpenedCall, now: number): CallOutcome | undefined {
  if (row.state !== 'asked') return row.state as 'allowed' | 'denied'
  return row.until > now ? undefined : 'expired'
}

function callUrl(realm: Realm, id: string): string {
  return pageUrl(realm, `${LIST}/${encodeURIComponent(id)}`)
}
