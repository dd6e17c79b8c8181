import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Caller } from './caller.ts'
import { type Callers, CurrentGate } from './callers.ts'
import { challengesFor } from './challenge.ts'
import { AuthError } from './errors.ts'
import type { Gate } from './gate.ts'
import type { AuthDeps } from './oidc/remote-keys.ts'
import { type AuthOptions, SCOPE_PATTERN } from './options.ts'
import { demandScopes } from './scopes.ts'

/** What a route demands of its caller. */
export interface CallerDemand {
  /** All of them. */
  readonly scopes?: readonly string[]
}

/** Options of the plugin: {@link AuthOptions}, and what tests replace. */
export type AuthPluginOptions = AuthOptions & Partial<AuthDeps>

const kCaller = Symbol('caller')

declare module 'fastify' {
  interface FastifyInstance {
    /** The state of authentication, and ways to change its options. */
    callers: Callers
    /**
     * Makes the `onRequest` hook of a guarded route: it sets `request.caller`, or refuses with a
     * status, a code and a challenge.
     */
    requireCaller(demand?: CallerDemand): onRequestHookHandler
  }
  interface FastifyRequest {
    /** Who is calling. Throws AUTH_NOT_GUARDED on a route without {@link FastifyInstance.requireCaller}. */
    readonly caller: Caller
    [kCaller]: Caller | null
  }
}

async function auth(app: FastifyInstance, options: AuthPluginOptions): Promise<void> {
  const { now = Date.now, log = app.log, fetch, ...authOptions } = options
  const callers = new CurrentGate(authOptions, { now, log, fetch })

  app.decorateRequest(kCaller, null)
  app.decorateRequest('caller', {
    getter(this: FastifyRequest) {
      const caller = this[kCaller]
      if (caller === null) throw new AuthError('AUTH_NOT_GUARDED')
      return caller
    },
  })
  app.decorate('requireCaller', ({ scopes = [] }: CallerDemand = {}) => {
    checkScopes(scopes)
    return createGuard(callers, scopes)
  })
  app.decorate('callers', callers)
  app.addHook('onClose', () => callers.close())
}

/** A callback hook, so that the way which every request takes has no promise and makes no closure. */
function createGuard(callers: CurrentGate, scopes: readonly string[]): onRequestHookHandler {
  return function guard(request, reply, done) {
    const { gate } = callers
    try {
      const caller = gate.identify(request.raw)
      if (caller instanceof Promise) {
        void admitLater(caller, scopes, gate, request, reply).then(done)
        return
      }
      admit(caller, scopes, request)
    } catch (error) {
      announce(error, gate, request, reply)
      done(error as Error)
      return
    }
    done()
  }
}

function admit(caller: Caller, scopes: readonly string[], request: FastifyRequest): void {
  demandScopes(caller, scopes)
  request[kCaller] = caller
}

/** Gives the error of a caller who is refused. */
async function admitLater(
  caller: Promise<Caller>,
  scopes: readonly string[],
  gate: Gate,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Error | undefined> {
  try {
    admit(await caller, scopes, request)
    return undefined
  } catch (error) {
    announce(error, gate, request, reply)
    return error as Error
  }
}

/** Sets on the reply what any error handler of the application then leaves there, and logs. */
function announce(error: unknown, gate: Gate, request: FastifyRequest, reply: FastifyReply) {
  if (!(error instanceof AuthError)) return
  const { code, detail, retryAfter, statusCode } = error
  const challenges = challengesFor(error, gate.methods)
  if (challenges.length > 0) reply.header('www-authenticate', challenges)
  if (retryAfter !== undefined) reply.header('retry-after', String(retryAfter))
  request.log[statusCode < 500 ? 'info' : 'warn']({ code, detail }, 'caller refused')
}

function checkScopes(scopes: readonly string[]): void {
  const wrong = scopes.find((scope) => !new RegExp(SCOPE_PATTERN).test(scope))
  if (wrong === undefined) return
  throw new AuthError('AUTH_OPTIONS_INVALID', {
    message: `${JSON.stringify(wrong)} is not a scope that a token can grant`,
  })
}

export default fp(auth, { fastify: '5.x', name: '@gatehouse/auth-core' })
