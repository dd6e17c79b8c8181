import { METHODS } from 'node:http'
import { sendPage, statusOfError } from '@gatehouse/service-kit'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import { type ConditionReader, createConditionReader } from '../check/condition.ts'
import { type Decision, decide, kindOf, type Visitor } from '../check/decide.ts'
import { BODY, checkHeaders } from '../check/headers.ts'
import { FwaError, STATUS_OF } from '../errors.ts'
import {
  type ForwardedReader,
  type ForwardedRequest,
  type Peer,
  type ProxyRequest,
  readForwarded,
  readOriginal,
  readRequestLine,
  urlOf,
} from '../forwarded.ts'
import { warnRarely } from '../log-limit.ts'
import { refusedPage } from '../pages/pages.ts'
import { bareAnswer, problemAnswers, TO_SIGN_IN } from './documented.ts'
import {
  challenge,
  clientIpOf,
  noSession,
  type PortalSite,
  pageUrl,
  portalOf,
  type SignInQuery,
  visitorOf,
} from './portal-page.ts'

/** How a proxy sends its checks, and which answers it understands. */
export interface Dialect {
  readonly read: ForwardedReader
  /** Whether the proxy passes a redirect on to the browser. */
  readonly redirects: boolean
  /** The status of an error, if the proxy would misread some. */
  readonly denialStatus?: (status: number) => number
}

/** Traefik, Caddy and HAProxy: every status but 2xx denies, and reaches the client unchanged. */
export const forwardDialect: Dialect = { read: readForwarded, redirects: true }

/** nginx `auth_request`: 401 and 403 deny, everything else becomes its own 500. */
export const nginxDialect: Dialect = {
  read: readOriginal,
  redirects: false,
  denialStatus: (status) => (status === 401 ? 401 : 403),
}

/** Envoy `ext_authz` over HTTP: a 5xx would let the request pass under `failure_mode_allow`. */
export const envoyDialect: Dialect = {
  read: readRequestLine,
  redirects: true,
  denialStatus: (status) => (status >= 500 ? 403 : status),
}

interface Check extends PortalSite {
  readonly decision: Decision
  readonly forwarded: ForwardedRequest
  /** Present if a person is signed in, so with `allow` and `forbidden`. */
  readonly visitor: Visitor | undefined
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly readCondition: ConditionReader
  }
  interface FastifyRequest {
    /** The check that this request made; undefined before its decision and for other requests. */
    check: Check | undefined
  }
}

export const check = fp(
  async (app: FastifyInstance) => {
    app.decorateRequest('check', undefined)
    app.decorate('readCondition', createConditionReader())
  },
  {
    fastify: '5.x',
    name: 'forward-auth/check',
    dependencies: ['forward-auth/portals', 'forward-auth/sessions', 'forward-auth/trust'],
  },
)

const BY_QUERY =
  'The query may add a requirement for this route: `policy`, the name of a policy of the portal, or `if`, a condition.'
const BY_PATH = 'The path names a policy, because Envoy appends the query of its client.'
const ENVOY = '/authz/envoy/policy/:policy'

const ROUTES: readonly (readonly [dialect: Dialect, url: string, summary: string])[] = [
  [forwardDialect, '/', 'Check for Traefik and Caddy'],
  [nginxDialect, '/authz/nginx', 'Check for nginx'],
  [forwardDialect, '/authz/haproxy', 'Check for HAProxy'],
  [envoyDialect, `${ENVOY}/*`, 'Check for Envoy, by a policy of the portal or `any`'],
  // Trailing slashes are ignored, so that the wildcard does not match the page `/` of an app.
  [envoyDialect, ENVOY, 'Check for Envoy, of the page `/`'],
]

const OTHER_METHODS = METHODS.filter((method) => method !== 'GET' && method !== 'CONNECT')
const SCHEMA = { tags: ['check'], security: [{ sessionCookie: [] }] }

/** The checks that proxies make before each request to an app, by any method. */
export async function checkRoutes(app: FastifyInstance): Promise<void> {
  // Some proxies send the body of their client, which is not read.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  for (const method of OTHER_METHODS)
    if (!app.supportedMethods.includes(method)) app.addHttpMethod(method)

  for (const [dialect, url, summary] of ROUTES) {
    const route: Omit<RouteOptions, 'method'> = {
      url,
      handler: (request, reply) => answerCheck(dialect, request, reply),
      errorHandler(error, request, reply) {
        removeIdentity(request, reply)
        throw asDenial(error, dialect)
      },
    }
    const description = dialect === envoyDialect ? BY_PATH : BY_QUERY
    const schema = { ...SCHEMA, summary, description, response: answersIn(dialect) }
    app.route({ ...route, method: 'GET', exposeHeadRoute: false, schema })
    app.route({ ...route, method: OTHER_METHODS, schema: { hide: true } })
  }
}

/** For the documentation: problems are sent as text, which no schema serializes. */
function answersIn({ redirects, denialStatus = (status) => status }: Dialect) {
  return {
    200: bareAnswer('Let the request pass, with the identity headers of this answer.'),
    ...(redirects && { 302: TO_SIGN_IN, 303: TO_SIGN_IN }),
    ...problemAnswers(400, 401, 403),
    ...(denialStatus(404) === 404 && problemAnswers(404)),
  }
}

/** Every error denies. */
async function answerCheck(
  dialect: Dialect,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { authMetrics } = request.server
  const { portal } = request.params as { portal: string }
  try {
    request.check = await decideCheck(dialect, request)
    const answered = sendDecision(dialect, request.check, reply)
    authMetrics.check(portal, request.check.decision)
    return answered
  } catch (error) {
    const { code, message } = Object(error) as FwaError
    const isDecision = DECISIONS.includes(code)
    authMetrics.check(portal, (isDecision && request.check?.decision) || 'refused')
    const peer = request.raw.socket.remoteAddress
    // The operator corrects these errors in the configuration of the proxy.
    if (!isDecision) warnRarely(request, { code, peer }, `check refused: ${message}`, { portal })
    throw error
  }
}

const DECISIONS: readonly string[] = ['FWA_NO_SESSION', 'FWA_FORBIDDEN']

export async function decideCheck(dialect: Dialect, request: FastifyRequest): Promise<Check> {
  const { server } = request
  const raw = request.raw as ProxyRequest & { readonly socket: Peer }
  if (!server.trust.trusts(raw.socket)) throw untrusted(raw.socket)
  const portal = portalOf(request)
  portal.refuseAliases(raw.rawHeaders)
  const forwarded = dialect.read(raw, server.sites)
  assertNotOnAuthHost(forwarded, request)
  const { site } = forwarded
  const visitor = await visitorOf(request, { portal, site })
  const decision = decide(
    portal,
    visitor,
    () => server.readCondition(portal, conditionQuery(request)),
    () => kindOf(forwarded.method, raw.headers),
  )
  return { decision, portal, site, forwarded, visitor }
}

function untrusted({ remoteAddress = 'unknown' }: Peer): FwaError {
  const remedy = `if it is yours, add "${remoteAddress}" to server.trustedProxies`
  return new FwaError('FWA_PEER_UNTRUSTED', `${remoteAddress} is not a trusted proxy: ${remedy}`)
}

/**
 * A proxy publishes the host of the sign-in pages. There, any client could send checks that no
 * proxy makes, with conditions of their own choice and forwarded headers beside those of the proxy.
 */
function assertNotOnAuthHost(
  { authority, isAuthHost }: ForwardedRequest,
  { headers, server }: FastifyRequest,
): void {
  const host = headers['x-forwarded-host']
  if (!isAuthHost && !(typeof host === 'string' && server.sites.find(host)?.isAuthHost)) return
  const reserved = isAuthHost ? authority : host
  const message = `${reserved} is the host of the sign-in pages, and no app is on it`
  throw new FwaError('FWA_HOST_RESERVED', message)
}

/** Envoy appends the query of its client, so that its policy is in the path. */
function conditionQuery({ headers, params, raw }: FastifyRequest): string {
  if (headers['x-forward-auth-if'] !== undefined)
    throw new FwaError(
      'FWA_CONDITION_HEADER',
      'X-Forward-Auth-If was sent: name a policy in the URL of the check, and remove the header',
    )
  const { policy } = params as { policy?: string }
  if (policy !== undefined) return `policy=${encodeURIComponent(policy)}`
  const { url = '' } = raw
  const start = url.indexOf('?')
  return start < 0 ? '' : url.slice(start + 1)
}

function sendDecision(dialect: Dialect, check: Check, reply: FastifyReply): FastifyReply {
  const { decision, portal, visitor } = check
  if (decision === 'allow' && visitor) return reply.headers(visitor.headers).send(portal.body)
  if (decision === 'preflight') return reply.headers(checkHeaders(portal, undefined)).send(BODY)
  if (decision === 'sign-in') return sendToSignIn(dialect, check, reply)
  if (decision === 'forbidden') return sendForbidden(check, reply)
  throw noSession(check)
}

/** Characters that proxies accept in a header, and in the request that follows. */
const MAX_LOCATION = 8_000
/** Keeps the page of a check under 4 kB. */
const MAX_LINK = 300

function sendToSignIn({ redirects }: Dialect, check: Check, reply: FastifyReply): FastifyReply {
  const { portal, forwarded } = check
  const location = signInUrl(check, MAX_LOCATION)
  reply
    .header('location', location)
    .header('cache-control', 'no-store')
    .type('text/plain; charset=utf-8')
  if (redirects) return reply.code(['GET', 'HEAD'].includes(forwarded.method) ? 302 : 303).send('')
  reply.headers({ 'x-auth-redirect': location, 'www-authenticate': challenge(portal) })
  return reply.code(401).send('')
}

/** The sign-in page with a return URL, which loses its query or is left out if it is too long. */
function signInUrl(check: Check, max: number, query: SignInQuery = {}): string {
  const wanted = new URL(urlOf(check.forwarded))
  const urlWith = (rd: string) => pageUrl(check, '/signin', { ...query, rd })
  const url = urlWith(wanted.href)
  if (url.length <= max) return url
  wanted.search = ''
  const short = urlWith(wanted.href)
  return short.length <= max ? short : pageUrl(check, '/signin', query)
}

function sendForbidden(check: Check, reply: FastifyReply): FastifyReply {
  const { portal, forwarded, visitor } = check
  const { request } = reply
  request.server.auditTrail.record(request, {
    event: 'access-refused',
    portal: portal.name,
    profile: visitor?.session.profile,
    host: forwarded.authority,
    code: 'FWA_FORBIDDEN',
  })
  if (!visitor || kindOf(forwarded.method, request.headers) !== 'navigation')
    throw new FwaError('FWA_FORBIDDEN', `this account has no access to the portal ${portal.name}`)
  const page = refusedPage({
    portal,
    profile: visitor.session.profile,
    switchHref: signInUrl(check, MAX_LINK, { switch: '1' }),
    requestId: request.id,
  })
  return sendPage(reply, 403, page)
}

/** An error may come up when the headers of a 200 are set already. */
function removeIdentity({ check }: FastifyRequest, reply: FastifyReply): void {
  if (check?.decision !== 'allow') return
  try {
    for (const name of Object.keys(checkHeaders(check.portal, undefined))) reply.removeHeader(name)
  } catch {
    // Headers whose names cannot be read were not set either.
  }
}

/** The error with a status that the proxy takes for a denial. */
function asDenial(thrown: unknown, { denialStatus = (status) => status }: Dialect): Error {
  const error = thrown instanceof Error ? thrown : new Error('the check failed', { cause: thrown })
  const known = statusOfError(error, STATUS_OF)
  const status = known ?? 500
  const statusCode = denialStatus(status)
  if (statusCode === status) return error
  // A 4xx in place of a 5xx must not show what the 5xx hides.
  const expose = status < 500 || (error as FwaError).expose === true
  if (known !== undefined) return Object.assign(error, { statusCode, expose })
  const hidden = new Error('the check failed', { cause: thrown })
  return Object.assign(hidden, { code: 'INTERNAL', statusCode, expose })
}

/**
 * Members of the log line of a request: the portal, the host that was asked for, the client as the
 * trusted proxies name it, and the person.
 */
export function describeCheck(request: FastifyRequest) {
  const { check, params, server } = request
  const { portal = '' } = (params ?? {}) as { portal?: string }
  const { provider, id } = check?.visitor?.session.profile ?? {}
  return {
    portal: server.portals.has(portal) ? portal : undefined,
    host: check?.forwarded.authority,
    clientAddress: clientIpOf(request),
    caller: provider === undefined ? undefined : `${provider}:${id}`,
  }
}

/** Whether a request is a check that passed; proxies log what they let pass. */
export function isAllowedCheck({ check }: FastifyRequest, { statusCode }: FastifyReply): boolean {
  return check !== undefined && statusCode === 200
}
