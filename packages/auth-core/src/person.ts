import type { IncomingMessage } from 'node:http'
import { freezeAll } from '@gatehouse/net'
import type { Profile } from '@gatehouse/profile'
// Without conditions, whose library takes long to load.
import { fromClaims } from '@gatehouse/profile/claims'
import { AuthError, type AuthErrorCode } from './errors.ts'
import { type Claims, checkClaims, wrongClaim } from './jwt/token.ts'
import { createVerifier, type TokenSource } from './jwt/verify.ts'
import type { IssuerKeys } from './oidc/issuer-keys.ts'

export type PersonReader = ReturnType<typeof createPersonReader>

/**
 * @param header - the header of the assertion, in lower case
 * @param audience - origins of the application
 */
export function createPersonReader(
  keys: IssuerKeys,
  { header, audience }: { readonly header: string; readonly audience: readonly string[] },
  now: () => number,
) {
  const { verify } = createVerifier([assertionsOf(keys, audience)], now)
  return {
    /** URL of the portal. */
    issuer: keys.issuer,
    /**
     * The person, or undefined if the request has no assertion. Synchronous if the key is at hand.
     *
     * @throws AuthError AUTH_ASSERTION_INVALID, AUTH_ISSUER_*; asynchronous ones as a rejection
     */
    read({ headers }: Pick<IncomingMessage, 'headers'>): Profile | undefined | Promise<Profile> {
      // Empty where forward-auth lets anyone pass. Node joins repeated headers with commas, which no JWT has.
      const assertion = headers[header]
      if (typeof assertion !== 'string' || assertion === '') return undefined
      try {
        const person = verify(assertion)
        return person instanceof Promise ? person.catch(refuse) : person
      } catch (error) {
        return refuse(error)
      }
    },
  }
}

/** What is wrong with an assertion, since the titles of these errors are about access tokens. */
const FAULTS: { readonly [code in AuthErrorCode]?: string } = {
  AUTH_TOKEN_TOO_LARGE: 'the assertion is too large',
  AUTH_TOKEN_MALFORMED: 'the assertion is not a well-formed JWT',
  AUTH_TOKEN_CRITICAL: 'the assertion demands an extension that is not supported',
  AUTH_TOKEN_TYPE: 'the token is not an assertion',
  AUTH_TOKEN_ALGORITHM: 'the assertion is signed with another algorithm than a portal uses',
  AUTH_TOKEN_ISSUER: 'the assertion is from another portal',
  AUTH_TOKEN_KEY_UNKNOWN: 'the assertion is signed with a key that the portal does not publish',
  AUTH_TOKEN_SIGNATURE: 'the assertion has a wrong signature',
  AUTH_TOKEN_CLAIMS: 'the assertion lacks a claim or has one of the wrong type',
  AUTH_TOKEN_AUDIENCE: 'the assertion is for another origin',
  AUTH_TOKEN_EXPIRED: 'the assertion has expired',
  AUTH_TOKEN_NOT_YET_VALID: 'the assertion is not valid yet',
}

/** Gives the client one code, whatever the reason is: it cannot do anything about it. */
function refuse(error: unknown): never {
  const fault = error instanceof AuthError ? FAULTS[error.code] : undefined
  if (!(error instanceof AuthError) || fault === undefined) throw error
  const detail = error.detail === undefined ? fault : `${fault}: ${error.detail}`
  throw new AuthError('AUTH_ASSERTION_INVALID', { detail })
}

/**
 * The assertions of a portal of forward-auth, with the person that each is about. Their `typ` keeps
 * them apart from all other tokens of the portal (RFC 8725 section 3.11).
 *
 * @param audience - origins of the application
 */
function assertionsOf(keys: IssuerKeys, audience: readonly string[]): TokenSource<Profile> {
  return {
    issuer: keys.issuer,
    keys,
    algorithms: ['ES256'],
    isTyped: (typ) => typ === 'gatehouse-assertion+jwt',
    admit(claims, now) {
      const times = checkClaims(claims, audience, now)
      const { method, provider, ...about } = claims
      if (method !== 'session')
        throw new AuthError('AUTH_ASSERTION_INVALID', { detail: 'its subject is a program' })
      if (typeof provider !== 'string') throw wrongClaim('provider')
      return { value: readPerson(provider, about), ...times }
    },
  }
}

function readPerson(provider: string, claims: Claims): Profile {
  try {
    const person = fromClaims(provider, claims)
    freezeAll(person)
    return person
  } catch (cause) {
    throw new AuthError('AUTH_ASSERTION_INVALID', { detail: (cause as Error).message, cause })
  }
}
