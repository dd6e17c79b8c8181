import { AUTH_ERRORS, AuthError } from '@gatehouse/auth-core'
import type { Decision, Gate, Policy, Principal, Resource } from '@gatehouse/gate'
import { isNavigation, statusOfError } from '@gatehouse/service-kit/http'
import type { Dialect } from '@gatehouse/service-kit/proxies'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Happening } from '../audit/audit.ts'
import { FwaError, STATUS_OF } from '../errors.ts'
import { refusedPage } from '../pages/pages.ts'
import { Visitor } from '../session/session.ts'
import { pageUrl } from '../sites.ts'
import { sendToReader } from '../web/reader.ts'
import {
  basicChallenge,
  challengeHeaders,
  challenges,
  NO_CREDENTIALS,
  noSession,
} from './challenges.ts'
import { type AppRequest, begin, loginUrlOf, MAX_LINK, returnUrl, sendToPage } from './hops.ts'

export interface Check extends AppRequest {
  readonly decision: Decision
  /** The person who is signed in, or the program whose credentials were sent. */
  readonly principal: Principal | undefined
  readonly resource: Resource | undefined
  /** The scopes that a client has to ask for, if it has no token. */
  readonly scopes: readonly string[] | undefined
  /** The token of the provider that the app gets. */
  readonly providerToken: string | undefined
  /** The tools that the app is told of. */
  readonly tools: readonly string[] | undefined
  readonly rules: readonly RuleConfig[]
}

export type RuleConfig = Gate['rules'][number]['config']

/** Answers a check that leads nobody to the sign-in page. Throws for what programs get as a problem. */
export function sendDecision(dialect: Dialect, check: Check, reply: FastifyReply): FastifyReply {
  const { decision, portal, principal, forwarded } = check
  const { outcome } = decision
  if (outcome === 'allow') return sendIdentity(check, reply)
  if (outcome === 'anonymous' || outcome === 'preflight')
    return tellMore(check, reply.headers(portal.gate.anonymousHeaders)).send(portal.gate.body)
  /** Whoever sees the answer as a page. */
  const reader = forwarded.kind === 'navigation' && principal instanceof Visitor && principal
  if (reader && outcome === 'step-up')
    return sendToPage(dialect, check, reply, { policy: decision.policy.name })
  const error = refuse(check, reply)
  if (reader && outcome === 'forbidden') return sendForbidden(check, reader, reply)
  throw error
}

/** The error for a program that may not pass, which it records. */
export function refuse(check: Check, reply: FastifyReply): Error {
  const { decision, resource, scopes } = check
  if (decision.outcome === 'step-up') return stepUpError(check, decision.policy, reply)
  if (decision.outcome === 'forbidden') return forbid(check, decision, reply.request)
  return noSession(check, resource ? undefined : loginUrlOf(check, reply), {
    resource,
    scopes,
    basic: basicChallenge(check, reply.request),
  })
}

/** Adds to a 200 the tools, and the credentials that are meant for the app. */
function tellMore({ portal, tools, principal }: Check, reply: FastifyReply): FastifyReply {
  const { authorization } = reply.request.headers
  // A key must not reach the app. Proxies put this in place of what they got.
  if (authorization !== undefined) {
    const isKey = principal?.identity.method === 'psk'
    reply.header('authorization', isKey || !/^[ -~]*$/.test(authorization) ? '' : authorization)
  }
  const { toolsHeader } = portal.gate
  return toolsHeader && tools ? reply.header(toolsHeader, tools.join(',')) : reply
}

function sendIdentity(check: Check, reply: FastifyReply): FastifyReply {
  const { principal, portal } = check
  tellMore(check, reply.headers(identityHeaders(check, reply.request)))
  if (principal?.isProgram) recordPassed(check, reply.request)
  return reply.send(portal.gate.body)
}

/** The headers by which an app learns who sends a request, without the tools. */
export function identityHeaders(
  check: Check,
  { server }: FastifyRequest,
): Readonly<Record<string, string>> {
  const { portal, principal, site, forwarded, providerToken, tools } = check
  if (!principal) throw new Error('there is nobody to let pass')
  const { assertion, providerToken: settings } = portal.gate
  const { identity, headers } = principal.answerAt(forwarded.host)
  const assertionHeader = assertion?.isFor(forwarded.host) ? assertion.header : undefined
  if (assertionHeader === undefined && !providerToken) return headers
  const receiver = { portal, site, origin: forwarded.origin, tools }
  return {
    ...headers,
    ...(settings && providerToken && { [settings.header]: providerToken }),
    ...(assertionHeader !== undefined && {
      [assertionHeader]: server.assertions.for(identity, receiver),
    }),
  }
}

/** An event of a check. Default of `isPage`: whether the request is for a page. */
type CheckEvent = Pick<Happening, 'event' | 'code' | 'refusal' | 'isPage' | 'isQuiet'>

/** Records who was refused, and what a program was let do, which proxies do not log. */
function record(check: Recorded, entry: CheckEvent, request: FastifyRequest): void {
  const { portal, principal, forwarded: { authority: host, method, target, kind } = {} } = check
  const isRefused = entry.event === 'access-refused'
  request.server.auditTrail.record(request, {
    ...{ portal: portal.name, host, method, ...callOf(check) },
    profile: principal?.identity.profile,
    caller: principal?.caller,
    ...(isRefused && { target, isPage: kind === 'navigation' }),
    ...entry,
  })
}

export function recordPassed(check: Check, request: FastifyRequest): void {
  record(check, { event: 'program-passed' }, request)
}

/** The errors by which a check says what was decided. Those that refuse somebody have a row of their own. */
export const DECISION_CODES: readonly string[] = [
  ...['FWA_FORBIDDEN', 'FWA_TOOL_REFUSED', 'AUTH_SCOPE_MISSING', 'FWA_STEP_UP_REQUIRED'],
  'FWA_NO_SESSION',
]

/** Records an error that refuses a check without a decision, if it is shown to a person or is about a caller. */
export function recordRefusal(
  error: Partial<FwaError>,
  forwarded: AppRequest['forwarded'] | undefined,
  request: FastifyRequest,
): void {
  const { code = '' } = error
  const { server, headers, check } = request
  const portal = server.portals.get((request.params as { portal: string }).portal)
  const isPage = forwarded ? forwarded.kind === 'navigation' : isNavigation(request.method, headers)
  const isShown = isPage || check?.principal !== undefined || error instanceof AuthError
  const isRefusal = (statusOfError(error as FwaError, STATUS_OF) ?? 500) < 500
  const isNews = !DECISION_CODES.includes(code) && code !== 'FWA_PEER_UNTRUSTED'
  if (!portal || !isShown || !isRefusal || !isNews) return
  const entry = { event: 'access-refused', code, isPage, isQuiet: true } as const
  record({ portal, principal: check?.principal, forwarded }, entry, request)
}

/** The MCP call of a program and its client; undefined for people. */
function callOf({ principal, forwarded: { mcp } = {} }: Recorded) {
  if (!principal?.isProgram) return undefined
  return { program: principal, client: principal.identity.client, tool: mcp?.name ?? mcp?.method }
}

/** Asks a person or program to authenticate as a policy demands and try again (RFC 9470). */
function stepUpError(check: Check, { name, stepUp }: Policy, reply: FastifyReply): FwaError {
  const { portal, principal, resource } = check
  const query = { policy: name }
  const isPerson = principal instanceof Visitor
  const { acr = [], maxAge } = stepUp ?? {}
  const parameters = {
    error: 'insufficient_user_authentication',
    error_description: 'The user has to authenticate again',
    ...(acr.length > 0 && { acr_values: acr.join(' ') }),
    ...(maxAge !== undefined && { max_age: String(Math.floor(maxAge / 1_000)) }),
  }
  const scopes = principal?.identity.scopes?.filter((scope) => resource?.offers(scope))
  const challenge = isPerson
    ? challenges(portal, resource)
    : portal.gate.programs.challenges({ ...NO_CREDENTIALS, scopes }, resource, parameters)
  const code = 'FWA_STEP_UP_REQUIRED'
  const refusal = { reason: `policy ${name}` }
  record(check, { event: 'access-refused', code, refusal }, reply.request)
  return new FwaError(code, `the policy ${name} requires a new sign-in`, {
    members: {
      loginUrl: isPerson ? loginUrlOf(check, reply, query) : pageUrl(check, '/signin', query),
    },
    headers: challengeHeaders(challenge, resource),
  })
}

type Forbidden = Extract<Decision, { outcome: 'forbidden' }>

function sendForbidden(check: Check, { session }: Visitor, reply: FastifyReply): FastifyReply {
  return sendToReader(reply, check, 403, refusedPage, {
    profile: session.profile,
    switchHref: switchUrl(check, reply),
    host: check.forwarded.authority,
    requestId: reply.request.id,
  })
}

/** The code of a refusal. A page does not show it, but the audit trail does. */
export function codeOf({ refusal: { wantedScopes = [] }, isClosed }: Forbidden) {
  if (wantedScopes.length > 0) return 'AUTH_SCOPE_MISSING'
  return isClosed ? 'FWA_TOOL_REFUSED' : 'FWA_FORBIDDEN'
}

/** The part of a check that a refusal is about. */
export type Refused = Pick<Check, 'portal' | 'resource' | 'principal'> & {
  readonly forwarded: Pick<Check['forwarded'], 'authority' | 'host' | 'mcp'> &
    Partial<Pick<Check['forwarded'], 'method' | 'target' | 'kind'>>
}

/** The members of a refused check that are known. */
type Recorded = Pick<Refused, 'portal'> &
  Partial<Pick<Refused, 'principal'>> & {
    readonly forwarded?: Partial<Refused['forwarded']> | undefined
  }

/** The error of somebody who may not pass, which it records. */
export function forbid(check: Refused, decision: Forbidden, request: FastifyRequest): Error {
  const { refusal, isClosed } = decision
  const { portal, forwarded, principal } = check
  const scopes = scopesToAskFor(check, refusal.wantedScopes)
  const code = codeOf(decision)
  record(check, { event: 'access-refused', code, refusal }, request)
  if (scopes.length > 0)
    return refuseCaller(new AuthError('AUTH_SCOPE_MISSING', { scopes }), check, request)
  if (isClosed) return new FwaError('FWA_TOOL_REFUSED', whyClosed(forwarded.mcp))
  const ofPerson = `this account has no access to the portal ${portal.name}`
  const ofProgram = `this program has no access at ${forwarded.authority}`
  return new FwaError('FWA_FORBIDDEN', principal instanceof Visitor ? ofPerson : ofProgram)
}

/** Tells a client why no rule for tools fits its request. */
function whyClosed(call: Refused['forwarded']['mcp']): string {
  if (call)
    return `no rule allows ${[call.method, call.name].filter(Boolean).join(' ').slice(0, 200)}`
  return 'the rules here are for MCP tools, and the headers name none for certain: it takes MCP 2026-07-28, without a session'
}

/** The URL of a hop by which the app gets the other session in place of this one. */
function switchUrl(check: Check, reply: FastifyReply): string {
  const query = { switch: '1' }
  const rd = returnUrl(check, check.forwarded.url, MAX_LINK, query)
  const hop = rd && begin(check, reply, { count: 0 })
  return pageUrl(check, '/signin', { ...query, rd, hop })
}

/**
 * The scopes that a program gets another token with. Those that it has of a resource are among them, because
 * clients ask for what a challenge names and nothing else.
 */
function scopesToAskFor({ principal, resource }: Refused, missingScopes: readonly string[] = []) {
  if (missingScopes.length === 0) return []
  const { scopes = [] } = principal?.identity ?? {}
  const currentScopes = resource?.scopes.filter((scope) => scopes.includes(scope)) ?? []
  return [...new Set([...currentScopes, ...missingScopes])]
}

/** An error, with its challenges if it is that of a program, whose line it writes once a minute. */
export function refuseCaller<E>(
  error: E,
  check: Omit<Refused, 'principal'>,
  request: FastifyRequest,
): E {
  if (!(error instanceof AuthError)) return error
  const { code, detail, statusCode } = error
  const { portal, resource, forwarded } = check
  const { server, raw, log } = request
  const fields = { code, portal: portal.name, clientAddress: server.trust.clientIp(raw) }
  // The message may quote the request.
  const details = { ...fields, host: forwarded.authority, detail: detail?.slice(0, 200) }
  server.limitLog(`caller refused ${Object.values(fields).join(' ')}`, () =>
    log[statusCode < 500 ? 'info' : 'warn'](details, 'caller refused'),
  )
  const { title } = AUTH_ERRORS[code]
  const authenticate = portal.gate.programs.challenges(error, resource)
  const basic = statusCode === 401 ? basicChallenge(check, request) : undefined
  const headers = challengeHeaders(authenticate, resource, basic)
  return Object.assign(error, { title, headers })
}
