import type { IncomingMessage } from 'node:http'
import { freezeAll } from '@gatehouse/net'
import type { Profile } from '@gatehouse/profile'
// Without conditions, whose library takes long to load.
import { fromClaims } from '@gatehouse/profile/claims'
import { AuthError } from './errors.ts'
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

/** Gives the client one code, whatever the reason is: it cannot do anything about it. */
function refuse(error: unknown): never {
  if (!(error instanceof AuthError) || error.statusCode !== 401) throw error
  if (error.code === 'AUTH_ASSERTION_INVALID') throw error
  const { code, detail = error.message } = error
  throw new AuthError('AUTH_ASSERTION_INVALID', { detail: `${code}: ${detail}`, cause: error })
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
