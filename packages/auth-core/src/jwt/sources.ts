import { AuthError } from '../errors.ts'
import {
  fittingKeys,
  type KeySource,
  LOCAL_ALGORITHMS,
  PUBLIC_ALGORITHMS,
  secretKey,
} from './keys.ts'

/** An issuer whose tokens are accepted, with its keys and the algorithms and types that they may have. */
export interface TokenSource {
  /** The claim `iss` equals this. */
  readonly issuer: string
  /** The claim `aud` contains one of these. */
  readonly audience: readonly string[]
  /** Every token must grant these. */
  readonly requiredScopes: readonly string[]
  readonly algorithms: readonly string[]
  /** Header `typ`, in lower case, without `application/`; undefined if absent. */
  readonly types: readonly (string | undefined)[]
  /** Whether the issuer signs tokens for other purposes with the same keys, such as ID tokens. */
  readonly hasOtherTokens: boolean
  readonly keys: KeySource
}

/** Access tokens (RFC 9068, and older ones) that an issuer signs with the keys that it publishes. */
export function remoteSource(
  source: Pick<TokenSource, 'issuer' | 'audience' | 'keys'> & {
    requiredScopes?: readonly string[]
    /** Whether the header `typ` must be `at+jwt` (RFC 9068 section 2.1). Default: false. */
    requireAccessTokenType?: boolean
  },
): TokenSource {
  const { requiredScopes = [], requireAccessTokenType, ...rest } = source
  return {
    ...rest,
    requiredScopes,
    algorithms: PUBLIC_ALGORITHMS,
    types: requireAccessTokenType ? ['at+jwt'] : [undefined, 'jwt', 'at+jwt'],
    hasOtherTokens: true,
  }
}

/** Tokens that this program signs itself, HS256, with a type of their own. */
export function localSource(source: {
  issuer: string
  audience: readonly string[]
  typ: string
  /** At least 32 bytes each; several while a key is rotated. */
  keys: readonly { kid: string; secret: Uint8Array }[]
}): TokenSource {
  const { issuer, audience, typ } = source
  const set = source.keys.map(({ kid, secret }) => secretKey(secret, kid))
  return {
    issuer,
    audience,
    requiredScopes: [],
    algorithms: LOCAL_ALGORITHMS,
    types: [typ.toLowerCase()],
    hasOtherTokens: false,
    keys: {
      current: () => set,
      find({ kid, alg }) {
        const keys = kid === undefined ? set : set.filter((key) => key.kid === kid)
        if (keys.length === 0) throw new AuthError('AUTH_TOKEN_KEY_UNKNOWN')
        return { set, keys: fittingKeys(keys, alg) }
      },
    },
  }
}
