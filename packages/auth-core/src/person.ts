import type { IncomingMessage } from 'node:http'
import type { Profile } from '@gatehouse/profile'
import { AuthError } from './errors.ts'
import { assertionsOf } from './jwt/assertion.ts'
import { createVerifier } from './jwt/verify.ts'
import type { IssuerKeys } from './oidc/issuer-keys.ts'

/** Reads whom the assertions of one portal are about. */
export class PersonReader {
  /** URL of the portal. */
  readonly issuer: string
  readonly #header: string
  readonly #verify: (assertion: string) => Profile | Promise<Profile>

  /**
   * @param header - that of the assertion, in lower case
   * @param audience - origins of the application
   */
  constructor(
    keys: IssuerKeys,
    { header, audience }: { header: string; audience: readonly string[] },
    now: () => number,
  ) {
    this.issuer = keys.issuer
    this.#header = header
    this.#verify = createVerifier([assertionsOf(keys, audience)], now).verify
  }

  /**
   * The person, or undefined if the request has no assertion. Synchronous if the key is at hand.
   *
   * @throws AuthError AUTH_ASSERTION_INVALID, AUTH_ISSUER_*; asynchronous ones as a rejection
   */
  read({ headers }: Pick<IncomingMessage, 'headers'>): Profile | undefined | Promise<Profile> {
    // Empty where forward-auth lets anyone pass. Node joins repeated headers with commas, which no JWT has.
    const assertion = headers[this.#header]
    if (typeof assertion !== 'string' || assertion === '') return undefined
    try {
      const person = this.#verify(assertion)
      return person instanceof Promise ? person.catch(refuse) : person
    } catch (error) {
      return refuse(error)
    }
  }
}

/** For the client one code, whatever the reason is: it cannot do anything about it. */
function refuse(error: unknown): never {
  if (!(error instanceof AuthError) || error.statusCode !== 401) throw error
  if (error.code === 'AUTH_ASSERTION_INVALID') throw error
  const { code, detail = error.message } = error
  throw new AuthError('AUTH_ASSERTION_INVALID', { detail: `${code}: ${detail}`, cause: error })
}
