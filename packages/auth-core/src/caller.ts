export const METHODS = ['psk', 'jwt'] as const

/** The way a caller authenticates: with an API key (`psk`) or a Bearer token (`jwt`). */
export type Method = (typeof METHODS)[number]

/** A caller with an API key. */
export interface KeyCaller {
  readonly method: 'psk'
  /** Name of the key. */
  readonly subject: string
  /** Scopes that the key is limited to; absent: it has every scope. */
  readonly scopes?: readonly string[]
  /** Names that the key is limited to; their meaning is the application's. */
  readonly domains?: readonly string[]
}

/** A caller with a Bearer token. */
export interface TokenCaller {
  readonly method: 'jwt'
  /** Claim `iss`. Subjects are unique only together with it. */
  readonly issuer: string
  /** Claim `sub`; for a client without one `client_id=` and the claim `client_id`. */
  readonly subject: string
  /** The scopes, from the claims `scope`, `scp`, `scopes`, `roles` and `permissions`. */
  readonly scopes: readonly string[]
  /** All claims, deeply frozen. */
  readonly claims: Readonly<Record<string, unknown>>
}

/** The authenticated caller of a request. */
export type Caller = KeyCaller | TokenCaller
