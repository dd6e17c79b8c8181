import { AUTH_ERRORS, AuthError } from '@gatehouse/auth-core'
import type {
  Decision,
  ForwardedRequest,
  Policy,
  Principal,
  Refusal,
  Resource,
} from '@gatehouse/gate'
import { isLoopback } from '@gatehouse/net'
import { sendPage } from '@gatehouse/service-kit/pages'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { FwaError } from '../errors.ts'
import { refusedPage } from '../pages/pages.ts'
import type { PortalSite } from '../portal-site.ts'
import { Visitor } from '../session/visitor.ts'
import { pageUrl, type Site } from '../sites.ts'
import { challengeHeaders, challenges, noSession } from './challenges.ts'
import type { Dialect } from './dialects.ts'
import { readerOf } from './reader.ts'

export interface Check extends PortalSite {
  readonly decision: Decision
  readonly forwarded: ForwardedRequest<Site>
  /** The person who is signed in, or the program whose credentials were sent. */
  readonly principal: Principal | undefined
  /** The resource that the request is for. */
  readonly resource: Resource | undefined
}

/** Answers a check. Throws for what programs get as a problem. */
export function sendDecision(dialect: Dialect, check: Check, reply: FastifyReply): FastifyReply {
  const { decision, portal, resource } = check
  switch (decision.outcome) {
    case 'allow':
      return sendIdentity(check, reply)
    case 'anonymous':
    case 'preflight':
      return reply.headers(portal.gate.anonymousHeaders).send(portal.gate.body)
    case 'sign-in':
      return sendToSignIn(dialect, check, reply)
    case 'step-up':
      return sendToStepUp(dialect, check, decision.policy, reply)
    case 'forbidden':
      return sendForbidden(check, decision, reply)
    default:
      throw noSession(check, resource)
  }
}

function sendIdentity(check: Check, reply: FastifyReply): FastifyReply {
  const { portal, principal, site, forwarded } = check
  if (!principal) throw new Error('there is nobody to let pass')
  recordPass(check, principal, reply.request)
  reply.headers(principal.headers)
  const { assertion, body } = portal.gate
  if (assertion?.isFor(forwarded.host)) {
    const receiver = { portal, site, origin: forwarded.origin }
    reply.header(assertion.header, reply.server.assertions.for(principal.identity, receiver))
  }
  return reply.send(body)
}

/** Records which program passed, which proxies do not log. */
function recordPass(
  { portal, forwarded }: Check,
  principal: Principal,
  request: FastifyRequest,
): void {
  const { auditTrail, clock } = request.server
  const { authority: host } = forwarded
  if (!principal.passesAnew(host, clock.now())) return
  const { caller } = principal
  auditTrail.record(request, { event: 'program-passed', portal: portal.name, caller, host })
}

/** Characters that proxies accept in a header, and in the request that follows. */
const MAX_LOCATION = 8_000
/** Characters of a link, which keep the page of a check under 4 kB. */
const MAX_LINK = 300

function sendToSignIn(
  { redirects }: Dialect,
  check: Check,
  reply: FastifyReply,
  query: Readonly<Record<string, string | undefined>> = {},
): FastifyReply {
  const { portal, forwarded, resource } = check
  // Browsers send the session over HTTPS only, so that a sign-in would lead back here again and again.
  if (forwarded.scheme === 'http' && !isLoopback(forwarded.host))
    throw new FwaError('FWA_APP_INSECURE', `${forwarded.origin} is not https`)
  const location = signInUrl(check, MAX_LOCATION, query)
  reply
    .header('location', location)
    .header('cache-control', 'no-store')
    .type('text/plain; charset=utf-8')
  if (redirects) return reply.code(['GET', 'HEAD'].includes(forwarded.method) ? 302 : 303).send('')
  reply.headers({
    'x-auth-redirect': location,
    'www-authenticate': challenges(portal, resource),
  })
  return reply.code(401).send('')
}

/** The sign-in page with a return URL, which loses its query or is left out if it is too long. */
function signInUrl(
  check: Check,
  max: number,
  query: Readonly<Record<string, string | undefined>> = {},
): string {
  const wanted = new URL(check.forwarded.url)
  const urlWith = (rd: string) => pageUrl(check, '/signin', { ...query, rd })
  const url = urlWith(wanted.href)
  if (url.length <= max) return url
  wanted.search = ''
  const short = urlWith(wanted.href)
  return short.length <= max ? short : pageUrl(check, '/signin', query)
}

/** Has a person, or a program, authenticate as a policy demands and try again (RFC 9470). */
function sendToStepUp(
  dialect: Dialect,
  check: Check,
  { name, stepUp }: Policy,
  reply: FastifyReply,
): FastifyReply {
  const { portal, forwarded, principal, resource } = check
  const query = { policy: name }
  const isPerson = principal instanceof Visitor
  if (isPerson && forwarded.kind === 'navigation') return sendToSignIn(dialect, check, reply, query)
  const { acr = [], maxAge } = stepUp ?? {}
  const parameters = {
    error: 'insufficient_user_authentication',
    error_description: 'The user has to authenticate again',
    ...(acr.length > 0 && { acr_values: acr.join(' ') }),
    ...(maxAge !== undefined && { max_age: String(Math.floor(maxAge / 1_000)) }),
  }
  const missing = new AuthError('AUTH_CREDENTIALS_MISSING')
  const challenge = isPerson
    ? challenges(portal, resource)
    : portal.gate.programs.challenges(missing, resource, parameters)
  throw new FwaError('FWA_STEP_UP_REQUIRED', `the policy ${name} requires a new sign-in`, {
    members: { loginUrl: pageUrl(check, '/signin', query) },
    headers: challengeHeaders(challenge, resource),
  })
}

function sendForbidden(
  check: Check,
  { refusal }: Extract<Decision, { outcome: 'forbidden' }>,
  reply: FastifyReply,
): FastifyReply {
  const { portal, forwarded, principal } = check
  const { request } = reply
  const scopes = scopesToAskFor(check, refusal)
  request.server.auditTrail.record(request, {
    event: 'access-refused',
    portal: portal.name,
    profile: principal?.identity.profile,
    caller: principal?.caller,
    host: forwarded.authority,
    code: scopes.length > 0 ? 'AUTH_SCOPE_MISSING' : 'FWA_FORBIDDEN',
    refusal,
  })
  if (scopes.length > 0)
    throw refuseCaller(new AuthError('AUTH_SCOPE_MISSING', { scopes }), check, request)
  if (!(principal instanceof Visitor))
    throw new FwaError('FWA_FORBIDDEN', `this program has no access at ${forwarded.authority}`)
  if (forwarded.kind !== 'navigation')
    throw new FwaError('FWA_FORBIDDEN', `this account has no access to the portal ${portal.name}`)
  const page = refusedPage({
    ...readerOf(request, check),
    profile: principal.session.profile,
    switchHref: signInUrl(check, MAX_LINK, { switch: '1' }),
    appsHref: pageUrl(check, '/signin'),
    requestId: request.id,
  })
  return sendPage(reply, 403, page)
}

/**
 * The scopes that a program gets another token with. Those that it has of a resource are among them, because
 * clients ask for what a challenge names and nothing else.
 */
function scopesToAskFor({ principal, resource }: Check, { wantedScopes = [] }: Refusal): string[] {
  if (wantedScopes.length === 0) return []
  const { scopes = [] } = principal?.identity ?? {}
  const kept = resource?.scopes.filter((scope) => scopes.includes(scope)) ?? []
  return [...new Set([...kept, ...wantedScopes])]
}

/** The error of a program that is refused, with its challenges. Writes its line of the log. */
export function refuseCaller(
  error: AuthError,
  { portal, resource }: Pick<Check, 'portal' | 'resource'>,
  { log }: FastifyRequest,
): AuthError {
  const { code, detail, statusCode } = error
  log[statusCode < 500 ? 'info' : 'warn']({ code, detail }, 'caller refused')
  const { title } = AUTH_ERRORS[code]
  const headers = challengeHeaders(portal.gate.programs.challenges(error, resource), resource)
  return Object.assign(error, { title, headers })
}
