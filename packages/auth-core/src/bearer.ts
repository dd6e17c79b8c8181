import { isObject } from '@gatehouse/net'
import type { FastifyRequest } from 'fastify'
import type { TokenCaller } from './caller.ts'
import { AuthError } from './errors.ts'
import { isText } from './jwt/access-token.ts'
import type { BearerOptions } from './options.ts'

/** RFC 6750 section 2.1. */
const BEARER_TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/

/** Makes the verifier of an application's own tokens, which takes nothing for a caller but a caller. */
export function ownVerifier({ verify }: Pick<BearerOptions, 'verify'>) {
  return (token: string, request: FastifyRequest): TokenCaller | Promise<TokenCaller> => {
    if (!BEARER_TOKEN.test(token))
      throw new AuthError('AUTH_HEADER_INVALID', { detail: 'not one token' })
    const answer: unknown = verify(token, request)
    // The query of a database library may be no Promise, and run only when it is awaited.
    const isLater = typeof Object(answer).then === 'function'
    return isLater ? Promise.resolve(answer).then(readCaller) : readCaller(answer)
  }
}

const MEMBERS = Object.entries({
  method: ["'jwt'", (value) => value === 'jwt'],
  issuer: ['a text', isText],
  subject: ['a text', isText],
  scopes: ['a list of texts', (value) => Array.isArray(value) && value.every(isText)],
  claims: ['an object', isObject],
} satisfies Record<keyof TokenCaller, [what: string, fits: (value: unknown) => boolean]>)

/** @throws AuthError AUTH_TOKEN_INVALID, AUTH_OPTIONS_INVALID if the answer is neither a caller nor nothing */
function readCaller(answer: unknown): TokenCaller {
  if (answer === undefined || answer === null || answer === false)
    throw new AuthError('AUTH_TOKEN_INVALID')
  const members = Object(answer)
  const wrong = MEMBERS.find(([name, [, fits]]) => !fits(members[name]))
  if (!wrong) return members
  const [name, [what]] = wrong
  throw new AuthError('AUTH_OPTIONS_INVALID', {
    detail: `bearer.verify must give a TokenCaller: its ${name} is not ${what}`,
  })
}
