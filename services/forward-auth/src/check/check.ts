import { METHODS } from 'node:http'
import { AuthError } from '@gatehouse/auth-core'
import type { Decision, ForwardedRequest, Gate } from '@gatehouse/gate'
import { isNavigation, type Peer, statusOfError } from '@gatehouse/service-kit/http'
import { DIALECTS, type Dialect } from '@gatehouse/service-kit/proxies'
import type { Metrics } from '@gatehouse/service-kit/telemetry'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import { shownPath } from '../audit/shown-path.ts'
import { PROBE_MARK } from '../doctor/probes.ts'
import { FwaError, STATUS_OF } from '../errors.ts'
import { warnRarely } from '../log-limit.ts'
import { portalOf } from '../portal/portals.ts'
import { splitTarget, TICKET } from '../session/hop.ts'
import { Visitor } from '../session/session.ts'
import { pageUrl, type Site, type Sites } from '../sites.ts'
import { bareAnswer, problemAnswers, TO_SIGN_IN } from '../web/documented.ts'
import { isSentTo } from '../web/realm.ts'
import { redirect } from '../web/redirects.ts'
import {
  type Check,
  DECISION_CODES,
  recordRefusal,
  refuseCaller,
  sendDecision,
} from './check-answers.ts'
import { type AppRequest, answerTicket, sendToPage } from './hops.ts'
import { assertUnpacks, sealAnswer, unpackAnswer } from './sealed-answer.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Counts a check by its result; `bad-credentials` if those of a program were not valid, `refused`
     * if its request was not.
     */
    readonly countCheck: (portal: string, decision: CheckResult) => void
  }
  interface FastifyRequest {
    /** The check that this request made; undefined before its decision and for other requests. */
    check: Check | undefined
    /** The answer that was sealed for the client of nginx. */
    sealedAnswer: { status: number; headers: ReturnType<FastifyReply['getHeaders']> } | undefined
  }
}

type CheckResult = Decision['outcome'] | 'bad-credentials' | 'refused'

const RESULTS: readonly CheckResult[] = [
  'allow',
  'anonymous',
  'preflight',
  'sign-in',
  'no-session',
  'step-up',
  'forbidden',
  'bad-credentials',
  'refused',
]

export const check = fp<{ readonly metrics?: Metrics | undefined }>(
  async (app: FastifyInstance, { metrics }) => {
    app.decorateRequest('check', undefined)
    app.decorateRequest('sealedAnswer', undefined)
    app.decorate('countCheck', metrics ? createCounter(app, metrics) : () => {})
  },
  {
    name: 'forward-auth/check',
    dependencies: [
      'forward-auth/portals',
      'forward-auth/sites',
      'forward-auth/keys',
      'forward-auth/sessions',
      'forward-auth/assertions',
      'service-kit/trust',
      'forward-auth/probes',
      'forward-auth/audit',
      'forward-auth/log-limit',
      'forward-auth/backlog',
      'service-kit/clock',
      'service-kit/reload',
    ],
  },
)

function createCounter(
  { portals }: FastifyInstance,
  metrics: Metrics,
): FastifyInstance['countCheck'] {
  const checks = metrics.counter({
    name: 'gatehouse_auth_checks_total',
    help: 'Checks by portal and decision; `refused` are those with an invalid request.',
    labels: { portal: () => [...portals.keys()], decision: RESULTS },
  })
  return (portal, decision) => checks.inc({ portal, decision })
}

const BY_QUERY =
  'The query may add a requirement for this route: `policy`, the name of a policy of the portal, or `if`, a condition.'
/** The routes of a dialect: the URL, the name of the operation, and what it is for. */
function routesOf({
  name,
  title,
  source,
}: Dialect): readonly (readonly [string, string, string])[] {
  const operation = `check${name.replace(/(?:^|-)([a-z])/g, (_, letter) => letter.toUpperCase())}`
  const summary = `Check for ${title}`
  const url = name === 'forward' ? '/' : `/authz/${name}`
  if (source !== 'request-line') return [[url, operation, summary]]
  const byPolicy = `${url}/policy/:policy`
  return [
    [`${byPolicy}/*`, operation, `${summary}, by a policy of the portal or \`any\``],
    // Trailing slashes are ignored, so that the wildcard does not match the page `/` of an app.
    [byPolicy, `${operation}Home`, `${summary}, of the page \`/\``],
  ]
}

const OTHER_METHODS = METHODS.filter((method) => method !== 'GET' && method !== 'CONNECT')
const SCHEMA = { tags: ['check'], security: [{ sessionCookie: [] }] }

/** The checks that proxies make before each request to an app, by any method. */
export async function checkRoutes(app: FastifyInstance): Promise<void> {
  // Some proxies send the body of their client, which is not read.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  for (const method of OTHER_METHODS)
    if (!app.supportedMethods.includes(method)) app.addHttpMethod(method)

  app.addHook('onError', async (request, _reply, error) => {
    if (isProbe(request)) app.probes.noteError(request, error)
  })
  app.addHook('onResponse', (request, reply, done) => {
    const isSigned = reply.statusCode === 200 && request.check?.decision.outcome !== 'anonymous'
    if (!isSigned && isProbe(request)) app.probes.keep(request, reply)
    done()
  })

  for (const dialect of DIALECTS) checkRoutesOf(dialect, app)
}

function checkRoutesOf(dialect: Dialect, app: FastifyInstance): void {
  const { title, source, isSealed } = dialect
  const description =
    source === 'request-line'
      ? `The path names a policy, because ${title} appends the query of its client.`
      : BY_QUERY
  for (const [url, operationId, summary] of routesOf(dialect)) {
    const route: Omit<RouteOptions, 'method'> = {
      url,
      preHandler: url === '/' ? leadHome : [],
      onSend: isSealed ? async (_request, reply, payload) => sealAnswer(reply, payload) : [],
      handler: (_request, reply) => answerCheck(dialect, reply),
      errorHandler(error, request, reply) {
        removeIdentity(request, reply)
        throw asDenial(error, dialect)
      },
    }
    const response = answersIn(dialect)
    const schema = { ...SCHEMA, operationId, summary, description, response }
    app.route({ ...route, method: 'GET', exposeHeadRoute: false, schema })
    app.route({ ...route, method: OTHER_METHODS, schema: { hide: true } })
    if (!isSealed) continue
    const unpacked = `The answer for the client of ${title}`
    const names = { operationId: `${operationId}Answer`, summary: unpacked }
    const answer = { ...SCHEMA, ...names, response: UNPACKED }
    // The check has its line in the log.
    const options = { schema: answer, logLevel: 'warn', exposeHeadRoute: false } as const
    app.get(`${url}/answer`, options, unpackAnswer)
  }
}

const UNPACKED = {
  ...{ 302: TO_SIGN_IN, 303: TO_SIGN_IN },
  ...problemAnswers(400, 401, 403, 404, 429, 502, 503),
}

/** Leads a person who types the URL of a portal, which no proxy asks at a sign-in host, to its apps. */
function leadHome(request: FastifyRequest, reply: FastifyReply, done: () => void) {
  const { headers, method, server } = request
  const isAsked = 'x-forwarded-method' in headers || 'x-forwarded-uri' in headers
  if (isAsked || !isNavigation(method, headers)) return done()
  const site = server.sites.list.find(({ authOrigin }) => isSentTo(authOrigin, request))
  if (site) redirect(reply, pageUrl({ portal: portalOf(request), site }, '/signin'))
  else done()
}

/** Whether a request says that it is one of `gatehouse-auth doctor`. */
function isProbe({ raw: { url = '', rawHeaders } }: FastifyRequest): boolean {
  return url.includes(PROBE_MARK) || rawHeaders.some((text) => text.includes(PROBE_MARK))
}

/** The answers for the documentation: problems are sent as text, which no schema serializes. */
function answersIn({ redirects, isSealed, denialStatus = (status) => status }: Dialect) {
  const passes = bareAnswer('Let the request pass, with the identity headers of this answer.')
  const sealed = bareAnswer(
    'Have the answer for the client unpacked, which `X-Gatehouse-Answer` is.',
  )
  if (isSealed) return { 200: passes, ...problemAnswers(400), 403: sealed }
  return {
    200: passes,
    ...(redirects && { 302: TO_SIGN_IN, 303: TO_SIGN_IN }),
    ...problemAnswers(400, 401, 403),
    ...(denialStatus(404) === 404 && problemAnswers(404)),
    ...(denialStatus(503) === 503 && problemAnswers(503)),
  }
}

/** Every error denies. */
async function answerCheck(dialect: Dialect, reply: FastifyReply): Promise<FastifyReply> {
  const { request } = reply
  const { countCheck } = request.server
  const { portal } = request.params as { portal: string }
  let appRequest: AppRequest | undefined
  try {
    appRequest = readCheck(dialect, request)
    const { target } = appRequest.forwarded
    const split = target.includes(TICKET) ? splitTarget(target) : undefined
    if (split) return await answerTicket(dialect, appRequest, split, reply)
    request.check = await decideCheck(appRequest, request)
    await sendInTurn(dialect, request.check, reply)
    countCheck(portal, request.check.decision.outcome)
    return reply
  } catch (error) {
    const { code, message } = Object(error) as FwaError
    const isDecision = DECISION_CODES.includes(code)
    const outcome = error instanceof AuthError ? 'bad-credentials' : 'refused'
    countCheck(portal, (isDecision && request.check?.decision.outcome) || outcome)
    recordRefusal(Object(error), appRequest?.forwarded, request)
    const peer = request.raw.socket.remoteAddress
    // The operator corrects these errors in the configuration of the proxy.
    if (!isDecision && outcome === 'refused')
      warnRarely(request, { code, peer }, `check refused: ${message}`, { portal })
    throw error
  }
}

/** Answers as was decided. Those who are signed in go ahead of a crowd that is not. */
async function sendInTurn(dialect: Dialect, check: Check, reply: FastifyReply): Promise<void> {
  if (check.decision.outcome === 'sign-in') {
    await reply.server.backlog.turn()
    sendToPage(dialect, check, reply)
  } else sendDecision(dialect, check, reply)
}

/** Reads the request that a trusted proxy asks about. */
export function readCheck(dialect: Dialect, request: FastifyRequest): AppRequest {
  const { server, raw } = request
  if (!server.trust.trusts(raw.socket)) throw untrusted(raw.socket)
  if (dialect.isSealed) assertUnpacks(request)
  const portal = portalOf(request)
  const forwarded = readForwarded(portal.gate, dialect, raw, server.sites)
  return { portal, site: forwarded.site, forwarded }
}

type ProxyRequest = Parameters<Gate['read']>[1]

/** Reads a request as a check does, whoever sent it. */
export function readForwarded(
  gate: Pick<Gate, 'read'>,
  { source }: Dialect,
  request: ProxyRequest,
  sites: Sites,
): ForwardedRequest<Site> {
  const forwarded = gate.read(source, request, sites)
  assertNotOnAuthHost(forwarded, source, request, sites)
  return forwarded
}

export async function decideCheck(appRequest: AppRequest, request: FastifyRequest): Promise<Check> {
  const { server, raw } = request
  const { portal, forwarded } = appRequest
  const { gate } = portal
  const { host, authority } = forwarded
  const sender = {
    request,
    person: () => server.sessions.atApp(request, { ...appRequest, authority }),
    clientIp: () => server.trust.clientIp(raw),
    now: server.clock.now(),
  }
  try {
    const result = await gate.check(forwarded, sender, policyQuery(request))
    const { decision, principal } = result
    const passes = decision.outcome === 'allow' && principal instanceof Visitor
    if (passes) server.sessions.records.noteHost(principal.session, host.name)
    const settings = gate.providerToken?.isFor(host) ? gate.providerToken : undefined
    const providerToken =
      settings && passes
        ? await server.sessions.providerToken(principal, settings.token)
        : undefined
    return { ...appRequest, ...result, providerToken }
  } catch (error) {
    throw refuseCaller(error, { ...appRequest, resource: gate.resourceAt(forwarded) }, request)
  }
}

/** A connection that was cut off has no address any more, and nobody reads the answer. */
export function untrusted({ remoteAddress }: Peer): FwaError {
  if (remoteAddress === undefined)
    return new FwaError('FWA_PEER_UNTRUSTED', 'the connection ended before it was checked')
  const remedy = `if it is yours, add "${remoteAddress}" or its host name to server.trustedProxies`
  return new FwaError('FWA_PEER_UNTRUSTED', `${remoteAddress} is not a trusted proxy: ${remedy}`)
}

/**
 * A proxy publishes the host of the sign-in pages. There, any client could send checks that no
 * proxy makes, with conditions of their own choice and forwarded headers beside those of the proxy.
 */
function assertNotOnAuthHost(
  { authority, isAuthHost }: ForwardedRequest<Site>,
  source: Dialect['source'],
  { headers }: ProxyRequest,
  sites: Sites,
): void {
  const name = headers['x-forwarded-host']
  const forwardedHost = typeof name === 'string' ? sites.find(name) : undefined
  // Only for its sign-in pages does a proxy set this header, if it names the app by another one.
  const isOfPages =
    forwardedHost && source !== 'x-forwarded' && sites.hasPagesAt(forwardedHost.host.name)
  if (!isAuthHost && !forwardedHost?.isAuthHost && !isOfPages) return
  const reserved = isAuthHost ? authority : name
  const message = `${reserved} is the host of the sign-in pages, and no app is on it`
  throw new FwaError('FWA_HOST_RESERVED', message)
}

/** Envoy appends the query of its client, so that its policy is in the path. */
function policyQuery({ headers, params, raw }: FastifyRequest): string {
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

/** An error may come up when the headers of a 200 are set already. */
function removeIdentity({ check }: FastifyRequest, reply: FastifyReply): void {
  reply.removeHeader('authorization')
  if (check?.decision.outcome !== 'allow') return
  for (const name of Object.keys(check.portal.gate.anonymousHeaders)) reply.removeHeader(name)
}

/** The error with a status that the proxy takes for a denial. */
function asDenial(thrown: unknown, { denialStatus = (status) => status }: Dialect): Error {
  const error = thrown instanceof Error ? thrown : new Error('the check failed', { cause: thrown })
  const mappedStatus = statusOfError(error, STATUS_OF)
  const status = mappedStatus ?? 500
  const statusCode = denialStatus(status)
  if (statusCode === status) return error
  // A 4xx in place of a 5xx must not show what the 5xx hides.
  const expose = status < 500 || (error as FwaError).expose === true
  if (mappedStatus !== undefined) return Object.assign(error, { statusCode, expose })
  const hidden = new Error('the check failed', { cause: thrown })
  return Object.assign(hidden, { code: 'INTERNAL', statusCode, expose })
}

/**
 * Members of the log line of a request: the portal, the host that was asked for, the client as the
 * trusted proxies name it, and who asked.
 */
export function describeCheck(request: FastifyRequest) {
  const { check, params, server } = request
  const { portal = '' } = (params ?? {}) as { portal?: string }
  const { decision, forwarded, principal } = check ?? {}
  const refusal = decision?.outcome === 'forbidden' ? decision.refusal : undefined
  return {
    portal: server.portals.has(portal) ? portal : undefined,
    host: forwarded?.authority,
    clientAddress: server.trust.clientIp(request.raw),
    caller: principal?.caller,
    refusedBy: refusal?.reason,
    clause: refusal?.clause,
    ...(refusal && { appMethod: forwarded?.method, appPath: shownPath(forwarded?.target ?? '') }),
  }
}

/** Whether a request needs no line: a check that passed, which proxies log, or the refusal of a caller, which has one. */
export function isRoutine({ check, problem }: FastifyRequest, { statusCode }: FastifyReply) {
  return (check !== undefined && statusCode === 200) || problem?.code.startsWith('AUTH_') === true
}
