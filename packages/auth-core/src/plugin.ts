import type { Profile } from '@gatehouse/profile'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Authenticator, type Callers } from './authenticator.ts'
import type { Caller } from './caller.ts'
import type { CallerDemand, PersonDemand } from './demands.ts'
import { decorateRequests, guardOfCaller, guardOfPerson, type RouteGuard } from './guard.ts'
import type { AuthDeps } from './oidc/issuer-keys.ts'
import type { AuthOptions, BearerOptions } from './options.ts'
import { isPublicIssuer } from './public-issuers.ts'

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
  }
}

async function auth(app: FastifyInstance, options: AuthPluginOptions): Promise<void> {
  const {
    now = Date.now,
    elapsed = () => performance.now(),
    log = app.log,
    dispatcher,
    fetch,
    bearer,
    limitsPublicIssuers = false,
    ...authOptions
  } = options
  const deps = { now, elapsed, log, dispatcher, fetch }
  const authenticator = new Authenticator(authOptions, deps, bearer)
  const issuers = limitsPublicIssuers ? [] : authenticator.issuers().filter(isPublicIssuer)
  for (const issuer of issuers)
    log.warn(
      { issuer },
      'every account at this issuer is a caller: limit which tokens are accepted',
    )

  decorateRequests(app)
  app.decorate('requireCaller', (demand: CallerDemand = {}) =>
    guardOfCaller(authenticator, demand, bearer?.realm),
  )
  app.decorate('requirePerson', (demand: PersonDemand = {}) => guardOfPerson(authenticator, demand))
  app.decorate('callers', authenticator)
  app.addHook('onClose', () => authenticator.close())
}

export default fp(auth, { fastify: '5.x', name: '@gatehouse/auth-core' })
