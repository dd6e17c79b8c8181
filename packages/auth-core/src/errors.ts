import { CodedError } from '@gatehouse/net'

interface ErrorEntry {
  title: string
  action: string
  /** HTTP status of the answer. */
  status: number
  /** Error of the Bearer challenge (RFC 6750 section 3.1); absent if the request had no credentials. */
  challenge?: 'invalid_request' | 'invalid_token' | 'insufficient_scope'
}

const INVALID_TOKEN = { status: 401, challenge: 'invalid_token' } as const

/** Every error of this package: its meaning, what to do about it, and the status of the answer. */
export const AUTH_ERRORS = {
  AUTH_OPTIONS_INVALID: {
    title: 'Options are not valid',
    action:
      'Correct the options that the message lists by their JSON pointers. Of `bearer.verify`, the log says what it must give.',
    status: 500,
  },
  AUTH_NOT_GUARDED: {
    title: 'The request has no caller or person',
    action:
      'Add `onRequest: app.requireCaller()` to the route that reads `request.caller`, and `app.requirePerson()` ' +
      'for `request.person`. If they are optional, read `request.optionalCaller` or `request.optionalPerson`.',
    status: 500,
  },
  AUTH_ASSERTION_MISSING: {
    title: 'The request has no assertion',
    action:
      'Open the app through the proxy. If you did, name the host of the app in `assertion.hosts` of the portal, ' +
      'and have the proxy pass the assertion on.',
    status: 401,
  },
  AUTH_ASSERTION_INVALID: {
    title: 'The assertion is not valid',
    action:
      'Compare `issuerUrl` with the URL of the portal, `audience` with the origin in the address bar, and the ' +
      'clocks; the log has the reason.',
    status: 401,
  },
  AUTH_CREDENTIALS_MISSING: {
    title: 'Credentials are missing',
    action: 'Send `Authorization: APIKey <key>` or `Authorization: Bearer <token>`.',
    status: 401,
  },
  AUTH_SCHEME_UNSUPPORTED: {
    title: 'Authorization scheme is not supported here',
    action: 'Use a scheme that the WWW-Authenticate header of the answer offers.',
    status: 401,
  },
  AUTH_HEADER_INVALID: {
    title: 'Authorization header is not valid',
    action: 'Send one Authorization header, made of a scheme, a space and the credentials.',
    status: 400,
    challenge: 'invalid_request',
  },
  AUTH_KEY_INVALID: {
    title: 'API key is not valid',
    action: 'Use one of the configured keys, whole and unchanged.',
    status: 401,
  },
  AUTH_TOKEN_TOO_LARGE: {
    title: 'Access token is too large',
    action: 'Ask the issuer for a token with fewer claims: 16,384 characters are read.',
    ...INVALID_TOKEN,
  },
  AUTH_TOKEN_MALFORMED: {
    title: 'Access token is not a well-formed JWT',
    action:
      'Send a signed JWT in compact form, unchanged. Opaque and encrypted tokens are not read.',
    ...INVALID_TOKEN,
  },
  AUTH_TOKEN_CRITICAL: {
    title: 'Access token demands an extension that is not supported',
    action: 'Have the issuer leave the `crit` header out.',
    ...INVALID_TOKEN,
  },
  AUTH_TOKEN_TYPE: {
    title: 'Token is not an access token',
    action:
      'Send an access token: header `typ` is `at+jwt`, `JWT` or absent; only `at+jwt` with `requireAccessTokenType`. ' +
      'An ID token (`nonce`, `at_hash`, `c_hash`), logout token (`events`) or token that is bound to a key (`cnf`) is ' +
      'refused; the log names the claim.',
    ...INVALID_TOKEN,
  },
  AUTH_TOKEN_ALGORITHM: {
    title: 'Access token is signed with an algorithm that is not accepted',
    action:
      'Have the issuer sign with RS, PS or ES 256 to 512 or EdDSA, as its published key says.',
    ...INVALID_TOKEN,
  },
  AUTH_TOKEN_ISSUER: {
    title: 'Access token is from an issuer that is not accepted',
    action:
      'Compare the token’s `iss` with `issuerUrl`: they must be equal, including a trailing slash.',
    ...INVALID_TOKEN,
  },
  AUTH_TOKEN_KEY_UNKNOWN: {
    title: 'Access token is signed with a key that the issuer does not publish',
    action:
      'Get a new token, with the `kid` of its key. A new signing key is noticed within 30 seconds.',
    ...INVALID_TOKEN,
  },
  AUTH_TOKEN_SIGNATURE: {
    title: 'Access token has a wrong signature',
    action: 'Send the token as the issuer made it.',
    ...INVALID_TOKEN,
  },
  AUTH_TOKEN_CLAIMS: {
    title: 'Access token lacks a claim or has one of the wrong type',
    action:
      'Have the issuer set `sub` (for a client acting for itself `client_id` suffices), `aud` and `exp`; the log names the claim.',
    ...INVALID_TOKEN,
  },
  AUTH_TOKEN_AUDIENCE: {
    title: 'Access token is for another audience',
    action: 'Ask the issuer for a token whose `aud` contains the configured audience.',
    ...INVALID_TOKEN,
  },
  AUTH_TOKEN_EXPIRED: {
    title: 'Access token has expired',
    action: 'Get a new token. If it is new, compare the clocks.',
    ...INVALID_TOKEN,
  },
  AUTH_TOKEN_LIFETIME: {
    title: 'Access token is valid for too long',
    action:
      'Ask the issuer for tokens with less time from `iat` to `exp`, or raise `maxTokenLifetime`; the log has the time.',
    ...INVALID_TOKEN,
  },
  AUTH_TOKEN_NOT_YET_VALID: {
    title: 'Access token is not valid yet',
    action: 'Compare the clocks of the issuer and of this machine.',
    ...INVALID_TOKEN,
  },
  AUTH_TOKEN_INVALID: {
    title: 'Token is not valid',
    action: 'Get a new token from the application that verifies it.',
    ...INVALID_TOKEN,
  },
  AUTH_SCOPE_MISSING: {
    title: 'A scope is missing',
    action: 'Ask for credentials with the scopes that the answer names.',
    status: 403,
    challenge: 'insufficient_scope',
  },
  AUTH_ISSUER_UNREACHABLE: {
    title: 'The issuer cannot be reached',
    action: 'Try again after Retry-After. The log has the cause: network, TLS trust or status.',
    status: 503,
  },
  AUTH_ISSUER_INVALID: {
    title: 'The issuer gives no usable metadata',
    action:
      'Compare `issuerUrl` with the `issuer` of its discovery document; the log has the cause.',
    status: 503,
  },
} as const satisfies Record<`AUTH_${string}`, ErrorEntry>

export type AuthErrorCode = keyof typeof AUTH_ERRORS

/** Characters: strangers choose what the claims of their tokens are. */
const MAX_DETAIL = 200

interface AuthErrorOptions extends ErrorOptions {
  /** Message for the client; default: the title of the code. */
  message?: string
  /** Details for the log only, of which it gets 200 characters. May contain claims, never a key or a token. */
  detail?: string | undefined
  /** Seconds until another try may succeed. */
  retryAfter?: number
  /** Scopes that the route demands. */
  scopes?: readonly string[]
}

/** An error of this package. `code` is stable and `message` may be shown to the client. */
export class AuthError extends CodedError<AuthErrorCode> {
  override readonly name = 'AuthError'
  readonly statusCode: number
  readonly detail: string | undefined
  readonly retryAfter: number | undefined
  readonly scopes: readonly string[] | undefined

  constructor(code: AuthErrorCode, { message, ...options }: AuthErrorOptions = {}) {
    super(code, message ?? AUTH_ERRORS[code].title, options)
    this.statusCode = AUTH_ERRORS[code].status
    const { detail = '' } = options
    this.detail = detail.length > MAX_DETAIL ? `${detail.slice(0, MAX_DETAIL)}…` : options.detail
    this.retryAfter = options.retryAfter
    this.scopes = options.scopes
  }
}
