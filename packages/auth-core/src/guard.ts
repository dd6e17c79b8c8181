import type { Profile } from '@gatehouse/profile'
import type { FastifyRequest } from 'fastify'
import type { Caller } from './caller.ts'
import { AuthError } from './errors.ts'

export const kCaller = Symbol('caller')
export const kPerson = Symbol('person')
export const kRefused = Symbol('refused')

/** The parts of a request that a guard uses, whatever kind of server it comes from. */
export interface GuardedRequest extends Pick<FastifyRequest, 'headers' | 'log'> {
  readonly raw: Pick<FastifyRequest['raw'], 'headers' | 'rawHeaders'>
  [kCaller]: Caller | null
  [kPerson]: Profile | null
  [kRefused]: boolean
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
}

/** The parts of a guard: it finds a caller or a person, admits it to the route, or challenges it. */
interface Admission<T> {
  /** Undefined lets the request pass without it. Throws the reason of a refusal, or rejects. */
  find(request: FastifyRequest): T | undefined | Promise<T>
  /** Sets what was found, or throws. */
  admit(found: T, request: GuardedRequest): void
  challengesOf(error: AuthError, request: FastifyRequest): readonly string[]
}

export function createGuard<T>(admission: Admission<T>): RouteGuard {
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
  return guard as RouteGuard
}

/** Checks with a callback, so that a request whose key is known costs no promise. */
function check<T>(
  admission: Admission<T>,
  request: GuardedRequest,
  reply: GuardedReply,
  done: (error?: Error) => void,
): void {
  const admitted = (found: T) => {
    admission.admit(found, request)
    if (request[kRefused]) takeBack(reply)
  }
  const refused = (error: unknown) => done(refuse(error, admission, request, reply))
  let found: T | undefined | Promise<T>
  try {
    // GuardedRequest is what servers of every kind have in common; the request has the rest too.
    found = admission.find(request as FastifyRequest)
    if (found !== undefined && !(found instanceof Promise)) admitted(found)
  } catch (error) {
    return void refused(error)
  }
  if (found instanceof Promise) found.then(admitted).then(() => done(), refused)
  else done()
}

/** Another guard of the same route has refused, and its answer is not sent. */
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
    const [challenge, ...others] = admission.challengesOf(error, request as FastifyRequest)
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
