import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { METHODS, type Method, type RawRequest } from './authorization.ts'
import type { Caller } from './caller.ts'
import { type Callers, CurrentGate } from './callers.ts'
import { challengesFor } from './challenge.ts'
import { AuthError } from './errors.ts'
import type { Gate } from './gate.ts'
import { type AuthDeps, sinceStart } from './oidc/remote-keys.ts'
import type { AuthOptions, BearerOptions } from './options.ts'
import { SCOPE_PATTERN } from './options-schema.ts'
import { demandScopes } from './scopes.ts'

/** What a route demands of its caller. */
export interface CallerDemand {
  /** Scopes that the caller must have, all of them. An API key without `scopes` has every scope. */
  readonly scopes?: readonly string[]
  /** Methods that this route accepts. Default: every method that is configured. */
  readonly methods?: readonly Method[]
  /**
   * Lets a request without credentials go on, with no caller: `request.optionalCaller` is null then.
   * Wrong credentials are refused all the same. Default: false.
   */
  readonly optional?: boolean
}

/** Options of the plugin: {@link AuthOptions}, what only code can give, and what tests replace. */
export interface AuthPluginOptions extends AuthOptions, Partial<AuthDeps> {
  /** Verifies Bearer tokens that the application signs itself. Not together with `jwt`. */
  readonly bearer?: BearerOptions | undefined
}

const kCaller = Symbol('caller')
const kRefused = Symbol('refused')

/** What the guard uses of a request, whatever server it comes from. */
export interface GuardedRequest extends Pick<FastifyRequest, 'headers' | 'log'> {
  readonly raw: RawRequest
  [kCaller]: Caller | null
  [kRefused]: boolean
}

/** What the guard uses of a reply. */
export interface GuardedReply {
  header(name: 'www-authenticate' | 'retry-after', value: string | string[]): unknown
  removeHeader(name: string): unknown
}

/**
 * Sets `request.caller`, or refuses with a status, a code and a challenge. It is an `onRequest`,
 * `preValidation` or `preHandler` hook, a function to await, and a function for `@fastify/auth`.
 */
export interface CallerGuard {
  /** With a callback, as Fastify and `@fastify/auth` call it. */
  (request: GuardedRequest, reply: GuardedReply, done: (error?: Error) => void): void
  /** Without one: rejects with what is wrong with the credentials. */
  (request: GuardedRequest, reply: GuardedReply): Promise<void>
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The state of authentication, and ways to change its options. */
    callers: Callers
    /** Makes the guard of a route, which sets `request.caller` or refuses. */
    requireCaller(demand?: CallerDemand): CallerGuard
  }
  interface FastifyRequest {
    /** Who is calling. Throws AUTH_NOT_GUARDED where {@link FastifyInstance.requireCaller} let nobody in. */
    readonly caller: Caller
    /** Who is calling, or null: for routes that also serve requests without a caller. */
    readonly optionalCaller: Caller | null
    [kCaller]: Caller | null
    [kRefused]: boolean
  }
}

async function auth(app: FastifyInstance, options: AuthPluginOptions): Promise<void> {
  const { now = Date.now, elapsed = sinceStart, log = app.log, fetch, bearer, ...rest } = options
  const callers = new CurrentGate(rest, { now, elapsed, log, fetch, bearer })

  app.decorateRequest(kCaller, null)
  app.decorateRequest(kRefused, false)
  app.decorateRequest('caller', {
    getter(this: FastifyRequest) {
      const caller = this[kCaller]
      if (caller === null) throw new AuthError('AUTH_NOT_GUARDED')
      return caller
    },
  })
  app.decorateRequest('optionalCaller', {
    getter(this: FastifyRequest) {
      return this[kCaller]
    },
  })
  app.decorate('requireCaller', (demand: CallerDemand = {}) => {
    checkDemand(demand)
    return createGuard(callers, demand, bearer?.realm)
  })
  app.decorate('callers', callers)
  app.addHook('onClose', () => callers.close())
}

type Realm = BearerOptions['realm']

/** With a callback, so that the way which every request takes has no promise and makes no closure. */
function createGuard(callers: CurrentGate, demand: CallerDemand, realm: Realm): CallerGuard {
  function check(request: GuardedRequest, reply: GuardedReply, done: (error?: Error) => void) {
    if (demand.optional && request.headers.authorization === undefined) return done()
    const { gate } = callers
    const refused = (error: unknown) => refuse(error, { gate, demand, realm, request, reply })
    try {
      // The guard uses less of a request than this, so that it fits servers of every kind.
      const caller = gate.identify(request as FastifyRequest, demand.methods)
      if (caller instanceof Promise) {
        caller
          .then((caller) => admit(caller, demand, request, reply))
          .catch((error) => {
            throw refused(error)
          })
          .then(() => done(), done)
        return
      }
      admit(caller, demand, request, reply)
    } catch (error) {
      return done(refused(error))
    }
    done()
  }

  function guard(
    request: GuardedRequest,
    reply: GuardedReply,
    done?: (error?: Error) => void,
  ): undefined | Promise<void> {
    if (done) return void check(request, reply, done)
    return new Promise((resolve, reject) => {
      check(request, reply, (error) => (error ? reject(error) : resolve()))
    })
  }
  return guard as CallerGuard
}

function admit(
  caller: Caller,
  { scopes = NONE }: CallerDemand,
  request: GuardedRequest,
  reply: GuardedReply,
): void {
  demandScopes(caller, scopes)
  request[kCaller] = caller
  // Another guard of the same route has refused before, and its answer is not sent.
  if (!request[kRefused]) return
  reply.removeHeader('www-authenticate')
  reply.removeHeader('retry-after')
}

const NONE: readonly string[] = []

interface Refusal {
  readonly gate: Gate
  readonly demand: CallerDemand
  readonly realm: Realm
  readonly request: GuardedRequest
  readonly reply: GuardedReply
}

/** Sets the headers of the refusal, which any error handler of the application leaves there, and logs. */
function refuse(error: unknown, { gate, demand, realm = 'api', request, reply }: Refusal): Error {
  if (!(error instanceof AuthError)) return error as Error
  const { code, detail, retryAfter, statusCode } = error
  const name = typeof realm === 'string' ? realm : realm(request as FastifyRequest)
  const [challenge, ...others] = challengesFor(error, gate.offered(demand.methods), name)
  if (challenge !== undefined)
    reply.header('www-authenticate', others.length > 0 ? [challenge, ...others] : challenge)
  if (retryAfter !== undefined) reply.header('retry-after', String(retryAfter))
  request[kRefused] = true
  request.log[statusCode < 500 ? 'info' : 'warn']({ code, detail }, 'caller refused')
  return error
}

function checkDemand({ scopes = [], methods }: CallerDemand): void {
  const wrong = scopes.find((scope) => !new RegExp(SCOPE_PATTERN).test(scope))
  if (wrong !== undefined)
    throw new AuthError('AUTH_OPTIONS_INVALID', {
      message: `${JSON.stringify(wrong)} is not a scope that a token can grant`,
    })
  if (methods && !(methods.length > 0 && methods.every((method) => METHODS.includes(method))))
    throw new AuthError('AUTH_OPTIONS_INVALID', {
      message: `methods must name at least one of: ${METHODS.join(', ')}`,
    })
}

export default fp(auth, { fastify: '5.x', name: '@gatehouse/auth-core' })
