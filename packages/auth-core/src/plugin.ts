import type { Profile } from '@gatehouse/profile'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Authenticator, type Callers } from './authenticator.ts'
import { type Caller, METHODS, type Method } from './caller.ts'
import { challengesOf, personChallengesOf } from './challenges.ts'
import { AuthError } from './errors.ts'
import { createGuard, kCaller, kPerson, kRefused, type RouteGuard } from './guard.ts'
import { demandScopes } from './jwt/access-token.ts'
import type { AuthDeps } from './oidc/issuer-keys.ts'
import { type AuthOptions, type BearerOptions, SCOPE_PATTERN } from './options.ts'
import { isPublicIssuer } from './public-issuers.ts'

/** The demands of a route on its caller. */
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

/** The demands of a route on the person who opens it. */
export interface PersonDemand {
  /**
   * Lets a request without an assertion pass without a person: `request.optionalPerson` is null then, as
   * it is if `assertion` is not configured. A wrong assertion is refused all the same. Default: false.
   */
  readonly optional?: boolean
}

/** Options of the plugin: {@link AuthOptions}, what only code can give, and what tests replace. */
export interface AuthPluginOptions extends AuthOptions, Partial<AuthDeps> {
  /** Verifies Bearer tokens that the application signs itself. Not together with `jwt`. */
  readonly bearer?: BearerOptions | undefined
  /**
   * Says that the application limits whose tokens of public issuers count, so that they are not warned
   * of. Default: false.
   */
  readonly limitsPublicIssuers?: boolean | undefined
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The state of authentication, and ways to change its options. */
    callers: Callers
    /** Makes the guard of a route, which sets `request.caller` or refuses. */
    requireCaller(demand?: CallerDemand): RouteGuard
    /**
     * Makes the guard of a route, which sets `request.person` to the person whom the assertion of
     * forward-auth is about, or refuses.
     */
    requirePerson(demand?: PersonDemand): RouteGuard
  }
  interface FastifyRequest {
    /** The authenticated caller. Throws AUTH_NOT_GUARDED if {@link FastifyInstance.requireCaller} admitted none. */
    readonly caller: Caller
    /** The authenticated caller or null, for routes that also serve requests without a caller. */
    readonly optionalCaller: Caller | null
    /** The person who is signed in. Throws AUTH_NOT_GUARDED if {@link FastifyInstance.requirePerson} admitted none. */
    readonly person: Profile
    /** The person who is signed in or null, for routes that also serve requests without one. */
    readonly optionalPerson: Profile | null
    [kCaller]: Caller | null
    [kPerson]: Profile | null
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
    limitsPublicIssuers = false,
    ...rest
  } = options
  const authenticator = new Authenticator(rest, { now, elapsed, log, dispatcher }, bearer)
  const issuers = limitsPublicIssuers ? [] : authenticator.issuers().filter(isPublicIssuer)
  for (const issuer of issuers)
    log.warn(
      { issuer },
      'anyone with an account at this issuer is a caller: limit whose tokens count',
    )

  app.decorateRequest(kRefused, false)
  decorateFound(app, kCaller, 'caller', 'optionalCaller')
  decorateFound(app, kPerson, 'person', 'optionalPerson')
  app.decorate('requireCaller', (demand: CallerDemand = {}) => {
    checkDemand(demand)
    return guardOfCaller(authenticator, demand, bearer?.realm ?? 'api')
  })
  app.decorate('requirePerson', (demand: PersonDemand = {}) => {
    if (!demand.optional && authenticator.portal() === undefined)
      throw new AuthError('AUTH_OPTIONS_INVALID', {
        message: 'requirePerson needs the option `assertion`',
      })
    return guardOfPerson(authenticator, demand)
  })
  app.decorate('callers', authenticator)
  app.addHook('onClose', () => authenticator.close())
}

/** Decorates requests with what a guard finds: a member that is never null, and one that may be. */
function decorateFound<K extends typeof kCaller | typeof kPerson>(
  app: FastifyInstance,
  key: K,
  name: 'caller' | 'person',
  optionalName: 'optionalCaller' | 'optionalPerson',
): void {
  app.decorateRequest(key, null as never)
  app.decorateRequest(name, {
    getter(this: FastifyRequest) {
      const found = this[key]
      if (found === null) throw new AuthError('AUTH_NOT_GUARDED')
      return found as never
    },
  })
  app.decorateRequest(optionalName, {
    getter(this: FastifyRequest) {
      return this[key] as never
    },
  })
}

function guardOfCaller(
  authenticator: Authenticator,
  { optional, methods, scopes }: CallerDemand,
  realm: NonNullable<BearerOptions['realm']>,
): RouteGuard {
  return createGuard<Caller>({
    find(request) {
      if (optional && request.headers.authorization === undefined) return undefined
      return authenticator.authenticate(request, methods)
    },
    admit(caller, request) {
      if (scopes) demandScopes(caller, scopes)
      request[kCaller] = caller
    },
    challengesOf: (error, request) =>
      challengesOf(error, {
        methods: authenticator.offered(methods),
        realm: typeof realm === 'string' ? realm : realm(request),
      }),
  })
}

function guardOfPerson(authenticator: Authenticator, demand: PersonDemand): RouteGuard {
  return createGuard<Profile>({
    find: (request) => authenticator.identify(request, demand),
    admit(person, request) {
      request[kPerson] = person
    },
    challengesOf: (error) => personChallengesOf(error, authenticator.portal()),
  })
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
