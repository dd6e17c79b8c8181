import { LRUCache } from 'lru-cache'
import type { TokenCaller } from '../caller.ts'
import { AuthError } from '../errors.ts'
import type { FittingKeys, IssuerKeys } from '../oidc/issuer-keys.ts'
import { ALGORITHMS } from './keys.ts'
import {
  checkClaims,
  checkLifetime,
  checkPurpose,
  type DecodedToken,
  decodeToken,
  demandScopes,
  readSubject,
  scopesOf,
} from './token.ts'

/** An issuer whose tokens are accepted, and what its tokens must be. */
export interface TokenSource {
  /** The claim `iss` equals this. */
  readonly issuer: string
  /** The claim `aud` contains one of these. */
  readonly audience: readonly string[]
  /** Every token must grant these. */
  readonly requiredScopes: readonly string[]
  /** Whether the header `typ` must be `at+jwt` (RFC 9068 section 2.1). */
  readonly requireAccessTokenType: boolean
  /** Longest time from `iat` to `exp`, in milliseconds. */
  readonly maxTokenLifetime: number | undefined
  readonly keys: IssuerKeys
}

interface Verified {
  readonly caller: TokenCaller
  /** Milliseconds since the epoch. */
  readonly validFrom: number
  readonly expiresAt: number
  readonly source: TokenSource
  readonly keySet: object
}

const MAX_ENTRIES = 50_000
const MAX_CHARACTERS = 33_554_432

/**
 * Makes the verifier of JWTs (RFC 7519, RFC 8725). The claim `iss` chooses the source, whose keys are
 * the only ones that are accepted.
 *
 * A verified token is cached until it expires or its source has other keys. A token that is refused is
 * never cached. A verification is synchronous if its key is at hand.
 *
 * `isForUs` says whether a token names a source, or was verified; it verifies nothing.
 *
 * @param now - milliseconds since the epoch
 * @throws AuthError AUTH_TOKEN_*, AUTH_SCOPE_MISSING, AUTH_ISSUER_*; asynchronous ones as a rejection
 */
export function createVerifier(sources: readonly TokenSource[], now: () => number) {
  const byIssuer = new Map<unknown, TokenSource>(sources.map((source) => [source.issuer, source]))
  const cache = new LRUCache<string, Verified>({
    max: MAX_ENTRIES,
    maxSize: MAX_CHARACTERS,
    sizeCalculation: (_entry, token) => token.length,
  })

  return { verify, isForUs }

  function isForUs(token: string): boolean {
    return cache.has(token) || byIssuer.has(issuerOf(token))
  }

  function verify(token: string): TokenCaller | Promise<TokenCaller> {
    const known = cache.get(token)
    if (known && isValid(known, now())) return known.caller
    if (known) cache.delete(token)

    const decoded = decodeToken(token)
    const { iss } = decoded.claims
    const source = byIssuer.get(iss)
    if (!source)
      throw new AuthError('AUTH_TOKEN_ISSUER', { detail: `iss is ${JSON.stringify(iss)}` })
    const header = checkHeader(decoded, source)

    const admit = ({ set, keys }: FittingKeys): TokenCaller => {
      if (!keys.some((key) => key.verifies(token))) throw new AuthError('AUTH_TOKEN_SIGNATURE')
      checkPurpose(decoded.claims)
      const times = checkClaims(decoded.claims, source.audience, now())
      if (source.maxTokenLifetime !== undefined)
        checkLifetime(decoded.claims, source.maxTokenLifetime, now())
      const caller = readCaller(decoded, source.issuer)
      demandScopes(caller, source.requiredScopes)
      cache.set(token, { caller, ...times, source, keySet: set })
      return caller
    }
    const found = source.keys.find(header)
    return found instanceof Promise ? found.then(admit) : admit(found)
  }
}

function issuerOf(token: string): unknown {
  try {
    return decodeToken(token).claims.iss
  } catch {
    return undefined
  }
}

/** Both times, since a clock may be set back. */
function isValid({ validFrom, expiresAt, source, keySet }: Verified, now: number): boolean {
  return now >= validFrom && now < expiresAt && keySet === source.keys.current()
}

/** Members that name or hold keys (`jku`, `jwk`, `x5u`, `x5c`) are ignored. */
function checkHeader({ header }: DecodedToken, source: TokenSource) {
  const { alg, kid, typ } = header
  if ('crit' in header) throw new AuthError('AUTH_TOKEN_CRITICAL')
  if (typeof alg !== 'string' || !ALGORITHMS.includes(alg))
    throw new AuthError('AUTH_TOKEN_ALGORITHM', { detail: `alg is ${JSON.stringify(alg)}` })
  const type = typeof typ === 'string' ? typ.toLowerCase().replace(/^application\//, '') : typ
  if (
    type !== 'at+jwt' &&
    (source.requireAccessTokenType || !(type === undefined || type === 'jwt'))
  )
    throw new AuthError('AUTH_TOKEN_TYPE', { detail: `typ is ${JSON.stringify(typ)}` })
  if (kid !== undefined && !(typeof kid === 'string' && kid.isWellFormed()))
    throw new AuthError('AUTH_TOKEN_KEY_UNKNOWN', { detail: 'kid is not a well-formed string' })
  return { alg, kid }
}

function readCaller({ claims }: DecodedToken, issuer: string): TokenCaller {
  const subject = readSubject(claims)
  return Object.freeze({ method: 'jwt', issuer, subject, scopes: scopesOf(claims), claims })
}
