import type { Profile } from '@gatehouse/profile'
// Without conditions, whose library takes long to load.
import { fromClaims } from '@gatehouse/profile/from-claims'
import { AuthError } from '../errors.ts'
import type { IssuerKeys } from '../oidc/issuer-keys.ts'
import { type Claims, checkClaims, freezeAll, wrongClaim } from './token.ts'
import type { TokenSource } from './verify.ts'

/**
 * The assertions of a portal of forward-auth, with the person that each is about. Their `typ` keeps
 * them apart from all other tokens of the portal (RFC 8725 section 3.11).
 *
 * @param audience - origins of the application
 */
export function assertionsOf(keys: IssuerKeys, audience: readonly string[]): TokenSource<Profile> {
  return {
    issuer: keys.issuer,
    keys,
    algorithms: ['ES256'],
    isTyped: (typ) => typ === 'gatehouse-assertion+jwt',
    admit(claims, now) {
      const times = checkClaims(claims, audience, now)
      const { method, provider, ...about } = claims
      if (method !== 'session')
        throw new AuthError('AUTH_ASSERTION_INVALID', { detail: 'it is about a program' })
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
