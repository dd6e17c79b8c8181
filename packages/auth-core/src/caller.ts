/** A caller with an API key. */
export interface KeyCaller {
  readonly method: 'psk'
  /** Name of the key. */
  readonly subject: string
  /** What the key is limited to; absent: it meets every demand. */
  readonly scopes?: readonly string[]
  /** Names that the key is limited to; their meaning is the application's. */
  readonly domains?: readonly string[]
}

/** A caller with an access token. */
export interface TokenCaller {
  readonly method: 'jwt'
  /** Claim `iss`. A subject means nothing without it. */
  readonly issuer: string
  /** Claim `sub`; for a client without one `client_id=` and the claim `client_id`. */
  readonly subject: string
  /** From the claims `scope`, `scp`, `scopes`, `roles` and `permissions`. */
  readonly scopes: readonly string[]
  /** All claims, frozen to the depth. */
  readonly claims: Readonly<Record<string, unknown>>
}

/** Who is calling. */
export type Caller = KeyCaller | TokenCaller
