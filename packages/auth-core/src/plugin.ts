import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Authenticator, type Callers } from './authenticator.ts'
import { type Caller, METHODS, type Method } from './caller.ts'
import { challengesOf } from './challenges.ts'
import { AuthError } from './errors.ts'
import { demandScopes } from './jwt/token.ts'
import type { AuthDeps } from './oidc/issuer-keys.ts'
import type { AuthOptions, BearerOptions } from './options.ts'
import { SCOPE_PATTERN } from './options-schema.ts'

/** What a route demands of its caller. */
export interface CallerDemand {
  /** Scopes that the caller must have, all of them. An API key without `scopes` has every scope. */
  readonly scopes?: readonly string[]
  /** Methods that this route accepts. Default: every method that is configured. */
  readonly methods?: readonly Method[]
  /**
   * Lets a request without credentials pass without a caller: `request.optionalCaller` is null then.
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

/** What the guard uses of a request, whatever kind of server it comes from. */
export interface GuardedRequest extends Pick<FastifyRequest, 'headers' | 'log'> {
  readonly raw: Pick<FastifyRequest['raw'], 'headers' | 'rawHeaders'>
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
  /** Without a callback; rejects with the reason of the refusal. */
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
    /** The authenticated caller. Throws AUTH_NOT_GUARDED if {@link FastifyInstance.requireCaller} admitted none. */
    readonly caller: Caller
    /** The authenticated caller or null, for routes that also serve requests without a caller. */
    readonly optionalCaller: Caller | null
    [kCaller]: Caller | null
    [kRefused]: boolean
  }
}

async function auth(app: FastifyInstance, options: AuthPluginOptions): Promise<void> {
  const {
    now = Date.now,
    elapsed = () => performance.now(),
    log = app.log,
    dispatcher,
    bearer,
    ...rest
  } = options
  const authenticator = new Authenticator(rest, { now, elapsed, log, dispatcher }, bearer)

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
    return createGuard({ authenticator, demand, realm: bearer?.realm ?? 'api' })
  })
  app.decorate('callers', authenticator)
  app.addHook('onClose', () => authenticator.close())
}

interface Guard {
  readonly authenticator: Authenticator
  readonly demand: CallerDemand
  readonly realm: NonNullable<BearerOptions['realm']>
}

function createGuard(guard: Guard): CallerGuard {
  function requireCaller(
    request: GuardedRequest,
    reply: GuardedReply,
    done?: (error?: Error) => void,
  ): undefined | Promise<void> {
    if (done) return void check(guard, request, reply, done)
    return new Promise((resolve, reject) => {
      check(guard, request, reply, (error) => (error ? reject(error) : resolve()))
    })
  }
  return requireCaller as CallerGuard
}

/** With a callback, so that a request whose key is known costs no promise. */
function check(
  guard: Guard,
  request: GuardedRequest,
  reply: GuardedReply,
  done: (error?: Error) => void,
): void {
  const { optional, methods } = guard.demand
  if (optional && request.headers.authorization === undefined) return void done()
  const admitted = (caller: Caller) => admit(caller, guard.demand, request, reply)
  const refused = (error: unknown) => done(refuse(error, guard, request, reply))
  let caller: Caller | Promise<Caller>
  try {
    // GuardedRequest is what servers of every kind have in common; the request has the rest too.
    caller = guard.authenticator.authenticate(request as FastifyRequest, methods)
    if (!(caller instanceof Promise)) admitted(caller)
  } catch (error) {
    return void refused(error)
  }
  if (caller instanceof Promise) caller.then(admitted).then(() => done(), refused)
  else done()
}

function admit(
  caller: Caller,
  { scopes }: CallerDemand,
  request: GuardedRequest,
  reply: GuardedReply,
): void {
  if (scopes) demandScopes(caller, scopes)
  request[kCaller] = caller
  if (!request[kRefused]) return
  // Another guard of the same route has refused, and its answer is not sent.
  reply.removeHeader('www-authenticate')
  reply.removeHeader('retry-after')
}

/** Sets the headers of the refusal, so that they do not depend on the error handler, and logs. */
function refuse(error: unknown, guard: Guard, request: GuardedRequest, reply: GuardedReply): Error {
  if (!(error instanceof AuthError)) return error as Error
  const { code, detail, retryAfter, statusCode } = error
  try {
    const { authenticator, demand, realm } = guard
    const [challenge, ...others] = challengesOf(error, {
      methods: authenticator.offered(demand.methods),
      realm: typeof realm === 'string' ? realm : realm(request as FastifyRequest),
    })
    if (challenge !== undefined)
      reply.header('www-authenticate', others.length > 0 ? [challenge, ...others] : challenge)
  } catch (error) {
    return error as Error
  }
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
