import { hash } from 'node:crypto'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sendPage } from '@gatehouse/service-kit/pages'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { FwaError } from '../errors.ts'
import { consentPage } from '../pages/consent.ts'
import { type PortalSite, signInSiteOf } from '../portal-site.ts'
import { pageAnswer, problemAnswers, TO_SIGN_IN } from '../routes/documented.ts'
import { acceptForms } from '../routes/forms.ts'
import { requireOwnForm } from '../routes/logout.ts'
import { readerOf } from '../routes/reader.ts'
import { redirect, withLoginUrl } from '../routes/redirects.ts'
import { renewCookie } from '../routes/session-cookies.ts'
import { isMacOf, macOf, sealValue, unsealValue } from '../seal.ts'
import { type Consent, consentsTo } from '../session/session.ts'
import type { Visitor } from '../session/visitor.ts'
import { issuerOf, pageUrl, purposeAt } from '../sites.ts'
import type { Demand } from './agents.ts'
import { type Asked, PARAMETERS, type Parameters, readRequest } from './authorization-request.ts'
import { type Client, fitsRedirect, isLoopbackRedirect, parseClientId } from './client.ts'
import { OAuthError } from './oauth-error.ts'
import { ownResources } from './own-resources.ts'

const PATH = '/authorize'
const MINUTE = 60_000
/** The time to answer the page, in ms. */
const FORM_LIFETIME = 10 * MINUTE
/** The time for which a consent is remembered, in ms. */
const CONSENT_LIFETIME = 90 * 24 * 60 * MINUTE

const tags = ['authorization server']
const ASK_SCHEMA = {
  summary: 'Ask the person whether a client may act for them',
  description:
    'The authorization endpoint (RFC 6749 section 3.1), with PKCE (RFC 7636), `resource` (RFC 8707) and `iss` (RFC 9207).',
  tags,
  querystring: Type.Object(
    Object.fromEntries(PARAMETERS.map((name) => [name, Type.Optional(Type.String())])),
    // What is not known is ignored (RFC 6749 section 3.1).
    { additionalProperties: true },
  ),
  response: {
    200: pageAnswer('The question.'),
    303: TO_SIGN_IN,
    ...problemAnswers(400, 403, 404, 429, 502, 503),
  },
}
const ANSWER_SCHEMA = {
  summary: 'Answer the question by the form of its page',
  tags,
  body: Type.Object({
    form: Type.String(),
    decision: Type.Union([Type.Literal('allow'), Type.Literal('deny')]),
  }),
  response: { 303: TO_SIGN_IN, ...problemAnswers(400, 403, 404, 413, 415, 429, 503) },
}

/** What the form of a page remembers. */
interface Question extends Demand {
  /** ID of the session of the person who was asked. */
  readonly session: string
  readonly state: string | undefined
  /** The digests by which the answer is remembered. */
  readonly key: string
}

/** `GET /authorize` asks the person, `POST /authorize` takes the answer of the page. */
export const authorizeRoutes: FastifyPluginAsyncTypebox = async (app) => {
  acceptForms(app)

  app.get(PATH, { schema: ASK_SCHEMA }, async (request, reply) => {
    const at = signInSiteOf(request)
    const parameters = knownOf(request.query)
    const resources = ownResources(app, at)
    const { client_id: id, redirect_uri: redirectUri } = parameters
    if (resources.length === 0) throw invalid('this portal issues no tokens')
    if (id === undefined || redirectUri === undefined)
      throw invalid('client_id or redirect_uri is missing')
    const visitor = await app.sessions.atSignIn(request, at)
    if (!visitor)
      return redirect(reply, pageUrl(at, '/signin', { rd: pageUrl(at, PATH, parameters) }))
    if (!visitor.isAdmitted) {
      const why = `this account has no access to the portal ${at.portal.name}`
      throw withLoginUrl(new FwaError('FWA_FORBIDDEN', why), at, { returnTo: undefined })
    }
    await renewCookie(reply, at, visitor.session)
    const client = await app.clients.find(at, id, visitor.session.person)
    if (!fitsRedirect(client, redirectUri))
      throw invalid('redirect_uri is none that the client has registered')
    const sender = { client, redirectUri, state: parameters.state }
    const asked = readOrTell(at, sender, () => readRequest(parameters, resources))
    return ask(at, visitor, sender, asked, reply)
  })

  app.post(PATH, { schema: ANSWER_SCHEMA }, async (request, reply) => {
    const at = signInSiteOf(request)
    requireOwnForm(request, at.site)
    const { form, decision } = request.body
    const visitor = await app.sessions.atSignIn(request, at)
    const question = unsealValue<Question>(form, app.keys.login, purposeAt(at, 'consent'))
    const isTheirs = question && question.session === visitor?.session.sid
    if (!visitor?.isAdmitted || !isTheirs || app.clock.now() >= question.until)
      throw invalid('this page is no longer good: the app has to ask again')
    if (decision === 'deny') {
      const denied = new OAuthError('access_denied', 'the person has not allowed it')
      return answer(at, question, denied.parameters, reply)
    }
    const given = codeFor(at, visitor, question, reply)
    const until = app.clock.now() + CONSENT_LIFETIME
    if (isProven(question.redirectUri)) {
      const mac = macOf(['consent', question.key, until], app.keys.record)
      const { person } = visitor.session
      await app.authStore.giveConsent({ key: question.key, person, until, mac })
    }
    return answer(at, question, given, reply)
  })
}

/** Where the answer goes. */
type Sent = Pick<Question, 'redirectUri' | 'state'>
/** Who asks. */
type Sender = Sent & { readonly client: Client }

/**
 * What a client asks for. If that is not valid, the page says so, with a link that tells the client: anybody can be one,
 * and the person decides whether to go there (RFC 9700 section 4.11.2).
 */
function readOrTell(at: PortalSite, sender: Sender, read: () => Asked): Asked {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof OAuthError)) throw error
    const clientUrl = answerUrl(at, sender, error.parameters)
    throw new FwaError('FWA_OAUTH_INVALID', error.message, { members: { clientUrl } })
  }
}

/** Asks the person, or sends the code if they have allowed the same before. */
async function ask(
  at: PortalSite,
  visitor: Visitor,
  { client, redirectUri, state }: Sender,
  { resource, scopes, challenge }: Asked,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { server, request } = reply
  const { authStore, keys, clock } = server
  const names = scopes.map(({ name }) => name)
  const { session } = visitor
  const parts = [session.person, client.id, client.digest, redirectUri, resource.url, ...names]
  const consent: Consent = {
    clientId: client.id,
    clientName: client.name,
    resource: resource.url,
    scopes: names,
  }
  const key = consentsTo(client.id) + hash('sha256', JSON.stringify(parts), 'base64url')
  const until = clock.now() + FORM_LIFETIME
  const question = { session: session.sid, redirectUri, state, challenge, consent, key, until }
  const given = isProven(redirectUri) ? await authStore.findConsent(key) : undefined
  // Whoever writes into the store cannot allow an agent anything.
  if (given && isMacOf(given.mac, ['consent', key, given.until], keys.record))
    return answer(at, question, codeFor(at, visitor, question, reply), reply)
  const { protocol, host } = new URL(redirectUri)
  const isApp = protocol !== 'http:' && protocol !== 'https:'
  const page = consentPage({
    ...readerOf(request, at),
    profile: session.profile,
    // Nobody else can use it. A client that has registered itself has none.
    clientHost: parseClientId(client.id)?.host,
    name: client.name,
    redirectHost: isApp ? protocol : host,
    isLoopback: isLoopbackRedirect(redirectUri),
    resource: resource.url,
    scopes,
    action: pageUrl(at, PATH),
    form: sealValue(question, keys.login, purposeAt(at, 'consent')),
    switchHref: pageUrl(at, '/signin', {
      switch: '1',
      rd: pageUrl(at, PATH, knownOf(request.query)),
    }),
  })
  return sendPage(reply, 200, page)
}

/** The code of an answer. @throws FwaError FWA_CLIENT_RATE, before anything is stored */
function codeFor(at: PortalSite, visitor: Visitor, question: Question, reply: FastifyReply) {
  const { agents, signInRate } = reply.server
  signInRate.require(`agents of ${visitor.session.person}`, 'too many programs were connected')
  return { code: agents.codeFor(at, visitor, question) }
}

/**
 * Whether the client alone gets the answer. Any program of a device can listen on loopback or take a scheme, and say
 * that it is this client (RFC 8252 section 8.6): its people are asked each time.
 */
function isProven(redirectUri: string): boolean {
  return redirectUri.startsWith('https:') && !isLoopbackRedirect(redirectUri)
}

/** Sends the person back to the client. */
function answer(at: PortalSite, sent: Sent, given: Given, reply: FastifyReply): FastifyReply {
  return redirect(reply, answerUrl(at, sent, given))
}

type Given = Readonly<Record<string, string>>

/** The URL that takes an answer to a client (RFC 6749 section 4.1.2, RFC 9207). The URI stays as it is registered. */
function answerUrl(at: PortalSite, { redirectUri, state }: Sent, given: Given): string {
  const answer = { ...given, ...(state !== undefined && { state }), iss: issuerOf(at) }
  const joint = redirectUri.includes('?') ? '&' : '?'
  return `${redirectUri}${joint}${new URLSearchParams(answer)}`
}

/** Those without a value are as if they were not there (RFC 6749 section 3.1). */
function knownOf(query: unknown): Parameters {
  return Object.fromEntries(PARAMETERS.map((key) => [key, (query as Parameters)[key] || undefined]))
}

function invalid(why: string): FwaError {
  return new FwaError('FWA_OAUTH_INVALID', why)
}
