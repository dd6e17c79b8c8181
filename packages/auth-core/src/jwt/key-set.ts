import type { VerificationKey } from './keys.ts'

/** The keys that a source holds at one moment. Another set is another object. */
export interface KeySet {
  /** The keys with this `kid`; for a token without one, every key. */
  withId(kid: string | undefined): readonly VerificationKey[]
}

/** Where keys come from. */
export interface KeySource {
  /** The set that may be relied on at this moment; undefined when there is none, or one too old. */
  current(): KeySet | undefined
  /**
   * A set that holds a key with this `kid`; synchronous when it is at hand.
   *
   * @throws AuthError AUTH_TOKEN_KEY_UNKNOWN, AUTH_ISSUER_UNREACHABLE, AUTH_ISSUER_INVALID
   */
  holding(kid: string | undefined): KeySet | Promise<KeySet>
}

export function createKeySet(keys: readonly VerificationKey[]): KeySet {
  const byId = Map.groupBy(keys, ({ kid }) => kid)
  return { withId: (kid) => (kid === undefined ? keys : (byId.get(kid) ?? [])) }
}
