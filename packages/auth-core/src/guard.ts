import type { Profile } from '@gatehouse/profile'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Authenticator } from './authenticator.ts'
import type { Caller } from './caller.ts'
import { challengesOf, personChallengesOf } from './challenges.ts'
import { type CallerDemand, checkDemand, type PersonDemand } from './demands.ts'
import { AuthError } from './errors.ts'
import { demandScopes } from './jwt/access-token.ts'
import type { BearerOptions } from './options.ts'

const kCaller = Symbol('caller')
const kPerson = Symbol('person')
const kRefused = Symbol('refused')

/** The members of a request that guards set. */
interface GuardState {
  [kCaller]: Caller | null
  [kPerson]: Profile | null
  [kRefused]: boolean
}

declare module 'fastify' {
  interface FastifyRequest extends GuardState {}
}

/** The parts of a request that a guard uses, whatever kind of server it comes from. */
export interface GuardedRequest extends GuardState, Pick<FastifyRequest, 'headers' | 'log'> {
  readonly raw: Pick<FastifyRequest['raw'], 'headers' | 'rawHeaders'>
}

/** The parts of a reply that a guard uses. */
export interface GuardedReply {
  header(name: 'www-authenticate' | 'retry-after', value: string | string[]): unknown
  removeHeader(name: string): unknown
}

/**
 * Sets `request.caller` or `request.person`, or refuses with a status, a code and a challenge. It is an
 * `onRequest`, `preValidation` or `preHandler` hook, a function to await, and a function for
 * `@fastify/auth`.
 */
export interface RouteGuard {
  /** The form with a callback, as Fastify and `@fastify/auth` call it. */
  (request: GuardedRequest, reply: GuardedReply, done: (error?: Error) => void): void
  /** The form without a callback, which rejects with the reason of the refusal. */
  (request: GuardedRequest, reply: GuardedReply): Promise<void>
  /** Rejects, so that `await app.requireCaller()`, which asks nobody, fails: call the guard, and await that. */
  then(resolve: unknown, reject: (reason: AuthError) => void): void
}

/** Makes the guard of a route for callers. @throws AuthError AUTH_OPTIONS_INVALID */
export function guardOfCaller(
  authenticator: Authenticator,
  demand: CallerDemand,
  realm: BearerOptions['realm'] = 'api',
): RouteGuard {
  checkDemand('requireCaller', demand)
  const { optional, methods, scopes } = demand
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

/** Makes the guard of a route for people. @throws AuthError AUTH_OPTIONS_INVALID without `assertion` */
export function guardOfPerson(authenticator: Authenticator, demand: PersonDemand): RouteGuard {
  checkDemand('requirePerson', demand)
  if (!demand.optional && authenticator.portal() === undefined)
    throw new AuthError('AUTH_OPTIONS_INVALID', {
      message: 'requirePerson needs the option `assertion`',
    })
  return createGuard<Profile>({
    find: (request) => authenticator.identify(request, demand),
    admit(person, request) {
      request[kPerson] = person
    },
    challengesOf: (error) => personChallengesOf(error, authenticator.portal()),
  })
}

export function decorateRequests(app: FastifyInstance): void {
  app.decorateRequest(kRefused, false)
  decorateIdentity(app, kCaller, 'caller', 'optionalCaller')
  decorateIdentity(app, kPerson, 'person', 'optionalPerson')
}

/** Adds a member that is never null, and one that may be. */
function decorateIdentity<K extends typeof kCaller | typeof kPerson>(
  app: FastifyInstance,
  key: K,
  name: 'caller' | 'person',
  optionalName: 'optionalCaller' | 'optionalPerson',
): void {
  app.decorateRequest(key, null as never)
  app.decorateRequest(name, {
    getter(this: FastifyRequest) {
      const identity = this[key]
      if (identity === null) throw new AuthError('AUTH_NOT_GUARDED')
      return identity as never
    },
  })
  app.decorateRequest(optionalName, {
    getter(this: FastifyRequest) {
      return this[key] as never
    },
  })
}

/** The ways of a guard to find a caller or a person, to admit it to the route, and to challenge who is refused. */
interface Admission<T> {
  /** Finds the value; undefined lets the request pass without it. Throws the reason of a refusal, or rejects. */
  find(request: FastifyRequest): T | undefined | Promise<T>
  /** Sets what was found, or throws. */
  admit(identity: T, request: GuardedRequest): void
  challengesOf(error: AuthError, request: FastifyRequest): readonly string[]
}

function createGuard<T>(admission: Admission<T>): RouteGuard {
  function guard(
    request: GuardedRequest,
    reply: GuardedReply,
    done?: (error?: Error) => void,
  ): undefined | Promise<void> {
    if (done) return void check(admission, request, reply, done)
    return new Promise((resolve, reject) => {
      check(admission, request, reply, (error) => (error ? reject(error) : resolve()))
    })
  }
  const then: RouteGuard['then'] = (_, reject) =>
    reject(new AuthError('AUTH_OPTIONS_INVALID', { message: NOT_CALLED }))
  return Object.assign(guard, { then }) as RouteGuard
}

const NOT_CALLED =
  'A guard was awaited without a request: use it as a hook, or await guard(request, reply)'

/** Checks with a callback, so that a request whose key is known costs no promise. */
function check<T>(
  admission: Admission<T>,
  request: GuardedRequest,
  reply: GuardedReply,
  done: (error?: Error) => void,
): void {
  const admitted = (identity: T) => {
    admission.admit(identity, request)
    if (request[kRefused]) takeBack(reply)
  }
  const refused = (error: unknown) => done(refuse(error, admission, request, reply))
  let result: T | undefined | Promise<T>
  try {
    // GuardedRequest is what servers of every kind have in common; the request has the rest too.
    result = admission.find(request as FastifyRequest)
    if (result !== undefined && !(result instanceof Promise)) admitted(result)
  } catch (error) {
    return void refused(error)
  }
  if (result instanceof Promise) result.then(admitted).then(() => done(), refused)
  else done()
}

/** Discards the refusal of another guard of the same route, which is not sent. */
function takeBack(reply: GuardedReply): void {
  reply.removeHeader('www-authenticate')
  reply.removeHeader('retry-after')
}

/** Sets the headers of the refusal, so that they do not depend on the error handler, and logs. */
function refuse<T>(
  error: unknown,
  admission: Admission<T>,
  request: GuardedRequest,
  reply: GuardedReply,
): Error {
  if (!(error instanceof AuthError)) return error as Error
  const { code, detail, retryAfter, statusCode } = error
  try {
    const [challenge, ...more] = admission.challengesOf(error, request as FastifyRequest)
    if (challenge !== undefined)
      reply.header('www-authenticate', more.length > 0 ? [challenge, ...more] : challenge)
  } catch (error) {
    return error as Error
  }
  if (retryAfter !== undefined) reply.header('retry-after', String(retryAfter))
  request[kRefused] = true
  request.log[statusCode < 500 ? 'info' : 'warn']({ code, detail }, 'caller refused')
  return error
}
