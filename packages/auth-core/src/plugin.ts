import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Method } from './authorization.ts'
import type { Caller, KeyCaller } from './caller.ts'
import { challengesFor } from './challenge.ts'
import { AuthError } from './errors.ts'
import { createGate, type Gate } from './gate.ts'
import type { AuthDeps, RemoteKeys } from './oidc/remote-keys.ts'
import { type AuthOptions, SCOPE_PATTERN } from './options.ts'
import { demandScopes } from './scopes.ts'
import { readSettings } from './settings.ts'

/** What a route demands of its caller. */
export interface CallerDemand {
  /** All of them. */
  readonly scopes?: readonly string[]
}

/** The state of authentication, and a way to change its options. */
export interface Auth {
  /** The issuers that could not be reached at the last try. Asking also tries them again when due. */
  status(): { degraded: readonly string[] }
  /** The methods that are accepted now. */
  methods(): readonly Method[]
  /**
   * Whose the API key with this SHA-256 is now; undefined when it is nobody's. For sessions that are
   * opened with a key, do not keep it, and end with it.
   */
  findKey(sha256: Uint8Array): KeyCaller | undefined
  /**
   * Replaces the options. What was removed is gone from every cache; faulty options change nothing.
   *
   * @throws AuthError AUTH_OPTIONS_INVALID
   */
  reload(options: AuthOptions): void
}

/** Options of the plugin: {@link AuthOptions}, and what tests replace. */
export type AuthPluginOptions = AuthOptions & Partial<AuthDeps>

const kCaller = Symbol('caller')

declare module 'fastify' {
  interface FastifyInstance {
    auth: Auth
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
  const deps: AuthDeps = { now, log, fetch }
  let gate = createGate(readSettings(authOptions), deps)

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
    return createGuard(() => gate, scopes)
  })
  app.decorate('auth', {
    status() {
      const remotes = [...gate.remotes.values()]
      for (const keys of remotes) keys.current()
      return { degraded: remotes.filter((keys) => keys.failing()).map(({ issuer }) => issuer) }
    },
    methods: () => gate.methods,
    findKey: (sha256) => gate.findKey(Buffer.from(sha256).toString('latin1')),
    reload(options: AuthOptions) {
      const { remotes } = gate
      gate = createGate(readSettings(options), deps, gate)
      const kept = new Set(gate.remotes.values())
      void closeAll([...remotes.values()].filter((keys) => !kept.has(keys)))
    },
  })
  app.addHook('onClose', () => closeAll(gate.remotes.values()))
}

/** A callback hook, so that the way which every request takes has no promise and makes no closure. */
function createGuard(currentGate: () => Gate, scopes: readonly string[]): onRequestHookHandler {
  return function guard(request, reply, done) {
    const gate = currentGate()
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

async function closeAll(remotes: Iterable<RemoteKeys>): Promise<void> {
  await Promise.all(Array.from(remotes, (keys) => keys.close()))
}

export default fp(auth, { fastify: '5.x', name: '@gatehouse/auth-core' })
