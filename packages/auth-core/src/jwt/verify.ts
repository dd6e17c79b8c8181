import type { TokenCaller } from '../caller.ts'
import { AuthError } from '../errors.ts'
import { demandScopes, scopesOf } from '../scopes.ts'
import { checkClaims, checkPurpose, readSubject } from './claims.ts'
import { type DecodedToken, decodeToken } from './decode.ts'
import { createKeptTokens } from './kept-tokens.ts'
import type { KeySet } from './key-set.ts'
import type { VerificationKey } from './keys.ts'
import type { TokenSource } from './sources.ts'

/**
 * Verifies a token, and gives what is read of it. Synchronous when its key is at hand.
 *
 * @throws AuthError AUTH_TOKEN_*, AUTH_SCOPE_MISSING, AUTH_ISSUER_*; asynchronous ones as a rejection
 */
export type Verify<Result = TokenCaller> = (token: string) => Result | Promise<Result>

interface Verified<Result> {
  readonly token: string
  readonly result: Result
  /** Whole seconds, which are at hand with the entry; a fraction would be one more place to read. */
  readonly validFrom: number
  readonly expiresAt: number
  readonly source: TokenSource
  readonly keySet: KeySet
}

const CACHE_ENTRIES = 50_000
/** What is kept takes some three bytes for each. */
const CACHE_CHARACTERS = 33_554_432

/**
 * Makes the verifier of JWTs (RFC 7519, RFC 8725). The claim `iss` chooses the source; its keys,
 * algorithms and types are the only ones that count.
 *
 * A verified token is kept and costs a lookup from then on, until it expires or its source holds
 * another set of keys. What does not verify is never kept.
 *
 * @param now - milliseconds since the epoch
 * @param read - makes what is kept and given; what it throws refuses the token
 */
export function createVerifier(sources: readonly TokenSource[], now?: () => number): Verify
export function createVerifier<Result extends object>(
  sources: readonly TokenSource[],
  now: () => number,
  read: (caller: TokenCaller, token: string) => Result,
): Verify<Result>
export function createVerifier(
  sources: readonly TokenSource[],
  now = Date.now,
  read: (caller: TokenCaller, token: string) => object = (caller) => caller,
): Verify<object> {
  const byIssuer = new Map(sources.map((source) => [source.issuer, source]))
  const kept = createKeptTokens<Verified<object>>(CACHE_ENTRIES, CACHE_CHARACTERS)

  return function verify(sent) {
    const hit = kept.get(sent)
    if (hit && isValid(hit, now()) && hit.keySet === hit.source.keys.current()) return hit.result

    const token = copyOf(sent)
    const decoded = decodeToken(token)
    const source = chooseSource(byIssuer, decoded)
    const { alg, kid } = checkHeader(decoded, source)

    function admit(keySet: KeySet): object {
      checkSignature(token, alg, keySet.withId(kid))
      if (source.hasOtherTokens) checkPurpose(decoded.claims)
      const times = checkClaims(decoded.claims, source.audience, now())
      const caller = readCaller(decoded, source.issuer)
      demandScopes(caller, source.requiredScopes)
      const result = read(caller, token)
      const validFrom = Math.ceil(times.validFrom / 1_000)
      const expiresAt = Math.floor(times.expiresAt / 1_000)
      kept.set({ token, result, validFrom, expiresAt, source, keySet })
      return result
    }
    const keySet = source.keys.holding(kid)
    return keySet instanceof Promise ? keySet.then(admit) : admit(keySet)
  }
}

/** Also of what is known: a clock may be set back. */
function isValid({ validFrom, expiresAt }: Verified<object>, now: number): boolean {
  return now >= validFrom * 1_000 && now < expiresAt * 1_000
}

/** A part of a string keeps all of it in memory: here a whole header. */
function copyOf(token: string): string {
  return Buffer.from(token).toString()
}

function chooseSource(
  byIssuer: ReadonlyMap<unknown, TokenSource>,
  { claims: { iss } }: DecodedToken,
): TokenSource {
  const source = byIssuer.get(iss)
  if (!source) throw new AuthError('AUTH_TOKEN_ISSUER', { detail: `iss is ${JSON.stringify(iss)}` })
  return source
}

/** Members that name or hold keys (`jku`, `jwk`, `x5u`, `x5c`) are never looked at. */
function checkHeader({ header }: DecodedToken, source: TokenSource) {
  const { alg, kid, typ } = header
  if ('crit' in header) throw new AuthError('AUTH_TOKEN_CRITICAL')
  if (typeof alg !== 'string' || !source.algorithms.includes(alg))
    throw new AuthError('AUTH_TOKEN_ALGORITHM', { detail: `alg is ${JSON.stringify(alg)}` })
  const type = typeof typ === 'string' ? typ.toLowerCase().replace(/^application\//, '') : typ
  if (!(source.types as readonly unknown[]).includes(type))
    throw new AuthError('AUTH_TOKEN_TYPE', { detail: `typ is ${JSON.stringify(typ)}` })
  if (kid !== undefined && typeof kid !== 'string')
    throw new AuthError('AUTH_TOKEN_KEY_UNKNOWN', { detail: 'kid is not a string' })
  return { alg, kid }
}

/** A token without `kid` is tried with each key that fits: each try costs as much as a good token. */
const MAX_TRIES = 4

function checkSignature(token: string, alg: string, keys: readonly VerificationKey[]): void {
  const fitting = keys.filter(({ algorithms }) => algorithms.includes(alg))
  if (fitting.length === 0)
    throw new AuthError('AUTH_TOKEN_ALGORITHM', { detail: `alg ${alg} does not fit the key` })
  if (fitting.length > MAX_TRIES)
    throw new AuthError('AUTH_TOKEN_KEY_UNKNOWN', {
      detail: `${fitting.length} keys fit, and the kid does not say which`,
    })
  if (!fitting.some((key) => key.verifies(token))) throw new AuthError('AUTH_TOKEN_SIGNATURE')
}

function readCaller({ claims }: DecodedToken, issuer: string): TokenCaller {
  const subject = readSubject(claims)
  return Object.freeze({ method: 'jwt', issuer, subject, scopes: scopesOf(claims), claims })
}
