import { type IncomingMessage, METHODS } from 'node:http'
import { sendPage } from '@gatehouse/service-kit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Checked, check } from '../check/check.ts'
import type { Dialect } from '../check/dialects.ts'
import { anonymousHeaders, BODY, type Headers, identityHeaders } from '../check/headers.ts'
import { kindOf } from '../check/kind.ts'
import { FwaError } from '../errors.ts'
import { urlOf } from '../forwarded/request.ts'
import { refusedPage } from '../pages/pages.ts'
import type { Service } from '../service.ts'
import { bareAnswer, problemAnswers, TO_SIGN_IN } from './documented.ts'
import { challenge, noSession } from './no-session.ts'
import { pageUrl, type SignInQuery } from './redirect.ts'

/** Characters that proxies have room for in a header, and in the request that follows. */
const MAX_LOCATION = 8_000
/** And those that keep the page of a check under 4 kB. */
const MAX_LINK = 300
const OTHER_METHODS = METHODS.filter((method) => method !== 'GET' && method !== 'CONNECT')

declare module 'fastify' {
  interface FastifyRequest {
    /** What a check came to; undefined in other requests. */
    checked: Checked | undefined
  }
}

/** Where a dialect is spoken. */
export interface CheckRoute {
  readonly dialect: Dialect
  readonly path: string
  readonly summary: string
  readonly description: string
}

type Params = { readonly portal: string; readonly policy?: string }
type CheckRequest = FastifyRequest<{ Params: Params }>
/** Node's types leave out what requests to a server always have. */
type ServerRequest = IncomingMessage & { readonly method: string; readonly url: string }

/** The check that proxies make before each request to an app, by whatever method. */
export function checkRoute({ dialect, path, summary, description }: CheckRoute) {
  return async (app: FastifyInstance, { service }: { service: Service }): Promise<void> => {
    // A proxy may send the body of its client along; nobody here reads it.
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*', (_request, _payload, done) => done(null))
    const { status } = dialect
    for (const method of OTHER_METHODS)
      if (!app.supportedMethods.includes(method)) app.addHttpMethod(method)

    // Synchronous, from the first byte to the answer. Whatever is thrown denies.
    function handler(request: CheckRequest, reply: FastifyReply): void {
      const { portal, policy } = request.params
      try {
        request.checked = check(service, dialect, portal, policy, request.raw as ServerRequest)
        answer(dialect, request.checked, request, reply)
        service.metrics.check(portal, request.checked.decision)
      } catch (error) {
        const isDecided = DECIDED.includes((error as FwaError | undefined)?.code ?? '')
        const { decision } = request.checked ?? {}
        service.metrics.check(portal, (isDecided && decision) || 'refused')
        if (!isDecided) tellOperator(service, error as FwaError, request)
        throw error
      }
    }
    const response = answersIn(dialect)
    const schema = { summary, description, tags: ['check'], security: SECURITY, response }
    const config = { problemStatus: status }
    app.route({ method: 'GET', url: path, exposeHeadRoute: false, schema, config, handler })
    app.route({ method: OTHER_METHODS, url: path, schema: { hide: true }, config, handler })
  }
}

const SECURITY = [{ sessionCookie: [] }]

/** Only documented: what lets pass is sent past Fastify, and problems are text by then. */
function answersIn({ redirects, status = (wanted) => wanted }: Dialect) {
  return {
    200: bareAnswer('Let the request pass, with the identity headers of this answer.'),
    ...(redirects && { 302: TO_SIGN_IN, 303: TO_SIGN_IN }),
    ...problemAnswers(400, 401, 403),
    ...(status(404) === 404 && problemAnswers(404)),
  }
}

/** Errors that are decisions, and no faults. */
const DECIDED: readonly string[] = ['FWA_NO_SESSION', 'FWA_FORBIDDEN']

/** Faults of a check are those of a proxy's configuration, which its operator finds in the log. */
function tellOperator(service: Service, { code, message }: FwaError, request: CheckRequest): void {
  const peer = request.raw.socket.remoteAddress
  const { portal } = request.params
  service.tellSeldom(`${code} ${peer}`, () =>
    request.log.warn({ code, peer, portal }, `check refused: ${message}`),
  )
}

function answer(
  dialect: Dialect,
  checked: Checked,
  request: CheckRequest,
  reply: FastifyReply,
): void {
  const { decision, portal, session } = checked
  if (decision === 'allow' && session) sendAtOnce(reply, identityHeaders(portal, session))
  else if (decision === 'preflight') sendAtOnce(reply, anonymousHeaders(portal))
  else if (decision === 'sign-in') sendToSignIn(dialect, checked, reply)
  else if (decision === 'forbidden') refuse(checked, request, reply)
  else throw noSession(reply, { portal, site: checked.forwarded.site })
}

/**
 * A 200 past Fastify's own sending, which costs as much as the decision. The hooks of responses run;
 * what writeHead throws is answered like any other error.
 */
function sendAtOnce(reply: FastifyReply, headers: Headers): void {
  const { raw } = reply
  raw.writeHead(200, headers as string[])
  reply.hijack()
  // Nothing here is beyond ASCII, and to look for that costs time.
  raw.end(BODY, 'latin1')
}

function sendToSignIn({ redirects }: Dialect, checked: Checked, reply: FastifyReply): void {
  const { portal, forwarded } = checked
  const { method } = forwarded
  const location = signInUrl(checked, MAX_LOCATION)
  const isRead = method === 'GET' || method === 'HEAD'
  reply.header('location', location).header('cache-control', 'no-store')
  if (redirects) reply.code(isRead ? 302 : 303)
  else challenge(reply.code(401).header('x-auth-redirect', location), portal)
  reply.type('text/plain; charset=utf-8').send('')
}

/** The sign-in page, and back from there: to the page without its query, or not at all, if that is too long. */
function signInUrl({ portal, forwarded }: Checked, max: number, query: SignInQuery = {}): string {
  const place = { portal, site: forwarded.site }
  const wanted = new URL(urlOf(forwarded))
  const urlTo = (rd: string) => pageUrl(place, '/signin', { ...query, rd })
  const url = urlTo(wanted.href)
  if (url.length <= max) return url
  wanted.search = ''
  const short = urlTo(wanted.href)
  return short.length <= max ? short : pageUrl(place, '/signin', query)
}

function refuse(checked: Checked, request: CheckRequest, reply: FastifyReply): void {
  const { portal, forwarded, session } = checked
  if (!session || kindOf(forwarded.method, request.headers) !== 'navigation')
    throw new FwaError('FWA_FORBIDDEN', `this account may not pass the portal ${portal.name} here`)
  const page = refusedPage({
    portal,
    profile: session.profile,
    switchHref: signInUrl(checked, MAX_LINK, { switch: '1' }),
    requestId: request.id,
  })
  sendPage(reply, 403, page)
}
