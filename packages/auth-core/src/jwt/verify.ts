import { attempt } from '@gatehouse/net'
import { LRUCache } from 'lru-cache'
import { AuthError } from '../errors.ts'
import type { FittingKey, IssuerKeys } from '../oidc/issuer-keys.ts'
import { type Claims, type DecodedToken, decodeToken } from './token.ts'

/** An issuer, what its tokens of one kind must be, and what they stand for. */
export interface TokenSource<T> {
  /** The claim `iss` equals this. */
  readonly issuer: string
  readonly keys: IssuerKeys
  readonly algorithms: readonly string[]
  /** Whether the header `typ` is one of this kind of token. */
  isTyped(typ: unknown): boolean
  /**
   * Checks the claims of a token whose signature is verified.
   *
   * @param now - milliseconds since the epoch
   * @throws AuthError
   */
  admit(claims: Claims, now: number): Admitted<T>
}

/** The value that a token stands for, and its period, in milliseconds since the epoch. */
interface Admitted<T> {
  readonly value: T
  readonly validFrom: number
  readonly expiresAt: number
}

interface Verified<T> extends Admitted<T> {
  readonly source: TokenSource<T>
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
 * `find` is `verify` for a token that may be somebody else's: one that cannot be decoded, or names none
 * of the sources, gives undefined.
 *
 * @param now - milliseconds since the epoch
 * @throws AuthError AUTH_TOKEN_*, AUTH_SCOPE_MISSING, AUTH_ISSUER_*; asynchronous ones as a rejection
 */
export function createVerifier<T>(sources: readonly TokenSource<T>[], now: () => number) {
  const byIssuer = new Map<unknown, TokenSource<T>>(sources.map((entry) => [entry.issuer, entry]))
  const cache = new LRUCache<string, Verified<T>>({
    max: MAX_ENTRIES,
    maxSize: MAX_CHARACTERS,
    sizeCalculation: (_entry, token) => token.length,
  })
  return { verify, find }

  function verify(token: string): T | Promise<T> {
    const cached = recall(token)
    if (cached) return cached
    const decoded = decodeToken(token)
    const { iss } = decoded.claims
    const source = byIssuer.get(iss)
    if (source) return verifyBy(source, token, decoded)
    throw new AuthError('AUTH_TOKEN_ISSUER', { detail: `iss is ${JSON.stringify(iss)}` })
  }

  function find(token: string): T | Promise<T> | undefined {
    const cached = recall(token)
    if (cached) return cached
    const decoded = attempt(() => decodeToken(token))
    const source = decoded && byIssuer.get(decoded.claims.iss)
    return source && verifyBy(source, token, decoded)
  }

  function recall(token: string): T | undefined {
    const verified = cache.get(token)
    if (verified && isValid(verified, now())) return verified.value
    if (verified) cache.delete(token)
    return undefined
  }

  function verifyBy(source: TokenSource<T>, token: string, decoded: DecodedToken): T | Promise<T> {
    const header = checkHeader(decoded, source)
    const admit = ({ set, key }: FittingKey): T | Promise<T> => {
      if (!attempt(() => key.verify(token))) return admitBy(source.keys.find(header, set))
      const admitted = source.admit(decoded.claims, now())
      cache.set(token, { ...admitted, source, keySet: set })
      return admitted.value
    }
    const admitBy = (key: FittingKey | Promise<FittingKey>) =>
      key instanceof Promise ? key.then(admit) : admit(key)
    return admitBy(source.keys.find(header))
  }
}

/** Compares with both times, since a clock may be set back. */
function isValid<T>(verified: Verified<T>, now: number): boolean {
  const { validFrom, expiresAt, source, keySet } = verified
  return now >= validFrom && now < expiresAt && keySet === source.keys.current()
}

/** Members that name or hold keys (`jku`, `jwk`, `x5u`, `x5c`) are ignored. */
function checkHeader<T>({ header }: DecodedToken, source: TokenSource<T>) {
  const { alg, kid, typ } = header
  if ('crit' in header) throw new AuthError('AUTH_TOKEN_CRITICAL')
  if (typeof alg !== 'string' || !source.algorithms.includes(alg))
    throw new AuthError('AUTH_TOKEN_ALGORITHM', { detail: `alg is ${JSON.stringify(alg)}` })
  if (!source.isTyped(typ))
    throw new AuthError('AUTH_TOKEN_TYPE', { detail: `typ is ${JSON.stringify(typ)}` })
  if (kid !== undefined && !(typeof kid === 'string' && kid.isWellFormed()))
    throw new AuthError('AUTH_TOKEN_KEY_UNKNOWN', { detail: 'kid is not a well-formed string' })
  return { alg, kid }
}
