import cookie from '@fastify/cookie'
import { AuthError, type KeyCaller } from '@gatehouse/auth-core'
import { IssueError } from '@gatehouse/issuance'
import { isLoopback, parseHost } from '@gatehouse/net'
import { languageOf, sendPage } from '@gatehouse/service-kit/pages'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { CertError } from '../errors.ts'
import type { Reader, VisitorName } from '../pages/card.ts'
import { orderHref } from '../pages/links.ts'
import { isPerson, type Person } from '../policy/rules.ts'
import { signInPage, tokensOnlyPage } from './sign-in-page.ts'
import { signInsOf } from './sign-ins.ts'

declare module 'fastify' {
  interface FastifyInstance {
    readonly signIns: ReturnType<typeof signInsOf>
  }
  interface FastifyRequest {
    /** The visitor of the page, on routes with the guards of `requireVisitor()`. */
    visitor: Visitor
  }
}

export const COOKIE = '__Host-gatehouse-certs'
export const COOKIE_SCOPE = { path: '/', httpOnly: true, secure: true, sameSite: 'strict' } as const
/** Pages to go back to after signing in. */
export const PAGE_PATH = '^/(certificates|orders)/[\\w.*:%/-]{1,700}$'
const IS_PAGE_PATH = new RegExp(PAGE_PATH)
const FORM = 'application/x-www-form-urlencoded'
const FORM_LIMIT = 4_096

/** The visitor of a page: a person known by assertion, or the key that was entered. */
export type Visitor = KeyCaller | Person

/** The plugin that all pages need: cookies, forms, and the sessions of keys that were entered. */
export const visitors = fp(
  async (app: FastifyInstance) => {
    await app.register(cookie)
    app.addContentTypeParser(
      FORM,
      { parseAs: 'string', bodyLimit: FORM_LIMIT },
      (_request, body, done) => done(null, Object.fromEntries(new URLSearchParams(body as string))),
    )
    const signIns = signInsOf({
      store: app.store,
      now: () => app.clock.now(),
      findKey: (sha256) => app.callers.findKey(sha256),
    })
    app.decorate('signIns', signIns)
    app.decorateRequest('visitor', null as never)
  },
  {
    name: 'cert-service/visitors',
    dependencies: [
      'cert-service/access',
      'cert-service/store',
      'service-kit/clock',
      '@gatehouse/auth-core',
    ],
  },
)

/** The guards of a page for visitors: everybody else is asked for a key. A page that refreshes itself uses no session. */
export function requireVisitor(app: FastifyInstance) {
  return {
    onRequest: app.requirePerson({ optional: true }),
    async preHandler(request: FastifyRequest, reply: FastifyReply) {
      const { optionalPerson, cookies, query } = request
      const isUsed = Object(query).refresh !== 'auto'
      const visitor = optionalPerson ?? (await app.signIns.find(cookies[COOKIE] ?? '', isUsed))
      if (!visitor) return askForKey(reply, { isWrong: false })
      request.visitor = visitor
    },
  }
}

/** The guards of actions of people, who are known by the assertion: with an API key one can only look. */
export function requirePersonOnly(app: FastifyInstance) {
  return [
    app.requirePerson({ optional: true }),
    async ({ optionalPerson }: FastifyRequest) => {
      if (!optionalPerson) throw new AuthError('AUTH_ASSERTION_MISSING')
    },
  ]
}

/**
 * Sends a person to the page of the order that failed, which says why and what to do; other errors go on.
 * @throws the error, if it has no order
 */
export function toFailedOrder(error: unknown, reply: FastifyReply): FastifyReply {
  const { location } = error instanceof IssueError ? error : {}
  if (location === undefined) throw error
  return reply.redirect(orderHref({ id: location.slice(location.lastIndexOf('/') + 1) }), 303)
}

/** Who reads the answer to a request: nobody is known where no guard has let somebody in. */
export function readerOf(request: FastifyRequest): Reader {
  const visitor = request.visitor ?? request.optionalPerson ?? undefined
  return { lang: languageOf(request), visitor: visitor && nameOf(visitor, request) }
}

function nameOf(visitor: Visitor, request: FastifyRequest): VisitorName {
  if (!isPerson(visitor)) return { key: visitor.subject }
  const portal = request.server.callers.portal() ?? ''
  const back = new URLSearchParams({ rd: `${originOf(request)}/` })
  return {
    person: visitor.name?.full ?? visitor.email?.address ?? visitor.id,
    groups: visitor.groups ?? [],
    accountHref: `${portal}/account`,
    signOutHref: `${portal}/logout?${back}`,
  }
}

/** Asks for a key. @param to - the page to show after signing in */
export function askForKey(
  reply: FastifyReply,
  { isWrong, to }: { isWrong: boolean; to?: string },
): FastifyReply {
  const { request } = reply
  const { callers } = request.server
  if (!callers.methods().includes('psk'))
    return sendPage(reply, 403, tokensOnlyPage(languageOf(request), originOf(request)))
  const portal = callers.portal()
  // The challenge of auth-core for an assertion: `gatehouse-auth doctor` finds by it that there is none.
  const person = portal === undefined ? '' : `, Gatehouse realm="${portal}"`
  reply.header('www-authenticate', `APIKey realm="api"${person}`)
  const page = to ?? request.url.split('?', 1)[0] ?? '/'
  const back = IS_PAGE_PATH.test(page) ? page : undefined
  return sendPage(reply, 401, signInPage(languageOf(request), { isWrong, to: back }))
}

export function originOf({ protocol, host }: FastifyRequest): string {
  return `${protocol}://${host}`
}

/** Refuses forms of other sites. Browsers send Origin with every POST, and keep no cookie over plain HTTP. */
export function assertOwnOrigin({ headers, host }: FastifyRequest): void {
  const origin = URL.parse(headers.origin ?? '')
  const name = origin && parseHost(origin.hostname)
  const isSecure = origin?.protocol === 'https:' || (name && isLoopback(name))
  if (origin?.host === host && isSecure) return
  throw new CertError('CERT_ORIGIN_FOREIGN', `Origin is not https://${host}`)
}
