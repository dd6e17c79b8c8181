import { hash } from 'node:crypto'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { requireOwnForm } from '../account/logout.ts'
import { fitsRedirect, isLoopbackRedirect, isProven, parseClientId } from '../client-metadata.ts'
import { FwaError } from '../errors.ts'
import { isMacOf, macOf, sealValue, unsealValue } from '../keys/key-ring.ts'
import { consentPage } from '../pages/consent.ts'
import { type Consent, consentsTo, type Visitor } from '../session/session.ts'
import { renewCookie } from '../session/session-cookies.ts'
import { isEnough, startLogin } from '../sign-in/login.ts'
import { demandOf } from '../sign-in/step-up.ts'
import { issuerOf, pageUrl, purposeAt } from '../sites.ts'
import { PAGES, pageAnswer, problemAnswers, TO_SIGN_IN } from '../web/documented.ts'
import { acceptForms } from '../web/forms.ts'
import { sendToReader } from '../web/reader.ts'
import { type Realm, signInSiteOf } from '../web/realm.ts'
import { redirect, withLoginUrl } from '../web/redirects.ts'
import type { ConsentRequest } from './agents.ts'
import {
  type AuthorizationRequest,
  PARAMETERS,
  type Parameters,
  policiesIn,
  readRequest,
} from './authorization-request.ts'
import type { OAuthClient } from './client.ts'
import { OAuthError } from './oauth-error.ts'
import { ownResources } from './own-resources.ts'

const PATH = '/authorize'
/** The page for a person who has allowed a program to work without them. */
const GRANTED = '/authorize/granted'
const MINUTE = 60_000
/** The time to answer the page, in ms. */
const FORM_LIFETIME = 10 * MINUTE
/** The time for which a consent is remembered, in ms. */
const CONSENT_LIFETIME = 90 * 24 * 60 * MINUTE
/** The part of a lifetime that a session of agents has to last still, so that the provider is not asked for another. */
const REUSED = 0.9

const tags = ['authorization server', PAGES]
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

const GRANTED_SCHEMA = {
  summary: 'Go on with what a person has allowed, once the provider was asked',
  tags,
  querystring: Type.Object({ form: Type.String(), tried: Type.Optional(Type.String()) }),
  response: { 303: TO_SIGN_IN, ...problemAnswers(400, 403, 404, 429, 502, 503) },
}

/** The question for a person, as the form of the page carries it. */
interface ConsentQuestion extends ConsentRequest {
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
    const realm = signInSiteOf(request)
    const parameters = parametersOf(request.query)
    const resources = ownResources(app, realm)
    const { client_id: id, redirect_uri: redirectUri } = parameters
    if (resources.length === 0) throw invalid('this portal issues no tokens')
    if (id === undefined || redirectUri === undefined)
      throw invalid('client_id or redirect_uri is missing')
    const visitor = await app.sessions.atSignIn(request, realm)
    const toSignIn = (policy?: string) => {
      const query = { rd: pageUrl(realm, PATH, parameters), policy }
      return redirect(reply, pageUrl(realm, '/signin', query))
    }
    if (!visitor) return toSignIn()
    if (!visitor.isAdmitted) {
      const why = `this account has no access to the portal ${realm.portal.name}`
      throw withLoginUrl(new FwaError('FWA_FORBIDDEN', why), realm, { returnTo: undefined })
    }
    await renewCookie(reply, realm, visitor.session)
    const client = await app.clients.find(realm, id, visitor.session.person)
    if (!fitsRedirect(client.redirectUris, redirectUri))
      throw invalid('redirect_uri is none that the client has registered')
    const sender = { client, redirectUri, state: parameters.state }
    const authorization = readOrRefuse(realm, sender, () => readRequest(parameters, resources))
    const demand = demandOf(policiesIn(parameters, realm.portal.gate.policies.values()))
    if (!isEnough(visitor, demand, app.clock.now())) return toSignIn(demand?.policy)
    return ask(realm, visitor, sender, authorization, reply)
  })

  app.post(PATH, { schema: ANSWER_SCHEMA }, async (request, reply) => {
    const realm = signInSiteOf(request)
    requireOwnForm(request, realm.site)
    const { form, decision } = request.body
    const { visitor, question } = await readQuestion(request, realm, 'consent', form)
    const isAllowed = decision === 'allow'
    if (isAllowed) requireRate(visitor, app)
    await useOnce('consent', form, question, app)
    if (!isAllowed) {
      const denied = new OAuthError('access_denied', 'the person has not allowed it')
      return redirect(reply, answerUrl(realm, question, denied.parameters))
    }
    const until = app.clock.now() + CONSENT_LIFETIME
    if (isProven(question.redirectUri)) {
      const mac = macOf(['consent', question.key, until], app.keys.record)
      const { person } = visitor.session
      await app.authStore.giveConsent({ key: question.key, person, until, mac })
    }
    return grant(realm, visitor, question, reply)
  })

  app.get(GRANTED, { schema: GRANTED_SCHEMA }, async (request, reply) => {
    const realm = signInSiteOf(request)
    const { form, tried } = request.query
    const { visitor, question } = await readQuestion(request, realm, 'granted', form)
    const provider = realm.portal.providers.get(visitor.session.profile.provider)
    if (tried === undefined && provider) {
      requireRate(visitor, app)
      const returnTo = pageUrl(realm, GRANTED, { form, tried: '1' })
      return startLogin({ realm, provider, returnTo, isOffline: true }, reply)
    }
    await useOnce('granted', form, question, app)
    return grant(realm, visitor, question, reply, { isAsked: true })
  })
}

type FormKind = 'consent' | 'granted'

/** Reads a form or link of Gatehouse, if it is still valid and of whoever sends it. @throws FwaError FWA_OAUTH_INVALID */
async function readQuestion(request: FastifyRequest, realm: Realm, kind: FormKind, form: string) {
  const { sessions, keys, clock } = request.server
  const visitor = await sessions.atSignIn(request, realm)
  const question = unsealValue<ConsentQuestion>(form, keys.login, purposeAt(realm, kind))
  const isTheirs = question && question.session === visitor?.session.sid
  if (!visitor?.isAdmitted || !isTheirs || clock.now() >= question.until) throw invalid(OVER)
  return { visitor, question }
}

/** Uses up a form or link. @throws FwaError FWA_OAUTH_INVALID if it was used before */
async function useOnce(
  kind: FormKind,
  text: string,
  { until }: Pick<ConsentQuestion, 'until'>,
  { authStore }: FastifyInstance,
): Promise<void> {
  const id = `${kind} ${hash('sha256', text, 'base64url')}`
  if (!(await authStore.completeLogin(id, until))) throw invalid(OVER)
}

/**
 * Grants a client what its person has allowed. A program that has a lifetime without them gets the session of their agents
 * alone, if that lasts for long enough. Otherwise the provider is asked for what such a session needs, once.
 */
async function grant(
  realm: Realm,
  { session }: Visitor,
  question: ConsentQuestion,
  reply: FastifyReply,
  { isAsked = false } = {},
): Promise<FastifyReply> {
  const { agents, clock, keys, sessions } = reply.server
  const { resource: resourceUrl } = question.consent
  const resource = ownResources(reply.server, realm).find(({ url }) => url === resourceUrl)
  const { lifetime } = resource ?? {}
  const isLasting = lifetime !== undefined
  const offline = isLasting
    ? await sessions.findOffline(session, clock.now() + REUSED * lifetime)
    : undefined
  const provider = realm.portal.providers.get(session.profile.provider)
  if (isLasting && !offline && !isAsked && provider?.type === 'redirect') {
    const form = sealValue(question, keys.login, purposeAt(realm, 'granted'))
    return redirect(reply, pageUrl(realm, GRANTED, { form }))
  }
  const code = agents.codeFor(realm, offline ?? session.sid, question)
  return redirect(reply, answerUrl(realm, question, { code }))
}

const OVER = 'this page is no longer good: the app has to ask again'

/** The URI to which the answer goes with the person. */
type ClientRedirect = Pick<ConsentQuestion, 'redirectUri' | 'state'>
type Sender = ClientRedirect & { readonly client: OAuthClient }

/**
 * Reads the request of a client. If it is not valid, the page says so, with a link that tells the client: anybody can be
 * one, and the person decides whether to go there (RFC 9700 section 4.11.2).
 */
function readOrRefuse(
  realm: Realm,
  sender: Sender,
  read: () => AuthorizationRequest,
): AuthorizationRequest {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof OAuthError)) throw error
    const clientUrl = answerUrl(realm, sender, error.parameters)
    throw new FwaError('FWA_OAUTH_INVALID', error.message, { members: { clientUrl } })
  }
}

/** Asks the person, or sends the code if they have allowed the same before. */
async function ask(
  realm: Realm,
  visitor: Visitor,
  { client, redirectUri, state }: Sender,
  { resource, scopes, challenge }: AuthorizationRequest,
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
    authentication: client.authentication,
    resource: resource.url,
    scopes: names,
  }
  const key = consentsTo(client.id) + hash('sha256', JSON.stringify(parts), 'base64url')
  const until = clock.now() + FORM_LIFETIME
  const question = { session: session.sid, redirectUri, state, challenge, consent, key, until }
  const storedConsent = isProven(redirectUri) ? await authStore.findConsent(key) : undefined
  // Whoever writes into the store cannot allow an agent anything.
  const consented = storedConsent && ['consent', key, storedConsent.until]
  if (consented && isMacOf(storedConsent.mac, consented, keys.record)) {
    requireRate(visitor, server)
    return grant(realm, visitor, question, reply)
  }
  const { protocol, host } = new URL(redirectUri)
  const isApp = protocol !== 'http:' && protocol !== 'https:'
  return sendToReader(reply, realm, 200, consentPage, {
    profile: session.profile,
    // Nobody else can use it. A client that has registered itself has none.
    clientHost: parseClientId(client.id)?.host,
    isConfigured: client.isConfigured === true,
    name: client.name,
    redirectHost: isApp ? protocol : host,
    isLoopback: isLoopbackRedirect(redirectUri),
    resource: resource.url,
    scopes,
    action: pageUrl(realm, PATH),
    form: sealValue(question, keys.login, purposeAt(realm, 'consent')),
    switchHref: pageUrl(realm, '/signin', {
      switch: '1',
      rd: pageUrl(realm, PATH, parametersOf(request.query)),
    }),
  })
}

/** @throws FwaError FWA_RATE_LIMITED, before anything is stored */
function requireRate({ session }: Visitor, { signInRate }: FastifyInstance): void {
  signInRate.require(`agents of ${session.person}`, 'too many programs were connected')
}

/** The URL that takes an answer to a client (RFC 6749 section 4.1.2, RFC 9207). The URI stays as it is registered. */
function answerUrl(
  realm: Realm,
  { redirectUri, state }: ClientRedirect,
  parameters: Readonly<Record<string, string>>,
): string {
  const answer = { ...parameters, ...(state !== undefined && { state }), iss: issuerOf(realm) }
  const joint = redirectUri.includes('?') ? '&' : '?'
  return `${redirectUri}${joint}${new URLSearchParams(answer)}`
}

/** The parameters of a query. Those without a value are as if they were not there (RFC 6749 section 3.1). */
function parametersOf(query: unknown): Parameters {
  return Object.fromEntries(PARAMETERS.map((key) => [key, (query as Parameters)[key] || undefined]))
}

function invalid(why: string): FwaError {
  return new FwaError('FWA_OAUTH_INVALID', why)
}
