import { NetError } from '@gatehouse/net'
import { errors } from 'jose'
import { AuthorizationResponseError, ResponseBodyError } from 'openid-client'
import { ProviderError, type ProviderErrorCode } from './errors.ts'
import { refused } from './logout-token.ts'
import type { ReRead } from './provider.ts'
import { StatusError } from './request.ts'

/** Our codes of the errors of OAuth and OpenID Connect, and of those that Keycloak and GitHub add. */
const CODES: ReadonlyMap<string, ProviderErrorCode> = new Map([
  ['access_denied', 'FWA_LOGIN_REFUSED'],
  ['account_selection_required', 'FWA_LOGIN_REFUSED'],
  ['consent_required', 'FWA_LOGIN_REFUSED'],
  ['interaction_required', 'FWA_LOGIN_REFUSED'],
  ['invalid_grant', 'FWA_LOGIN_REFUSED'],
  ['login_required', 'FWA_LOGIN_REFUSED'],
  ['unverified_user_email', 'FWA_LOGIN_REFUSED'],
  // OpenID Connect Core Error Code unmet_authentication_requirements 1.0.
  ['unmet_authentication_requirements', 'FWA_STEP_UP_UNMET'],
  ['application_suspended', 'FWA_CLIENT_REFUSED'],
  ['invalid_client', 'FWA_CLIENT_REFUSED'],
  ['unauthorized_client', 'FWA_CLIENT_REFUSED'],
  ['invalid_redirect_uri', 'FWA_REQUEST_REFUSED'],
  ['invalid_request', 'FWA_REQUEST_REFUSED'],
  ['invalid_resource', 'FWA_REQUEST_REFUSED'],
  ['invalid_scope', 'FWA_REQUEST_REFUSED'],
  ['invalid_target', 'FWA_REQUEST_REFUSED'],
  ['redirect_uri_mismatch', 'FWA_REQUEST_REFUSED'],
  ['request_not_supported', 'FWA_REQUEST_REFUSED'],
  ['unsupported_grant_type', 'FWA_REQUEST_REFUSED'],
  ['unsupported_response_type', 'FWA_REQUEST_REFUSED'],
  ['server_error', 'FWA_PROVIDER_UNREACHABLE'],
  ['temporarily_unavailable', 'FWA_PROVIDER_UNREACHABLE'],
])
const OUTAGES = new Set(['NET_FETCH_TIMEOUT', 'NET_FETCH_STATUS', 'NET_FETCH_FAILED'])

/** Codes of requests that may have been carried out, although no answer came. */
const LOST =
  /^(NET_FETCH_TIMEOUT|ECONNRESET|EPIPE|UND_ERR_(SOCKET|HEADERS_TIMEOUT|BODY_TIMEOUT|RES_CONTENT_LENGTH_MISMATCH))$/
/** Codes of openid-client about `iss` and `aud` of an ID token and `sub` of UserInfo. */
const OF_OTHERS = /^OAUTH_(JWT_CLAIM|JSON_ATTRIBUTE)_COMPARISON_FAILED$/
/** Errors of jose about a token, not about the keys. */
const OF_TOKEN = /^ERR_(JWS_|JOSE_ALG_|JOSE_NOT_|JWKS_NO_|JWKS_MULTIPLE_)/

const SENTENCES: Partial<Record<ProviderErrorCode, string>> = {
  FWA_CLIENT_REFUSED: 'rejected the client ID or secret of this site. Contact its administrator.',
  FWA_REQUEST_REFUSED: 'rejected the sign-in request of this site. Contact its administrator.',
  FWA_LOGIN_REFUSED: 'did not sign you in',
  FWA_STEP_UP_UNMET: 'could not sign you in the way this page requires',
  FWA_PROVIDER_UNREACHABLE: 'cannot be reached',
  FWA_PROVIDER_INVALID: 'sent an invalid response',
}

/** The cause is for the log and holds texts only, since the errors of openid-client have codes and tokens attached. */
export function toProviderError(title: string, error: unknown): ProviderError {
  const chain = causesOf(error)
  const providerError = chain.find((cause) => cause instanceof ProviderError)
  if (providerError) return providerError
  const code = codeOf(chain)
  const detail = [...new Set(chain.map(describe))].join(': ')
  const providerSays = wordsOf(chain)
  return new ProviderError(code, `${title} ${SENTENCES[code]}`, {
    cause: new Error(detail),
    ...(providerSays && { members: { providerSays } }),
  })
}

const MAX_WORDS = 200
/** Characters that could end a line or turn the direction of the text around it. */
const INVISIBLE = /[\s\p{C}\p{Z}]+/gu

/** What the provider said through the browser, for the person. Its other answers tell about the client, and are for the log. */
function wordsOf(chain: readonly Error[]): string | undefined {
  const answer = chain.find((cause) => cause instanceof AuthorizationResponseError)
  const words = answer?.error_description?.replace(INVISIBLE, ' ').trim() ?? ''
  return Array.from(words).slice(0, MAX_WORDS).join('') || undefined
}

/** Whether a request to the provider failed. Errors in a callback do not count: anybody can send one. */
export function isOutage(error: unknown): boolean {
  return causesOf(error).some((cause) => cause instanceof NetError && OUTAGES.has(cause.code))
}

/** What an error says of a person who was asked about again. @param isUsing - whether a lost answer uses a refresh token up */
export function toReRead(
  title: string,
  thrown: unknown,
  isUsing = false,
): Exclude<ReRead, { kind: 'read' }> {
  const chain = causesOf(thrown)
  const error = toProviderError(title, thrown)
  const has = (codes: RegExp) =>
    chain.some((cause) => 'code' in cause && codes.test(String(cause.code)))
  const refusal = chain.find((cause) => cause instanceof ResponseBodyError)
  if (refusal && isEnd(refusal)) return { kind: 'ended', why: describe(refusal) }
  if (refusal && CODES.get(refusal.error) === 'FWA_CLIENT_REFUSED')
    return { kind: 'misconfigured', error }
  if (isUnauthorized(thrown) || has(OF_OTHERS))
    return { kind: 'ended', why: chain.map(describe).join(': ') }
  return { kind: 'fault', error, isUsed: isUsing && has(LOST) }
}

/** Dex says `invalid_request` of a refresh token that is revoked or too old, and names it in the description. */
function isEnd({ status, error, error_description = '' }: ResponseBodyError): boolean {
  if (status !== 400) return false
  const isOfDex = error === 'invalid_request' && /refresh token/i.test(error_description)
  return isOfDex || CODES.get(error) === 'FWA_LOGIN_REFUSED'
}

/** Whether an access token was refused. */
export function isUnauthorized(error: unknown): boolean {
  return causesOf(error).some((cause) => cause instanceof StatusError && cause.status === 401)
}

/** The error of a logout token whose signature could not be verified. */
export function toLogoutError(title: string, error: unknown): ProviderError {
  const isOfToken = error instanceof errors.JOSEError && OF_TOKEN.test(error.code)
  return isOfToken ? refused(error.message) : toProviderError(title, error)
}

function codeOf(chain: readonly Error[]): ProviderErrorCode {
  if (chain.some(isOutage)) return 'FWA_PROVIDER_UNREACHABLE'
  const codes = chain.filter(isOAuthError).map(({ error }) => CODES.get(error))
  return codes.find((code) => code !== undefined) ?? 'FWA_PROVIDER_INVALID'
}

function isOAuthError(error: Error): error is AuthorizationResponseError | ResponseBodyError {
  return error instanceof AuthorizationResponseError || error instanceof ResponseBodyError
}

/** The error and its causes, as far as the first ProviderError. */
function causesOf(error: unknown): Error[] {
  if (error instanceof ProviderError) return [error]
  return error instanceof Error ? [error, ...causesOf(error.cause)] : []
}

function describe(error: Error): string {
  // JSON.parse quotes its input, which may be a token.
  if (error instanceof SyntaxError) return 'not JSON'
  if (isOAuthError(error))
    return `${error.error} ${error.error_description ?? ''}`.slice(0, 300).trimEnd()
  return error.message
}
